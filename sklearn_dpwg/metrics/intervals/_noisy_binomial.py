"""Tail probabilities of a binomial count with whole-number noise."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln, xlog1py, xlogy

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import IntegerNoise

# exp of its logarithm leaves nothing of a probability.
_NEXT_TO_NOTHING = 1e-250

Counts = NDArray[np.int64]


class Survival:
    """P(N ≥ k) of a symmetric noise N on the whole numbers, for every k."""

    def __init__(self, probabilities: FloatArray) -> None:
        self.radius = len(probabilities) // 2
        tail = np.cumsum(probabilities[::-1])[::-1]
        # 1 below the law's numbers, 0 above
        self._table = np.concatenate([[1.0], np.minimum(tail, 1.0), [0.0]])

    def __call__(self, numbers: Counts) -> FloatArray:
        return self._table.take(numbers + (self.radius + 1), mode="clip")

    def two_sided_radius(self, probability: float) -> int:
        """Return the smallest r with P(abs(N) > r) at most some probability."""
        beyond = 2.0 * self._table[self.radius + 2 :]
        return int(np.argmax(beyond <= probability))


@lru_cache(maxsize=256)
def survival_of(
    noise: IntegerNoise | None, n_cells: tuple[int, ...], weights: tuple[int, ...]
) -> Survival:
    """Return the survival function of weighted sums of noises; without noise it is a step."""
    terms = [(n, weight) for n, weight in zip(n_cells, weights, strict=True) if weight]
    if noise is None or not terms:
        return Survival(np.ones(1))
    return Survival(noise.law(*zip(*terms, strict=True))[1])


def upper_tail(
    rate: float, totals: Counts, thresholds: Counts, factor: int, survival: Survival
) -> FloatArray:
    """Return P(factor · Bin(total, rate) + N ≥ threshold) for pairs of total and threshold.

    The sum is over the successes x for which neither x nor the noise that is needed beside it has
    a probability below 1e-13: those near the mean, or those near the threshold, whichever are
    fewer. By Bernstein's inequality the first leave out less than 2 exp(−30).
    """
    if rate <= 0.0 or rate >= 1.0:
        return survival(thresholds - factor * totals * int(rate >= 1.0))
    variance = float(totals.max()) * rate * (1.0 - rate)
    reach = math.ceil(10.0 + math.sqrt(100.0 + 60.0 * variance))
    n_near_threshold = 2 * survival.radius // factor + 2
    if 2 * reach + 1 <= n_near_threshold:
        first = np.maximum(np.floor(totals * rate).astype(np.int64) - reach, 0)
        n_terms = min(2 * reach + 2, int(totals.max()) + 1)
        x, steps = _log_steps(rate, totals, first, n_terms)
        steps -= steps.max(axis=1, keepdims=True)
        masses = np.exp(steps, out=steps)
        noisy = survival(thresholds[:, None] - factor * x)
        return np.einsum("ij,ij->i", masses, noisy) / masses.sum(axis=1)
    first = np.clip((thresholds - survival.radius) // factor, 0, totals)
    x, steps = _log_steps(rate, totals, first, min(n_near_threshold, int(totals.max()) + 1))
    start = (
        gammaln(totals + 1.0)
        - gammaln(first + 1.0)
        - gammaln(totals - first + 1.0)
        + xlogy(first, rate)
        + xlog1py(totals - first, -rate)
    )
    masses = np.exp(steps + start[:, None])
    noisy = survival(thresholds[:, None] - factor * x)
    return np.einsum("ij,ij->i", masses, noisy) + _above(rate, totals, x[:, -1])


def _log_steps(
    rate: float, totals: Counts, first: Counts, n_terms: int
) -> tuple[Counts, FloatArray]:
    """Return successive counts from the first on, and their log probabilities relative to it."""
    x = first[:, None] + np.arange(n_terms)
    steps = np.zeros(x.shape)
    # beyond the total the ratio is 0 and so is every probability: here as good as 0
    ratios = np.maximum(totals[:, None] - x[:, :-1], _NEXT_TO_NOTHING)
    ratios = ratios * (rate / (1.0 - rate)) / x[:, 1:]
    np.log(ratios, out=ratios)
    np.cumsum(ratios, axis=1, out=steps[:, 1:])
    return x, steps


def _above(rate: float, totals: Counts, last: Counts) -> FloatArray:
    """Return P(Bin(total, rate) > last)."""
    inside = last < totals
    above = np.zeros(len(totals))
    above[inside] = betainc(last[inside] + 1.0, (totals - last)[inside], rate)
    return above
