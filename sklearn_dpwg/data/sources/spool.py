"""Encoded rows on disk, mapped into memory and seen by nobody else."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import shutil
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.exceptions import ChangedDataError

# Arrays on a mapped file, which another process on the machine maps again.


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
            raise ChangedDataError(
                f"the file {self.path!r} must stay as it was when its source was made, and it has "
                f"changed or is gone."
            )


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
    """Return the mapping of a named file that an array lies on, or None.

    Changes to a mapping of mode ``"c"`` are in no file.
    """
    root = array
    while isinstance(root, np.ndarray) and isinstance(root.base, np.ndarray):
        root = root.base
    is_mapping = isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap)
    return root if is_mapping and root.filename and root.mode != "c" else None


def place_of(array: NDArray[Any], root: np.memmap[Any, Any], facts: FileFacts) -> MappedArray:
    """Return where an array on a mapping lies in the file."""
    ahead = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return MappedArray(facts, root.offset + ahead, array.dtype, array.shape, array.strides)


try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

_PREFIX = "dpwg-spool-"
_LOCK = ".lock"
# Where arrays begin in a file, so that each is aligned for any type.
_ALIGNMENT = 64


class Spool:
    """A folder of one run for rows that are read again and again.

    Parameters
    ----------
    directory : path
        Existing directory with room for the rows. A folder of this run is made in it, which only
        its owner may enter; what runs that were killed have left there is removed first.

    Notes
    -----
    Blocks are in one file, which has no name any more once it is begun, so the system gives its
    room back when they are dropped or all forgotten, or the process ends, however it ends. What has
    a name is removed when the spool is closed, at the end of the process at the latest, or by the
    next run. A lock that lives as long as its process tells the folders of runs that go on from
    those of killed ones.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        _require_locks()
        above = _existing(directory)
        _remove_left(above)
        self._lock, lock_path = _new_lock(above)
        self.path = lock_path.with_suffix("")
        self._blocks: int | None = None
        self._n_bytes = 0
        self._process = os.getpid()
        self._remove = weakref.finalize(self, _remove_own, self._lock, self.path, os.getpid())
        try:
            self.path.mkdir(mode=0o700)
            self.path.chmod(0o700)  # whatever the umask has taken away
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self.path.parent)!r})"

    def close(self) -> None:
        """Remove the folder; blocks that are mapped stay readable until they are forgotten."""
        self._remove()

    def drop(self) -> None:
        """Give back the room of all blocks, whoever still refers to them; they read as zeros."""
        blocks, self._blocks = self._blocks, None
        if blocks is None or os.getpid() != self._process:
            return
        # the file keeps its length, so that what is mapped of it can be read for ever
        os.ftruncate(blocks, 0)
        os.ftruncate(blocks, self._n_bytes)

    def reserve(self, n_bytes: int) -> None:
        """Refuse to begin what the disk has no room for; nothing is set aside.

        Parameters
        ----------
        n_bytes : int
            Bytes that will be written.

        Raises
        ------
        OSError
            If fewer are free.
        """
        free = shutil.disk_usage(self.path).free
        if free < n_bytes:
            raise OSError(
                errno.ENOSPC,
                f"spool must have {_size(n_bytes)} free for encoded rows, got {_size(free)} in "
                f"{os.fspath(self.path.parent)!r}.",
            )

    def write(self, index: int, records: GroupedRecords) -> GroupedRecords:
        """Write a block and map it.

        Parameters
        ----------
        index : int
            Number of the block, as the caller counts them.
        records : GroupedRecords
            Encoded rows.

        Returns
        -------
        GroupedRecords
            The same numbers in the same order of memory, read-only and on the file; rows that are
            on a mapped file already stay where they are.

        Raises
        ------
        OSError
            If the disk is full; the folder of this run is removed then.
        """
        arrays = _arrays_of(records)
        offsets = np.cumsum([0, *(_padded(array.nbytes) for array in arrays)]).tolist()
        self.reserve(offsets[-1])
        with self.writing():
            if self._blocks is None:
                with self.create(f"blocks-{index:08d}") as created:
                    self._blocks = os.dup(created.fileno())
                weakref.finalize(self, os.close, self._blocks)
                (self.path / f"blocks-{index:08d}").unlink()
                self._n_bytes = 0
            start = self._n_bytes
            with os.fdopen(os.dup(self._blocks), "wb") as file:
                for offset, array in zip(offsets, arrays, strict=False):
                    file.seek(start + offset)
                    file.write(memoryview(_in_order(array)).cast("B") if array.size else b"")
                file.truncate(start + offsets[-1])
                self._n_bytes += offsets[-1]
                mapped = _map(file, start, arrays, offsets)
        return _with_arrays(records, mapped)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Remove the folder if anything goes wrong inside, and say in one sentence if disks do.

        Yields
        ------
        None
            Nothing.
        """
        try:
            yield
        except BaseException as error:
            self.close()
            if is_full(error):
                raise _full(self.path.parent) from None
            raise

    def create(self, name: str) -> BinaryIO:
        """Open a new file in the folder that only its owner may read.

        Parameters
        ----------
        name : str
            Name of the file, which must not be there yet.

        Returns
        -------
        file
            Open for writing.
        """
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        descriptor = os.open(self.path / name, flags, 0o600)
        os.fchmod(descriptor, 0o600)  # whatever the umask has taken away
        return os.fdopen(descriptor, "wb")


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk, or what a user may have of it, is full."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # polars has errors of its own, without a number
    if not (isinstance(error, OSError) or type(error).__module__.startswith("polars")):
        return False
    said = str(error)
    return any(f"(os error {number})" in said for number in (errno.ENOSPC, errno.EDQUOT)) or (
        "No space left" in said
    )


def check_spool(directory: Any) -> None:
    """Refuse what is neither None nor an existing directory."""
    if directory is not None:
        _existing(directory)


def _require_locks() -> None:
    if fcntl is None:
        raise OSError(
            "spool needs the file locks of POSIX (fcntl), which this system has not: leave "
            "spool=None, and encoded rows are held in memory."
        )


def _existing(directory: str | os.PathLike[str]) -> Path:
    if not isinstance(directory, str | os.PathLike):
        raise TypeError(f"spool must be the path of a directory, got {type(directory).__name__}.")
    path = Path(directory)
    # an empty path would be the directory one is in
    if not os.fspath(directory) or not path.is_dir():
        raise ValueError(f"spool must be an existing directory, got {os.fspath(directory)!r}.")
    return path.absolute()


def _closed(directory: Path) -> OSError:
    return OSError(
        errno.EACCES,
        f"spool must be a directory in which files can be made, got {os.fspath(directory)!r}.",
    )


def _full(directory: Path) -> OSError:
    return OSError(
        errno.ENOSPC,
        f"spool must have room for the encoded rows, and the disk of {os.fspath(directory)!r} is "
        f"full: what was written is removed.",
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.3g} GiB"


# --- locks, by which runs know each other --------------------------------------------------------


def _new_lock(above: Path) -> tuple[BinaryIO, Path]:
    """Return a file that is locked as long as this process lives, and its path."""
    while True:
        path = above / f"{_PREFIX}{secrets.token_hex(16)}{_LOCK}"
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE):
                raise
            raise _closed(above) from None  # /proc and its like say of the new name that it is gone
        file = os.fdopen(descriptor, "r+b")
        os.fchmod(descriptor, 0o600)
        # another run that cleans up may have come between, and have taken it for one that was left
        if _is_locked_here(descriptor) and os.fstat(descriptor).st_nlink:
            return file, path
        file.close()


def _is_locked_here(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_left(above: Path) -> None:
    """Remove what killed runs of the same user have left; runs that go on hold their locks."""
    for path in above.glob(f"{_PREFIX}*{_LOCK}"):
        # another run may clean up as well, or another user's file may not be opened
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "r+b"):
                facts = os.fstat(descriptor)
                is_own = facts.st_uid == os.geteuid() and stat.S_ISREG(facts.st_mode)
                if is_own and _is_locked_here(descriptor):
                    _remove_folder(path.with_suffix(""))
                    path.unlink()


def _remove_own(lock: BinaryIO, path: Path, process: int) -> None:
    """Remove a folder, then the lock that says that it is in use; not in a forked process."""
    if os.getpid() != process:
        return
    try:
        _remove_folder(path)
        path.with_name(path.name + _LOCK).unlink(missing_ok=True)
    finally:
        lock.close()


def _remove_folder(path: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(path)


# --- records as arrays in a file -----------------------------------------------------------------


def _arrays_of(records: GroupedRecords) -> list[NDArray[Any]]:
    """Return the arrays that are written: all but rows that are on a mapped file already."""
    rows = records.rows
    arrays: list[NDArray[Any]] = []
    if isinstance(rows, csr_array):
        arrays = [rows.data, rows.indices, rows.indptr]
    elif mapping_of(rows) is None:
        arrays = [rows]
    arrays += [records.row_scale, records.targets]
    return arrays + [part for part in (records.slope_limits, records.places) if part is not None]


def _with_arrays(records: GroupedRecords, mapped: list[NDArray[Any]]) -> GroupedRecords:
    """Return records on other arrays, in the order of `_arrays_of`."""
    left = iter(mapped)
    rows: Any
    if isinstance(records.rows, csr_array):
        # the constructor would copy what is a small part of a mapping
        rows = csr_array(records.rows.shape, dtype=records.rows.dtype)
        rows.data, rows.indices, rows.indptr = next(left), next(left), next(left)
        rows.has_sorted_indices = records.rows.has_sorted_indices
        rows.has_canonical_format = records.rows.has_canonical_format
    else:
        rows = records.rows if mapping_of(records.rows) is not None else next(left)
    return GroupedRecords(
        rows,
        row_scale=next(left),
        targets=next(left),
        starts=records.starts,
        slope_limits=None if records.slope_limits is None else next(left),
        places=None if records.places is None else next(left),
    )


def _in_order(array: NDArray[Any]) -> Any:
    """Return what lies in memory as it is written: rows one by one, or columns."""
    return array.T if _is_by_columns(array) else np.ascontiguousarray(array)


def _is_by_columns(array: NDArray[Any]) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT


def _map(
    file: BinaryIO, start: int, arrays: list[NDArray[Any]], offsets: list[int]
) -> list[NDArray[Any]]:
    """Map a part of a file once, and return the arrays that were written to it."""
    if not offsets[-1]:
        return [np.empty_like(array) for array in arrays]
    whole = np.asarray(np.memmap(file, np.uint8, "r", start, (offsets[-1],)))
    found = []
    for offset, array in zip(offsets, arrays, strict=False):
        flat = whole[offset : offset + array.nbytes].view(array.dtype)
        by_columns = _is_by_columns(array)
        found.append(flat.reshape(array.shape[::-1]).T if by_columns else flat.reshape(array.shape))
    return found
