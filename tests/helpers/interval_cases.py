"""Exact coverage of intervals from counts with noise, as sums over all counts that occur."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy import stats

from sklearn_dpwg.metrics.intervals import Interval
from sklearn_dpwg.privacy import IntegerNoise

ROUNDING = 1e-6  # in probability; limits are found to less


def law_of_count(n: int, rate: float, noise: IntegerNoise, cells: int) -> dict[int, float]:
    """Return the law of a binomial count with noise, by adding up every way to get a number."""
    support, probabilities = noise.law(cells)
    counts = stats.binom.pmf(np.arange(n + 1), n, rate)
    law = np.convolve(counts, probabilities)
    return dict(zip(range(int(support[0]), int(support[-1]) + n + 1), law.tolist(), strict=True))


def tails(chances: Iterable[tuple[Interval, float]], rate: float) -> tuple[float, float]:
    """Return the probabilities of the truth below an interval and above it."""
    below = above = 0.0
    for interval, chance in chances:
        below += chance * (rate < interval.low)
        above += chance * (rate > interval.high)
    return below, above


def coverage_faults(
    table: dict[tuple[int, ...], Interval],
    law_at: Callable[[float], dict[tuple[int, ...], float]],
    rates: Iterable[float],
    confidence: float = 0.95,
    most_unseen: float = ROUNDING,
) -> list[str]:
    """Return what is wrong with the intervals of all counts: empty if each side errs rarely."""
    allowed = 0.5 * (1.0 - confidence) + ROUNDING
    result = []
    for rate in rates:
        law = law_at(rate)
        chances = [(table[counts], chance) for counts, chance in law.items() if counts in table]
        unseen = 1.0 - sum(chance for _, chance in chances)
        below, above = tails(chances, rate)
        if unseen > most_unseen:
            result.append(f"counts of probability {unseen:.1e} have no interval")
        if below > allowed:
            result.append(f"{rate:.3f} is below with probability {below:.4f}")
        if above > allowed:
            result.append(f"{rate:.3f} is above with probability {above:.4f}")
    return result
