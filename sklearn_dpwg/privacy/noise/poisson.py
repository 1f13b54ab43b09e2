"""Poisson samples of records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Up to this rate gaps between records that join are drawn; above it a coin for each is faster.
_MAX_RATE_OF_GAPS = 0.25
# Number of ranks for each generator: with fewer, more generators are made; with more, more coins
# are wasted if a block of records begins within a chunk of ranks.
RANKS_AT_A_TIME = 2**18
# Gaps are drawn for the expected number of records that join, plus so many standard deviations.
_MARGIN = 6.0


def poisson_sample(n_records: int, rate: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the indices, increasing, of the records that join; each joins with probability rate.

    Records toss independent coins. The gaps between successive heads are independent and geometric,
    so their cumulative sums are the positions of the heads. The time is proportional to the number
    of records that join. Probabilities are exact up to double precision.
    """
    if rate > _MAX_RATE_OF_GAPS:
        return np.flatnonzero(rng.random(n_records) < rate)
    expected = n_records * rate
    size = int(expected + _MARGIN * np.sqrt(expected)) + 10
    hazard = -np.log1p(-rate)
    pieces = []
    last_head = -1.0
    while last_head < n_records:
        # tails before a head: exponential variables over the hazard, rounded down; they are floats,
        # as at a tiny rate they may exceed every integer
        tails = rng.standard_exponential(size)
        np.floor(np.divide(tails, hazard, out=tails), out=tails)
        heads = last_head + np.cumsum(tails + 1.0)
        pieces.append(heads[: np.searchsorted(heads, n_records)].astype(np.intp))
        last_head = float(heads[-1])
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(frozen=True)
class PoissonSample:
    """The records that one draw reads: a secret key decides for every group and rank.

    Ranks are divided into chunks. The coins of a chunk come from a generator whose state is a keyed
    hash of the group and the chunk. So the answer is always the same, and does not depend on where
    a record is stored. A pickle holds the key.
    """

    rate: float
    key: bytes = field(repr=False)  # 256 secret bits, for one draw alone
    by_place: bool = False  # whether ranks are places among all records, whatever their groups

    def positions(self, group: int, first: int, stop: int) -> NDArray[np.intp]:
        """Return the ranks of the group's records that join, from ``first`` to before ``stop``."""
        pieces = [np.zeros(0, dtype=np.intp)]
        source = np.random.PCG64(0)
        rng = np.random.Generator(source)
        for start in range(first - first % RANKS_AT_A_TIME, stop, RANKS_AT_A_TIME):
            source.state = self._state(group, start // RANKS_AT_A_TIME)
            # drawing fewer coins gives the first ones of the whole chunk
            n_ranks = min(RANKS_AT_A_TIME, stop - start)
            heads = start + poisson_sample(n_ranks, self.rate, rng)
            pieces.append(heads[np.searchsorted(heads, first) :])
        return np.concatenate(pieces)

    def _state(self, group: int, chunk: int) -> Any:
        """Return the initial state of the generator for one chunk of ranks of a group."""
        name = group.to_bytes(8, "little") + chunk.to_bytes(8, "little")
        digest = hashlib.blake2b(name, key=self.key, digest_size=32).digest()
        state, increment = (int.from_bytes(half, "little") for half in (digest[:16], digest[16:]))
        return {
            "bit_generator": "PCG64",
            "state": {"state": state, "inc": increment | 1},
            "has_uint32": 0,
            "uinteger": 0,
        }
