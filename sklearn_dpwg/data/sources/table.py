"""What a source hands out: parts of the records, read one at a time, and a fingerprint of each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_dpwg.data.frames import is_source, label_column
from sklearn_dpwg.data.groups import count_labels, encode_groups
from sklearn_dpwg.exceptions import InputError, InputTypeError


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
    """Return the SHA-256 digest of all values, types and names of a table, in their order.

    It does not depend on how they lie in memory, and is as private as they are. A NaN is told from
    any other by its bits; in columns of Python objects a value is its type and its ``repr``.
    """
    digest = hashlib.sha256(usedforsecurity=False)
    for name in ("X", "y", "groups"):
        for word in (name, *_words(getattr(table, name))):
            text = word.encode("utf-8", "surrogatepass") if isinstance(word, str) else word
            content = memoryview(text).cast("B")
            # each behind its length, so that no two lists of words look alike
            digest.update(len(content).to_bytes(8, "little"))
            digest.update(content)
    return digest.digest()


def _words(part: Any) -> Iterator[Any]:
    """Yield what an array, a sparse array, a column, a table or None is told by."""
    if part is None:
        yield "none"
    elif issparse(part):
        held: Any = part
        yield from ("sparse", held.format, str(held.shape))
        for array in (held.data, held.indices, held.indptr):
            yield from _words_of_array(array)
    elif hasattr(part, "columns"):
        yield from ("frame", str(len(part.columns)), *map(_named, part.columns))
        types = set(part.dtypes) if isinstance(part, pd.DataFrame) else set()
        if len(types) == 1 and isinstance(next(iter(types)), np.dtype):
            yield from _words_of_array(part.to_numpy())  # all at once
            return
        for place, name in enumerate(part.columns):
            column = part.iloc[:, place] if isinstance(part, pd.DataFrame) else part[name]
            yield from _words_of_column(column)
    elif isinstance(part, np.ndarray):
        yield from _words_of_array(part)
    else:
        yield from ("column", _named(getattr(part, "name", None)))
        yield from _words_of_column(part)


def _named(name: object) -> str:
    return f"{type(name).__name__}:{name!r}"


def _words_of_column(column: Any) -> Iterator[Any]:
    """Yield those of a column of a frame, whose type NumPy may not have."""
    yield str(column.dtype)
    if isinstance(column.dtype, pd.CategoricalDtype):
        yield from _words_of_array(np.asarray(column.cat.codes))
        column = column.dtype.categories
    yield from _words_of_array(np.asarray(column))


def _words_of_array(array: NDArray[Any]) -> Iterator[Any]:
    yield from (array.dtype.str, str(array.shape))
    if array.dtype.kind != "O":
        yield np.ascontiguousarray(array).view(np.uint8).ravel() if array.size else b""
    elif pd.api.types.infer_dtype(array.ravel(), skipna=False) == "string":
        # labels that come again and again are written out once
        codes, distinct = pd.factorize(array.ravel())
        yield codes.astype("<i8")
        yield from map(str, distinct)
    else:
        yield from map(_named, array.ravel())


# A part is as large as it can be below both: larger ones are no faster, and one is in memory at
# once, in a few copies.
PART_ROWS = 2**20
PART_BYTES = 2**26
# Of rows in compressed form: how many entries they have is not public.
SPARSE_PART_ROWS = 2**16


def rows_per_part(bytes_per_row: int | None) -> int:
    """Return how many records a part holds, by the bytes that each takes; None if they differ."""
    if bytes_per_row is None:
        return SPARSE_PART_ROWS
    return max(1, min(PART_ROWS, PART_BYTES // max(1, bytes_per_row)))


class Partition(Protocol):
    """Some records that follow each other, read when they are asked for.

    Notes
    -----
    A partition is picklable and small, unless a spool of its process holds it: what it names is
    read again wherever it arrives. Reading it again gives the same records, or an error;
    `ChangedDataError` where a file is not what it was when the source was made. Its ``repr`` shows
    no value.
    """

    def read(self) -> Table:
        """Return the records, all columns of them.

        Returns
        -------
        Table
            Rows, targets and groups.
        """

    def read_labels(self) -> Table:
        """Return targets and groups alone, which is fast where columns lie apart.

        Returns
        -------
        Table
            Targets and groups as `read` returns them, and ``X`` without its rows.
        """


class Source(Protocol):
    """Records that need not fit in memory, as parts in one order.

    Notes
    -----
    ``spool`` is the directory for encoded rows that are read again and again, or None to hold them
    in memory.

    ``target`` and ``groups``, of a source that has them, name columns; a target of None says that
    there are no targets, so that models predict its records and learn nothing of them.

    Parts may end anywhere, as each record is rounded by itself before it is added. A source whose
    arrays are read pass by pass where they are has a method ``check()``, which a fit calls behind
    every pass and which raises `ChangedDataError` where they are not what they were. One that
    writes files for its parts has a method ``release(parts)``, which removes them when the parts
    are read no more.
    """

    @property
    def spool(self) -> str | os.PathLike[str] | None:
        """Directory for encoded rows, or None for memory."""

    def partitions(self) -> Sequence[Partition]:
        """Return the parts, in the order of the records.

        Returns
        -------
        list of Partition
            At least one; a part may be empty.
        """


@contextmanager
def reading(source: Source) -> Iterator[Sequence[Partition]]:
    """Hand out the parts of a source, and have removed what it wrote for them."""
    parts = source.partitions()
    try:
        yield parts
    finally:
        if hasattr(source, "release"):
            source.release(parts)


def group_sizes(source: Source) -> dict[Hashable, int]:
    """Count the records of each group, in one pass that reads no rows.

    Parameters
    ----------
    source : Source
        Records with groups.

    Returns
    -------
    dict
        Number of records by label, in the order that a fit gives the groups, for
        ``estimator.plan(group_sizes=group_sizes(source), n_features=...)``.

    Notes
    -----
    The counts are exact, for who holds the records; public they are to a fit with
    ``neighbours="replace-one-within-group"`` alone.
    """
    if not is_source(source):
        raise InputTypeError(
            f"source must be a ParquetSource, an ArraySource or another source, got "
            f"{type(source).__name__}: make ParquetSource(..., groups=...) of a path or a "
            f"LazyFrame, and count a frame by frame.groupby(...).size(), one of dask with "
            f".compute() behind it."
        )
    found: list[Hashable] = []
    counts: list[int] = []
    with reading(source) as parts:
        for partition in parts:
            table = partition.read_labels()
            if table.groups is None:
                raise InputError(f"source must have groups to count, got {source!r}.")
            labels, of_each = count_labels(table.groups, len(table.groups))
            found += labels
            counts += of_each.tolist()
    if not found:
        raise InputError(f"source must have at least one record, got none in {source!r}.")
    codes, labels_in_order = encode_groups(label_column(found), len(found), None)
    sizes = np.bincount(codes, weights=counts).astype(np.int64)
    return dict(zip(labels_in_order.tolist(), sizes.tolist(), strict=True))
