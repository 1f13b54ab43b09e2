"""Records chosen by a key and their ranks, however the records are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.risks._permutation import KeyedPermutation

IndexArray = NDArray[np.intp]


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
class EveryRecord:
    """The selection of all."""

    by_place: bool = False  # whether ranks are places among all records

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        """Return all ranks of a range."""
        return np.arange(first, stop, dtype=np.intp)


@dataclass(frozen=True)
class ByGroup:
    """A selection for each group."""

    selections: tuple[Selection, ...]  # one a group
    by_place: bool = False  # whether ranks are places among all records

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        """Return the ranks that the group's selection chooses."""
        return self.selections[group].positions(group, first, stop)


@dataclass(frozen=True)
class KeyedPart:
    """So many records of each group, at random: a piece of a permutation that a key decides."""

    key: bytes = field(repr=False)  # decides the permutation of each group; nothing is hidden by it
    sizes: tuple[int, ...]  # records of each group; of all together where ranks are places
    # the part holds the records of each group that the permutation sends to `starts[i]:stops[i]`;
    # pieces that do not overlap make disjoint parts
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    by_place: bool = False  # whether ranks are places among all records

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        """Return the ranks of a range that are in the part."""
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
    *,
    by_place: bool = False,
) -> tuple[KeyedPart, ...]:
    """Return disjoint parts of exactly these sizes, by a key that may become known.

    Parameters
    ----------
    sizes : sequence of int
        Records of each group; of all together where ranks are places.
    sizes_of_parts : sequence of sequence of int
        For each part how many of each group are in it.
    rng : Generator
        Where the key comes from.
    by_place : bool, default=False
        Whether ranks are places among all records.

    Returns
    -------
    tuple of KeyedPart
        One a part.

    Notes
    -----
    Which record is in which part follows from ranks and random numbers alone, which have nothing to
    do with the records, so a record that replaces another is in the same part, and given these
    numbers the parts are disjoint data sets.
    """
    key, whole = rng.bytes(32), tuple(int(size) for size in sizes)
    ends = np.cumsum(np.asarray(sizes_of_parts, dtype=np.int64), axis=0)
    starts = ends - np.asarray(sizes_of_parts, dtype=np.int64)
    return tuple(
        KeyedPart(key, whole, tuple(first), tuple(last), by_place)
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True)
    )
