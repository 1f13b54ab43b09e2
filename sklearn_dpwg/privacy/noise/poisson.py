"""Poisson samples of records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Above this rate a coin for every record is faster than the gaps between those that join.
_MAX_RATE_OF_GAPS = 0.25
# A generator is made for so many ranks: fewer cost more generators, more are drawn in vain where a
# block of records begins between.
RANKS_AT_A_TIME = 2**18
# Gaps are drawn for so many standard deviations more records than are expected to join.
_MARGIN = 6.0


def poisson_sample(n_records: int, rate: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return, in order, which of n records join, each independently with the same probability.

    The number of independent coins up to and including the first that shows heads is geometric,
    and what follows it starts afresh, so sums of independent geometric gaps are the positions of
    the heads. That takes time in proportion to those who join, not to all. The coins are as exact
    as double precision is.
    """
    if rate > _MAX_RATE_OF_GAPS:
        return np.flatnonzero(rng.random(n_records) < rate)
    expected = n_records * rate
    size = int(expected + _MARGIN * np.sqrt(expected)) + 10
    per_coin = -np.log1p(-rate)
    pieces = []
    last = -1.0
    while last < n_records:
        # tails before a head: exponential waiting times, rounded down; as floats, as at a tiny rate
        # they may exceed every integer
        tails = rng.standard_exponential(size)
        np.floor(np.divide(tails, per_coin, out=tails), out=tails)
        heads = last + np.cumsum(tails + 1.0)
        pieces.append(heads[: np.searchsorted(heads, n_records)].astype(np.intp))
        last = float(heads[-1])
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(frozen=True)
class PoissonSample:
    """Who joins a draw: a coin for every record, which its rank and a secret key decide.

    Coins are drawn for so many ranks at a time, by a generator whose state is a keyed hash of the
    group and of which ranks these are. So a record joins or not wherever it is stored, and whoever
    asks again gets the same answer. A pickle holds the key.
    """

    rate: float
    key: bytes = field(repr=False)  # 256 secret bits, for one draw alone
    by_place: bool = False  # whether ranks are places among all records, whatever their groups

    def positions(self, group: int, first: int, stop: int) -> NDArray[np.intp]:
        """Return the ranks of a range that join."""
        pieces = [np.zeros(0, dtype=np.intp)]
        source = np.random.PCG64(0)
        rng = np.random.Generator(source)
        for start in range(first - first % RANKS_AT_A_TIME, stop, RANKS_AT_A_TIME):
            source.state = self._state(group, start // RANKS_AT_A_TIME)
            # fewer coins are the first of more
            n_ranks = min(RANKS_AT_A_TIME, stop - start)
            heads = start + poisson_sample(n_ranks, self.rate, rng)
            pieces.append(heads[np.searchsorted(heads, first) :])
        return np.concatenate(pieces)

    def _state(self, group: int, chunk: int) -> Any:
        """Return the state that a generator of coins begins with."""
        name = group.to_bytes(8, "little") + chunk.to_bytes(8, "little")
        digest = hashlib.blake2b(name, key=self.key, digest_size=32).digest()
        state, increment = (int.from_bytes(half, "little") for half in (digest[:16], digest[16:]))
        return {
            "bit_generator": "PCG64",
            "state": {"state": state, "inc": increment | 1},
            "has_uint32": 0,
            "uinteger": 0,
        }
