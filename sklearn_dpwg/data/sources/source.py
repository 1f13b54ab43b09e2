"""The protocol `Source`, a source of arrays, group counts of a source, and the spool of a fit."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, csr_matrix, issparse

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg.data.frames import NoArray, is_source, label_column
from sklearn_dpwg.data.groups import count_labels, encode_groups
from sklearn_dpwg.data.records import GroupedRecords, Table
from sklearn_dpwg.exceptions import InputError, InputTypeError

# Limits of a part: larger ones are no faster, and a part is in memory in a few copies.
PART_ROWS = 2**20
PART_BYTES = 2**26
# Limit for sparse rows: by rows alone, as the number of their entries is not public.
SPARSE_PART_ROWS = 2**16


def rows_per_part(bytes_per_row: int) -> int:
    """Return the number of records in a part, at most `PART_ROWS` and `PART_BYTES`."""
    return max(1, min(PART_ROWS, PART_BYTES // max(1, bytes_per_row)))


class Partition(Protocol):
    """Consecutive records of a source, which are read by a call."""

    def read(self) -> Table:
        """Return the records with all columns."""

    def read_labels(self) -> Table:
        """Return targets and groups of all records, and X with no rows, in the types of `read`."""


class Source(Protocol):
    """Records that need not fit in memory, in parts (`Partition`) in a fixed order.

    A source may name columns in attributes ``target`` and ``groups``; a target of None says that
    its records can be predicted but not learned from. A fit reads the labels of all parts, and then
    each part once. Where parts end does not change its result.
    """

    @property
    def spool(self) -> str | os.PathLike[str] | None:
        """Directory for encoded rows that are read again and again, or None for memory."""

    def partitions(self) -> Sequence[Partition]:
        """Return the parts, at least one, in the order of the records; a part may be empty."""


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
        """Return the runs of rows, in their order.

        Returns
        -------
        list of Table
            Views of the arrays.
        """
        n_rows, parts = self.block_rows, (self.X, self.y, self.groups)
        starts = range(0, max(self.X.shape[0], 1), n_rows)
        return [Table(*(_slice(part, start, start + n_rows) for part in parts)) for start in starts]


def _slice(part: Any, start: int, stop: int) -> Any:
    """Return the rows ``start:stop`` of an array or frame, None for None."""
    if isinstance(part, pd.Series | pd.DataFrame):
        return part.iloc[start:stop]
    return None if part is None else part[start:stop]


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
            f"{type(source).__name__}: make ParquetSource(..., groups=...) of a path, and count a "
            f"frame by frame.groupby(...).size()."
        )
    labels: list[Hashable] = []
    counts: list[int] = []
    for partition in source.partitions():
        table = partition.read_labels()
        if table.groups is None:
            raise InputError(f"source must have groups to count, got {source!r}.")
        part_labels, part_counts = count_labels(table.groups, len(table.groups))
        labels += part_labels
        counts += part_counts.tolist()
    if not labels:
        raise InputError(f"source must have at least one record, got none in {source!r}.")
    # a label is in the list once for each part: the counts of equal labels are added up
    codes, group_labels = encode_groups(label_column(labels), len(labels), None)
    sizes = np.bincount(codes, weights=counts).astype(np.int64)
    return dict(zip(group_labels.tolist(), sizes.tolist(), strict=True))


# The spool: encoded records of one fit in a memory-mapped file.


def check_spool(directory: Any) -> None:
    """Raise `InputError` unless `directory` is None or an existing directory."""
    # an empty path would be the current directory
    is_path = isinstance(directory, str | os.PathLike) and os.fspath(directory)
    if directory is not None and not (is_path and Path(directory).is_dir()):
        raise InputError(f"spool must be an existing directory, got {directory!r}.")


class Spool:
    """Encoded rows, targets and places of a fit: arrays of all records, mapped on one file."""

    def __init__(self, file: Any, n_records: int, n_features: int) -> None:
        sizes = {
            "targets": (np.float64, (n_records,)),
            "places": (np.intp, (n_records,)),
            "rows": (np.float32, (n_records, n_features)),
        }
        self._n_written, self._arrays, offset = 0, {}, 0
        for name, (kind, shape) in sizes.items():
            array = np.memmap(file, kind, "r+", offset, shape)
            self._arrays[name] = np.asarray(array)
            offset += array.nbytes

    def write(self, records: GroupedRecords) -> GroupedRecords:
        """Append the records of a part to the file; return them with arrays mapped on it."""
        mapped, start = {}, self._n_written
        self._n_written += len(records.targets)
        for name, array in self._arrays.items():
            values = getattr(records, name)
            if isinstance(values, np.ndarray):  # sparse rows stay in memory, places may be None
                mapped[name] = array[start : self._n_written]
                mapped[name][:] = values
                mapped[name].flags.writeable = False
        return replace(records, **mapped)


@contextmanager
def spooled(directory: Any, n_records: int, n_features: int) -> Iterator[Spool]:
    """Open a `Spool` on a temporary file without a name, which the system deletes in any case."""
    n_bytes = n_records * (4 * n_features + 16)  # float32 rows, and 8 bytes a target and a place
    free = shutil.disk_usage(directory).free
    if free < n_bytes:
        raise OSError(
            errno.ENOSPC,
            f"spool must have {n_bytes / 2**30:.3g} GiB free for encoded rows, got "
            f"{free / 2**30:.3g} GiB in {os.fspath(directory)!r}.",
        )
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, "posix_fallocate"):  # else a full disk would later kill the process
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        file.truncate(n_bytes)
        try:
            yield Spool(file, n_records, n_features)
        finally:
            # a traceback may keep the arrays alive: erase the file, and let them read zeros
            with suppress(OSError):
                file.truncate(0)
                file.truncate(n_bytes)
