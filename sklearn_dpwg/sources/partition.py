"""What a source hands out: parts of the records that are read one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from sklearn_dpwg.sources.table import Table

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
    A partition is picklable and small: what it names is read again wherever it arrives. Reading it
    again gives the same records, or an error; `ChangedDataError` where a file is not what it was
    when the source was made. Its ``repr`` shows no value.
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
