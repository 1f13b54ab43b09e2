"""The groups that may be worst."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from sklearn_dpwg._checks import real_number
from sklearn_dpwg.metrics.intervals._difference_interval import difference_interval
from sklearn_dpwg.metrics.intervals.interval import Interval

RateAt = Callable[[float], Interval]


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

    Raises
    ------
    ValueError
        If there are no groups or the confidence is out of range.

    Notes
    -----
    With α = 1 − confidence and p groups, a group is dropped if MOVER's one-sided limit at
    α/(p − 1) puts another above it. The worst value is between the largest simultaneous lower
    limit (at α/(2p)) and the largest ordinary upper limit (at α/2): the worst group's own limit
    fails no more often. The gap is between the largest lower limit of a difference of two groups
    at α/(2p(p − 1)), at least 0, and the largest upper limit at α/2. Choosing the group with the
    largest estimate is right much less often than any of these, and a bootstrap of the gap fails
    wherever groups are equal.

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
        raise ValueError(f"confidence must be above 0.5 and below 1, got {confidence!r}.")
    n_groups = len(rates)
    if n_groups == 0:
        raise ValueError("rates must have at least one group, got none.")
    error = 1.0 - confidence
    at = _Levels(rates, sign=1.0 if greater_is_worse else -1.0)
    pairs = max(n_groups - 1, 1)
    members = _not_dropped(at(error / pairs))
    low = max(rate.low for rate in at(error / (2 * n_groups)))
    high = max(rate.high for rate in at(error / 2))
    low, high = (low, high) if greater_is_worse else (-high, -low)
    return WorstGroupSet(members, low, high, _gap(at, error, n_groups))


class _Levels:
    """The intervals of all groups whose limits each fail with a given probability."""

    def __init__(self, rates: Sequence[RateAt], sign: float) -> None:
        self._rates = rates
        self._sign = sign
        self._known: dict[float, tuple[Interval, ...]] = {}

    def __call__(self, error_of_a_limit: float) -> tuple[Interval, ...]:
        confidence = 1.0 - 2.0 * error_of_a_limit
        if confidence not in self._known:
            found = (rate(confidence) for rate in self._rates)
            self._known[confidence] = tuple(
                rate if self._sign > 0.0 else _negative(rate) for rate in found
            )
        return self._known[confidence]


def _negative(rate: Interval) -> Interval:
    return Interval(-rate.estimate, -rate.high, -rate.low, rate.confidence)


def _not_dropped(rates: tuple[Interval, ...]) -> tuple[int, ...]:
    # against itself a group's limit is below 0
    return tuple(
        place
        for place, rate in enumerate(rates)
        if all(difference_interval(other, rate).low <= 0.0 for other in rates)
    )


def _gap(at: _Levels, error: float, n_groups: int) -> Interval:
    confidence = 1.0 - error
    known = [rate.estimate for rate in at(error / 2) if not math.isnan(rate.estimate)]
    estimate = max(known) - min(known) if known else math.nan
    if n_groups == 1:
        return Interval(0.0, 0.0, 0.0, confidence)
    simultaneous = at(error / (2 * n_groups * (n_groups - 1)))
    low = max(difference_interval(*pair).low for pair in permutations(simultaneous, 2))
    high = max(difference_interval(*pair).high for pair in permutations(at(error / 2), 2))
    return Interval(estimate, max(low, 0.0), high, confidence)
