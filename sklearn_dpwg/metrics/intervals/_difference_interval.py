"""Differences of two rates."""

from __future__ import annotations

import math

from sklearn_dpwg.metrics.intervals.interval import Interval


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

    Raises
    ------
    ValueError
        If the confidences differ.

    Notes
    -----
    The method of variance estimates recovery, MOVER (Zou and Donner 2008): the distance of each
    limit from the estimate is the root of the sum of the squares of the two distances that it is
    made of. It is not exact, but as good as the limits that it is given. A rate of nobody,
    NaN, is anywhere between its limits.

    References
    ----------
    G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures: a general
    approach", Statistics in Medicine 27 (2008).

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
    below = math.hypot(first.estimate - first.low, second.high - second.estimate)
    above = math.hypot(first.high - first.estimate, second.estimate - second.low)
    return Interval(estimate, estimate - below, estimate + above, confidence)


def same_confidence(rates: tuple[Interval, ...]) -> float:
    """Return the confidence of all rates, refuse several."""
    known = {rate.confidence for rate in rates}
    if len(known) != 1:
        raise ValueError(f"All rates must have the same confidence, got {sorted(known)}.")
    return known.pop()
