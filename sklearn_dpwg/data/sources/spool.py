"""Encoded rows on disk, mapped into memory and seen by nobody else."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.exceptions import ChangedDataError, InputError, InputTypeError

FILE_CHANGED = (
    "the file {!r} must stay as it was when its source was made, and it has changed or is gone."
)


@dataclass(frozen=True)
class FileFacts:
    """What tells that a file is not what it was."""

    path: str
    n_bytes: int
    modified: int
    number: int

    @classmethod
    def of(cls, path: str) -> FileFacts:
        """Return the facts of a file as it is."""
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino)

    def check(self) -> None:
        """Refuse a file that is not what it was."""
        try:
            now = FileFacts.of(self.path)
        except FileNotFoundError:
            now = None
        if now != self:
            raise ChangedDataError(FILE_CHANGED.format(self.path))


@dataclass(frozen=True)
class MappedArray:
    """Where in a file an array lies, and how."""

    facts: FileFacts  # the file, as it was when it was mapped
    offset: int  # bytes before the first number
    dtype: Any  # form of the array
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def map(self) -> NDArray[Any]:
        """Return the array on a mapping of its own, read-only."""
        self.facts.check()
        spans = [stride * (size - 1) for stride, size in zip(self.strides, self.shape, strict=True)]
        if min(self.shape, default=1) == 0:
            return np.empty(self.shape, dtype=self.dtype)
        before = -sum(span for span in spans if span < 0)
        behind = sum(span for span in spans if span > 0) + self.dtype.itemsize
        whole = np.memmap(self.facts.path, np.uint8, "r", self.offset - before, (before + behind,))
        return np.ndarray(self.shape, self.dtype, whole, before, self.strides)


def mapping_of(array: Any) -> np.memmap[Any, Any] | None:
    """Return the mapping an array lies on, of a named file that holds all its changes, or None."""
    root = array
    while isinstance(root, np.ndarray) and isinstance(root.base, np.ndarray):
        root = root.base
    is_mapping = isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap)
    return root if is_mapping and root.filename and root.mode != "c" else None


def place_of(array: NDArray[Any], root: np.memmap[Any, Any], facts: FileFacts) -> MappedArray:
    """Return where an array on a mapping lies in the file."""
    ahead = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return MappedArray(facts, root.offset + ahead, array.dtype, array.shape, array.strides)


# Where arrays begin in a file, so that each is aligned for any type.
_ALIGNMENT = 64
_BESIDE_ROWS = ("targets", "slope_limits", "places")


class Spool:
    """A file of one run for encoded rows that are read again and again.

    It has no name, so nobody else opens it, and the system gives its room back when its blocks are
    dropped or all forgotten, or the process ends, however it ends.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = check_spool(directory)
        self._file = new_file(self._directory)
        weakref.finalize(self, self._file.close).atexit = False
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self._directory)!r})"

    def close(self) -> None:
        """Write no more; blocks that are mapped stay readable until they are forgotten."""
        self._file.close()

    def drop(self) -> None:
        """Give back the room of all blocks, whoever still refers to them; they read as zeros."""
        if not self._file.closed and os.getpid() == self._process:
            _give_back(self._file)

    def reserve(self, n_bytes: int) -> None:
        """Refuse to begin what the disk has no room for; nothing is set aside."""
        free = shutil.disk_usage(self._directory).free
        if free < n_bytes:
            raise OSError(
                errno.ENOSPC,
                f"spool must have {_size(n_bytes)} free for encoded rows, got {_size(free)} in "
                f"{os.fspath(self._directory)!r}.",
            )

    def write(self, records: GroupedRecords) -> GroupedRecords:
        """Write a block and map it: the same numbers, read-only."""
        arrays = _arrays_of(records)
        padded = [-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays.values()]
        offsets = np.cumsum([0, *padded]).tolist()
        self.reserve(offsets[-1])
        file = self._file
        with writing(file):
            start = file.seek(0, os.SEEK_END)
            for offset, array in zip(offsets, arrays.values(), strict=False):
                file.seek(start + offset)
                in_order: Any = np.ascontiguousarray(array)
                file.write(memoryview(in_order).cast("B") if array.size else b"")
            file.truncate(start + offsets[-1])
            mapped = _mapped(file, start, arrays, offsets)
        return _with_arrays(records, mapped)


def new_file(directory: str | os.PathLike[str]) -> BinaryIO:
    """Return a file without a name, which only this process can read."""
    if os.name != "posix":
        raise OSError(
            "spool needs files that live on without a name, as POSIX has them and this system has "
            "not: leave spool=None, and encoded rows are held in memory."
        )
    return tempfile.TemporaryFile(dir=directory)


@contextmanager
def writing(file: BinaryIO) -> Iterator[None]:
    """Remove a file if anything goes wrong inside, as where a disk is full."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            _give_back(file)
        with suppress(OSError):
            file.close()
        raise


def _give_back(file: BinaryIO) -> None:
    """Empty a file, which keeps its length, so that what is mapped of it can be read for ever."""
    n_bytes = os.fstat(file.fileno()).st_size
    os.ftruncate(file.fileno(), 0)
    os.ftruncate(file.fileno(), n_bytes)


def check_spool(directory: str | os.PathLike[str]) -> Path:
    """Return the path of an existing directory, or refuse what is none."""
    if not isinstance(directory, str | os.PathLike):
        raise InputTypeError(
            f"spool must be the path of a directory, got {type(directory).__name__}."
        )
    path = Path(directory)
    # an empty path would be the directory one is in
    if not os.fspath(directory) or not path.is_dir():
        raise InputError(f"spool must be an existing directory, got {os.fspath(directory)!r}.")
    return path.absolute()


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.3g} GiB"


def _arrays_of(records: GroupedRecords) -> dict[str, NDArray[Any]]:
    """Return the arrays that are written."""
    rows = records.rows
    arrays: dict[str, Any] = {}
    if isinstance(rows, csr_array):
        arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    else:
        arrays = {"rows": rows}
    arrays |= {name: getattr(records, name) for name in _BESIDE_ROWS}
    return {name: array for name, array in arrays.items() if array is not None}


def _with_arrays(records: GroupedRecords, mapped: dict[str, Any]) -> GroupedRecords:
    """Return records on other arrays, which `_arrays_of` has named."""
    if isinstance(records.rows, csr_array):
        # the constructor would copy what is a small part of a mapping
        rows = csr_array(records.rows.shape, dtype=records.rows.dtype)
        for name in ("data", "indices", "indptr"):
            setattr(rows, name, mapped.pop(name))
        rows.has_sorted_indices = records.rows.has_sorted_indices
        rows.has_canonical_format = records.rows.has_canonical_format
        mapped["rows"] = rows
    return replace(records, **mapped)


def _mapped(
    file: BinaryIO, start: int, arrays: dict[str, NDArray[Any]], offsets: list[int]
) -> dict[str, NDArray[Any]]:
    """Map a part of a file once, and return the arrays that were written to it."""
    if not offsets[-1]:
        return {name: np.empty_like(array) for name, array in arrays.items()}
    whole = np.asarray(np.memmap(file, np.uint8, "r", start, (offsets[-1],)))
    found = {}
    for offset, (name, array) in zip(offsets, arrays.items(), strict=False):
        flat = whole[offset : offset + array.nbytes].view(array.dtype)
        found[name] = flat.reshape(array.shape)
    return found
