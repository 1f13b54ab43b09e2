"""Verdicts about all pairs of groups: who is too far below, or above, whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_dpwg.inspection.contrasts import Counts, Levels, Margin, excess, levels_of
from sklearn_dpwg.inspection.verdicts import Answer, Verdict, greater_is_worse
from sklearn_dpwg.inspection.words import listed, number, of_metric
from sklearn_dpwg.metrics.intervals import Interval
from sklearn_dpwg.metrics.intervals.ratio import ratio_of_rates

# The interval of a rate of groups taken together, at a confidence.
RateOf = Callable[[tuple[int, ...], float], Interval]

# Of so many contrasts that seem to be farthest beyond the margin exact limits are computed; a
# "fails" that only another one would show is missed, which errs on the safe side.
_N_TRIED = 6


@dataclass(frozen=True)
class Comparison:
    """Rates of groups, held against each other by the smallest ratio that passes.

    ``judged`` are the groups that are compared, ``left_out`` says in words which others are not.
    """

    labels: tuple[str, ...]
    metric: str
    at_least: float
    judged: tuple[int, ...]
    left_out: str
    rate_of: RateOf
    counts: Counts
    confidence: float
    reference: int | None = None

    @property
    def _error(self) -> float:
        """Probability with which a limit may be wrong, on either side."""
        return 0.5 * (1.0 - self.confidence)

    @cached_property
    def _levels(self) -> Levels:
        if self.reference is not None:
            return Levels(0.0, self._error / max(len(self.judged) - 1, 1))
        margin = Margin(self.at_least, 0.0)
        return levels_of(self.counts.of(list(self.judged)), margin, self._error)

    def _rate(self, groups: tuple[int, ...], error: float) -> Interval:
        return self.rate_of(groups, 1.0 - 2.0 * error)

    def _ratio(self, low: tuple[int, ...], high: tuple[int, ...], error: float) -> Interval:
        return ratio_of_rates(self._rate(low, error), self._rate(high, error))

    def _others(self, group: int) -> tuple[int, ...]:
        return tuple(one for one in self.judged if one != group)

    def _sides(self, group: int, other: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the one whose rate is to be not too low, and the other one."""
        return (other, (group,)) if greater_is_worse(self.metric) else ((group,), other)

    def of_group(self, group: int) -> Interval:
        """Return the ratio of a group to the group that is best off, whichever that is.

        It is the smaller of the two rates that is divided by the larger one.
        """
        if group == self.reference:
            return Interval(1.0, 1.0, 1.0, self.confidence)
        rivals = self._others(group) if self.reference is None else (self.reference,)
        if group not in self.judged and self.reference is None:
            rivals = self.judged
        if not rivals:
            return Interval(math.nan, 0.0, math.inf, self.confidence)
        pairs = [self._ratio(*self._sides(group, (one,)), self._error) for one in rivals]
        low = min(one.low for one in pairs)
        strict = [self._ratio(*self._sides(group, (one,)), self._levels.pair) for one in rivals]
        high = min(one.high for one in strict)
        if self._levels.pooled > 0.0:
            high = min(high, self._ratio(*self._sides(group, rivals), self._levels.pooled).high)
        known = [one.estimate for one in pairs if not math.isnan(one.estimate)]
        if self.reference is None:  # the best-off group may be this one
            low, high = min(low, 1.0), min(high, 1.0)
            known = [min(*known, 1.0)] if known else []
        estimate = min(known) if known else math.nan
        if not math.isnan(estimate):
            estimate = min(max(estimate, low), high)
        return Interval(estimate, low, high, self.confidence)

    @cached_property
    def ratios(self) -> tuple[Interval, ...]:
        """The ratio of each group."""
        return tuple(map(self.of_group, range(len(self.labels))))

    def group_verdicts(self) -> tuple[Verdict, ...]:
        """Return the verdict about each group for itself."""
        return tuple(map(self._of_group, range(len(self.labels))))

    def _of_group(self, group: int) -> Verdict:
        if group not in self.judged or len(self.judged) < 2:
            return Verdict("cannot tell", f"{self.labels[group]} is not judged.")
        if group == self.reference:
            return Verdict("passes", f"{self.labels[group]} is what others are compared with.")
        ratio = self.ratios[group]
        answer = answer_of(ratio, self.at_least)
        words = f"{self._words((group,), self._rival(group), ratio)}{self._end(answer)}"
        return Verdict(answer, words, self._would_tell(group) if answer == "cannot tell" else "")

    def _rival(self, group: int) -> tuple[int, ...]:
        """Return the best-off group by its estimate."""
        if self.reference is not None:
            return (self.reference,)
        sign = -1.0 if greater_is_worse(self.metric) else 1.0
        rates = {one: self._rate((one,), self._error).estimate for one in self._others(group)}
        known = {one: sign * rate for one, rate in rates.items() if not math.isnan(rate)}
        return (max(known or rates, key=lambda one: known.get(one, 0.0)),)

    def of_all(self) -> Verdict:
        """Return the verdict about all groups together."""
        if len(self.judged) < 2:
            return Verdict("cannot tell", f"Fewer than two groups can be judged.{self.left_out}")
        from_lowest = sorted(
            self.judged, key=lambda one: (_or_inf(self.ratios[one].high), self.ratios[one].low)
        )
        first = from_lowest[0]
        if self.ratios[first].high < self.at_least:
            words = self._words((first,), self._rival(first), self.ratios[first])
            return Verdict("fails", f"{words}{self._end('fails')}{self.left_out}")
        against = self._all_against_one()
        if against is not None:
            return Verdict("fails", f"{against}{self._end('fails')}{self.left_out}")
        first = min(self.judged, key=lambda one: self.ratios[one].low)
        ratio = self.ratios[first]
        answer = answer_of(ratio, self.at_least)
        words = f"{self._words((first,), self._rival(first), ratio)}{self._end(answer)}"
        if answer == "passes":
            words = f"Every ratio is at least {self.at_least:g}. The lowest: {words}"
        told = self._would_tell(first) if answer == "cannot tell" else ""
        return Verdict(answer, f"{words}{self.left_out}", told)

    def _all_against_one(self) -> str | None:
        """Return in words that all groups but one together are too far from it, if they are."""
        if self._levels.pooled <= 0.0:
            return None
        judged = self.counts.of(list(self.judged))
        others, margin = judged.all_but_one(), Margin(self.at_least, 0.0)
        pair = (judged, others) if greater_is_worse(self.metric) else (others, judged)
        beyond = excess(*pair, margin)
        for place in np.argsort(-beyond)[:_N_TRIED].tolist():
            one = self.judged[place]
            rest = self._others(one)
            low, high = ((one,), rest) if greater_is_worse(self.metric) else (rest, (one,))
            ratio = self._ratio(low, high, self._levels.pooled)
            if ratio.high < self.at_least:
                return self._words(rest, (one,), ratio)
        return None

    def _words(self, worse: tuple[int, ...], better: tuple[int, ...], ratio: Interval) -> str:
        """Return both rates, the ratio and its limits."""
        metric, is_harm = of_metric(self.metric), greater_is_worse(self.metric)
        ends = (ratio.low, ratio.high)
        low, high = (number(end, in_percent=False, limit=self.at_least) for end in ends)
        said = f"a ratio of {ratio.estimate:.2f} [{low}, {high}]"
        if math.isnan(ratio.estimate):
            said = "a ratio that nobody knows"
        bad = " (high is bad)" if is_harm else ""
        has = "has" if len(worse) == 1 else "have"
        return (
            f"{self._name(worse)} {has} a {metric}{bad} of {self._percent(worse)}, "
            f"{self._name(better)} of {self._percent(better)}: {said}"
        )

    def _name(self, groups: tuple[int, ...]) -> str:
        return self.labels[groups[0]] if len(groups) == 1 else "all others together"

    def _percent(self, groups: tuple[int, ...]) -> str:
        rate = self._rate(groups, self._error).estimate
        return "an unknown share" if math.isnan(rate) else f"{100 * rate:.1f} %"

    def _end(self, answer: Answer) -> str:
        if answer == "passes":
            return f", at least {self.at_least:g}."
        if answer == "fails":
            return f", below {self.at_least:g}."
        return f", which may be below {self.at_least:g} or not."

    def _would_tell(self, group: int) -> str:
        """Say what makes the interval wide: few people, or noise."""
        pair = self.counts.of([group, *self._rival(group)])
        if not (pair.hit_noise.any() or pair.miss_noise.any()):
            return "More people would narrow it."
        sampling, noisy = pair.without_noise().relative_errors(), pair.relative_errors()
        share = float((sampling**2).sum() / max((noisy**2).sum(), 1e-300))
        if share > 2 / 3:
            return "Privacy noise is not what makes this unclear: more people would narrow it."
        if share < 1 / 3:
            return "Privacy noise is most of what makes this unclear: more epsilon, or more people."
        return "Both chance and privacy noise make this unclear: more people narrow both."


def answer_of(ratio: Interval, at_least: float) -> Answer:
    """Return what an interval of a ratio says; one that holds both says that nobody can tell."""
    if ratio.low >= at_least:
        return "passes"
    return "fails" if ratio.high < at_least else "cannot tell"


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value


def not_judged(named: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a sentence a reason about the groups that are not judged."""
    found = [f" Not judged, as {why}: {listed(labels)}." for why, labels in named if labels]
    return "".join(found)
