"""Records chosen by a key and their ranks, however the records are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.exceptions import InputError

IndexArray = NDArray[np.intp]

# Ranks that are shuffled at a time, and the most of a group that NumPy deals out.
RANKS_AT_A_TIME, MOST_RANKS = 2**14, 10**9 - 1


class Selection(Protocol):
    """Which records of each group take part, as a function of public facts and a key alone.

    It is asked wherever the records are, a range of ranks at a time, so that no array of all ranks
    exists anywhere. A pickle holds its key, ``repr`` does not. `PoissonSample` is one, too.
    """

    @property
    def by_place(self) -> bool:
        """Whether ranks are places among all records, which do not know groups."""

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        """Return the chosen ranks ``first:stop`` of a group, 0 for places, increasing.

        They are the same however ranks are cut into calls.
        """


@dataclass(frozen=True)
class KeyedPart:
    """So many records of each group, at random: one of disjoint parts that a key decides."""

    key: bytes = field(repr=False)  # decides all parts of all groups; nothing is hidden by it
    sizes: tuple[int, ...]  # records of each group
    sizes_of_parts: tuple[tuple[int, ...], ...]  # records of each group in each part
    part: int
    by_place: ClassVar[bool] = False

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        size = self.sizes[group]
        own = tuple(of_part[group] for of_part in self.sizes_of_parts)
        key = hashlib.blake2b(group.to_bytes(8, "little"), key=self.key[:64]).digest()
        ends = _ends_of_shares(key, size, own)
        chosen = [np.zeros(0, dtype=np.intp)]
        for run in range(first // RANKS_AT_A_TIME, -(-min(stop, size) // RANKS_AT_A_TIME)):
            start = run * RANKS_AT_A_TIME
            order = _shuffled(key, run, min(RANKS_AT_A_TIME, size - start))
            before, end = ends[run, self.part : self.part + 2]
            ranks = start + np.sort(order[before:end])
            chosen.append(ranks[(ranks >= first) & (ranks < stop)])
        return np.concatenate(chosen)


@lru_cache(maxsize=64)
def _ends_of_shares(key: bytes, size: int, own: tuple[int, ...]) -> IndexArray:
    """Return where the shares of the parts end in each run of ranks, a 0 in front.

    How many of a run each part has is what drawing without replacement gives.
    """
    rng = np.random.default_rng([*key, 0])
    left = np.array([*own, size - sum(own)])
    shares = []
    for start in range(0, size, RANKS_AT_A_TIME):
        of_run = min(RANKS_AT_A_TIME, size - start)
        shares.append(rng.multivariate_hypergeometric(left, of_run, method="marginals"))
        left = left - shares[-1]
    ends = np.cumsum(np.array(shares).reshape(-1, len(left)), axis=1)
    return np.concatenate([np.zeros((len(ends), 1), dtype=np.intp), ends[:, :-1]], axis=1)


@lru_cache(maxsize=64)
def _shuffled(key: bytes, run: int, size: int) -> IndexArray:
    """Return a run of ranks in random order, its first as 0."""
    seed = list(key) if run == 0 else [*key, run]
    order = np.argsort(np.random.default_rng(seed).permutation(size))
    order.flags.writeable = False
    return order


def keyed_parts(
    sizes: Sequence[int],
    sizes_of_parts: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> tuple[KeyedPart, ...]:
    """Return disjoint parts of exactly these sizes a group, by a key that may become known.

    Which record is in which part follows from ranks and random numbers alone, so a record that
    replaces another is in the same part, and given these numbers the parts are disjoint data sets.
    """
    key = rng.bytes(32)
    own = tuple(tuple(int(size) for size in of_part) for of_part in sizes_of_parts)
    whole = tuple(int(size) for size in sizes)
    if max(whole, default=0) > MOST_RANKS:
        raise InputError(
            f"a group must have at most {MOST_RANKS:,} records to be dealt out in disjoint parts, "
            f"got {max(whole):,}."
        )
    return tuple(KeyedPart(key, whole, own, part) for part in range(len(own)))
