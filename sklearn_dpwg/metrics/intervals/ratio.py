"""A rate whose denominator is not known either."""

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

# Rates are rounded to twentieths where they weigh hits against misses: what is left of an error in
# the total is at most a fortieth of it.
_N_PLACES = 20
# The error probability goes to the set of totals in this part (0.2 % of 5 %), the rest to the test.
_PART_FOR_TOTALS = 0.04
# A set of so many totals is searched whole, as with Laplace noise at ε ≥ 0.4 on four cells: that is
# a proof, and an audit of 40 groups still takes five seconds.
_MAX_TOTALS = 101
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
    the true one with probability 99.8 % (Berger and Boos 1994); where noise made the counts
    impossible the interval is Fieller's. ``docs/theory/intervals.md`` says what of it is proved.

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
        _lower_limit((hits, misses), noise, n_cells, totals, level, closed[0]),
        _lower_limit((misses, hits), noise, n_cells[::-1], totals, level, 1.0 - closed[1]),
    )
    kept = max(hits, 0) + max(misses, 0)
    estimate = max(hits, 0) / kept if kept else math.nan
    return interval_about(estimate, limits, closed, confidence)


def _plausible_totals(
    observed: int, noise: IntegerNoise, n_cells: int, probability: float
) -> Counts:
    """Return positive totals from which noise leads to the observed one, but for a probability."""
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
    """Return the least rate that a total keeps, None if there is none.

    The search starts at the piece of a guess and goes left, piece by piece, until all others are
    rejected for certain: beyond the radii of noise and, by Hoeffding's inequality, for true hits so
    far above their mean half the level is left each, for every total (docs/theory/intervals.md).
    If nothing was kept it goes right to the first piece of which something is.
    """
    if len(totals) == 0:
        return None
    radii = [survival_of(noise, (cells,), (1,)).two_sided_radius(0.5 * level) for cells in n_cells]
    w, most = np.arange(_N_PLACES + 1) / _N_PLACES, float(totals[-1])
    distance = (1.0 - w) * (counts[0] - radii[0]) - w * (counts[1] + radii[1])
    is_possible = distance - most / (2 * _N_PLACES) < math.sqrt(0.5 * most * math.log(2.0 / level))
    start = int(np.rint(guess * _N_PLACES))
    first = int(np.argmax(np.append(is_possible, True)))
    least = None
    for place in (*range(start, min(first, start) - 1, -1), *range(start + 1, _N_PLACES + 1)):
        if place > start and least is not None:
            break
        ends = max((place - 0.5) / _N_PLACES, 0.0), min((place + 0.5) / _N_PLACES, 1.0)
        piece = piece_of_both(counts, totals, noise, n_cells, (place, _N_PLACES), ends)
        limit = least_rate(piece, level)
        least = least if limit is None else limit
    return least


# Contrasts of two rates, and the groups that may be worst.

# Limits so near to 0 and 1 are found for what is there.
_END = 1e-9
# Estimates, lower and upper limits of rates, as arrays that are broadcast.
Limits = tuple[FloatArray, FloatArray, FloatArray]


def difference_of_rates(first: Limits, second: Limits) -> Limits:
    """Return first rates minus second ones, of independent groups, with MOVER's limits.

    Where a limit is 0 or 1, the estimate was cut there too, and its distance is shorter than its
    error may be: then the limit is that of both tests inverted, one rate's limit less the other's
    (docs/theory/intervals.md). A rate of nobody, NaN, is anywhere between its limits.
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
    """Whether a limit is an end of what rates, or their negatives, may be, up to a tolerance."""
    return np.minimum(np.abs(limit), np.abs(1.0 - np.abs(limit))) < _END


def ratio_of_rates(first: Limits, second: Limits) -> Limits:
    """Return first rates divided by second ones, of groups that were named beforehand, with limits.

    ρ is between the limits if MOVER's interval for first − ρ · second holds 0, and ends 0 and 1 are
    as in `difference_of_rates`. A limit is infinite where the second rate may be 0; a ratio is NaN
    between 0 and infinity if either rate is NaN, or both are 0.
    """
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    with np.errstate(divide="ignore", invalid="ignore"):
        # (p − ρq)² = (p − l)² + ρ² (u − q)² is a ρ² − 2pqρ + c = 0, whose smaller root is the limit
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
    """Return rates as arrays."""
    rows = np.array([(one.estimate, one.low, one.high) for one in rates]).reshape(-1, 3)
    return rows[:, 0], rows[:, 1], rows[:, 2]


def worst_group_set(
    rates: Callable[[float], Sequence[Interval]],
    n_groups: int,
    *,
    greater_is_worse: bool,
    confidence: float,
) -> tuple[tuple[int, ...], tuple[float, float], Interval]:
    """Return the groups that may be worst, and limits of the worst value and of the gap.

    Each of the three statements holds with the confidence: the worst group is among those, its
    value is within its limits, and so is the distance between the largest and the smallest rate
    (Theorem 3 of docs/theory/intervals.md). ``rates`` returns those of all groups at a confidence.
    """
    error = 1.0 - confidence

    def at(error_of_a_limit: float) -> Limits:
        estimates, lows, highs = limits_of(rates(1.0 - 2.0 * error_of_a_limit))
        return (estimates, lows, highs) if greater_is_worse else (-estimates, -highs, -lows)

    def differences(of: Limits) -> Limits:
        estimates, lows, highs = of
        return difference_of_rates((estimates[:, None], lows[:, None], highs[:, None]), of)

    dropped = differences(at(error / max(n_groups - 1, 1)))[1] > 0.0
    np.fill_diagonal(dropped, False)
    members = tuple(np.flatnonzero(~dropped.any(axis=0)).tolist())
    ordinary, low = at(error / 2), float(at(error / (2 * n_groups))[1].max())
    ends = (
        (low, float(ordinary[2].max())) if greater_is_worse else (-float(ordinary[2].max()), -low)
    )
    known = ordinary[0][~np.isnan(ordinary[0])]
    estimate = float(np.ptp(known)) if len(known) else math.nan
    apart = ~np.eye(n_groups, dtype=bool)
    low = float(differences(at(error / (2 * n_groups * (n_groups - 1))))[1][apart].max())
    high = float(differences(ordinary)[2][apart].max())
    return members, ends, Interval(estimate, max(low, 0.0), high, confidence)
