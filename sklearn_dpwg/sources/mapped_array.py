"""Arrays on a mapped file, which another process on the machine maps again."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.exceptions import ChangedDataError


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
