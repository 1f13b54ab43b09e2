"""Verdicts about all pairs of groups: whether the rate of one is too far from that of another.

A contrast is the ratio or the difference of two rates. Its limits are compared with a margin, at
levels that bound the error of the whole verdict (docs/theory/verdicts.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from sklearn_dpwg._checks import FloatArray, open_unit, real_number
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.inspection.histogram import RATES, GroupRate, Histogram, Of, greater_is_worse
from sklearn_dpwg.inspection.words import listed, of_metric
from sklearn_dpwg.metrics.intervals import Interval
from sklearn_dpwg.metrics.intervals.ratio import (
    Limits,
    difference_of_rates,
    limits_of,
    ratio_of_rates,
)

# Answers about all groups (the first three) or about one group (any of them).
Answer = Literal["passes", "fails", "cannot tell", "not judged", "reference"]
# Rates that equalized odds compare; each of them has to pass.
ODDS = ("true_positive_rate", "false_positive_rate")
# Maps groups, which are pooled, and a confidence to the interval of their rate.
RateOf = Callable[[tuple[int, ...], float], Interval]

# Part of the error of a wrong "fails" that tests of pairs may use; the rest goes to tests of a
# group against all others together, which detect one group that differs.
_PAIR_FRACTION = 0.4
# Part of the error that a limit of the highest rate uses; two groups hardly need that limit.
_LIMIT_FRACTION = 0.02
_LIMIT_FRACTION_OF_TWO = 0.001
_N_BISECTIONS = 14  # for levels
# Ranges of the fraction of records in low groups, for each of which errors are bounded.
_N_RANGES = 256
_ROUNDING = 1e-9  # slack for rounded sums of fractions at the ends of a range
# Exact limits are computed for this many contrasts, those that seem farthest beyond the margin. A
# "fails" that only another contrast would show is missed, which errs on the safe side.
_N_EXACT_LIMITS = 6


@dataclass(frozen=True)
class GroupVerdict:
    """Whether one group is too far from the one that is best off, or from the reference.

    ``contrasts`` has for each metric the ratio of the group's rate to that of the best-off group,
    or its distance from it. For a harm the ratio is the smallest rate over that of the group.
    """

    group: Hashable
    answer: Answer
    sentence: str
    contrasts: tuple[GroupRate, ...]

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Verdict:
    """Whether the ratios, or differences, of group rates pass a test; ``print`` it.

    Parameters
    ----------
    answer : {"passes", "fails", "cannot tell"}
        The answer.
    rule : str
        Name of the test, such as "the four-fifths rule".
    sentence : str
        The numbers that decide, and the groups that are not judged.
    groups : tuple of GroupVerdict
        A verdict for each group.
    metrics, limit, of : tuple of str, float, {"process", "records"}
        The question: rates, the smallest ratio or largest difference that passes, and whether
        rates describe a process or the records themselves.
    """

    answer: Answer
    rule: str
    sentence: str
    groups: tuple[GroupVerdict, ...]
    metrics: tuple[str, ...]
    limit: float
    of: Of

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Margin:
    """How far apart two rates may be: low rate ≥ ``factor`` × high rate − ``gap``.

    A contrast is low rate / high rate, or low rate − high rate, and passes from ``least`` on.
    """

    factor: float
    gap: float
    is_ratio: bool = True

    @property
    def least(self) -> float:
        """The smallest contrast that passes."""
        return self.factor if self.is_ratio else -self.gap

    @property
    def name(self) -> str:
        """Word for a contrast in sentences."""
        return "ratio" if self.is_ratio else "difference"

    def contrasts(self, low: Limits, high: Limits) -> Limits:
        """Return the contrasts of low with high rates: estimates, lower and upper limits."""
        return ratio_of_rates(low, high) if self.is_ratio else difference_of_rates(low, high)

    def answer(self, contrast: Interval) -> Answer:
        """Return the answer about a contrast: "cannot tell" if the margin is within its limits."""
        if contrast.low >= self.least:
            return "passes"
        return "fails" if contrast.high < self.least else "cannot tell"

    @property
    def bounds(self) -> tuple[str, str]:
        """Phrases for the contrasts that pass, and for those that fail."""
        if self.is_ratio:
            return f"at least {self.factor:g}", f"below {self.factor:g}"
        return f"at most {100.0 * self.gap:g} points", f"above {100.0 * self.gap:g} points"

    def shown(self, contrast: Interval) -> Interval:
        """Return the contrast for display: a difference as the distance high rate − low rate."""
        if self.is_ratio:
            return contrast
        # 0.0 - x and not -x, so that no "-0.0" is shown
        low, value, high = (0.0 - x for x in (contrast.high, contrast.estimate, contrast.low))
        return Interval(value, low, high, contrast.confidence)

    def text(self, contrast: Interval, answer: Answer) -> str:
        """Return a phrase with a contrast, its limits, and the side of the margin it is on."""
        shown, (within, beyond) = self.shown(contrast), self.bounds
        value, low, high = (
            f"{number:.2f}" if self.is_ratio else f"{100.0 * number:.1f}"
            for number in (shown.estimate, shown.low, shown.high)
        )
        if self.is_ratio and answer == "fails" and float(high) >= self.factor:
            high = f"{shown.high:.5f}"  # two digits would round up to the margin
        end = {"passes": within, "fails": beyond}.get(answer, f"which may be {beyond} or not")
        return f"a {self.name} of {value} [{low}, {high}], {end}".replace("of nan", "nobody knows")


def margin_of(at_least: Any, within: Any) -> Margin:
    """Return the margin of two parameters of a verdict; a ratio of 0.8 if both are None."""
    if within is None:
        ratio = real_number(0.8 if at_least is None else at_least, "at_least")
        if not 0.0 < ratio <= 1.0:
            raise InputError(f"at_least must be above 0 and at most 1, got {at_least!r}.")
        return Margin(ratio, 0.0)
    if at_least is not None:
        raise InputError(f"within must be left out where at_least is given, got {within!r}.")
    return Margin(1.0, open_unit(within, "within"), is_ratio=False)


def metrics_of(metric: Any) -> tuple[str, ...]:
    """Return the names of the rates to judge; "equalized_odds" stands for two of them."""
    names = [metric] if isinstance(metric, str) else metric
    if not (isinstance(names, Sequence) and all(isinstance(one, str) for one in names)):
        raise InputTypeError(f"metric must be a name or a sequence of names, got {metric!r}.")
    rates_by_name = (ODDS if name == "equalized_odds" else (name,) for name in names)
    rates = tuple(dict.fromkeys(chain.from_iterable(rates_by_name)))
    if not rates:
        raise InputError(f"metric must be one of {', '.join(RATES)}, or several, got none.")
    return rates


# The groups that a group is compared with, pooled, and whether the sides are swapped.
_Rivals = tuple[tuple[int, ...], bool]


@dataclass(frozen=True)
class Comparison:
    """Contrasts of one metric between all judged groups, and the answers that follow from them.

    ``judged`` and ``reference`` are places of groups. With ``both_ways`` a group may be neither too
    far below nor too far above another. ``n_joint`` metrics share the error of a wrong "fails".
    """

    names: tuple[str, ...]
    metric: str
    margin: Margin
    judged: tuple[int, ...]
    rate_of: RateOf
    counts: Counts
    confidence: float
    reference: int | None = None
    n_joint: int = 1
    both_ways: bool = False

    @property
    def _error(self) -> float:
        """Probability that a limit of a contrast may be wrong, on each side."""
        return 0.5 * (1.0 - self.confidence)

    @cached_property
    def _levels(self) -> Levels:
        """Errors of single tests, which keep the error of a wrong "fails" of the whole verdict."""
        error, n_judged = self._error / self.n_joint, len(self.judged)
        if self.reference is not None:
            return Levels(0.0, error / max((1 + self.both_ways) * (n_judged - 1), 1))
        if not self.counts.is_sample:  # noise alone is not normal, as `levels_of` assumes
            return Levels(0.0, error / max(n_judged * (n_judged - 1), 1))
        return levels_of(self.counts.of(list(self.judged)), self.margin, error)

    def _other_judged(self, group: int) -> tuple[int, ...]:
        """Return the places of all judged groups but one."""
        return tuple(other for other in self.judged if other != group)

    def _contrasts_with(
        self, group: int, rivals: Sequence[tuple[int, ...]], error: float, swapped: bool
    ) -> list[Interval]:
        """Return contrasts of a group with rivals, each a pool of groups, at a one-sided error.

        They test whether the group is behind the rival, ``swapped`` whether the rival is behind.
        """
        confidence = 1.0 - 2.0 * error
        group_limits = limits_of([self.rate_of((group,), confidence)])
        rival_limits = limits_of(self.rate_of(rival, confidence) for rival in rivals)
        sides = group_limits, rival_limits
        low_rates, high_rates = sides if greater_is_worse(self.metric) == swapped else sides[::-1]
        arrays = self.margin.contrasts(low_rates, high_rates)
        rows = zip(*(array.tolist() for array in arrays), strict=True)
        return [Interval(value, low, high, self.confidence) for value, low, high in rows]

    @cached_property
    def _rival_contrasts(self) -> tuple[dict[_Rivals, Interval], ...]:
        """For each group its contrasts with every single rival, and with all of them pooled."""
        return tuple(map(self._rival_contrasts_of, range(len(self.names))))

    def _rival_contrasts_of(self, group: int) -> dict[_Rivals, Interval]:
        """Return the contrasts of one group: lower limits at `_error`, upper ones at `_levels`."""
        rivals = self._other_judged(group) if self.reference is None else (self.reference,)
        contrasts: dict[_Rivals, Interval] = {}
        singles = [(rival,) for rival in rivals]
        for swapped in (False, True)[: 1 + self.both_ways]:
            at_error = self._contrasts_with(group, singles, self._error, swapped)
            at_level = self._contrasts_with(group, singles, self._levels.pair, swapped)
            for single, lower, upper in zip(singles, at_error, at_level, strict=True):
                contrasts[single, swapped] = replace(lower, high=upper.high)
            if self._levels.pooled > 0.0:
                (contrasts[rivals, swapped],) = self._contrasts_with(
                    group, [rivals], self._levels.pooled, swapped
                )
        return contrasts

    @cached_property
    def contrasts(self) -> tuple[Interval, ...]:
        """The contrast of each group with the one that is best off, or farthest from it."""
        return tuple(map(self._smallest_contrast, range(len(self.names))))

    def _smallest_contrast(self, group: int) -> Interval:
        """Return the smallest contrast of a group with any rival, which decides about the group."""
        equality, contrasts = float(self.margin.is_ratio), self._rival_contrasts[group]
        if group == self.reference:
            return Interval(equality, equality, equality, self.confidence)
        if not contrasts:  # no rival: nothing is known
            largest = math.inf if self.margin.is_ratio else 1.0
            return Interval(math.nan, equality - 1.0, largest, self.confidence)
        pairs = [contrast for (rivals, _), contrast in contrasts.items() if len(rivals) == 1]
        low = min(contrast.low for contrast in pairs)
        high = min(contrast.high for contrast in contrasts.values())
        estimates = [pair.estimate for pair in pairs if not math.isnan(pair.estimate)]
        if self.reference is None or self.both_ways:  # the best-off group may be this one
            low, high = min(low, equality), min(high, equality)
            estimates = [min(*estimates, equality)] if estimates else []
        estimate = min(max(min(estimates), low), high) if estimates else math.nan
        return Interval(estimate, low, high, self.confidence)

    def answer(self, group: int) -> Answer:
        """Return the answer about one group."""
        if group not in self.judged:
            return "not judged"
        return "reference" if group == self.reference else self.margin.answer(self.contrasts[group])

    def sentence(self, group: int) -> str:
        """Return a sentence with the numbers that decide about one group."""
        answer, name = self.answer(group), self.names[group]
        if answer == "not judged":
            return f"{name} is not judged."
        if answer == "reference":
            return f"{name} is what others are compared with."
        rivals, contrast = self._decisive_contrast(group)
        return self._sentence_of((group,), rivals, contrast, answer)

    def _decisive_contrast(self, group: int) -> tuple[tuple[int, ...], Interval]:
        """Return the rivals, one if possible, and the contrast that decides about a group."""
        fails = self.answer(group) == "fails"

        def sort_key(item: tuple[_Rivals, Interval]) -> tuple[bool, float, float]:
            (rivals, _), contrast = item
            limit = contrast.high if fails else contrast.low
            is_last = len(rivals) > 1 or (fails and self.margin.answer(contrast) != "fails")
            is_unknown = math.isnan(contrast.estimate)
            return is_last, limit, math.inf if is_unknown else contrast.estimate

        (rivals, _), contrast = min(self._rival_contrasts[group].items(), key=sort_key)
        return rivals, contrast

    def overall(self) -> tuple[Answer, str]:
        """Return the answer about all groups together, and a sentence with the deciding numbers."""
        if len(self.judged) < 2:
            return "cannot tell", "Fewer than two groups can be judged."
        compared = [group for group in self.judged if group != self.reference]
        contrasts = self.contrasts
        worst = min(compared, key=lambda group: (contrasts[group].high, contrasts[group].low))
        if self.answer(worst) == "fails":
            return "fails", self.sentence(worst)
        failure = self._failure_of_all_but_one()
        if failure is not None:
            return "fails", failure
        closest = min(compared, key=lambda group: contrasts[group].low)
        if self.answer(closest) == "passes":
            every = f"Every {self.margin.name} is {self.margin.bounds[0]}. The closest:"
            return "passes", f"{every} {self.sentence(closest)}"
        return "cannot tell", self.sentence(closest)

    def _failure_of_all_but_one(self) -> str | None:
        """Return a sentence if all groups but one, pooled, are too far behind that one."""
        if self._levels.pooled <= 0.0:
            return None
        judged = self.counts.of(list(self.judged))
        others = judged.all_but_one()
        low, high = (judged, others) if greater_is_worse(self.metric) else (others, judged)
        factor, gap = self.margin.factor, self.margin.gap
        variance = low.variances() + factor**2 * high.variances()
        # how far low rates are beyond the margin, in standard deviations
        excess = _in_deviations(factor * high.rates - gap - low.rates, variance)
        for place in np.argsort(-excess)[:_N_EXACT_LIMITS].tolist():
            best = self.judged[place]
            rest = self._other_judged(best)
            (contrast,) = self._contrasts_with(best, [rest], self._levels.pooled, swapped=True)
            if self.margin.answer(contrast) == "fails":
                return self._sentence_of(rest, (best,), contrast, "fails")
        return None

    def _sentence_of(
        self, worse: tuple[int, ...], better: tuple[int, ...], contrast: Interval, answer: Answer
    ) -> str:
        """Return a sentence with the rates of two pools of groups, and their contrast."""
        metric = of_metric(self.metric)
        bad = " (high is bad)" if greater_is_worse(self.metric) and not self.both_ways else ""
        has = f"{'has' if len(worse) == 1 else 'have'} a{'n' * (metric[0] in 'ae')}"
        names, percents = [], []
        for groups in (worse, better):
            names.append(self.names[groups[0]] if len(groups) == 1 else "all others together")
            rate = self.rate_of(groups, self.confidence).estimate
            percents.append("an unknown fraction" if math.isnan(rate) else f"{100 * rate:.1f} %")
        return (
            f"{names[0]} {has} {metric}{bad} of {percents[0]}, {names[1]} of {percents[1]}: "
            f"{self.margin.text(contrast, answer)}."
        )


def verdict_of(
    comparisons: Sequence[Comparison], labels: Sequence[Hashable], scope: str
) -> Verdict:
    """Return one verdict of several comparisons, one for each metric, with the same margin.

    ``labels`` are those of all groups; ``scope`` is text about groups that are not judged.
    """
    outcomes = [comparison.overall() for comparison in comparisons]
    all_answers, first = [answer for answer, _ in outcomes], comparisons[0]
    answer, sentence = outcomes[_deciding_metric(comparisons, all_answers, first.judged)]
    groups = []
    for group, label in enumerate(labels):
        answers = [comparison.answer(group) for comparison in comparisons]
        place, contrasts = _deciding_metric(comparisons, answers, (group,)), []
        for comparison in comparisons:
            shown = first.margin.shown(comparison.contrasts[group])
            name = f"{comparison.metric} {first.margin.name}"
            contrasts.append(GroupRate(label, name, shown.estimate, shown.low, shown.high))
        group_sentence = comparisons[place].sentence(group)
        groups.append(GroupVerdict(label, answers[place], group_sentence, tuple(contrasts)))
    return Verdict(
        answer=answer,
        rule=_rule(comparisons),
        sentence=f"{sentence}{scope}",
        groups=tuple(groups),
        metrics=tuple(comparison.metric for comparison in comparisons),
        limit=abs(first.margin.least),
        of="process" if first.counts.is_sample else "records",
    )


def _deciding_metric(
    comparisons: Sequence[Comparison], answers: list[Answer], groups: Sequence[int]
) -> int:
    """Return the place of the metric that decides: one that fails, is open, or is closest."""
    for answer in ("fails", "cannot tell"):
        if answer in answers:
            return answers.index(answer)
    lows = [
        min((comparison.contrasts[group].low for group in groups), default=0.0)
        for comparison in comparisons
    ]
    return int(np.argmin(lows))


def _rule(comparisons: Sequence[Comparison]) -> str:
    """Return the name of the test that groups pass or fail."""
    first = comparisons[0]
    names = listed([of_metric(comparison.metric) for comparison in comparisons])
    beside = "" if first.reference is None else f" beside {first.names[first.reference]}"
    if (names, first.margin.least) == ("selection rate", 0.8):
        return f"the four-fifths rule{beside}"
    return f"the test that every {first.margin.name} in {names}{beside} is {first.margin.bounds[0]}"


# Counts as arrays, and the levels at which contrasts are tested.


@dataclass(frozen=True)
class Counts:
    """Hits and misses of groups, of shape (..., n_groups), and the variances of their noise.

    ``totals`` are hits + misses without noise, if they are public. If not ``is_sample``, the
    records are everybody, and rates have no sampling error.
    """

    hits: FloatArray
    misses: FloatArray
    hit_noise: FloatArray
    miss_noise: FloatArray
    totals: FloatArray | None = None
    is_sample: bool = True

    @classmethod
    def of_rate(cls, counted: Histogram, metric: str) -> Counts:
        """Return the hits and misses of a rate for all groups of a histogram."""
        rate, n_groups = RATES[metric], len(counted.counts)
        (hits, n_hits), (misses, n_misses) = counted.totals(rate.hits), counted.totals(rate.misses)
        variance = 0.0 if counted.noise is None else counted.noise.std**2
        noise = np.full(n_groups, n_hits * variance), np.full(n_groups, n_misses * variance)
        public_sizes = [counted.public_size(rate, group) for group in range(n_groups)]
        totals = None if None in public_sizes else np.array(public_sizes, dtype=np.float64)
        return cls(hits.astype(float), misses.astype(float), *noise, totals, counted.is_sample)

    @property
    def sizes(self) -> FloatArray:
        """Denominators of the rates, hits + misses, at least 1."""
        return np.maximum(self.hits + self.misses if self.totals is None else self.totals, 1.0)

    @property
    def rates(self) -> FloatArray:
        """Estimates of the rates, with half a record added to hits and to misses."""
        hits, misses = self.hits, self.misses
        if self.totals is not None:  # two noisy estimates of the hits are averaged
            hits = 0.5 * (hits - misses + self.totals)
            misses = self.totals - hits
        hits, misses = np.maximum(hits, 0.0) + 0.5, np.maximum(misses, 0.0) + 0.5
        return np.asarray(hits / (hits + misses))

    def variances(self, rates: FloatArray | float | None = None) -> FloatArray:
        """Return the variances of estimates, if the true rates are these; by default estimates."""
        true_rates = self.rates if rates is None else rates
        if self.totals is None:
            noise = self.hit_noise * (1.0 - true_rates) ** 2
            noise = noise + self.miss_noise * np.square(true_rates)
        else:  # hits are half of hits − misses + total
            noise = 0.25 * (self.hit_noise + self.miss_noise)
        sizes = self.sizes
        sampling = self.is_sample * sizes * true_rates * (1.0 - true_rates)
        return np.asarray((sampling + noise) / sizes**2)

    def all_but_one(self) -> Counts:
        """Return for each group the summed counts of all other groups."""
        return self._each(lambda values: values.sum(axis=-1, keepdims=True) - values)

    def of(self, groups: list[int]) -> Counts:
        """Return the counts of the groups at these places."""
        return self._each(lambda values: values[..., groups])

    def _each(self, change: Callable[[FloatArray], Any]) -> Counts:
        """Return counts in which a function has changed every array."""
        arrays = {name: one for name, one in vars(self).items() if isinstance(one, np.ndarray)}
        return replace(self, **{name: change(array) for name, array in arrays.items()})


def _in_deviations(distance: FloatArray | float, variance: FloatArray) -> FloatArray:
    """Return distance / √variance; 0 for 0/0, infinite for a positive distance over 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(distance / np.sqrt(variance), nan=0.0, posinf=np.inf, neginf=-np.inf)


class Levels(NamedTuple):
    """One-sided error of a test of a group against all others pooled, and of a pair of groups."""

    pooled: float  # 0 if no such test is made
    pair: float


def levels_of(counts: Counts, margin: Margin, error: float) -> Levels:
    """Return levels at which a "fails" is wrong with a probability of at most the error.

    If all rates are within the margin, the worst case has them at its two ends: a set B of groups
    at the low end, the others at the high end. A test against all others is at its border only if
    the group is alone at its end, and a test of a pair only if one of both is in B. So the errors
    of few tests add up. ``docs/theory/verdicts.md`` has the proof.
    """
    n_groups = counts.hits.shape[-1]
    if n_groups < 2:
        return Levels(0.0, error)
    limit_error = (_LIMIT_FRACTION if n_groups > 2 else _LIMIT_FRACTION_OF_TWO) * error
    shifts, test_error = _Shifts(counts, margin, limit_error), error - limit_error
    if n_groups == 2:

        def sum_of_two(level: float) -> float:
            return level + float(ndtr(ndtri(level) - shifts.reverse))

        return Levels(pooled=0.0, pair=_largest_level(sum_of_two, test_error, least=0.5))

    def sum_of_pairs(level: float) -> float:
        return float(shifts.pair_errors(level).max())

    def sum_of_all(level: float) -> float:
        return float((shifts.pooled_errors(level) + shifts.pair_errors(pair)).max())

    # by Bonferroni's inequality these fractions of the error are always allowed
    pair_fraction = 1.0 / (n_groups * (n_groups - 1))
    pooled_fraction = 0.5 * (1.0 - _PAIR_FRACTION) / n_groups
    pair = _largest_level(sum_of_pairs, _PAIR_FRACTION * test_error, pair_fraction)
    return Levels(_largest_level(sum_of_all, test_error, pooled_fraction), pair)


def _largest_level(sum_of_errors: Callable[[float], float], error: float, least: float) -> float:
    """Return the largest level, from ``least`` × error on, whose sum of errors is at most error."""
    low, high = math.log(error * least), math.log(error)
    if sum_of_errors(error) <= error:
        return error
    for _ in range(_N_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sum_of_errors(math.exp(middle)) <= error else (low, middle)
    return math.exp(low)


class _Shifts:
    """Distances of contrasts from the margin, in standard deviations, in the worst case.

    Every rate is at the low or the high end of the margin (see `levels_of`). ``low``: a low group
    against all others, if all are low. ``high``: all others against a high group, if all are high.
    ``pairs``: two groups at the same end. ``reverse``: a high group against a low one, of two.
    """

    def __init__(self, counts: Counts, margin: Margin, error: float) -> None:
        pooled = counts._each(lambda values: values.sum(axis=-1, keepdims=True))
        radius = -ndtri(error if margin.is_ratio else 0.5 * error) * np.sqrt(pooled.variances())
        # the highest rate is at least the pooled one; with a difference it is also near to it
        highest = max(float((pooled.rates - radius)[0]), 0.0)
        spread = (1.0 - margin.factor) * highest + margin.gap
        lowest = max(highest - spread, 0.0)
        possible_rates: tuple[float, ...] = (lowest, highest)
        if not margin.is_ratio:  # variances are largest at an end, or at 1/2
            top = min(float((pooled.rates + radius)[0]) + spread, 1.0)
            possible_rates = (lowest, top, min(max(0.5, lowest), top))
        variances, variances_of_others = (
            np.max([each.variances(rate) for rate in possible_rates], axis=0)
            for each in (counts, counts.all_but_one())
        )
        square = margin.factor**2
        pair_variances = np.maximum(
            variances[:, None] + square * variances, variances + square * variances[:, None]
        )
        same_end = (1.0 - margin.factor) * lowest + margin.gap
        reverse = (1.0 - square) * highest + (1.0 + margin.factor) * margin.gap
        self.low = _in_deviations(margin.factor * spread, variances + square * variances_of_others)
        self.high = _in_deviations(spread, variances_of_others + square * variances)
        self.pairs = _in_deviations(same_end, pair_variances)
        self.reverse = float(_in_deviations(reverse, pair_variances)[0, 1])
        self.fractions = counts.sizes / counts.sizes.sum()
        # ranges of the fraction of all records that are in low groups
        edges = np.linspace(0.0, 1.0, _N_RANGES + 1)
        self._ranges = edges[:-1] - _ROUNDING, edges[1:] + _ROUNDING

    @cached_property
    def _n_border_pairs(self) -> FloatArray:
        """Largest number of pairs of a low and a high group, by range; -inf if no groups fit."""
        least, most = self._ranges
        n, ordered = len(self.fractions), np.sort(self.fractions)
        n_most = np.searchsorted(np.cumsum(ordered), most, side="right")
        n_least = np.searchsorted(np.cumsum(ordered[::-1]), least) + (least > 0.0)
        n_low = np.clip(n // 2, n_least, np.maximum(n_most, n_least))
        return np.where(n_least > n_most, -np.inf, n_low * (n - n_low))

    def pooled_errors(self, level: float) -> FloatArray:
        """Return a bound of the sum of errors of tests against all others pooled, by range."""
        least, most = self._ranges
        low_errors = _errors_of_one_end(level, self.low, self.fractions, least, most)
        least, most = 1.0 - most, 1.0 - least  # of the records, in high groups
        return low_errors + _errors_of_one_end(level, self.high, self.fractions, least, most)

    def pair_errors(self, level: float) -> FloatArray:
        """Return a bound of the sum of errors of tests of pairs, by range of the low groups."""
        same_end = ndtr(ndtri(level) - self.pairs)
        return self._n_border_pairs * level + float(same_end.sum() - np.trace(same_end))


def _errors_of_one_end(
    level: float, shifts: FloatArray, fractions: FloatArray, least: FloatArray, most: FloatArray
) -> FloatArray:
    """Return a bound of the errors by range: groups at one end have least to most of all records.

    The worst choice of groups is a knapsack; its relaxation takes them by gain in error per size.
    """
    quantile, fractions = ndtri(level), np.maximum(fractions, 1e-12)
    rest = np.maximum(1.0 - fractions, 1e-12)
    with np.errstate(invalid="ignore"):  # an infinite shift times 0
        shared = shifts * np.maximum(least[:, None] - fractions, 0.0) / rest
    base_errors = ndtr(quantile - shifts)
    gains = ndtr(quantile - np.minimum(np.nan_to_num(shared, nan=0.0), shifts)) - base_errors
    order = np.argsort(-gains / fractions, axis=1)
    size = fractions[order]
    taken = np.clip((most[:, None] - np.cumsum(size, axis=1) + size) / size, 0.0, 1.0)
    gain = (taken * np.take_along_axis(gains, order, axis=1)).sum(axis=1)
    return np.asarray(base_errors.sum() + gain)
