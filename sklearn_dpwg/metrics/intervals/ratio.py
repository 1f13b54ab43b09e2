"""A rate whose denominator is not known either."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np

from sklearn_dpwg._checks import FloatArray, open_unit, real_number, whole_number
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.metrics.intervals.rate import (
    Counts,
    Interval,
    fieller_wilson,
    least_rate,
    rate_interval,
    survival_of,
    unknown_total_piece,
)
from sklearn_dpwg.privacy import IntegerNoise

# Pieces of rates that are rejected for certain, by a bound that costs nothing.

# Parts of the exponent that would be best for normal noise; every exponent gives a bound.
_PARTS = np.array([0.25, 0.5, 0.75, 1.0])
# So near to 1/scale an exponent still has a finite moment of Laplace noise.
_LARGEST_EXPONENT = 0.95


def n_surely_rejected(
    observed: tuple[int, int],
    noise: IntegerNoise,
    n_cells: tuple[int, int],
    most: int,
    level: float,
    n_places: int,
) -> int:
    """Return how many of the first pieces have P(statistic ≥ observed) at most the level.

    That is by Chernoff's bound with Hoeffding's for the true hits, for every total up to the most.
    Where w = place / n_places the statistic has a mean of at most total / (2 n_places), and it is
    w misses below the hits.
    """
    hits, misses = observed
    w = np.arange(n_places + 1) / n_places
    distance = (1.0 - w) * hits - w * misses - most / (2.0 * n_places)
    variance = 0.25 * most + noise.std**2 * (n_cells[0] * (1.0 - w) ** 2 + n_cells[1] * w**2)
    exponents = (distance / np.maximum(variance, 1e-300))[:, None] * _PARTS
    if noise.mechanism == "laplace":
        largest = _LARGEST_EXPONENT / (noise.scale * np.maximum(w, 1.0 - w))
        exponents = np.minimum(exponents, largest[:, None])
    exponents = np.maximum(exponents, 0.0)  # a distance below 0 bounds nothing
    bound = (
        exponents**2 * (most / 8.0)
        - exponents * distance[:, None]
        + n_cells[0] * _log_moment(noise, exponents * (1.0 - w)[:, None])
        + n_cells[1] * _log_moment(noise, exponents * w[:, None])
    ).min(axis=1)
    return int(np.argmax(np.append(bound > math.log(level), True)))


def _log_moment(noise: IntegerNoise, exponent: FloatArray) -> FloatArray:
    """Return log E exp(exponent · noise), for Gaussian noise a bound that is as good."""
    if noise.mechanism == "gaussian":
        return 0.5 * (noise.scale * exponent) ** 2
    a = math.exp(-1.0 / noise.scale)
    return 2.0 * math.log1p(-a) - np.log1p(-a * np.exp(exponent)) - np.log1p(-a * np.exp(-exponent))


# Rates are rounded to twentieths where they weigh hits against misses: what is left of an error in
# the total is at most a fortieth of it.
_N_PLACES = 20
# The error probability goes to the set of totals in this part (0.2 % of 5 %), the rest to the test.
_PART_FOR_TOTALS = 0.04
# A set of so many totals is searched whole, as with Laplace noise at ε ≥ 0.4 on four cells: that is
# a proof, and an audit of 40 groups still takes five seconds.
_MOST_TOTALS = 101
# Of a larger one so many are tried: three let p-values be up to 0.016 too small.
_GRID_OF_TOTALS = 41


def ratio_interval(
    hits: int,
    misses: int,
    *,
    noise: IntegerNoise | None = None,
    n_cells: tuple[int, int] = (1, 1),
    confidence: float = 0.95,
) -> Interval:
    """Return an interval for the rate hits/(hits + misses) from two counts that carry noise.

    Parameters
    ----------
    hits, misses : int
        The two counts, with noise if there is any: they may be negative then.
    noise : IntegerNoise, optional
        The law of the noise on every released count; by default there is none, and the interval is
        that of `rate_interval`.
    n_cells : tuple of int, default=(1, 1)
        How many released counts were summed into `hits` and into `misses`.
    confidence : float, default=0.95
        Probability of an interval that holds the rate.

    Returns
    -------
    Interval
        The rate, between 0 and 1, and its limits; NaN where both counts are at most 0.

    See Also
    --------
    rate_interval : The total is known.

    Notes
    -----
    A rate is kept if neither tail of an exact test rejects it for all totals in a set that holds
    the true one with probability 99.8 % (Berger and Boos 1994). A set of more than 101 totals is
    tried on a grid of 41, which proves nothing about those between. Where no rate is left, since
    noise made the counts impossible, the interval is Fieller's with Wilson's variance.
    ``docs/theory/intervals.md`` says what of it is proved.

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import ratio_interval
    >>> from sklearn_dpwg.privacy import IntegerNoise
    >>> rate = ratio_interval(61, 42, noise=IntegerNoise("laplace", scale=2.0))
    >>> print(f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]")
    0.59 [0.48, 0.70]
    """
    hits = whole_number(hits, "hits", least=-math.inf)
    misses = whole_number(misses, "misses", least=-math.inf)
    confidence = open_unit(confidence, "confidence")
    if noise is None:
        if min(hits, misses) < 0:
            raise InputError(
                f"hits and misses must be at least 0 where there is no noise, got {hits} and "
                f"{misses}."
            )
        return rate_interval(hits, hits + misses, confidence=confidence)
    error = 1.0 - confidence
    totals = _plausible_totals(hits + misses, noise, sum(n_cells), _PART_FOR_TOTALS * error)
    level = 0.5 * (1.0 - _PART_FOR_TOTALS) * error
    variances = n_cells[0] * noise.std**2, n_cells[1] * noise.std**2
    closed = fieller_wilson(hits, misses, variances, confidence)
    low = _lower_limit(hits, misses, noise, n_cells, totals, level, closed[0])
    mirrored = _lower_limit(misses, hits, noise, n_cells[::-1], totals, level, 1.0 - closed[1])
    if low is None or mirrored is None or low > 1.0 - mirrored:
        low, high = closed
    else:
        high = 1.0 - mirrored
    kept = max(hits, 0) + max(misses, 0)
    if kept == 0:
        return Interval(math.nan, low, high, confidence)
    estimate = max(hits, 0) / kept
    return Interval(estimate, min(low, estimate), max(high, estimate), confidence)


def _plausible_totals(
    observed: int, noise: IntegerNoise, n_cells: int, probability: float
) -> Counts:
    """Return positive totals from which noise leads to the observed one, but for a probability."""
    radius = survival_of(noise, (n_cells,), (1,)).two_sided_radius(probability)
    least, most = max(observed - radius, 1), observed + radius
    if most - least < _MOST_TOTALS:
        return np.arange(least, most + 1)
    return np.rint(np.linspace(least, most, _GRID_OF_TOTALS)).astype(np.int64)


def _lower_limit(
    hits: int,
    misses: int,
    noise: IntegerNoise,
    n_cells: tuple[int, int],
    totals: Counts,
    level: float,
    guess: float,
) -> float | None:
    """Return the least rate that a total keeps, None if there is none.

    The search starts at the piece of a guess and goes left, piece by piece, until all others are
    rejected for certain; if nothing was kept it goes right to the first of which something is.
    """
    if len(totals) == 0:
        return None
    start = int(np.rint(guess * _N_PLACES))
    first = n_surely_rejected((hits, misses), noise, n_cells, int(totals[-1]), level, _N_PLACES)
    least = None
    for place in (*range(start, min(first, start) - 1, -1), *range(start + 1, _N_PLACES + 1)):
        if place > start and least is not None:
            break
        piece = unknown_total_piece(hits, misses, noise, n_cells, place, _N_PLACES)
        limit = least_rate(piece, totals, level, guess)
        least = least if limit is None else limit
    return least


# Differences of two rates.

# Limits so near to 0 and 1 are found for what is there.
_END = 1e-9


def difference_interval(first: Interval, second: Interval) -> Interval:
    """Return an interval for the first rate minus the second, of two independent groups.

    Parameters
    ----------
    first, second : Interval
        The rates, with the same confidence.

    Returns
    -------
    Interval
        The difference with the same confidence.

    Notes
    -----
    The method of variance estimates recovery, MOVER (Zou and Donner, Statistics in Medicine 27,
    2008): the distance of each limit from the estimate is the root of the sum of the squares of the
    two distances that it is made of. It is not exact, but as good as the limits that it is given.
    Where a limit is 0 or 1, the estimate was cut there too, and its distance is shorter than its
    error may be: then the limit is that of both tests inverted, one rate's limit less the other's.
    A rate of nobody, NaN, is anywhere between its limits.

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import difference_interval, rate_interval
    >>> gap = difference_interval(rate_interval(40, 100), rate_interval(25, 100))
    >>> print(f"{gap.estimate:.2f} [{gap.low:.3f}, {gap.high:.3f}]")
    0.15 [0.013, 0.281]
    """
    confidence = same_confidence((first, second))
    estimate = first.estimate - second.estimate
    if math.isnan(estimate):
        return Interval(estimate, first.low - second.high, first.high - second.low, confidence)
    low = estimate - math.hypot(first.estimate - first.low, second.high - second.estimate)
    high = estimate + math.hypot(first.high - first.estimate, second.estimate - second.low)
    if _is_end(first.low) or _is_end(second.high):
        low = first.low - second.high
    if _is_end(first.high) or _is_end(second.low):
        high = first.high - second.low
    return Interval(estimate, low, high, confidence)


def _is_end(limit: float) -> bool:
    """Whether a limit is an end of what rates, or their negatives, may be, up to a tolerance."""
    return min(abs(limit), abs(1.0 - abs(limit))) < _END


def same_confidence(rates: tuple[Interval, ...]) -> float:
    """Return the confidence of all rates, refuse several."""
    known = {rate.confidence for rate in rates}
    if len(known) != 1:
        raise InputError(f"All rates must have the same confidence, got {sorted(known)}.")
    return known.pop()


def ratio_of_rates(first: Interval, second: Interval) -> Interval:
    """Return the first of two rates divided by the second, with limits.

    Parameters
    ----------
    first, second : Interval
        Rates of two groups that were named beforehand, with the same confidence: a group that is
        taken for its largest estimate makes the limits miss more often than they say.

    Returns
    -------
    Interval
        The ratio. A limit is infinite where the second may be 0; a ratio is NaN between 0 and
        infinity if either rate is NaN, or both are 0.

    Notes
    -----
    MOVER for ratios (Donner and Zou, Statistical Methods in Medical Research 21, 2012): ρ is
    between the limits if MOVER's interval for first − ρ · second holds 0. It is not exact. Where a
    limit is an end, 0 or 1, it is that of both tests inverted, as in `difference_interval`.

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import rate_interval, ratio_of_rates
    >>> women = ratio_of_rates(rate_interval(30, 100), rate_interval(120, 300))
    >>> print(f"{women.estimate:.2f} [{women.low:.2f}, {women.high:.2f}]")
    0.75 [0.52, 1.04]
    """
    same_confidence((first, second))
    p, q = first.estimate, second.estimate
    if math.isnan(p) or math.isnan(q) or p == q == 0.0:
        return Interval(math.nan, 0.0, math.inf, first.confidence)
    low = high = 0.0
    # (p − ρq)² = (p − l)² + ρ² (u − q)² is a ρ² − 2pqρ + c = 0, of which this is the smaller root
    c = first.low * (2.0 * p - first.low)
    if c > 0.0:
        a = second.high * (2.0 * q - second.high)
        divisor = p * q + math.sqrt(max((p * q) ** 2 - a * c, 0.0))
        low = c / divisor if divisor > 0.0 else math.inf  # over a rate that is surely zero
    a = second.low * (2.0 * q - second.low)
    if a > 0.0:
        c = first.high * (2.0 * p - first.high)
        high = (p * q + math.sqrt(max((p * q) ** 2 - a * c, 0.0))) / a
    else:
        high = math.inf
    if abs(second.high - 1.0) < _END:
        low = first.low / second.high
    if abs(first.high - 1.0) < _END and second.low > 0.0:
        high = first.high / second.low
    estimate = p / q if q > 0.0 else math.inf
    return Interval(estimate, min(low, estimate), max(high, estimate), first.confidence)


# The groups that may be worst.

RateAt = Callable[[float], Interval]
# The intervals of all groups whose limits each fail with a probability.
Levels = Callable[[float], tuple[Interval, ...]]


@dataclass(frozen=True)
class WorstGroupSet:
    """What may be said about the worst group: a set of groups and limits of its value.

    Parameters
    ----------
    members : tuple of int
        Positions of the groups that may be worst, increasing; never empty.
    value_low, value_high : float
        Limits of the worst group's value, whichever it is.
    gap : Interval
        Distance between the largest and the smallest value.

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import Interval, WorstGroupSet
    >>> WorstGroupSet((0, 2), 0.1, 0.2, gap=Interval(0.05, 0.0, 0.1, confidence=0.95)).members
    (0, 2)
    """

    members: tuple[int, ...]
    value_low: float
    value_high: float
    gap: Interval


def worst_group_set(
    rates: Sequence[RateAt], *, greater_is_worse: bool = True, confidence: float = 0.95
) -> WorstGroupSet:
    """Return the groups that may be worst, and limits of the worst value and of the gap.

    Parameters
    ----------
    rates : sequence of callable
        For each of the independent groups a function that takes a confidence and returns the
        `Interval` of its rate, ``lambda level: rate_interval(…, confidence=level)``.
    greater_is_worse : bool, default=True
        Whether the worst group is the one with the largest rate, as for errors, or the smallest.
    confidence : float, default=0.95
        Above 0.5 and below 1. The probability of each of three statements: the worst group is a
        member, its value is within its limits, and so is the gap.

    Returns
    -------
    WorstGroupSet
        The set and the limits.

    Notes
    -----
    With α = 1 − confidence and p groups, a group is dropped if MOVER's one-sided limit at
    α/(p − 1) puts another above it. The worst value is between the largest simultaneous lower
    limit (at α/(2p)) and the largest ordinary upper limit (at α/2), and the gap between the largest
    lower limit of a difference of two groups at α/(2p(p − 1)), at least 0, and the largest upper
    limit at α/2.

    Examples
    --------
    >>> from functools import partial
    >>> from sklearn_dpwg.metrics.intervals import rate_interval, worst_group_set
    >>> errors = [(30, 100), (20, 80), (60, 600)]
    >>> def rate(count, total):
    ...     return lambda level: rate_interval(count, total, confidence=level)
    >>> worst = worst_group_set([rate(*error) for error in errors])
    >>> worst.members
    (0, 1)
    >>> print(f"[{worst.value_low:.2f}, {worst.value_high:.2f}]")
    [0.20, 0.40]
    """
    if not 0.5 < real_number(confidence, "confidence") < 1.0:
        raise InputError(f"confidence must be above 0.5 and below 1, got {confidence!r}.")
    n_groups = len(rates)
    if n_groups == 0:
        raise InputError("rates must have at least one group, got none.")
    error = 1.0 - confidence

    @cache
    def at(error_of_a_limit: float) -> tuple[Interval, ...]:
        found = tuple(rate(1.0 - 2.0 * error_of_a_limit) for rate in rates)
        return found if greater_is_worse else tuple(map(_negative, found))

    pairs = max(n_groups - 1, 1)
    members = _not_dropped(at(error / pairs))
    low = max(rate.low for rate in at(error / (2 * n_groups)))
    high = max(rate.high for rate in at(error / 2))
    low, high = (low, high) if greater_is_worse else (-high, -low)
    return WorstGroupSet(members, low, high, _gap(at, error, n_groups))


def _negative(rate: Interval) -> Interval:
    return Interval(-rate.estimate, -rate.high, -rate.low, rate.confidence)


def _not_dropped(rates: tuple[Interval, ...]) -> tuple[int, ...]:
    # against itself a group's limit is below 0
    return tuple(
        place
        for place, rate in enumerate(rates)
        if all(difference_interval(other, rate).low <= 0.0 for other in rates)
    )


def _gap(at: Levels, error: float, n_groups: int) -> Interval:
    confidence = 1.0 - error
    known = [rate.estimate for rate in at(error / 2) if not math.isnan(rate.estimate)]
    estimate = max(known) - min(known) if known else math.nan
    if n_groups == 1:
        return Interval(0.0, 0.0, 0.0, confidence)
    simultaneous = at(error / (2 * n_groups * (n_groups - 1)))
    low = max(difference_interval(*pair).low for pair in permutations(simultaneous, 2))
    high = max(difference_interval(*pair).high for pair in permutations(at(error / 2), 2))
    return Interval(estimate, max(low, 0.0), high, confidence)
