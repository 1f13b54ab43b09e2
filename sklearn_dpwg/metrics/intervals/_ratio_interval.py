"""A rate whose denominator is not known either."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._checks import open_unit
from sklearn_dpwg.metrics.intervals._closed_form import fieller_wilson
from sklearn_dpwg.metrics.intervals._limits import least_rate, unknown_total_piece
from sklearn_dpwg.metrics.intervals._noisy_binomial import Counts, survival_of
from sklearn_dpwg.metrics.intervals._rate_interval import rate_interval
from sklearn_dpwg.metrics.intervals.checks import cell_pair, signed_count
from sklearn_dpwg.metrics.intervals.interval import Interval
from sklearn_dpwg.privacy import IntegerNoise

# Rates are rounded to twentieths where they weigh hits against misses: what is left of an error in
# the total is at most a fortieth of it.
_N_PLACES = 20
# The error probability goes to the set of totals in this part (0.2 % of 5 %), the rest to the test.
_PART_FOR_TOTALS = 0.04
# A set of so many totals is searched whole, as with Laplace noise at ε ≥ 0.5 on two cells each: that
# is a proof, and costs no more than 40 groups' audit in five seconds.
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

    Raises
    ------
    ValueError
        If a number is out of range.

    See Also
    --------
    rate_interval : The total is known.

    Notes
    -----
    Given the unknown total P, a rate θ is tested by (1−w) hits − w misses, where w is θ rounded
    to twentieths, with the exact law of hits and noise. A rate is kept if neither tail rejects it
    for all P in a set that holds the true one with probability 99.8 % (Berger and Boos 1994), at
    the level 4.8 %. A set of more than 101 totals is tried on a grid of 41, which proves nothing
    about those between; with Laplace noise of scale 4 on four cells, what ε = 0.5 needs, it is
    searched whole, and then either limit errs with at most 2.5 %. Where no rate is
    left, since noise made the counts impossible, the interval is Fieller's with Wilson's variance.

    References
    ----------
    R. L. Berger and D. D. Boos, "P values maximized over a confidence set for the nuisance
    parameter", Journal of the American Statistical Association 89 (1994).

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import ratio_interval
    >>> from sklearn_dpwg.privacy import IntegerNoise
    >>> rate = ratio_interval(61, 42, noise=IntegerNoise("laplace", scale=2.0))
    >>> print(f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]")
    0.59 [0.48, 0.70]
    """
    hits, misses = signed_count(hits, "hits"), signed_count(misses, "misses")
    n_cells = cell_pair(n_cells)
    confidence = open_unit(confidence, "confidence")
    if noise is None:
        if min(hits, misses) < 0:
            raise ValueError(
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

    The search starts at the piece of a guess, walks left until a whole piece is rejected, and else
    right to the first one that is not.
    """
    if len(totals) == 0:
        return None

    def limit_in(place: int) -> float | None:
        piece = unknown_total_piece(hits, misses, noise, n_cells, place, _N_PLACES)
        return least_rate(piece, totals, level, guess)

    place = int(np.rint(guess * _N_PLACES))
    limit = limit_in(place)
    if limit is None:
        while limit is None and place < _N_PLACES:
            place += 1
            limit = limit_in(place)
        return limit
    while place > 0:
        place -= 1
        further = limit_in(place)
        if further is None:
            break
        limit = further
    return limit
