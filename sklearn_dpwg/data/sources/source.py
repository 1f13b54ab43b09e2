"""What a source hands out, what is counted of it before a fit, and where a fit keeps its rows."""

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

from sklearn_dpwg.data.frames import is_source, label_column
from sklearn_dpwg.data.groups import count_labels, encode_groups
from sklearn_dpwg.data.records import GroupedRecords, Table
from sklearn_dpwg.exceptions import InputError, InputTypeError

# A part is as large as it can be below both: larger ones are no faster, and one is in memory at
# once, in a few copies.
PART_ROWS = 2**20
PART_BYTES = 2**26


def rows_per_part(bytes_per_row: int) -> int:
    """Return how many records a part holds, by the bytes that each takes."""
    return max(1, min(PART_ROWS, PART_BYTES // max(1, bytes_per_row)))


class Partition(Protocol):
    """Some records that follow each other, read when they are asked for."""

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

    Parts may end anywhere, as each record is rounded by itself before it is added. A fit reads the
    labels of all parts, and then each part once.
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
        of_part, of_each = count_labels(table.groups, len(table.groups))
        labels += of_part
        counts += of_each.tolist()
    if not labels:
        raise InputError(f"source must have at least one record, got none in {source!r}.")
    codes, in_order = encode_groups(label_column(labels), len(labels), None)
    sizes = np.bincount(codes, weights=counts).astype(np.int64)
    return dict(zip(in_order.tolist(), sizes.tolist(), strict=True))


# Encoded rows of one fit, mapped from a directory.


def check_spool(directory: Any) -> Path | None:
    """Return the path of an existing directory, or refuse what is none."""
    if directory is None:
        return None
    if not isinstance(directory, str | os.PathLike):
        raise InputTypeError(
            f"spool must be the path of a directory, got {type(directory).__name__}."
        )
    # an empty path would be the directory one is in
    if not os.fspath(directory) or not Path(directory).is_dir():
        raise InputError(f"spool must be an existing directory, got {os.fspath(directory)!r}.")
    return Path(directory)


class Spool:
    """Encoded rows, targets and places of a fit, each in one array on a mapped file."""

    def __init__(self, file: Any, n_records: int, n_features: int) -> None:
        sizes = {
            "targets": (np.float64, (n_records,)),
            "places": (np.intp, (n_records,)),
            "rows": (np.float32, (n_records, n_features)),
        }
        self._n_written, self._arrays, offset = 0, {}, 0
        for name, (kind, shape) in sizes.items():
            whole = np.memmap(file, kind, "r+", offset, shape)
            self._arrays[name] = np.asarray(whole)
            offset += whole.nbytes

    def write(self, records: GroupedRecords) -> GroupedRecords:
        """Write the records of a part behind those before, and return them as they are mapped."""
        mapped, start = {}, self._n_written
        self._n_written += len(records.targets)
        for name, whole in self._arrays.items():
            if isinstance(held := getattr(records, name), np.ndarray):  # else compressed, or None
                mapped[name] = whole[start : self._n_written]
                mapped[name][:] = held
                mapped[name].flags.writeable = False
        return replace(records, **mapped)


@contextmanager
def spooled(directory: Any, n_records: int, n_features: int) -> Iterator[Spool]:
    """Hand out room for encoded records on a file without a name, which goes however a fit ends."""
    n_bytes = n_records * (4 * n_features + 16)
    free = shutil.disk_usage(directory).free
    if free < n_bytes:
        raise OSError(
            errno.ENOSPC,
            f"spool must have {n_bytes / 2**30:.3g} GiB free for encoded rows, got "
            f"{free / 2**30:.3g} GiB in {os.fspath(directory)!r}.",
        )
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, "posix_fallocate"):  # a disk that runs full later would end the process
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        file.truncate(n_bytes)
        try:
            yield Spool(file, n_records, n_features)
        finally:
            # the traceback of a failed fit may hold blocks for as long as the caller likes; they
            # read as zeros
            with suppress(OSError):
                file.truncate(0)
                file.truncate(n_bytes)
