"""Confidence intervals of a rate whose denominator is noisy too, and contrasts of two rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, open_unit, whole_number
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.metrics.intervals.rate import (
    Counts,
    Interval,
    fieller_wilson,
    interval_about,
    least_rate,
    piece_of_both,
    rate_interval,
    survival_of,
)
from sklearn_dpwg.privacy import IntegerNoise

# Weights of hits against misses are rates rounded to twentieths, so that at most a fortieth of an
# error in the total is left.
_N_PLACES = 20
# Part of the error probability for the set of totals (0.2 % of 5 %); the rest is for the test.
_PART_FOR_TOTALS = 0.04
# Up to this many totals are all tried, as with Laplace noise at ε ≥ 0.4 on four cells; the interval
# is then exact, and an audit of 40 groups takes five seconds.
_MAX_TOTALS = 101
# Of more totals a grid of this size is tried; with three, p-values were up to 0.016 too small.
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
        Probability that the interval holds the rate.

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
    the true one with probability 99.8 % (Berger and Boos 1994); if noise made the counts
    impossible, the interval is Fieller's. ``docs/theory/intervals.md`` says what is proved.

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
    limits = (
        _lower_limit((hits, misses), noise, n_cells, totals, level, guess=closed[0]),
        _lower_limit((misses, hits), noise, n_cells[::-1], totals, level, guess=1.0 - closed[1]),
    )
    n_counted = max(hits, 0) + max(misses, 0)
    estimate = max(hits, 0) / n_counted if n_counted else math.nan
    return interval_about(estimate, limits, closed, confidence)


def _plausible_totals(
    observed: int, noise: IntegerNoise, n_cells: int, probability: float
) -> Counts:
    """Return positive totals that include the true one, except with the given probability."""
    radius = survival_of(noise, (n_cells,), (1,)).two_sided_radius(probability)
    least, most = max(observed - radius, 1), observed + radius
    if most - least < _MAX_TOTALS:
        return np.arange(least, most + 1)
    return np.rint(np.linspace(least, most, _GRID_OF_TOTALS)).astype(np.int64)


def _lower_limit(
    counts: tuple[int, int],
    noise: IntegerNoise,
    n_cells: tuple[int, int],
    totals: Counts,
    level: float,
    guess: float,
) -> float | None:
    """Return the least rate that some total does not reject, None if all rates are rejected.

    The search starts at the piece with the guess and goes left while a rate may be kept. Farther
    left all rates are rejected: noise beyond its radii has at most half the level, and so have, by
    Hoeffding's inequality, true hits so far above their mean (docs/theory/intervals.md). If no rate
    was kept, the search goes right to the first piece with one.
    """
    if len(totals) == 0:
        return None
    radii = [survival_of(noise, (cells,), (1,)).two_sided_radius(0.5 * level) for cells in n_cells]
    weights, largest_total = np.arange(_N_PLACES + 1) / _N_PLACES, float(totals[-1])
    distance = (1.0 - weights) * (counts[0] - radii[0]) - weights * (counts[1] + radii[1])
    hoeffding = math.sqrt(0.5 * largest_total * math.log(2.0 / level))
    # a weight is at most half a place from the rates of its piece
    is_possible = distance - largest_total / (2 * _N_PLACES) < hoeffding
    start = int(np.rint(guess * _N_PLACES))
    leftmost = min(int(np.argmax(np.append(is_possible, True))), start)
    least = None
    for place in (*range(start, leftmost - 1, -1), *range(start + 1, _N_PLACES + 1)):
        if place > start and least is not None:
            break
        ends = max((place - 0.5) / _N_PLACES, 0.0), min((place + 0.5) / _N_PLACES, 1.0)
        piece = piece_of_both(counts, totals, noise, n_cells, (place, _N_PLACES), ends)
        limit = least_rate(piece, level)
        least = least if limit is None else limit
    return least


# Contrasts of two rates, and the groups that may be worst.

# Limits this near to 0 or 1 count as 0 or 1.
_END = 1e-9
# Estimates, lower limits and upper limits of rates, as arrays that broadcast.
Limits = tuple[FloatArray, FloatArray, FloatArray]


def difference_of_rates(first: Limits, second: Limits) -> Limits:
    """Return first rates minus second ones, of independent groups, with MOVER's limits.

    If a limit of a rate is 0 or 1, the estimate may be clipped too, and its distance to the limit
    understates the error. Then the limit of one rate minus the opposite limit of the other is used
    (docs/theory/intervals.md). A rate of NaN, without records, is anywhere between its limits.
    """
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    unknown = np.isnan(p - q)
    low = np.where(
        unknown | _is_end(p_low) | _is_end(q_high),
        p_low - q_high,
        p - q - np.hypot(p - p_low, q_high - q),
    )
    high = np.where(
        unknown | _is_end(p_high) | _is_end(q_low),
        p_high - q_low,
        p - q + np.hypot(p_high - p, q - q_low),
    )
    return p - q, low, high


def _is_end(limit: FloatArray) -> NDArray[np.bool_]:
    """Return whether each limit of a rate, or of a negated rate, is 0 or ±1 up to a tolerance."""
    return np.minimum(np.abs(limit), np.abs(1.0 - np.abs(limit))) < _END


def ratio_of_rates(first: Limits, second: Limits) -> Limits:
    """Return first rates divided by second ones, of independent groups, with limits.

    A ratio ρ is between the limits if MOVER's interval for first − ρ · second holds 0. Limits of 0
    and 1 are treated as in `difference_of_rates`. An upper limit is infinite if the second rate may
    be 0. If a rate is NaN, or both are 0, the ratio is NaN, with limits 0 and infinity.
    """
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    with np.errstate(divide="ignore", invalid="ignore"):
        # the limit solves (p − ρq)² = (p − l)² + ρ² (u − q)², or a ρ² − 2pqρ + c = 0
        c, a = p_low * (2.0 * p - p_low), q_high * (2.0 * q - q_high)
        low = np.where(c > 0.0, c / (p * q + np.sqrt(np.maximum((p * q) ** 2 - a * c, 0.0))), 0.0)
        c, a = p_high * (2.0 * p - p_high), q_low * (2.0 * q - q_low)
        high = (p * q + np.sqrt(np.maximum((p * q) ** 2 - a * c, 0.0))) / a
        high = np.where(a > 0.0, high, np.inf)
        low = np.where(np.abs(q_high - 1.0) < _END, p_low / q_high, low)
        high = np.where((np.abs(p_high - 1.0) < _END) & (q_low > 0.0), p_high / q_low, high)
        estimate = np.where(q > 0.0, p / q, np.inf)
    unknown = np.isnan(p) | np.isnan(q) | ((p == 0.0) & (q == 0.0))
    return (
        np.where(unknown, np.nan, estimate),
        np.where(unknown, 0.0, np.minimum(low, estimate)),
        np.where(unknown, np.inf, np.maximum(high, estimate)),
    )


def limits_of(rates: Iterable[Interval]) -> Limits:
    """Return intervals of rates as three arrays: estimates, lower limits and upper limits."""
    rows = np.array([(rate.estimate, rate.low, rate.high) for rate in rates]).reshape(-1, 3)
    return rows[:, 0], rows[:, 1], rows[:, 2]


def worst_group_set(
    rates: Callable[[float], Sequence[Interval]],
    n_groups: int,
    *,
    greater_is_worse: bool,
    confidence: float,
) -> tuple[tuple[int, ...], tuple[float, float], Interval]:
    """Return places of groups that may be worst, limits of the worst value, and the gap's interval.

    Three statements hold, each with the confidence: the worst group is among the returned ones, its
    value is within the limits, and the gap between the largest and smallest rate is in its interval
    (Theorem 3 of docs/theory/intervals.md). ``rates`` maps a confidence to intervals of all groups.
    """
    error = 1.0 - confidence

    def badness(limit_error: float) -> Limits:
        """Return rates, negated if small ones are bad, with this error of each limit."""
        estimates, lows, highs = limits_of(rates(1.0 - 2.0 * limit_error))
        return (estimates, lows, highs) if greater_is_worse else (-estimates, -highs, -lows)

    def pair_differences(limits: Limits) -> Limits:
        estimates, lows, highs = limits
        return difference_of_rates((estimates[:, None], lows[:, None], highs[:, None]), limits)

    # group j cannot be worst if some group i is surely worse
    is_worse = pair_differences(badness(error / max(n_groups - 1, 1)))[1] > 0.0
    np.fill_diagonal(is_worse, False)
    members = tuple(np.flatnonzero(~is_worse.any(axis=0)).tolist())
    estimates, _, highs = ordinary = badness(error / 2)
    low, high = float(badness(error / (2 * n_groups))[1].max()), float(highs.max())
    worst_limits = (low, high) if greater_is_worse else (-high, -low)
    estimates = estimates[~np.isnan(estimates)]
    gap = float(np.ptp(estimates)) if len(estimates) else math.nan
    is_pair = ~np.eye(n_groups, dtype=bool)
    strict = badness(error / (2 * n_groups * (n_groups - 1)))
    gap_low = float(pair_differences(strict)[1][is_pair].max())
    gap_high = float(pair_differences(ordinary)[2][is_pair].max())
    return members, worst_limits, Interval(gap, max(gap_low, 0.0), gap_high, confidence)
