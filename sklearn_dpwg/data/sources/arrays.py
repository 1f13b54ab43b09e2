"""Arrays on mapped files, or in memory, in runs of rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, csr_matrix, issparse

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg.data.frames import NoArray
from sklearn_dpwg.data.sources.spool import (
    FileFacts,
    MappedArray,
    check_spool,
    mapping_of,
    place_of,
)
from sklearn_dpwg.data.sources.table import Table, rows_per_part
from sklearn_dpwg.exceptions import InputError


class ArraySource(NoArray):
    """Arrays that are read in runs of rows, such as memory-mapped ones.

    Parameters
    ----------
    X : ndarray, csr_array or csr_matrix of shape (n_records, n_features)
        Rows; numbers. An array on a mapped file (``np.memmap``, ``np.load(..., mmap_mode="r")``) is
        not read before it is needed.
    y : ndarray or Series of shape (n_records,)
        Targets.
    groups : ndarray, Series or DataFrame with n_records entries, optional
        Groups, in any form that ``fit`` takes with a length; None for none.
    block_rows : int, optional
        Records in a block; by default as many as take 64 MiB, at most 2**20, and of sparse rows
        2**16. Say it by public facts alone, never by how many entries rows have.
    spool : path, optional
        Directory for encoded rows that are not in order of their groups; see `ParquetSource`. With
        None they are copied to memory, while those in order are used where they are.

    Notes
    -----
    A run of rows is a view. In another process on the same machine the file is mapped again and no
    row is copied; arrays that are on no file, or on one mapped with mode ``"c"``, are copied, the
    run alone.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn_dpwg.data.sources import ArraySource
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/X.npy", rng.normal(size=(1000, 3)))
    ...     X = np.load(folder + "/X.npy", mmap_mode="r")
    ...     source = ArraySource(X, X[:, 0] > 0, np.arange(1000) // 500, block_rows=400)
    ...     [len(partition.read().y) for partition in source.partitions()]
    [400, 400, 200]
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        block_rows: int | None = None,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        if spool is not None:
            check_spool(spool)
        _check_rows(X)
        _check_length(y, "y", X.shape[0])
        if getattr(y, "ndim", 0) != 1 or not isinstance(y, np.ndarray | pd.Series):
            raise InputError(
                f"y must be an array or a Series with one target a record, got {_form(y)}."
            )
        if groups is not None:
            _check_length(groups, "groups", X.shape[0])
        self.X, self.y, self.groups = X, y, groups
        self.spool = spool
        if block_rows is None:
            # bytes of a row are public; of a sparse one its values decide them
            is_dense = isinstance(X, np.ndarray)
            self.block_rows = rows_per_part(X.shape[1] * X.dtype.itemsize if is_dense else None)
        else:
            self.block_rows = whole_number(block_rows, "block_rows", least=1)
        # noted now, so that every part is held against the same
        roots = [mapping_of(part) for part in (X, y, groups)]
        self._facts = [None if root is None else FileFacts.of(str(root.filename)) for root in roots]

    def __repr__(self) -> str:
        n_records, n_features = self.X.shape
        return f"{type(self).__name__}(X of shape {(n_records, n_features)})"

    def check(self) -> None:
        """Refuse arrays on a file that is not what it was.

        A fit asks behind every pass, as rows in order of their groups are read where they are.

        Raises
        ------
        ChangedDataError
            If a file was written to, replaced or removed.
        """
        for facts in self._facts:
            if facts is not None:
                facts.check()

    def partitions(self) -> list[ArrayPartition]:
        """Return the runs of rows, in their order."""
        n_records = self.X.shape[0]
        starts = range(0, max(n_records, 1), self.block_rows)
        held = list(zip((self.X, self.y, self.groups), self._facts, strict=True))
        return [
            ArrayPartition(
                [
                    (_run(part, start, min(start + self.block_rows, n_records)), facts)
                    for part, facts in held
                ]
            )
            for start in starts
        ]


class ArrayPartition:
    """A run of rows, targets and groups, each with the facts of its file if it is on one."""

    def __init__(self, parts: list[tuple[Any, FileFacts | None]]) -> None:
        self._parts = parts

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def read(self) -> Table:
        """Return the records, on the memory or the file that they are on."""
        for _, facts in self._parts:
            if facts is not None:
                facts.check()
        return Table(*(part for part, _ in self._parts))

    def read_labels(self) -> Table:
        table = self.read()
        return Table(table.X[:0], table.y, table.groups)

    def __getstate__(self) -> list[tuple[Any, FileFacts | None]]:
        return [(_portable(part, facts), facts) for part, facts in self._parts]

    def __setstate__(self, state: list[tuple[Any, FileFacts | None]]) -> None:
        self._parts = [
            (part.map() if isinstance(part, MappedArray) else part, facts) for part, facts in state
        ]


def _portable(part: Any, facts: FileFacts | None) -> Any:
    """Return what a pickle holds of a part: its place in a file, or the part itself."""
    root = mapping_of(part)
    if root is None or facts is None:
        return part
    return place_of(part, root, facts)


def _run(part: Any, start: int, stop: int) -> Any:
    if part is None:
        return None
    run = part.iloc[start:stop] if hasattr(part, "iloc") else part[start:stop]
    # a mapping is an array like any other from here on, and stays the base that holds it
    return np.asarray(run) if isinstance(run, np.ndarray) else run


def _check_rows(X: Any) -> None:
    is_array = isinstance(X, np.ndarray | csr_array | csr_matrix)
    if not is_array or X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"X must be an array of numbers with a row a record, dense or in compressed rows "
            f"(csr_array), got {_form(X)}."
        )
    # rows lie as far from the first as from each other, so it stands for all
    if isinstance(X, np.ndarray) and np.shares_memory(X[:1], X[1:]):
        raise InputError(
            "X must hold every number once, got rows that share memory, as np.broadcast_to and "
            "sliding windows make them: what is one person's would count in several records, and "
            "the guarantee is for one."
        )


def _check_length(part: Any, name: str, n_records: int) -> None:
    shape = getattr(part, "shape", None)
    if not shape or not (hasattr(part, "__array__") and not issparse(part)):
        kinds = "an array or a Series" if name == "y" else "an array, a Series or a DataFrame"
        raise InputError(f"{name} must be {kinds} with an entry a record, got {_form(part)}.")
    if shape[0] != n_records:
        raise InputError(
            f"{name} must have one entry a record: got {shape[0]} for {n_records} records."
        )


def _form(part: Any) -> str:
    """Say what something is, without a value."""
    shape, dtype = getattr(part, "shape", None), getattr(part, "dtype", None)
    of_shape = "" if shape is None else f" of shape {tuple(shape)}"
    return f"{type(part).__name__}{of_shape}" + ("" if dtype is None else f" and type {dtype}")
