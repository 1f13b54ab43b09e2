"""Poisson samples of records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Above this rate a coin for every record is faster than the gaps between those that join.
_LARGEST_RATE_OF_GAPS = 0.25
# Gaps are drawn for so many standard deviations more records than are expected to join.
_MARGIN = 6.0


def poisson_sample(n_records: int, rate: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Let each of n records join independently with the same probability.

    Parameters
    ----------
    n_records : int
        Number of records n.
    rate : float
        Probability with which a record joins, above 0 and at most 1.
    rng : numpy.random.Generator
        Source of the coins; whoever can predict it knows who joined.

    Returns
    -------
    ndarray of shape (n_joined,)
        Positions of the records that joined, increasing; may be empty.

    Notes
    -----
    The number of independent coins up to and including the first that shows heads is
    geometric, and what follows it starts afresh, so sums of independent geometric gaps are the
    positions of the heads. That takes time in proportion to those who join, not to all. The
    coins are as exact as double precision is.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.privacy import poisson_sample
    >>> poisson_sample(5, 1.0, np.random.default_rng(0))
    array([0, 1, 2, 3, 4])
    >>> len(poisson_sample(1_000_000, 1e-9, np.random.default_rng(0)))
    0
    """
    if rate > _LARGEST_RATE_OF_GAPS:
        return np.flatnonzero(rng.random(n_records) < rate)
    expected = n_records * rate
    size = int(expected + _MARGIN * np.sqrt(expected)) + 10
    pieces = []
    last = -1.0
    while last < n_records:
        # as floats: a gap at a tiny rate may exceed every integer
        heads = last + np.cumsum(rng.geometric(rate, size=size).astype(np.float64))
        pieces.append(heads[heads < n_records].astype(np.intp))
        last = float(heads[-1])
    return np.concatenate(pieces)
