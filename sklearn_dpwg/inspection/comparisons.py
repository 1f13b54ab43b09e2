"""Verdicts about all pairs of groups: who is too far below, or above, whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sklearn_dpwg._checks import open_unit
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection.audit_rows import smallest_ratio
from sklearn_dpwg.inspection.contrasts import Answer, Counts, Levels, Margin, excess, levels_of
from sklearn_dpwg.inspection.histogram import JOINT, greater_is_worse
from sklearn_dpwg.inspection.words import capital, listed, of_metric
from sklearn_dpwg.metrics.intervals import Interval

# The interval of a rate of groups taken together, at a confidence.
RateOf = Callable[[tuple[int, ...], float], Interval]

# Of so many contrasts that seem to be farthest beyond the margin exact limits are computed; a
# "fails" that only another one would show is missed, which errs on the safe side.
_N_TRIED = 6
# Whom a group is compared with, and whether the sides are turned; and what comes of it.
_Rivals = tuple[tuple[int, ...], bool]
_Against = dict[_Rivals, Interval]


@dataclass(frozen=True)
class Verdict:
    """Whether ratios, or differences, of groups are what is asked for.

    Parameters
    ----------
    answer : {"passes", "fails", "cannot tell", "not judged", "reference"}
        The answer; "not judged" of a group that is left out, "reference" of the one that all are
        compared with.
    sentence : str
        The answer in words, with its numbers.
    would_tell : str
        What would help to an answer, where there is none: more people, or more ε; else empty.
    """

    answer: Answer
    sentence: str
    would_tell: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.would_tell}".strip()


@dataclass(frozen=True)
class Comparison:
    """Rates of groups, held against each other by the smallest ratio that passes, or a difference.

    ``judged`` are the groups that are compared, ``left_out`` says who is not, and with whom.
    With ``both_ways`` a group may be neither too far below nor above another, and no end is the
    worse one. Of ``n_joint`` comparisons that pass together each may "fail" with so small a part of
    the error.
    """

    labels: tuple[str, ...]
    metric: str
    margin: Margin
    judged: tuple[int, ...]
    left_out: str
    rate_of: RateOf
    counts: Counts
    confidence: float
    reference: int | None = None
    n_joint: int = 1
    both_ways: bool = False

    @property
    def _error(self) -> float:
        """Probability with which a limit may be wrong, on either side."""
        return 0.5 * (1.0 - self.confidence)

    @cached_property
    def _levels(self) -> Levels:
        error, n_judged = self._error / self.n_joint, len(self.judged)
        if self.reference is not None:
            return Levels(0.0, error / max((1 + self.both_ways) * (n_judged - 1), 1))
        if not self.counts.is_sample:  # tails of noise are not those of normal errors
            return Levels(0.0, error / max(n_judged * (n_judged - 1), 1))
        return levels_of(self.counts.of(list(self.judged)), self.margin, error)

    def _rate(self, groups: tuple[int, ...], error: float) -> Interval:
        return self.rate_of(groups, 1.0 - 2.0 * error)

    def _contrast(self, low: tuple[int, ...], high: tuple[int, ...], error: float) -> Interval:
        return self.margin.contrast(self._rate(low, error), self._rate(high, error))

    def _others(self, group: int) -> tuple[int, ...]:
        return tuple(one for one in self.judged if one != group)

    def _with(self, group: int, other: tuple[int, ...], error: float, turned: bool) -> Interval:
        """Return the contrast with the one first whose rate is to be not too low."""
        as_they_are = greater_is_worse(self.metric) == turned
        low, high = ((group,), other) if as_they_are else (other, (group,))
        return self._contrast(low, high, error)

    @cached_property
    def _against(self) -> tuple[_Against, ...]:
        """The contrasts of each group with every rival, and with all of them together."""
        return tuple(map(self._with_rivals, range(len(self.labels))))

    def _with_rivals(self, group: int) -> _Against:
        rivals = self._others(group) if self.reference is None else (self.reference,)
        found: _Against = {}
        for turned in (False, True)[: 1 + self.both_ways]:
            for one in rivals:
                wide = self._with(group, (one,), self._error, turned)
                strict = self._with(group, (one,), self._levels.pair, turned)
                found[(one,), turned] = replace(wide, high=strict.high)
            if self._levels.pooled > 0.0:
                found[rivals, turned] = self._with(group, rivals, self._levels.pooled, turned)
        return found

    def _of_group(self, group: int) -> Interval:
        """Return the contrast of a group with the one that is best off, or farthest from it.

        It is the smaller of the two rates that is divided by the larger one, or less that one.
        """
        alike, found = self.margin.alike, self._against[group]
        if group == self.reference:
            return Interval(alike, alike, alike, self.confidence)
        if not found:
            most = math.inf if self.margin.is_ratio else 1.0
            return Interval(math.nan, alike - 1.0, most, self.confidence)
        pairs = [one for (rivals, _), one in found.items() if len(rivals) == 1]
        low, high = min(one.low for one in pairs), min(one.high for one in found.values())
        known = [one.estimate for one in pairs if not math.isnan(one.estimate)]
        if self.reference is None or self.both_ways:  # the best-off group may be this one
            low, high = min(low, alike), min(high, alike)
            known = [min(*known, alike)] if known else []
        estimate = min(known) if known else math.nan
        if not math.isnan(estimate):
            estimate = min(max(estimate, low), high)
        return Interval(estimate, low, high, self.confidence)

    @cached_property
    def contrasts(self) -> tuple[Interval, ...]:
        """The contrast of each group."""
        return tuple(map(self._of_group, range(len(self.labels))))

    def of_one(self, group: int) -> Verdict:
        """Return the verdict about a group for itself."""
        if group not in self.judged:
            return Verdict("not judged", f"{self.labels[group]} is not judged.")
        if group == self.reference:
            return Verdict("reference", f"{self.labels[group]} is what others are compared with.")
        answer = self.margin.answer(self.contrasts[group])
        words = f"{self._words((group,), *self._decisive(group))}{self._end(answer)}"
        return Verdict(answer, words, self._would_tell(group) if answer == "cannot tell" else "")

    def _decisive(self, group: int) -> tuple[tuple[int, ...], Interval]:
        """Return the rival, one group if there is one, whose limit decides, and the contrast."""
        fails = self.margin.answer(self.contrasts[group]) == "fails"

        def limit(one: tuple[_Rivals, Interval]) -> tuple[bool, float, float]:
            (rivals, _), contrast = one
            end = contrast.high if fails else contrast.low
            is_last = len(rivals) > 1 or (fails and self.margin.answer(contrast) != "fails")
            return is_last, end, _or_inf(contrast.estimate)

        (rivals, _), contrast = min(self._against[group].items(), key=limit)
        return rivals, contrast

    def of_all(self) -> Verdict:
        """Return the verdict about all groups together."""
        if len(self.judged) < 2:
            return Verdict("cannot tell", f"Fewer than two groups can be judged.{self.left_out}")
        held = [one for one in self.judged if one != self.reference]
        first = min(held, key=lambda one: (self.contrasts[one].high, self.contrasts[one].low))
        if self.margin.answer(self.contrasts[first]) == "fails":
            words = self._words((first,), *self._decisive(first))
            return Verdict("fails", f"{words}{self._end('fails')}{self.left_out}")
        against = self._all_against_one()
        if against is not None:
            return Verdict("fails", f"{against}{self._end('fails')}{self.left_out}")
        first = min(held, key=lambda one: self.contrasts[one].low)
        answer = self.margin.answer(self.contrasts[first])
        words = f"{self._words((first,), *self._decisive(first))}{self._end(answer)}"
        if answer == "passes":
            words = f"{self._every()} {words}"
        told = self._would_tell(first) if answer == "cannot tell" else ""
        return Verdict(answer, f"{words}{self.left_out}", told)

    def _all_against_one(self) -> str | None:
        """Return in words that all groups but one together are too far from it, if they are."""
        if self._levels.pooled <= 0.0:
            return None
        judged = self.counts.of(list(self.judged))
        others = judged.all_but_one()
        pair = (judged, others) if greater_is_worse(self.metric) else (others, judged)
        beyond = excess(*pair, self.margin)
        for place in np.argsort(-beyond)[:_N_TRIED].tolist():
            one = self.judged[place]
            rest = self._others(one)
            ratio = self._with(one, rest, self._levels.pooled, turned=True)
            if self.margin.answer(ratio) == "fails":
                return self._words(rest, (one,), ratio)
        return None

    def _every(self) -> str:
        """Return what is so of all groups that pass, and which interval is shown."""
        name = None if self.reference is None else self.labels[self.reference]
        kind, unit, end = ("ratio", "", "lowest")
        if not self.margin.is_ratio:
            kind, unit, end = "difference", " percentage points", "highest"
        beside = "" if name is None else f" beside {name}"
        bound = f"{self.margin.bounds[0]}{unit}"
        return f"Every {kind}{beside} is {bound}. The interval that reaches {end}:"

    def _words(self, worse: tuple[int, ...], better: tuple[int, ...], ratio: Interval) -> str:
        """Return both rates, the contrast and its limits."""
        metric = of_metric(self.metric)
        bad = " (high is bad)" if greater_is_worse(self.metric) and not self.both_ways else ""
        has = f"{'has' if len(worse) == 1 else 'have'} a{'n' * (metric[0] in 'ae')}"
        return (
            f"{self._name(worse)} {has} {metric}{bad} of {self._percent(worse)}, "
            f"{self._name(better)} of {self._percent(better)}: {self.margin.text(ratio)}"
        )

    def _name(self, groups: tuple[int, ...]) -> str:
        return self.labels[groups[0]] if len(groups) == 1 else "all others together"

    def _percent(self, groups: tuple[int, ...]) -> str:
        rate = self._rate(groups, self._error).estimate
        return "an unknown share" if math.isnan(rate) else f"{100 * rate:.1f} %"

    def _end(self, answer: Answer) -> str:
        within, beyond = self.margin.bounds
        ends = {"passes": f", {within}.", "fails": f", {beyond}."}
        return ends.get(answer, f", which may be {beyond} or not.")

    def _would_tell(self, group: int) -> str:
        """Say what makes the interval wide: few people, or noise."""
        rivals, contrast = self._decisive(group)
        if self.margin.is_untold(contrast):
            return (
                "Of rates near 0 a ratio is hardly ever known; their difference is: ask for it by "
                "within=0.05, or --fail-above 0.05."
            )
        pair = self.counts.of([group, *rivals])
        if not (pair.hit_noise.any() or pair.miss_noise.any()):
            return "More people would narrow it."
        if not pair.is_sample:
            return "Of these very people privacy noise alone makes this unclear: more epsilon."
        scale = pair.rates if self.margin.is_ratio else 1.0
        sampling, noisy = (
            float((one.variances() / scale**2).sum()) for one in (pair.without_noise(), pair)
        )
        chance, more = "chance in who is among these people", "more of this unclear than"
        if 2.0 * sampling > noisy:
            return f"{capital(chance)} makes {more} privacy noise: more people would narrow it."
        return f"Privacy noise makes {more} {chance}: more epsilon, or more people."


def margin_of(at_least: float | None, within: float | None) -> Margin:
    """Return what contrasts are held against: a ratio, four fifths if none is named."""
    if within is None:
        return Margin(smallest_ratio(0.8 if at_least is None else at_least), 0.0)
    if at_least is not None:
        raise InputError(f"within must be left out where at_least is given, got {within!r}.")
    return Margin(1.0, open_unit(within, "within"), is_ratio=False)


def are_both_ways(margin: Margin, reference: Hashable, metrics: Sequence[str]) -> bool:
    """Whether groups are compared upwards and downwards, so that none is behind."""
    are_odds = any(set(both) <= set(metrics) for both in JOINT.values())
    return are_odds or (reference is not None and not margin.is_ratio)


def together(comparisons: Sequence[Comparison], group: int | None = None) -> Verdict:
    """Return one verdict about several metrics, of a group or all: that of the one that decides.

    All pass where each does, as if it were alone; each fails at its part of the error.
    """
    found = [one.of_all() if group is None else one.of_one(group) for one in comparisons]
    for answer in ("fails", "cannot tell"):
        for one in found:
            if one.answer == answer:
                return one

    def slack(place: int) -> float:
        one = comparisons[place]
        contrasts = [one.contrasts[by] for by in (one.judged if group is None else (group,))]
        return min(contrast.low for contrast in contrasts)

    nearest = found[min(range(len(found)), key=slack)]
    if len(found) == 1:
        return nearest
    names = listed([of_metric(one.metric) for one in comparisons])
    return replace(nearest, sentence=f"By {names} each. {nearest.sentence}")


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value


def not_judged(named: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a sentence a reason about the groups that are not judged."""
    found = [f" Not judged, as {why}: {listed(labels)}." for why, labels in named if labels]
    return "".join(found)
