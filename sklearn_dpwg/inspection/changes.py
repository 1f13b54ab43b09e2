"""What has changed from one audit to a later one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_dpwg._stored import Stored
from sklearn_dpwg.inspection.verdicts import RATES, GroupRate, greater_is_worse
from sklearn_dpwg.inspection.words import of_metric
from sklearn_dpwg.metrics.intervals import Interval, difference_interval

# The interval of a group's value at a confidence.
RateAt = Callable[[float], Interval]


@dataclass(frozen=True)
class Change(Stored):
    """How a metric has changed since an earlier audit; made by `AuditResult.change_since`.

    Parameters
    ----------
    metric : str
        The metric.
    groups : tuple of GroupRate
        The later value of each group less the earlier one, each interval by itself.
    worst : Interval
        The later value of the group that is worst off then, less that of the one that was.
    answer : {"improved", "got worse", "cannot tell"}
        What has become of the worst-off group, whichever it is: either word is wrong with a
        probability of at most half the error of the confidence.
    sentence : str
        The answer in words, with what is assumed.
    """

    metric: str
    groups: tuple[GroupRate, ...]
    worst: Interval
    answer: Literal["improved", "got worse", "cannot tell"]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def change_between(
    before: Mapping[Hashable, RateAt],
    after: Mapping[Hashable, RateAt],
    metric: str,
    confidence: float,
    *,
    same_people: bool,
) -> Change:
    """Return what has changed; the groups of both are the same."""
    error = 0.5 * (1.0 - confidence)

    def less(later: Hashable, earlier: Hashable, error: float) -> Interval:
        if not same_people:
            at = 1.0 - 2.0 * error
            return difference_interval(after[later](at), before[earlier](at))
        # whatever the two have to do with each other, each is wrong with half of the error
        a, b = after[later](1.0 - error), before[earlier](1.0 - error)
        return Interval(a.estimate - b.estimate, a.low - b.high, a.high - b.low, 1.0 - 2.0 * error)

    name = f"{metric} change"
    own = {label: less(label, label, error) for label in after}
    groups = tuple(GroupRate(g, name, one.estimate, one.low, one.high) for g, one in own.items())
    worst = _of_worst(before, after, metric, confidence, less)
    is_harm = greater_is_worse(metric)
    falls, rises = worst.high < 0.0, worst.low > 0.0
    answer: Literal["improved", "got worse", "cannot tell"] = "cannot tell"
    if falls or rises:
        answer = "improved" if falls == is_harm else "got worse"
    scale, unit = (100.0, " percentage points") if metric in RATES else (1.0, "")
    ends = [f"{scale * end:+.3g}" for end in (worst.estimate, worst.low, worst.high)]
    told = ", which may be better or worse" if answer == "cannot tell" else f": it {answer}"
    who = "the same people, or some of them" if same_people else "other people, and other noise"
    sentence = (
        f"The worst-off group's {of_metric(metric)}{' (high is bad)' if is_harm else ''} changed "
        f"by {ends[0]} [{ends[1]}, {ends[2]}]{unit}{told}. Assumed: {who}."
    )
    return Change(metric, groups, worst, answer, sentence)


def _of_worst(
    before: Mapping[Hashable, RateAt],
    after: Mapping[Hashable, RateAt],
    metric: str,
    confidence: float,
    less: Callable[[Hashable, Hashable, float], Interval],
) -> Interval:
    """Return the change of the worst value: ``docs/theory/verdicts.md`` has the proof."""
    # of a benefit the worst is the least: signs change
    sign = 1.0 if greater_is_worse(metric) else -1.0
    error = 0.5 * (1.0 - confidence) / len(after)
    limits = [[less(later, earlier, error) for earlier in before] for later in after]
    table = np.array([[sorted((sign * c.low, sign * c.high)) for c in row] for row in limits])
    low, high = table[..., 0].max(axis=0).min(), table[..., 1].min(axis=1).max()
    ends = [
        np.fmax.reduce([sign * rate(confidence).estimate for rate in of.values()])
        for of in (after, before)
    ]
    estimate = np.clip(ends[0] - ends[1], low, high)
    low, high = sorted((sign * float(low), sign * float(high)))
    return Interval(sign * float(estimate), low, high, confidence)
