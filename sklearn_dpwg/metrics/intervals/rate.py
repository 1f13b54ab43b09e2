"""Confidence intervals of a rate whose denominator is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import bdtrc, betaincinv, gammaln, ndtri

from sklearn_dpwg._checks import FloatArray, open_unit, whole_number
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import IntegerNoise

# Wilson's interval with noise, and Fieller's for a ratio: the closed forms.


def fieller_wilson(
    hits: float, misses: float, variances: tuple[float, float], confidence: float
) -> tuple[float, float]:
    """Return limits of the rates θ with ((1−θ) hits − θ misses)² ≤ z² Var, a quadratic in θ.

    Var = Pθ(1−θ) + (1−θ)² v₁ + θ² v₂ with P = hits + misses; ``variances`` v₁, v₂ are those of the
    noise. Counts below 0 are set to 0, so that the limits enclose their rate. If the inequality
    gives no limits, they are 0 and 1.
    """
    hits, misses = max(hits, 0.0), max(misses, 0.0)
    total = hits + misses
    square = float(ndtri(0.5 * (1.0 + confidence))) ** 2
    hit_variance, miss_variance = variances
    # quadratic · θ² − 2 · linear · θ + constant ≤ 0
    quadratic = total * total + square * (total - hit_variance - miss_variance)
    linear = hits * total + square * (0.5 * total - hit_variance)
    constant = hits * hits - square * hit_variance
    discriminant = linear * linear - quadratic * constant
    if quadratic <= 0.0 or discriminant < 0.0:
        return 0.0, 1.0
    root = math.sqrt(discriminant)
    low, high = (linear - root) / quadratic, (linear + root) / quadratic
    return min(max(low, 0.0), 1.0), max(min(high, 1.0), 0.0)


def wilson(
    successes: float, total: float, variance: float, confidence: float
) -> tuple[float, float]:
    """Return limits of the rates θ with (successes − θ total)² ≤ z² (total θ(1−θ) + variance)."""
    successes = min(max(successes, 0.0), total)
    square = float(ndtri(0.5 * (1.0 + confidence))) ** 2
    quadratic = total * (total + square)
    linear = total * (successes + 0.5 * square)
    constant = successes * successes - square * variance
    root = math.sqrt(max(linear * linear - quadratic * constant, 0.0))
    return max((linear - root) / quadratic, 0.0), min((linear + root) / quadratic, 1.0)


# Tail probabilities of a binomial count with whole-number noise.

# Rates and tails are clipped to these, so that log odds and probits are finite.
_LOWEST, _HIGHEST = 1e-300, 1.0 - 1e-16

Counts = NDArray[np.int64]


class Survival:
    """P(N ≥ k) of a symmetric noise N on the whole numbers, called with an array of numbers k."""

    def __init__(self, probabilities: FloatArray) -> None:
        self.radius = len(probabilities) // 2
        tail = np.cumsum(probabilities[::-1])[::-1]
        # probability 1 below −radius, 0 above radius
        self._table = np.concatenate([[1.0], np.minimum(tail, 1.0), [0.0]])

    def __call__(self, numbers: Counts) -> FloatArray:
        return self._table.take(numbers + (self.radius + 1), mode="clip")

    def two_sided_radius(self, probability: float) -> int:
        """Return the smallest whole r with P(|N| > r) at most the probability."""
        beyond = 2.0 * self._table[self.radius + 2 :]
        return int(np.argmax(beyond <= probability))


@lru_cache(maxsize=256)
def survival_of(
    noise: IntegerNoise, n_cells: tuple[int, ...], weights: tuple[int, ...]
) -> Survival:
    """Return the survival function of Σ weight · (sum of n independent noises), n in n_cells."""
    terms = [(n, weight) for n, weight in zip(n_cells, weights, strict=True) if weight]
    return Survival(noise.law(*zip(*terms, strict=True))[1])


class Piece:
    """P(factor · X + N ≥ threshold) with X ~ Bin(total, rate), for rates between left and right.

    There is one threshold for each of the totals. The probability is a sum over the successes x
    for which noise decides, plus P(X > those x). Successes are left out that by Bernstein's
    inequality have probability below 2 exp(−30) at every rate of the range. Only powers of the odds
    depend on the rate; the other factors are computed once.
    """

    def __init__(
        self,
        totals: Counts,
        thresholds: Counts,
        factor: int,
        survival: Survival,
        left: float = 0.0,
        right: float = 1.0,
    ) -> None:
        self.left, self.right = left, right
        self._totals = totals
        # the rate of the largest variance, and Bernstein's bound for exp(−30)
        rate = min(max(0.5, left), right)
        reach = math.ceil(10.0 + math.sqrt(100.0 + 60.0 * totals.max() * rate * (1.0 - rate)))
        first = np.maximum((thresholds - survival.radius) // factor, totals * left // 1 - reach)
        last = np.minimum((thresholds + survival.radius) // factor + 1, totals * right + reach)
        self._first = np.clip(first, 0, totals).astype(np.int64)
        n_terms = int(np.clip((last - self._first).max() + 2, 1, totals.max() + 1))
        self._steps = np.arange(n_terms, dtype=np.float64)
        x = self._first[:, None] + np.arange(n_terms)
        self._last = np.minimum(x[:, -1], totals)
        self._noisy = survival(thresholds[:, None] - factor * x)
        # logs of binomial coefficients; −infinity if x is beyond the total
        self._log_coefficients = gammaln(totals + 1.0)[:, None] - _log_factorials(x)
        self._log_coefficients -= _log_factorials(totals[:, None] - x)

    def tail(self, rate: float, which: slice = slice(None)) -> FloatArray:
        """Return the probability at a rate, for each of the totals that a slice selects."""
        rate = min(max(rate, _LOWEST), _HIGHEST)
        log_rest, totals = math.log1p(-rate), self._totals[which]
        log_odds = math.log(rate) - log_rest
        start = self._first[which] * log_odds + totals * log_rest
        masses = self._log_coefficients[which] + self._steps * log_odds
        masses += start[:, None]
        np.exp(masses, out=masses)
        decided_by_noise = np.einsum("ij,ij->i", masses, self._noisy[which])
        return np.asarray(decided_by_noise + bdtrc(self._last[which], totals, rate))


def _log_factorials(numbers: Counts) -> FloatArray:
    """Return log n! of an array of n, infinite below 0; each different n is computed once."""
    least = int(numbers.min())
    table = gammaln(np.arange(least, int(numbers.max()) + 1) + 1.0)
    return np.asarray(table.take(numbers - least))


# Confidence limits by inverting tests about a noisy binomial count.

# Accuracy of a limit as an angle, arcsin √rate, in which probits of tails are nearly linear.
_ANGLE_TOLERANCE = 1e-12
# A limit is final if no tail exceeds the level by more than this fraction of the level.
_LEVEL_TOLERANCE = 1e-7


def piece_of_both(
    counts: tuple[int, int],
    totals: Counts,
    noise: IntegerNoise,
    n_cells: tuple[int, int],
    weight: tuple[int, int],
    ends: tuple[float, float],
) -> Piece:
    """Return the tails of a statistic of noisy hits and misses, at rates between two ends.

    The statistic is (1−w) hits − w misses with w = weight[0] / weight[1]. Times the denominator d
    of w it is dX − dwP + N, with X true hits of P records: near the rate w an error in P hardly
    matters. ``totals`` are possible values of P.
    """
    shared = math.gcd(*weight)
    numerator, denominator = weight[0] // shared, weight[1] // shared
    survival = survival_of(noise, n_cells, weights=(denominator - numerator, numerator))
    observed = (denominator - numerator) * counts[0] - numerator * counts[1]
    thresholds = observed + numerator * totals
    return Piece(
        totals, thresholds, factor=denominator, survival=survival, left=ends[0], right=ends[1]
    )


def least_rate(piece: Piece, level: float) -> float | None:
    """Return the least rate of a piece that some total does not reject, None if there is none.

    A total rejects a rate if P(statistic ≥ observed) is at most the level. This tail increases with
    the rate within a piece, so all rates above the limit are kept.
    """
    limit, tails = piece.right, piece.tail(piece.right)
    largest, solved = int(tails.argmax()), set[int]()
    if tails[largest] <= level:
        return None
    while largest not in solved and tails[largest] > level * (1.0 + _LEVEL_TOLERANCE):
        limit = _crossing(piece, largest, level, right=limit)
        solved.add(largest)
        tails = piece.tail(limit)
        largest = int(tails.argmax())
    return limit


def _crossing(piece: Piece, place: int, level: float, right: float) -> float:
    """Return the rate where the tail of the total at a place crosses the level, or the left end."""

    def excess(angle: float) -> float:
        (tail,) = piece.tail(math.sin(angle) ** 2, slice(place, place + 1))
        return float(ndtri(min(max(tail, _LOWEST), _HIGHEST)) - ndtri(level))

    low, high = (math.asin(math.sqrt(rate)) for rate in (piece.left, right))
    if excess(low) > 0.0:
        return piece.left
    return math.sin(brentq(excess, low, high, xtol=_ANGLE_TOLERANCE)) ** 2


# Estimates with their limits.


@dataclass(frozen=True)
class Interval:
    """An estimate between the limits of a confidence interval.

    Parameters
    ----------
    estimate : float
        The estimate; NaN where there is nobody to estimate from.
    low, high : float
        The limits. The probability that the true value is below the low limit is at most
        (1 − confidence)/2, and so is that of a true value above the high limit.
    confidence : float
        Least probability that the interval holds the true value.
    """

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """Distance between the limits."""
        return self.high - self.low


def interval_about(
    estimate: float,
    limits: tuple[float | None, float | None],
    closed: tuple[float, float],
    confidence: float,
) -> Interval:
    """Return the interval with the given least rates of successes and of failures.

    A least rate is None if the test rejects all rates. Then, or if the limits cross, noise made the
    counts impossible, and the limits of the closed form are used. A NaN moves no limit.
    """
    low, least_failure_rate = limits
    if low is None or least_failure_rate is None or low > 1.0 - least_failure_rate:
        low, high = closed
    else:
        high = 1.0 - least_failure_rate
    return Interval(estimate, min(low, estimate), max(high, estimate), confidence)


def rate_interval(
    successes: int,
    total: int,
    *,
    failures: int | None = None,
    noise: IntegerNoise | None = None,
    n_cells: int | tuple[int, int] = 1,
    confidence: float = 0.95,
) -> Interval:
    """Return Clopper and Pearson's interval for a rate, for a count with or without noise.

    Parameters
    ----------
    successes : int
        How many of the records succeeded, with noise if there is any: it may be below 0 and above
        the total.
    total : int
        How many records there are, known exactly.
    failures : int, optional
        How many failed, with noise of its own. This second measurement halves the variance of the
        noise.
    noise : IntegerNoise, optional
        The law of the noise on every released count; by default there is none.
    n_cells : int or tuple of int, default=1
        How many released counts were summed into `successes`, or into successes and failures.
    confidence : float, default=0.95
        Least probability that the interval holds the rate.

    Returns
    -------
    Interval
        The rate, between 0 and 1, and its limits. If the total is 0, NaN between 0 and 1.

    See Also
    --------
    ratio_interval : The total is not known either.

    Notes
    -----
    At each limit the tail of binomial law and noise is (1 − confidence)/2. If no rate is between
    the limits, Wilson's interval for the nearest possible count is used, with the noise's variance
    added (``docs/theory/intervals.md``).

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import rate_interval
    >>> from sklearn_dpwg.privacy import IntegerNoise
    >>> ordinary = rate_interval(30, 100)
    >>> print(f"{ordinary.estimate:.2f} [{ordinary.low:.3f}, {ordinary.high:.3f}]")
    0.30 [0.212, 0.400]
    >>> private = rate_interval(30, 100, noise=IntegerNoise("laplace", scale=2.0))
    >>> print(f"{private.estimate:.2f} [{private.low:.3f}, {private.high:.3f}]")
    0.30 [0.197, 0.416]
    """
    successes = whole_number(successes, "successes", least=-math.inf)
    total = whole_number(total, "total", least=0)
    level = 0.5 * (1.0 - open_unit(confidence, "confidence"))
    if noise is None and not 0 <= successes <= total:
        raise InputError(
            f"successes must be between 0 and total = {total} where there is no noise, "
            f"got {successes}."
        )
    if total == 0:
        return Interval(math.nan, 0.0, 1.0, confidence)
    if noise is None:
        low, least_failure_rate = (
            float(betaincinv(count, total - count + 1.0, level)) if count else 0.0
            for count in (successes, total - successes)
        )
        return Interval(successes / total, low, 1.0 - least_failure_rate, confidence)
    cells = n_cells if isinstance(n_cells, tuple) else (n_cells, n_cells)
    totals = np.array([total])
    if failures is None:
        estimate, n_noisy = float(successes), float(cells[0])
        survival = survival_of(noise, cells[:1], weights=(1,))
        pieces = [
            Piece(totals, np.array([count]), factor=1, survival=survival)
            for count in (successes, total - successes)
        ]
    else:
        counts = successes, whole_number(failures, "failures", least=-math.inf)
        # half of each count's noise, so a quarter of the variance
        estimate, n_noisy = 0.5 * (successes + total - counts[1]), 0.25 * sum(cells)
        pieces = [
            piece_of_both(pair, totals, noise, n_cells_of_pair, weight=(1, 2), ends=(0.0, 1.0))
            for pair, n_cells_of_pair in ((counts, cells), (counts[::-1], cells[::-1]))
        ]
    closed = wilson(estimate, total, n_noisy * noise.std**2, confidence)
    limits = least_rate(pieces[0], level), least_rate(pieces[1], level)
    return interval_about(min(max(estimate / total, 0.0), 1.0), limits, closed, confidence)


# Rates of records that are everybody: noise alone makes them uncertain.

# Log odds are searched between ± this, and halved so often that 1e-13 of the range is left.
_LOG_ODDS = 60.0
_N_HALVINGS = 50


def census_interval(
    counts: tuple[int, int],
    total: int | None,
    noise: IntegerNoise | None,
    n_cells: tuple[int, int],
    confidence: float,
) -> Interval:
    """Return the interval of the fraction of hits if the records are everybody: noise alone counts.

    ``counts`` are hits and misses; ``total`` is their exact sum, None if it is not public.
    """
    hits, misses = counts
    level, n_counted = 0.5 * (1.0 - confidence), max(hits, 0) + max(misses, 0)
    n_counted = 0 if total == 0 else n_counted
    estimate = max(hits, 0) / n_counted if n_counted else math.nan
    low, high = 0.0, 1.0
    if noise is None:
        low, high = (estimate, estimate) if n_counted else (low, high)
    elif total:
        # hits − misses + total is twice the true hits, with the noise of both
        twice = hits - misses + total
        radius = survival_of(noise, n_cells, (1, 1)).two_sided_radius(2.0 * level)
        low = max(math.ceil(0.5 * (twice - radius)), 0) / total
        high = min(math.floor(0.5 * (twice + radius)), total) / total
        estimate = min(max(0.5 * twice / total, 0.0), 1.0)
    elif total is None:
        laws = [survival_of(noise, (cells,), (1,)) for cells in n_cells]
        low = _least_fraction(counts, (laws[0], laws[1]), level)
        high = 1.0 - _least_fraction(counts[::-1], (laws[1], laws[0]), level)
    low, high = (low, high) if low <= high else (0.0, 1.0)  # noise made the counts impossible
    return Interval(estimate, min(low, estimate), max(high, estimate), confidence)


def _least_fraction(
    counts: tuple[int, int], laws: tuple[Survival, Survival], level: float
) -> float:
    """Return the least fraction of hits that is not rejected, by hits H and misses M in counts.

    Odds are rejected if P(H − N₁ ≤ odds · max(M − N₂, 0)) is at most the level, for noises N₁, N₂
    with the given laws.
    """
    numbers = np.arange(-laws[1].radius, laws[1].radius + 1)
    masses = laws[1](numbers) - laws[1](numbers + 1)
    misses = np.maximum(counts[1] - numbers, 0)

    def is_kept(odds: float) -> bool:
        # smallest N₁ for each N₂; the clip keeps whole numbers in range
        needed = np.ceil(np.maximum(counts[0] - odds * misses, -1e15)).astype(np.int64)
        return bool(masses @ laws[0](needed) > level)

    low, high = -_LOG_ODDS, _LOG_ODDS
    if is_kept(0.0):
        return 0.0
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_kept(math.exp(middle)) else (middle, high)
    return 1.0 / (1.0 + math.exp(-low))
