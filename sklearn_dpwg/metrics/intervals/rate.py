"""A rate whose denominator is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln, ndtri, xlog1py, xlogy

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


# Confidence limits by inverting tests about a noisy binomial count.

# Limits are found to so much in the angle arcsin √rate, where a probit is nearly a line, or to so
# much in that probit: in a tail of 2.5 % a part of 10⁹.
_ANGLE_TOLERANCE = 1e-10
_PROBIT_TOLERANCE = 4e-10
# Probabilities at the ends of what a float holds, so that a probit stays finite.
_LEAST_TAIL, _MOST_TAIL = 1e-300, 1.0 - 1e-16
# A total need not be solved for if its tail is above the level by no more than this part.
_LEVEL_TOLERANCE = 1e-7

Tail = Callable[[float, Counts], FloatArray]


@dataclass(frozen=True)
class Piece:
    """Rates from left to right, and P(statistic ≥ observed) there for given totals."""

    left: float
    right: float
    tail: Tail


def known_total_piece(
    successes: int, total: int, noise: IntegerNoise | None, n_cells: int
) -> tuple[Piece, Counts]:
    """Return the one piece of a rate whose total is known: the statistic is the noisy count."""
    survival = survival_of(noise, (n_cells,), (1,))
    observed = np.array([successes])
    return (
        Piece(0.0, 1.0, lambda rate, totals: upper_tail(rate, totals, observed, 1, survival)),
        np.array([total]),
    )


def unknown_total_piece(
    hits: int,
    misses: int,
    noise: IntegerNoise | None,
    n_cells: tuple[int, int],
    place: int,
    n_places: int,
) -> Piece:
    """Return the piece where a rate is rounded to w = place / n_places.

    The statistic (1−w) hits − w misses is, times n_places, n_places X − place P + N where X of P
    are true hits: of an error in P little is left, as it is weighted by rate − w.
    """
    shared = math.gcd(place, n_places)
    factor, weight = n_places // shared, place // shared
    survival = survival_of(noise, n_cells, (factor - weight, weight))
    observed = (factor - weight) * hits - weight * misses

    def tail(rate: float, totals: Counts) -> FloatArray:
        return upper_tail(rate, totals, observed + weight * totals, factor, survival)

    left, right = (place - 0.5) / n_places, (place + 0.5) / n_places
    return Piece(max(left, 0.0), min(right, 1.0), tail)


def least_rate(piece: Piece, totals: Counts, level: float, guess: float) -> float | None:
    """Return the least rate of a piece that some total does not reject, None if there is none.

    A total rejects a rate where P(statistic ≥ observed) is at most the level. That rises with the
    rate within a piece, so what is not rejected is all that lies above the limit.
    """
    tails = piece.tail(piece.right, totals)
    worst = int(tails.argmax())
    if tails[worst] <= level:
        return None
    limit, solved = piece.right, set[int]()
    while worst not in solved:
        total = totals[worst : worst + 1]
        limit = _crossing(piece, total, level, (limit, float(tails[worst])), min(guess, limit))
        solved.add(worst)
        guess = limit
        tails = piece.tail(limit, totals)
        worst = int(tails.argmax())
        if tails[worst] <= level * (1.0 + _LEVEL_TOLERANCE):
            break
    return limit


def _crossing(
    piece: Piece, total: Counts, level: float, above: tuple[float, float], guess: float
) -> float:
    """Return where the tail for one total crosses the level, the piece's left end if it does not.

    By secants, as probits of tails are almost lines in the angle, with bisections where a secant
    leaves the bracket; `above` is a rate with its tail, above the level.
    """
    target = float(ndtri(level))

    def excess(tail: float) -> float:
        return float(ndtri(min(max(tail, _LEAST_TAIL), _MOST_TAIL))) - target

    left = low = _angle(piece.left)
    before = high = _angle(above[0])
    excess_before = excess(above[1])
    angle = min(max(_angle(guess), low), 0.999 * high + 0.001 * low)
    while high - low > _ANGLE_TOLERANCE:
        found = excess(float(piece.tail(math.sin(angle) ** 2, total)[0]))
        if found > 0.0 and angle == left:
            return piece.left
        low, high = (low, angle) if found > 0.0 else (angle, high)
        if abs(found) < _PROBIT_TOLERANCE:
            break
        rise = found - excess_before
        step = found * (angle - before) / rise if rise else math.inf
        before, excess_before = angle, found
        angle -= step
        if angle <= left == low and before > left:
            angle = left
        elif not low < angle < high:
            angle = 0.5 * (low + high)
    return math.sin(angle) ** 2


def _angle(rate: float) -> float:
    return math.asin(math.sqrt(rate))


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

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import Interval
    >>> round(Interval(0.5, 0.4, 0.62, confidence=0.95).width, 2)
    0.22
    """

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """Distance of the limits."""
        return self.high - self.low


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
    The limits are the rates θ at which P(Bin(total, θ) + N ≥ successes), or the same with ≤, is
    (1 − confidence)/2, where N is the noise: an exact test at every total, rate and noise. With
    failures the statistic is successes − failures + total, that is 2 Bin(total, θ) + N. Noise that
    leaves no rate between the limits is answered with Wilson's interval for the nearest possible
    count, with the noise's variance added (``docs/theory/intervals.md``).

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
    confidence = open_unit(confidence, "confidence")
    if noise is None and not 0 <= successes <= total:
        raise InputError(
            f"successes must be between 0 and total = {total} where there is no noise, "
            f"got {successes}."
        )
    cells = n_cells if isinstance(n_cells, tuple) else (n_cells, n_cells)
    if failures is None:
        n_noisy, estimate, counts = (
            float(cells[0]),
            float(successes),
            (successes, total - successes),
        )
        found, mirrored = (known_total_piece(one, total, noise, cells[0])[0] for one in counts)
    else:
        counts = successes, whole_number(failures, "failures", least=-math.inf)
        found = _from_both(counts, noise, cells)
        mirrored = _from_both(counts[::-1], noise, cells[::-1])
        # half of each count's noise, so a quarter of the variance
        n_noisy, estimate = 0.25 * sum(cells), 0.5 * (successes + total - counts[1])
    if total == 0:
        return Interval(math.nan, 0.0, 1.0, confidence)
    variance = 0.0 if noise is None else n_noisy * noise.std**2
    return _inverted((found, mirrored), (estimate, total), variance, confidence)


def _from_both(
    counts: tuple[int, int], noise: IntegerNoise | None, n_cells: tuple[int, int]
) -> Piece:
    """Return the one piece of a rate whose successes and failures both were counted."""
    piece = unknown_total_piece(*counts, noise, n_cells, 1, 2)
    return replace(piece, left=0.0, right=1.0)


def _inverted(
    pieces: tuple[Piece, Piece], counts: tuple[float, int], variance: float, confidence: float
) -> Interval:
    """Return the interval of rates that neither tail rejects, or the closed one."""
    count, total = counts
    totals, level = np.array([total]), 0.5 * (1.0 - confidence)
    closed = wilson(count, total, variance, confidence)
    low = least_rate(pieces[0], totals, level, closed[0])
    failing = least_rate(pieces[1], totals, level, 1.0 - closed[1])
    estimate = min(max(count / total, 0.0), 1.0)
    if low is None or failing is None or low > 1.0 - failing:
        low, high = closed
    else:
        high = 1.0 - failing
    return Interval(estimate, min(low, estimate), max(high, estimate), confidence)


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
    """Return the share of hits among records that are everybody, exact by the law of the noise.

    ``counts`` are hits and misses, and the ``total`` is known or not.
    """
    hits, misses = counts
    level, kept = 0.5 * (1.0 - confidence), max(hits, 0) + max(misses, 0)
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
        low = _least_share(counts, (laws[0], laws[1]), level)
        high = 1.0 - _least_share(counts[::-1], (laws[1], laws[0]), level)
    low, high = (low, high) if low <= high else (0.0, 1.0)  # noise made the counts impossible
    if math.isnan(estimate) or total == 0:
        return Interval(math.nan, low, high, confidence)
    return Interval(estimate, min(low, estimate), max(high, estimate), confidence)


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

    low, high = -_LOG_ODDS, _LOG_ODDS
    if is_kept(0.0):
        return 0.0
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_kept(math.exp(middle)) else (middle, high)
    return 1.0 / (1.0 + math.exp(-low))
