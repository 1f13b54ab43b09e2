"""A rate whose denominator is known."""

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
    """Return the rates θ with ((1−θ) hits − θ misses)² at most z² times its variance.

    That is Pθ(1−θ) + (1−θ)² v₁ + θ² v₂ with P = hits + misses. Counts below 0 are put to 0 first,
    so the set holds their rate. It is a quadratic inequality in θ; where that bounds nothing, all
    rates are returned.
    """
    hits, misses = max(hits, 0.0), max(misses, 0.0)
    total = hits + misses
    square = float(ndtri(0.5 * (1.0 + confidence))) ** 2
    first, second = variances
    quadratic = total * total + square * (total - first - second)
    linear = hits * total + square * (0.5 * total - first)
    constant = hits * hits - square * first
    discriminant = linear * linear - quadratic * constant
    if quadratic <= 0.0 or discriminant < 0.0:
        return 0.0, 1.0
    root = math.sqrt(discriminant)
    low, high = (linear - root) / quadratic, (linear + root) / quadratic
    return min(max(low, 0.0), 1.0), max(min(high, 1.0), 0.0)


def wilson(
    successes: float, total: float, variance: float, confidence: float
) -> tuple[float, float]:
    """Return the rates θ with (successes − θ total)² at most z² (total θ(1−θ) + variance)."""
    successes = min(max(successes, 0.0), total)
    square = float(ndtri(0.5 * (1.0 + confidence))) ** 2
    quadratic = total * (total + square)
    linear = total * (successes + 0.5 * square)
    constant = successes * successes - square * variance
    root = math.sqrt(max(linear * linear - quadratic * constant, 0.0))
    return max((linear - root) / quadratic, 0.0), min((linear + root) / quadratic, 1.0)


# Tail probabilities of a binomial count with whole-number noise.

# Rates and tails whose log odds and probits are finite; hardly any probability differs there.
_LOWEST, _HIGHEST = 1e-300, 1.0 - 1e-16

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
    noise: IntegerNoise, n_cells: tuple[int, ...], weights: tuple[int, ...]
) -> Survival:
    """Return the survival function of weighted sums of noises."""
    terms = [(n, weight) for n, weight in zip(n_cells, weights, strict=True) if weight]
    return Survival(noise.law(*zip(*terms, strict=True))[1])


class Piece:
    """P(factor · Bin(total, rate) + N ≥ threshold) for several totals, at rates in a range.

    It is the sum over the successes x beside which noise of the law is just enough, and the
    probability of more successes. Left out are those that by Bernstein's inequality have less than
    2 exp(−30) at every rate of the range. Only powers of the odds depend on the rate, so that all
    else is computed once.
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
        nearest = min(max(0.5, left), right)
        reach = math.ceil(10.0 + math.sqrt(100.0 + 60.0 * totals.max() * nearest * (1.0 - nearest)))
        first = np.maximum((thresholds - survival.radius) // factor, totals * left // 1 - reach)
        last = np.minimum((thresholds + survival.radius) // factor + 1, totals * right + reach)
        self._first = np.clip(first, 0, totals).astype(np.int64)
        n_terms = int(np.clip((last - self._first).max() + 2, 1, totals.max() + 1))
        self._steps = np.arange(n_terms, dtype=np.float64)
        x = self._first[:, None] + np.arange(n_terms)
        self._last = np.minimum(x[:, -1], totals)
        self._noisy = survival(thresholds[:, None] - factor * x)
        # binomial coefficients; beyond a total gammaln is infinite
        self._logs = gammaln(totals + 1.0)[:, None] - _log_factorials(x)
        self._logs -= _log_factorials(totals[:, None] - x)

    def tail(self, rate: float, which: slice = slice(None)) -> FloatArray:
        """Return the probability for each of the totals."""
        rate = min(max(rate, _LOWEST), _HIGHEST)
        log_rest, totals = math.log1p(-rate), self._totals[which]
        log_odds = math.log(rate) - log_rest
        start = self._first[which] * log_odds + totals * log_rest
        masses = self._logs[which] + self._steps * log_odds
        masses += start[:, None]
        np.exp(masses, out=masses)
        near = np.einsum("ij,ij->i", masses, self._noisy[which])
        return np.asarray(near + bdtrc(self._last[which], totals, rate))


def _log_factorials(numbers: Counts) -> FloatArray:
    """Return log n!, each computed once, infinite below 0."""
    least = int(numbers.min())
    of_range = gammaln(np.arange(least, int(numbers.max()) + 1) + 1.0)
    return np.asarray(of_range.take(numbers - least))


# Confidence limits by inverting tests about a noisy binomial count.

# Limits are found to so much in the angle arcsin √rate, where a probit is nearly a line.
_ANGLE_TOLERANCE = 1e-12
# A total need not be solved for if its tail is above the level by no more than this part.
_LEVEL_TOLERANCE = 1e-7


def piece_of_both(
    counts: tuple[int, int],
    totals: Counts,
    noise: IntegerNoise,
    n_cells: tuple[int, int],
    weight: tuple[int, int],
    ends: tuple[float, float],
) -> Piece:
    """Return the piece of a rate between two ends, by hits and misses that both were counted.

    With the weight w, a fraction, the statistic (1−w) hits − w misses is, times its denominator d,
    dX − dwP + N where X of P are true hits: of an error in P little is left near the rate w.
    """
    shared = math.gcd(*weight)
    lost, factor = weight[0] // shared, weight[1] // shared
    survival = survival_of(noise, n_cells, (factor - lost, lost))
    observed = (factor - lost) * counts[0] - lost * counts[1]
    return Piece(totals, observed + lost * totals, factor, survival, *ends)


def least_rate(piece: Piece, level: float) -> float | None:
    """Return the least rate of a piece that some total does not reject, None if there is none.

    A total rejects a rate where P(statistic ≥ observed) is at most the level. That rises with the
    rate within a piece, so what is not rejected is all that lies above the limit.
    """
    limit, tails = piece.right, piece.tail(piece.right)
    worst, solved = int(tails.argmax()), set[int]()
    if tails[worst] <= level:
        return None
    while worst not in solved and tails[worst] > level * (1.0 + _LEVEL_TOLERANCE):
        limit = _crossing(piece, worst, level, limit)
        solved.add(worst)
        tails = piece.tail(limit)
        worst = int(tails.argmax())
    return limit


def _crossing(piece: Piece, place: int, level: float, above: float) -> float:
    """Return where the tail for one total crosses the level, the piece's left end if nowhere."""

    def excess(angle: float) -> float:
        (tail,) = piece.tail(math.sin(angle) ** 2, slice(place, place + 1))
        return float(ndtri(min(max(tail, _LOWEST), _HIGHEST)) - ndtri(level))

    low, high = (math.asin(math.sqrt(rate)) for rate in (piece.left, above))
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
        The limits. With a chance of at most (1 − confidence)/2 each the truth is below the low or
        above the high one.
    confidence : float
        Least probability of an interval that holds the truth.
    """

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """Distance of the limits."""
        return self.high - self.low


def interval_about(
    estimate: float,
    limits: tuple[float | None, float | None],
    closed: tuple[float, float],
    confidence: float,
) -> Interval:
    """Return the interval of least rates of successes and of failures, of which none may be left.

    Where noise made counts impossible the closed one is returned. A NaN moves no limit.
    """
    low, failing = limits
    if low is None or failing is None or low > 1.0 - failing:
        low, high = closed
    else:
        high = 1.0 - failing
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
        How many failed, with noise of its own. It says the same again, so that of the noise's
        variance half is left.
    noise : IntegerNoise, optional
        The law of the noise on every released count; by default there is none.
    n_cells : int or tuple of int, default=1
        How many released counts were summed into `successes`, and with `failures` into these.
    confidence : float, default=0.95
        Least probability of an interval that holds the rate.

    Returns
    -------
    Interval
        The rate, between 0 and 1, and its limits. Of nobody it is NaN between 0 and 1.

    See Also
    --------
    ratio_interval : The total is not known either.

    Notes
    -----
    Limits are the rates at which the tails of binomial law and noise are half the error. A count
    for which no rate is between the limits is answered with Wilson's interval for the nearest
    possible count, with the noise's variance added (``docs/theory/intervals.md``).

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
        low, failing = (
            float(betaincinv(count, total - count + 1.0, level)) if count else 0.0
            for count in (successes, total - successes)
        )
        return Interval(successes / total, low, 1.0 - failing, confidence)
    cells = n_cells if isinstance(n_cells, tuple) else (n_cells, n_cells)
    totals = np.array([total])
    if failures is None:
        count, n_noisy = float(successes), float(cells[0])
        survival = survival_of(noise, cells[:1], (1,))
        pieces = [
            Piece(totals, np.array([one]), 1, survival) for one in (successes, total - successes)
        ]
    else:
        counts = successes, whole_number(failures, "failures", least=-math.inf)
        # half of each count's noise, so a quarter of the variance
        count, n_noisy = 0.5 * (successes + total - counts[1]), 0.25 * sum(cells)
        pieces = [
            piece_of_both(pair, totals, noise, n_cells_of_pair, (1, 2), (0.0, 1.0))
            for pair, n_cells_of_pair in ((counts, cells), (counts[::-1], cells[::-1]))
        ]
    closed = wilson(count, total, n_noisy * noise.std**2, confidence)
    limits = least_rate(pieces[0], level), least_rate(pieces[1], level)
    return interval_about(min(max(count / total, 0.0), 1.0), limits, closed, confidence)


# Rates of the very records, which are everybody: noise alone makes them uncertain.

# Odds between limits of a float's logarithm, halved so often that 1e-13 of it is left.
_LOG_ODDS = 60.0
_N_HALVINGS = 50


def census_interval(
    counts: tuple[int, int],
    total: int | None,
    noise: IntegerNoise | None,
    n_cells: tuple[int, int],
    confidence: float,
) -> Interval:
    """Return the fraction of hits among records that are everybody, exact by the law of the noise.

    ``counts`` are hits and misses, and the ``total`` is known or not.
    """
    hits, misses = counts
    level, kept = 0.5 * (1.0 - confidence), max(hits, 0) + max(misses, 0)
    kept = 0 if total == 0 else kept
    estimate = max(hits, 0) / kept if kept else math.nan
    low, high = 0.0, 1.0
    if noise is None:
        low, high = (estimate, estimate) if kept else (low, high)
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
    """Return the least fraction of hits that is not rejected.

    Odds are rejected where noise leaves P(H − N₁ ≤ odds · max(M − N₂, 0)) at most the level.
    """
    numbers = np.arange(-laws[1].radius, laws[1].radius + 1)
    masses = laws[1](numbers) - laws[1](numbers + 1)
    misses = np.maximum(counts[1] - numbers, 0)

    def is_kept(odds: float) -> bool:
        needed = np.ceil(np.maximum(counts[0] - odds * misses, -1e15)).astype(np.int64)
        return bool(masses @ laws[0](needed) > level)

    low, high = -_LOG_ODDS, _LOG_ODDS
    if is_kept(0.0):
        return 0.0
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_kept(math.exp(middle)) else (middle, high)
    return 1.0 / (1.0 + math.exp(-low))
