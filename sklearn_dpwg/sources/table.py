"""One part of the records as it was read, and a fingerprint of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Raw records of one partition in memory; its ``repr`` shows none of them.

    Parameters
    ----------
    X : ndarray, csr_array, csr_matrix or DataFrame of shape (n_records, n_features)
        Rows. Of a partition's labels alone it has no rows, and columns and types as in full.
    y : ndarray of shape (n_records,), or None
        Targets; None of records without any.
    groups : ndarray, Series or DataFrame with n_records entries, optional
        Groups; None for none.
    """

    X: Any
    y: NDArray[Any] | None
    groups: Any = None


def fingerprint(table: Table) -> bytes:
    """Return a digest of all values, types and names of a table.

    Parameters
    ----------
    table : Table
        What was read.

    Returns
    -------
    bytes
        The SHA-256 digest: the same for the same values, types and names in the same order, however
        they lie in memory. It depends on every record, so it is as private as they are.

    Notes
    -----
    A NaN is told from any other by its bits. In columns of Python objects a value is its type and
    its ``repr``.
    """
    digest = _Digest()
    for name, part in (("X", table.X), ("y", table.y), ("groups", table.groups)):
        digest.add_text(name)
        _add(digest, part)
    return digest.value


class _Digest:
    """A hash of parts, each behind its length, so that no two lists of parts look alike."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(usedforsecurity=False)

    @property
    def value(self) -> bytes:
        return self._hash.digest()

    def add_text(self, *words: object) -> None:
        for word in words:
            self.add_bytes(str(word).encode("utf-8", "surrogatepass"))

    def add_bytes(self, content: Any) -> None:
        view = memoryview(content).cast("B")
        self._hash.update(len(view).to_bytes(8, "little"))
        self._hash.update(view)


def _add(digest: _Digest, part: Any) -> None:
    """Add an array, a sparse array, a column, a table or None."""
    if part is None:
        digest.add_text("none")
    elif issparse(part):
        held: Any = part
        digest.add_text("sparse", held.format, held.shape)
        for array in (held.data, held.indices, held.indptr):
            _add_array(digest, array)
    elif hasattr(part, "columns"):
        _add_frame(digest, part)
    elif isinstance(part, np.ndarray):
        _add_array(digest, part)
    else:
        digest.add_text("column", _named(getattr(part, "name", None)))
        _add_column(digest, part)


def _add_frame(digest: _Digest, frame: Any) -> None:
    """Add names and columns; those of one type of NumPy at once."""
    digest.add_text("frame", len(frame.columns), *map(_named, frame.columns))
    if not isinstance(frame, pd.DataFrame):
        for name in frame.columns:
            _add_column(digest, frame[name])
        return
    types = set(frame.dtypes)
    if len(types) == 1 and isinstance(next(iter(types)), np.dtype):
        _add_array(digest, frame.to_numpy())
        return
    for place in range(frame.shape[1]):
        _add_column(digest, frame.iloc[:, place])


def _named(name: object) -> str:
    return f"{type(name).__name__}:{name!r}"


def _add_column(digest: _Digest, column: Any) -> None:
    """Add a column of a frame, whose type NumPy may not have."""
    digest.add_text(column.dtype)
    if isinstance(column.dtype, pd.CategoricalDtype):
        _add_array(digest, np.asarray(column.cat.codes))
        _add_array(digest, np.asarray(column.dtype.categories))
    else:
        _add_array(digest, np.asarray(column))


def _add_array(digest: _Digest, array: NDArray[Any]) -> None:
    digest.add_text(array.dtype.str, array.shape)
    if array.dtype.kind == "O":
        _add_objects(digest, array.ravel())
    else:
        digest.add_bytes(np.ascontiguousarray(array).view(np.uint8).ravel() if array.size else b"")


def _add_objects(digest: _Digest, values: NDArray[Any]) -> None:
    """Add Python objects; labels that come again and again are written out once."""
    if pd.api.types.infer_dtype(values, skipna=False) == "string":
        codes, distinct = pd.factorize(values)
        digest.add_bytes(codes.astype("<i8"))
        digest.add_text(*distinct)
        return
    for value in values:
        digest.add_text(_named(value))
