"""Arrays on mapped files, or in memory, in runs of rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, csr_matrix, issparse

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg.data.frames import NoArray
from sklearn_dpwg.data.records import Table
from sklearn_dpwg.data.sources.source import check_spool, rows_per_part
from sklearn_dpwg.exceptions import InputError

# Of rows in compressed form: how many entries they have is not public.
SPARSE_PART_ROWS = 2**16


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
        Directory for encoded rows; see `ParquetSource`. With None they are held in memory.

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
        check_spool(spool)
        is_array = isinstance(X, np.ndarray | csr_array | csr_matrix)
        if not is_array or X.ndim != 2 or X.dtype.kind not in "biuf":
            raise InputError(
                f"X must be an array of numbers with a row a record, dense or in compressed rows "
                f"(csr_array), got {type(X).__name__}."
            )
        for name, part in {"y": y, "groups": groups}.items():
            if part is None and name == "groups":
                continue
            if not hasattr(part, "__array__") or issparse(part) or not np.ndim(part):
                raise InputError(
                    f"{name} must be an array or a Series with an entry a record, got "
                    f"{type(part).__name__}."
                )
            if len(part) != X.shape[0]:
                raise InputError(
                    f"{name} must have one entry a record: got {len(part)} for {X.shape[0]} "
                    f"records."
                )
        self.X, self.y, self.groups, self.spool = X, y, groups, spool
        self.block_rows = SPARSE_PART_ROWS
        if block_rows is not None:
            self.block_rows = whole_number(block_rows, "block_rows", least=1)
        elif isinstance(X, np.ndarray):
            self.block_rows = rows_per_part(X.shape[1] * X.dtype.itemsize)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(X of shape {self.X.shape})"

    def partitions(self) -> list[Table]:
        """Return the runs of rows, in their order; each is a view."""
        starts = range(0, max(self.X.shape[0], 1), self.block_rows)
        return [
            Table(*(_run(part, start, start + self.block_rows) for part in self._parts))
            for start in starts
        ]

    @property
    def _parts(self) -> tuple[Any, Any, Any]:
        return self.X, self.y, self.groups


def _run(part: Any, start: int, stop: int) -> Any:
    if isinstance(part, pd.Series | pd.DataFrame):
        return part.iloc[start:stop]
    return None if part is None else part[start:stop]
