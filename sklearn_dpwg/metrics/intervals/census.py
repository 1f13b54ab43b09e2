"""A rate of the very records: they are everybody, so noise alone makes it uncertain."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._checks import open_unit, whole_number
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.metrics.intervals.rate import (
    Interval,
    Survival,
    cell_pair,
    signed_count,
    survival_of,
)
from sklearn_dpwg.privacy import IntegerNoise

# Odds between limits of a float's logarithm, halved so often that 1e-13 of it is left.
_LOG_ODDS = 60.0
_N_HALVINGS = 50


def census_interval(
    hits: int,
    misses: int,
    *,
    total: int | None = None,
    noise: IntegerNoise | None = None,
    n_cells: tuple[int, int] = (1, 1),
    confidence: float = 0.95,
) -> Interval:
    """Return an interval for the share of hits among the very records, which are everybody.

    Parameters
    ----------
    hits, misses : int
        The two counts, with noise if there is any.
    total : int, optional
        How many records there are, if that is known exactly.
    noise : IntegerNoise, optional
        The law of the noise on every released count; without it the share is known.
    n_cells : tuple of int, default=(1, 1)
        How many released counts were summed into `hits` and into `misses`.
    confidence : float, default=0.95
        Least probability of an interval that holds the share.

    Returns
    -------
    Interval
        The share, between 0 and 1, and its limits; NaN where there seems to be nobody.

    Raises
    ------
    ValueError
        If a number is out of range.

    See Also
    --------
    ratio_interval : The records are a sample of those that one asks about.

    Notes
    -----
    Exact by the law of the noise: each limit is wrong with a probability of at most
    (1 − confidence)/2 (``docs/theory/intervals.md``).

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import census_interval
    >>> from sklearn_dpwg.privacy import IntegerNoise
    >>> share = census_interval(610, 390, noise=IntegerNoise("laplace", scale=2.0))
    >>> print(f"{share.estimate:.3f} [{share.low:.3f}, {share.high:.3f}]")
    0.610 [0.605, 0.615]
    """
    hits, misses = signed_count(hits, "hits"), signed_count(misses, "misses")
    n_cells, confidence = cell_pair(n_cells), open_unit(confidence, "confidence")
    if noise is None and min(hits, misses) < 0:
        raise InputError(
            f"hits and misses must be at least 0 without noise, got {hits} and {misses}."
        )
    level = 0.5 * (1.0 - confidence)
    if total is not None:
        total = whole_number(total, "total", least=0)
        if total == 0:
            return Interval(math.nan, 0.0, 1.0, confidence)
        # hits − misses + total is twice the true hits, with the noise of both
        twice = hits - misses + total
        radius = survival_of(noise, n_cells, (1, 1)).two_sided_radius(2.0 * level)
        low, high = math.ceil(0.5 * (twice - radius)), math.floor(0.5 * (twice + radius))
        ends = (0.5 * twice, max(low, 0), min(high, total))
        estimate, low_end, high_end = (min(max(end / total, 0.0), 1.0) for end in ends)
    else:
        kept = max(hits, 0) + max(misses, 0)
        estimate = max(hits, 0) / kept if kept else math.nan
        if noise is None:
            low_end, high_end = (estimate, estimate) if kept else (0.0, 1.0)
        else:
            laws = [survival_of(noise, (cells,), (1,)) for cells in n_cells]
            low_end = _least_share((hits, misses), (laws[0], laws[1]), level)
            high_end = 1.0 - _least_share((misses, hits), (laws[1], laws[0]), level)
    if low_end > high_end:  # noise made the counts impossible
        low_end, high_end = 0.0, 1.0
    if math.isnan(estimate):
        return Interval(estimate, low_end, high_end, confidence)
    return Interval(estimate, min(low_end, estimate), max(high_end, estimate), confidence)


def _least_share(counts: tuple[int, int], laws: tuple[Survival, Survival], level: float) -> float:
    """Return the least share of hits that is not rejected.

    Odds are rejected where noise leaves P(H − N₁ ≤ odds · max(M − N₂, 0)) at most the level.
    """
    numbers = np.arange(-laws[1].radius, laws[1].radius + 1)
    masses = laws[1](numbers) - laws[1](numbers + 1)
    misses = np.maximum(counts[1] - numbers, 0)

    def is_kept(odds: float) -> bool:
        needed = np.ceil(np.maximum(counts[0] - odds * misses, -1e15)).astype(np.int64)
        return bool(masses @ laws[0](needed) > level)

    if is_kept(0.0):
        return 0.0
    low, high = -_LOG_ODDS, _LOG_ODDS
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_kept(math.exp(middle)) else (middle, high)
    return 1.0 / (1.0 + math.exp(-low))
