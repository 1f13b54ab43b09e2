"""A rate whose denominator is known."""

from __future__ import annotations

import math

from sklearn_dpwg._checks import open_unit, whole_number
from sklearn_dpwg.metrics.intervals._closed_form import wilson
from sklearn_dpwg.metrics.intervals._limits import known_total_piece, least_rate
from sklearn_dpwg.metrics.intervals.checks import signed_count
from sklearn_dpwg.metrics.intervals.interval import Interval
from sklearn_dpwg.privacy import IntegerNoise


def rate_interval(
    successes: int,
    total: int,
    *,
    noise: IntegerNoise | None = None,
    n_cells: int = 1,
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
    noise : IntegerNoise, optional
        The law of the noise on every released count; by default there is none.
    n_cells : int, default=1
        How many released counts were summed into `successes`.
    confidence : float, default=0.95
        Least probability of an interval that holds the rate.

    Returns
    -------
    Interval
        The rate, between 0 and 1, and its limits. Of nobody it is NaN between 0 and 1.

    Raises
    ------
    ValueError
        If a number is out of range.

    See Also
    --------
    ratio_interval : The total is not known either.

    Notes
    -----
    The limits are the rates θ at which P(Bin(total, θ) + N ≥ successes), or the same with ≤, is
    (1 − confidence)/2, where N is the noise. They hold the rate with the stated probability at
    every total, rate and noise, as the test that they invert is exact. Noise that leaves no rate
    between them is answered with Wilson's interval for the nearest possible count, with the noise's
    variance added.

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
    successes = signed_count(successes, "successes")
    total = whole_number(total, "total", least=0)
    n_cells = whole_number(n_cells, "n_cells", least=1)
    confidence = open_unit(confidence, "confidence")
    if noise is None and not 0 <= successes <= total:
        raise ValueError(
            f"successes must be between 0 and total = {total} where there is no noise, "
            f"got {successes}."
        )
    if total == 0:
        return Interval(math.nan, 0.0, 1.0, confidence)
    level = 0.5 * (1.0 - confidence)
    variance = 0.0 if noise is None else n_cells * noise.std**2
    closed = wilson(successes, total, variance, confidence)
    piece, totals = known_total_piece(successes, total, noise, n_cells)
    low = least_rate(piece, totals, level, closed[0])
    piece, totals = known_total_piece(total - successes, total, noise, n_cells)
    failures = least_rate(piece, totals, level, 1.0 - closed[1])
    estimate = min(max(successes / total, 0.0), 1.0)
    if low is None or failures is None or low > 1.0 - failures:
        low, high = closed
    else:
        high = 1.0 - failures
    return Interval(estimate, min(low, estimate), max(high, estimate), confidence)
