"""Rates as parts of the largest one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sklearn_dpwg._checks import count_within
from sklearn_dpwg.metrics.intervals._difference_interval import same_confidence
from sklearn_dpwg.metrics.intervals.interval import Interval


def impact_ratios(
    rates: Sequence[Interval], *, reference: int | None = None
) -> tuple[Interval, ...]:
    """Return each group's rate divided by a reference group's, with limits.

    Parameters
    ----------
    rates : sequence of Interval
        The rates of independent groups, with the same confidence.
    reference : int, optional
        Position of the group to divide by; by default the one with the largest estimate.

    Returns
    -------
    tuple of Interval
        One ratio a group, in the same order; that of the reference is 1 without an error. A limit
        is infinite where the reference may be 0. A ratio is NaN between 0 and infinity if either
        rate is NaN, or both are 0.

    Raises
    ------
    ValueError
        If there is no rate, confidences differ, or the reference is not one of the groups.

    Notes
    -----
    MOVER for ratios (Donner and Zou 2012): ρ is between the limits if MOVER's interval for
    rate − ρ · reference holds 0. It is not exact. Limits divided by limits would be a fifth to two
    thirds wider. Without a named reference the ratios take the one with the largest estimate as
    given: which group is largest may be as uncertain as `worst_group_set` says.

    References
    ----------
    A. Donner and G. Y. Zou, "Closed-form confidence intervals for functions of the normal mean and
    standard deviation", Statistical Methods in Medical Research 21 (2012).

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import impact_ratios, rate_interval
    >>> women, _ = impact_ratios([rate_interval(30, 100), rate_interval(120, 300)])
    >>> print(f"{women.estimate:.2f} [{women.low:.2f}, {women.high:.2f}]")
    0.75 [0.52, 1.04]
    """
    rates = tuple(rates)
    if not rates:
        raise ValueError("rates must have at least one rate, got none.")
    confidence = same_confidence(rates)
    if reference is None:
        known = [rate.estimate if rate.estimate == rate.estimate else -math.inf for rate in rates]
        reference = known.index(max(known))
    reference = count_within(reference, "reference", 0, len(rates) - 1)
    return tuple(
        Interval(1.0, 1.0, 1.0, confidence)
        if place == reference
        else _ratio(rate, rates[reference])
        for place, rate in enumerate(rates)
    )


def _ratio(first: Interval, second: Interval) -> Interval:
    p, q = first.estimate, second.estimate
    if math.isnan(p) or math.isnan(q) or p == q == 0.0:
        return Interval(math.nan, 0.0, math.inf, first.confidence)
    low = high = 0.0
    # (p − ρq)² = (p − l)² + ρ² (u − q)² is a ρ² − 2pqρ + c = 0, of which this is the smaller root
    c = first.low * (2.0 * p - first.low)
    if c > 0.0:
        a = second.high * (2.0 * q - second.high)
        low = c / (p * q + math.sqrt(max((p * q) ** 2 - a * c, 0.0)))
    a = second.low * (2.0 * q - second.low)
    if a > 0.0:
        c = first.high * (2.0 * p - first.high)
        high = (p * q + math.sqrt(max((p * q) ** 2 - a * c, 0.0))) / a
    else:
        high = math.inf
    estimate = p / q if q > 0.0 else math.inf
    return Interval(estimate, min(low, estimate), max(high, estimate), first.confidence)
