"""A rate whose denominator is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sklearn_dpwg._checks import open_unit, whole_number
from sklearn_dpwg.metrics.intervals._closed_form import wilson
from sklearn_dpwg.metrics.intervals._limits import (
    Piece,
    known_total_piece,
    least_rate,
    unknown_total_piece,
)
from sklearn_dpwg.metrics.intervals.checks import cell_pair, signed_count
from sklearn_dpwg.metrics.intervals.interval import Interval
from sklearn_dpwg.privacy import IntegerNoise


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
    every total, rate and noise, as the test that they invert is exact. With failures the statistic
    is successes − failures + total, that is 2 Bin(total, θ) + N. Noise that leaves no rate between
    the limits is answered with Wilson's interval for the nearest possible count, with the noise's
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
    confidence = open_unit(confidence, "confidence")
    if noise is None and not 0 <= successes <= total:
        raise ValueError(
            f"successes must be between 0 and total = {total} where there is no noise, "
            f"got {successes}."
        )
    if failures is None:
        n_noisy = float(whole_number(n_cells, "n_cells", least=1))
        found, mirrored = (
            known_total_piece(count, total, noise, int(n_noisy))[0]
            for count in (successes, total - successes)
        )
        estimate = float(successes)
    else:
        pair = cell_pair(n_cells)
        counts = (successes, signed_count(failures, "failures"))
        found, mirrored = (
            _from_both(counts, noise, pair),
            _from_both(counts[::-1], noise, pair[::-1]),
        )
        # half of each count's noise, so a quarter of the variance
        n_noisy, estimate = 0.25 * sum(pair), 0.5 * (successes + total - counts[1])
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
