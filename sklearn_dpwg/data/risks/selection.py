"""Records chosen by a key and their ranks, however the records are stored."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

IndexArray = NDArray[np.intp]
Words = NDArray[np.uint64]

# Up to this size all numbers are permuted at once, and kept for the next part.
LISTED = 2**14
# An even number; ten leave no trace of the ranks that tests see, in small sets either.
_ROUNDS = 10
# Numbers that are permuted at a time: their arrays stay in the cache.
_AT_A_TIME = 2**15
_HALF = np.uint64(32)
# Multipliers of Stafford's thirteenth mixing function of 64 bits.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class KeyedPermutation:
    """A permutation of 0, ..., n - 1: a list where n is small, else a Feistel network.

    A number below ``a b``, the least such product at or above n with a = ⌈√n⌉, is a pair; each
    round adds a mixed function of one half to the other, modulo a or b. What lands at n or above is
    permuted again until it does not (cycle walking), which makes a permutation of the first n. Who
    knows the key, of at most 64 bytes, knows the permutation.
    """

    def __init__(self, key: bytes, size: int) -> None:
        self.size = size
        self._listed = _listed(key, size) if size <= LISTED else None
        self._wide = max(1, math.isqrt(max(size - 1, 0)) + 1)
        self._high = max(1, -(-size // self._wide))
        digest = hashlib.shake_256(key).digest(8 * _ROUNDS)
        self._keys = np.frombuffer(digest, dtype="<u8").astype(np.uint64)

    def images(self, first: int, stop: int) -> IndexArray:
        """Return what the numbers ``first:stop`` are sent to."""
        if self._listed is not None:
            return self._listed[0][first:stop]
        return self._walked(first, stop, range(_ROUNDS))

    def sources(self, first: int, stop: int) -> IndexArray:
        """Return what is sent to ``first:stop``."""
        if self._listed is not None:
            return self._listed[1][first:stop]
        return self._walked(first, stop, range(_ROUNDS - 1, -1, -1))

    def _walked(self, first: int, stop: int, rounds: range) -> IndexArray:
        found = np.empty(max(stop - first, 0), dtype=np.intp)
        for start in range(0, len(found), _AT_A_TIME):
            end = min(start + _AT_A_TIME, len(found))
            numbers = np.arange(first + start, first + end, dtype=np.uint64)
            numbers = self._mixed(numbers, rounds)
            while (outside := np.flatnonzero(numbers >= self.size)).size:
                numbers[outside] = self._mixed(numbers[outside], rounds)
            found[start:end] = numbers
        return found

    def _mixed(self, numbers: Words, rounds: range) -> Words:
        """Return the numbers after all rounds, or, in reverse order, before them."""
        forward = rounds.step > 0
        wide, high = np.uint64(self._wide), np.uint64(self._high)
        left, right = numbers // wide, numbers % wide
        for index in rounds:
            half, other, modulus = (left, right, high) if index % 2 else (right, left, wide)
            # below the modulus, which is below 2³²
            added = ((_hash(other ^ self._keys[index]) >> _HALF) * modulus) >> _HALF
            half = half + (added if forward else modulus - added)
            half -= modulus * (half >= modulus)
            left, right = (half, right) if index % 2 else (left, half)
        return left * wide + right


@lru_cache(maxsize=64)
def _listed(key: bytes, size: int) -> tuple[IndexArray, IndexArray]:
    """Return a permutation and its inverse."""
    images = np.random.default_rng(list(key)).permutation(size).astype(np.intp)
    sources = np.argsort(images)
    for array in (images, sources):
        array.flags.writeable = False
    return images, sources


def _hash(words: Words) -> Words:
    """Mix all bits of every word."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


class Selection(Protocol):
    """Which records of each group take part, as a function of public facts and a key alone.

    It is asked wherever the records are, a range of ranks at a time, so that no array of all ranks
    exists anywhere. A pickle holds its key, ``repr`` does not. `PoissonSample` is one, too.
    """

    @property
    def by_place(self) -> bool:
        """Whether ranks are places among all records, which do not know groups."""

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        """Return the chosen ranks of a range.

        Parameters
        ----------
        group : int
            The group; 0 where ranks are places.
        first, stop : int
            Ranks from `first`, below `stop`, among all records of the group (among all records).

        Returns
        -------
        ndarray
            Chosen ranks, increasing; the same however ranks are cut into calls.
        """


@dataclass(frozen=True)
class KeyedPart:
    """So many records of each group, at random: a piece of a permutation that a key decides."""

    key: bytes = field(repr=False)  # decides the permutation of each group; nothing is hidden by it
    sizes: tuple[int, ...]  # records of each group
    # the part holds the records of each group that the permutation sends to `starts[i]:stops[i]`;
    # pieces that do not overlap make disjoint parts
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    by_place: ClassVar[bool] = False

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        start, end = self.starts[group], self.stops[group]
        stop = min(stop, self.sizes[group])
        key = hashlib.blake2b(group.to_bytes(8, "little"), key=self.key[:64]).digest()
        permutation = KeyedPermutation(key, self.sizes[group])
        if end - start <= stop - first:
            found = permutation.sources(start, end)
            if end - start < self.sizes[group]:
                found = found[(found >= first) & (found < stop)]
            return np.sort(found)
        ranks = np.arange(first, stop, dtype=np.intp)
        images = permutation.images(first, stop)
        return ranks[(images >= start) & (images < end)]


def keyed_parts(
    sizes: Sequence[int],
    sizes_of_parts: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> tuple[KeyedPart, ...]:
    """Return disjoint parts of exactly these sizes a group, by a key that may become known.

    Which record is in which part follows from ranks and random numbers alone, so a record that
    replaces another is in the same part, and given these numbers the parts are disjoint data sets.
    """
    key, whole = rng.bytes(32), tuple(int(size) for size in sizes)
    ends = np.cumsum(np.asarray(sizes_of_parts, dtype=np.int64), axis=0)
    starts = ends - np.asarray(sizes_of_parts, dtype=np.int64)
    return tuple(
        KeyedPart(key, whole, tuple(first), tuple(last))
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True)
    )
