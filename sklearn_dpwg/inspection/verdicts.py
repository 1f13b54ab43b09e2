"""Verdicts about all pairs of groups: who is too far below, or above, whom.

A verdict rests on contrasts, ratios or differences of two rates, each with a limit at a level that
makes the whole verdict wrong as seldom as it says (docs/theory/verdicts.md).
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

# Whether groups are treated alike, which may be that nobody can tell; a group may be left out.
Answer = Literal["passes", "fails", "cannot tell", "not judged", "reference"]
# Rates of which each has to pass in equalized odds.
ODDS = ("true_positive_rate", "false_positive_rate")
# The interval of a rate of groups taken together, at a confidence.
RateOf = Callable[[tuple[int, ...], float], Interval]

# Of the error of a wrong "fails" pairs may have so much where most of them are at the border; what
# they leave elsewhere is of groups against all others together, which find one that differs.
_PAIR_FRACTION = 0.4
# Of all, so much goes to a limit of the highest rate: of two groups it matters less.
_FRACTION_OF_LIMIT = 0.02
_FRACTION_OF_TWO = 0.001
_N_STEPS = 14
# So many ranges of the fraction of low groups are looked at.
_N_FRACTIONS = 256
_ROUNDING = 1e-9
# Of so many contrasts that seem to be farthest beyond the margin exact limits are computed; a
# "fails" that only another one would show is missed, which errs on the safe side.
_N_TRIED = 6


@dataclass(frozen=True)
class GroupVerdict:
    """Whether one group is too far from the one that is best off, or from the reference.

    ``contrasts`` has by each metric the ratio of the group's rate to that of the group that is best
    off, whichever that is, or how far it is behind; of a harm it is the smallest rate over its own.
    """

    group: Hashable
    answer: Answer
    sentence: str
    contrasts: tuple[GroupRate, ...]

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Verdict:
    """Whether ratios, or differences, of groups are what is asked for; ``print`` it.

    Parameters
    ----------
    answer : {"passes", "fails", "cannot tell"}
        The answer.
    rule : str
        What is passed or failed.
    sentence : str
        The numbers that decide, with those groups that are not judged.
    groups : tuple of GroupVerdict
        The same of each group.
    metrics, limit, of : tuple of str, float, {"process", "records"}
        What was asked: rates, the smallest ratio or largest difference that passes, and what the
        rates are of.
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
    """How far apart rates may be: a low one is at least ``factor`` × a high one less ``gap``.

    A contrast is the ratio of a low to a high rate, or how far it is above it, and is held against
    the ``least``.
    """

    factor: float
    gap: float
    is_ratio: bool = True

    @property
    def least(self) -> float:
        """The smallest contrast that is allowed."""
        return self.factor if self.is_ratio else -self.gap

    @property
    def name(self) -> str:
        """What a contrast is."""
        return "ratio" if self.is_ratio else "difference"

    def contrasts(self, low: Limits, high: Limits) -> Limits:
        """Return the contrasts of low with high rates, with limits."""
        return ratio_of_rates(low, high) if self.is_ratio else difference_of_rates(low, high)

    def answer(self, contrast: Interval) -> Answer:
        """Return what limits say; where they hold both answers nobody can tell."""
        if contrast.low >= self.least:
            return "passes"
        return "fails" if contrast.high < self.least else "cannot tell"

    @property
    def bounds(self) -> tuple[str, str]:
        """What contrasts are that pass, and that fail, in words."""
        if self.is_ratio:
            return f"at least {self.factor:g}", f"below {self.factor:g}"
        return f"at most {100.0 * self.gap:g} points", f"above {100.0 * self.gap:g} points"

    def shown(self, contrast: Interval) -> Interval:
        """Return the contrast as people read it: a difference is how far the low rate is behind."""
        if self.is_ratio:
            return contrast
        low, value, high = (0.0 - c for c in (contrast.high, contrast.estimate, contrast.low))
        return Interval(value, low, high, contrast.confidence)

    def text(self, contrast: Interval, answer: Answer) -> str:
        """Return a contrast and its limits in words, and on which side of the margin it is."""
        one, (within, beyond) = self.shown(contrast), self.bounds
        value, low, high = (
            f"{each:.2f}" if self.is_ratio else f"{100.0 * each:.1f}"
            for each in (one.estimate, one.low, one.high)
        )
        if self.is_ratio and answer == "fails" and float(high) >= self.factor:
            high = f"{one.high:.5f}"  # what is below the limit does not look like it
        end = {"passes": within, "fails": beyond}.get(answer, f"which may be {beyond} or not")
        return f"a {self.name} of {value} [{low}, {high}], {end}".replace("of nan", "nobody knows")


def margin_of(at_least: Any, within: Any) -> Margin:
    """Return what contrasts are held against: a ratio, four fifths if none is named."""
    if within is None:
        ratio = real_number(0.8 if at_least is None else at_least, "at_least")
        if not 0.0 < ratio <= 1.0:
            raise InputError(f"at_least must be above 0 and at most 1, got {at_least!r}.")
        return Margin(ratio, 0.0)
    if at_least is not None:
        raise InputError(f"within must be left out where at_least is given, got {within!r}.")
    return Margin(1.0, open_unit(within, "within"), is_ratio=False)


def metrics_of(metric: Any) -> tuple[str, ...]:
    """Return the rates that are judged together: one, several, or those of a joint name."""
    names = [metric] if isinstance(metric, str) else metric
    if not (isinstance(names, Sequence) and all(isinstance(one, str) for one in names)):
        raise InputTypeError(f"metric must be a name or a sequence of names, got {metric!r}.")
    listed_rates = (ODDS if name == "equalized_odds" else (name,) for name in names)
    rates = tuple(dict.fromkeys(chain.from_iterable(listed_rates)))
    if not rates:
        raise InputError(f"metric must be one of {', '.join(RATES)}, or several, got none.")
    return rates


# Whom a group is compared with, and whether the sides are turned; and what comes of it.
_Rivals = tuple[tuple[int, ...], bool]


@dataclass(frozen=True)
class Comparison:
    """Rates of groups, of which some are judged, held against each other by a margin.

    With ``both_ways`` a group may be neither too far below nor above another, and no end is the
    worse one. Of ``n_joint`` comparisons that pass together each may "fail" with so small a part of
    the error.
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

    def _others(self, group: int) -> tuple[int, ...]:
        return tuple(one for one in self.judged if one != group)

    def _contrasts_with(
        self, group: int, others: Sequence[tuple[int, ...]], error: float, turned: bool
    ) -> list[Interval]:
        """Contrast a group with each rival; `turned` says that the rival must not be behind."""
        level = 1.0 - 2.0 * error
        own = limits_of([self.rate_of((group,), level)])
        rates = own, limits_of(self.rate_of(other, level) for other in others)
        behind, ahead = rates if greater_is_worse(self.metric) == turned else rates[::-1]
        values, lows, highs = (one.tolist() for one in self.margin.contrasts(behind, ahead))
        rows = zip(values, lows, highs, strict=True)
        return [Interval(value, low, high, self.confidence) for value, low, high in rows]

    @cached_property
    def _against(self) -> tuple[dict[_Rivals, Interval], ...]:
        """The contrasts of each group with every rival, and with all of them together."""
        return tuple(map(self._with_rivals, range(len(self.names))))

    def _with_rivals(self, group: int) -> dict[_Rivals, Interval]:
        rivals = self._others(group) if self.reference is None else (self.reference,)
        contrasts: dict[_Rivals, Interval] = {}
        pairs = [(one,) for one in rivals]
        for turned in (False, True)[: 1 + self.both_ways]:
            wide = self._contrasts_with(group, pairs, self._error, turned)
            strict = self._contrasts_with(group, pairs, self._levels.pair, turned)
            for other, one, far in zip(pairs, wide, strict, strict=True):
                contrasts[other, turned] = replace(one, high=far.high)
            if self._levels.pooled > 0.0:
                (contrasts[rivals, turned],) = self._contrasts_with(
                    group, [rivals], self._levels.pooled, turned
                )
        return contrasts

    @cached_property
    def contrasts(self) -> tuple[Interval, ...]:
        """The contrast of each group with the one that is best off, or farthest from it."""
        return tuple(map(self._of_group, range(len(self.names))))

    def _of_group(self, group: int) -> Interval:
        alike, against = float(self.margin.is_ratio), self._against[group]
        if group == self.reference:
            return Interval(alike, alike, alike, self.confidence)
        if not against:
            most = math.inf if self.margin.is_ratio else 1.0
            return Interval(math.nan, alike - 1.0, most, self.confidence)
        pairs = [one for (rivals, _), one in against.items() if len(rivals) == 1]
        low, high = min(one.low for one in pairs), min(one.high for one in against.values())
        known = [one.estimate for one in pairs if not math.isnan(one.estimate)]
        if self.reference is None or self.both_ways:  # the best-off group may be this one
            low, high = min(low, alike), min(high, alike)
            known = [min(*known, alike)] if known else []
        estimate = min(max(min(known), low), high) if known else math.nan
        return Interval(estimate, low, high, self.confidence)

    def answer(self, group: int) -> Answer:
        """Return the answer about a group for itself."""
        if group not in self.judged:
            return "not judged"
        return "reference" if group == self.reference else self.margin.answer(self.contrasts[group])

    def sentence(self, group: int) -> str:
        """Return the numbers that decide about a group."""
        answer, name = self.answer(group), self.names[group]
        if answer == "not judged":
            return f"{name} is not judged."
        if answer == "reference":
            return f"{name} is what others are compared with."
        return self._words((group,), *self._decisive(group), answer)

    def _decisive(self, group: int) -> tuple[tuple[int, ...], Interval]:
        """Return the rival, one group if there is one, whose limit decides, and the contrast."""
        fails = self.answer(group) == "fails"

        def limit(one: tuple[_Rivals, Interval]) -> tuple[bool, float, float]:
            (rivals, _), contrast = one
            end = contrast.high if fails else contrast.low
            is_last = len(rivals) > 1 or (fails and self.margin.answer(contrast) != "fails")
            unknown = math.isnan(contrast.estimate)
            return is_last, end, math.inf if unknown else contrast.estimate

        (rivals, _), contrast = min(self._against[group].items(), key=limit)
        return rivals, contrast

    def of_all(self) -> tuple[Answer, str]:
        """Return the answer about all groups together, and the numbers that decide."""
        if len(self.judged) < 2:
            return "cannot tell", "Fewer than two groups can be judged."
        held = [one for one in self.judged if one != self.reference]
        first = min(held, key=lambda one: (self.contrasts[one].high, self.contrasts[one].low))
        if self.answer(first) == "fails":
            return "fails", self.sentence(first)
        against = self._all_against_one()
        if against is not None:
            return "fails", against
        first = min(held, key=lambda one: self.contrasts[one].low)
        if self.answer(first) == "passes":
            every = f"Every {self.margin.name} is {self.margin.bounds[0]}. The closest:"
            return "passes", f"{every} {self.sentence(first)}"
        return "cannot tell", self.sentence(first)

    def _all_against_one(self) -> str | None:
        """Return in words that all groups but one together are too far from it, if they are."""
        if self._levels.pooled <= 0.0:
            return None
        judged = self.counts.of(list(self.judged))
        others = judged.all_but_one()
        low, high = (judged, others) if greater_is_worse(self.metric) else (others, judged)
        factor, gap = self.margin.factor, self.margin.gap
        variance = low.variances() + factor**2 * high.variances()
        # by how many deviations low rates are below what high ones allow
        beyond = _in_deviations(factor * high.rates - gap - low.rates, variance)
        for place in np.argsort(-beyond)[:_N_TRIED].tolist():
            one = self.judged[place]
            rest = self._others(one)
            (contrast,) = self._contrasts_with(one, [rest], self._levels.pooled, turned=True)
            if self.margin.answer(contrast) == "fails":
                return self._words(rest, (one,), contrast, "fails")
        return None

    def _words(
        self, worse: tuple[int, ...], better: tuple[int, ...], contrast: Interval, answer: Answer
    ) -> str:
        """Return both rates, the contrast and its limits."""
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


def verdict_of(compared: Sequence[Comparison], labels: Sequence[Hashable], scope: str) -> Verdict:
    """Return one verdict by several metrics, of all groups and each: that of the one that decides.

    All pass where each does, as if it were alone; each fails at its part of the error.
    """
    outcomes = [one.of_all() for one in compared]
    decides = _deciding(compared, [answer for answer, _ in outcomes], compared[0].judged)
    answer, sentence = outcomes[decides]
    groups = []
    for place, label in enumerate(labels):
        answers = [one.answer(place) for one in compared]
        decides, contrasts = _deciding(compared, answers, (place,)), []
        for one in compared:
            shown, name = one.margin.shown(one.contrasts[place]), f"{one.metric} {one.margin.name}"
            contrasts.append(GroupRate(label, name, shown.estimate, shown.low, shown.high))
        of_group = compared[decides].sentence(place)
        groups.append(GroupVerdict(label, answers[decides], of_group, tuple(contrasts)))
    one = compared[0]
    return Verdict(
        answer,
        _rule(compared),
        f"{sentence}{scope}",
        tuple(groups),
        metrics=tuple(each.metric for each in compared),
        limit=abs(one.margin.least),
        of="process" if one.counts.is_sample else "records",
    )


def _deciding(compared: Sequence[Comparison], answers: list[Answer], groups: Sequence[int]) -> int:
    """Return the metric that decides about some groups: one that fails, or the closest."""
    for answer in ("fails", "cannot tell"):
        if answer in answers:
            return answers.index(answer)
    lows = [min((one.contrasts[group].low for group in groups), default=0.0) for one in compared]
    return int(np.argmin(lows))


def _rule(compared: Sequence[Comparison]) -> str:
    """Return what is passed or failed, in words."""
    first = compared[0]
    names = listed([of_metric(one.metric) for one in compared])
    beside = "" if first.reference is None else f" beside {first.names[first.reference]}"
    if (names, first.margin.least) == ("selection rate", 0.8):
        return f"the four-fifths rule{beside}"
    return f"the test that every {first.margin.name} in {names}{beside} is {first.margin.bounds[0]}"


# Counts as arrays, and the levels at which contrasts are tested.


@dataclass(frozen=True)
class Counts:
    """Hits and misses of groups, of shape (..., n_groups), and the variances of their noise.

    With ``totals`` the number of records is known, and hits and misses say the same twice. Without
    ``is_sample`` the rates are those of the very records.
    """

    hits: FloatArray
    misses: FloatArray
    hit_noise: FloatArray
    miss_noise: FloatArray
    totals: FloatArray | None = None
    is_sample: bool = True

    @classmethod
    def of_rate(cls, counted: Histogram, metric: str) -> Counts:
        """Return the hits and misses of a rate in all groups of a histogram."""
        rate, n_groups = RATES[metric], len(counted.counts)
        (hits, n_hits), (misses, n_misses) = counted.totals(rate.hits), counted.totals(rate.misses)
        variance = 0.0 if counted.noise is None else counted.noise.std**2
        noise = np.full(n_groups, n_hits * variance), np.full(n_groups, n_misses * variance)
        known = [counted.known_size(rate, one) for one in range(n_groups)]
        totals = None if None in known else np.array(known, dtype=np.float64)
        return cls(hits.astype(float), misses.astype(float), *noise, totals, counted.is_sample)

    @property
    def sizes(self) -> FloatArray:
        """How many records the rates are of, at least 1."""
        return np.maximum(self.hits + self.misses if self.totals is None else self.totals, 1.0)

    @property
    def rates(self) -> FloatArray:
        """Estimates, half a record drawn to each end."""
        hits, misses = self.hits, self.misses
        if self.totals is not None:
            hits = 0.5 * (hits - misses + self.totals)
            misses = self.totals - hits
        hits, misses = np.maximum(hits, 0.0) + 0.5, np.maximum(misses, 0.0) + 0.5
        return np.asarray(hits / (hits + misses))

    def variances(self, rates: FloatArray | float | None = None) -> FloatArray:
        """Return the variances of estimates at some rates, by default at their own."""
        at = self.rates if rates is None else rates
        if self.totals is None:
            noise = self.hit_noise * (1.0 - at) ** 2 + self.miss_noise * np.square(at)
        else:
            noise = 0.25 * (self.hit_noise + self.miss_noise)
        sizes = self.sizes
        return np.asarray((self.is_sample * sizes * at * (1.0 - at) + noise) / sizes**2)

    def all_but_one(self) -> Counts:
        """Return for each group the counts of all others together."""
        return self._each(lambda values: values.sum(axis=-1, keepdims=True) - values)

    def of(self, groups: list[int]) -> Counts:
        """Return the counts of some groups."""
        return self._each(lambda values: values[..., groups])

    def _each(self, change: Callable[[FloatArray], Any]) -> Counts:
        arrays = {name: one for name, one in vars(self).items() if isinstance(one, np.ndarray)}
        return replace(self, **{name: change(one) for name, one in arrays.items()})


def _in_deviations(distance: FloatArray | float, variance: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(distance / np.sqrt(variance), nan=0.0, posinf=np.inf, neginf=-np.inf)


class Levels(NamedTuple):
    """One-sided errors of tests of a group against all others together, and of a pair of groups."""

    pooled: float
    pair: float


def levels_of(counts: Counts, margin: Margin, error: float) -> Levels:
    """Return levels at which a "fails" is wrong with a probability of at most the error.

    Where all rates are within the margin they are, at worst, at its two ends: a set B of groups at
    the low one, the others at the high one. A group of B is at the border against all others
    together only if no other is in B, and a pair only if one of it is: so the errors of few tests
    add up. ``docs/theory/verdicts.md`` has the proof.
    """
    n_groups = counts.hits.shape[-1]
    if n_groups < 2:
        return Levels(0.0, error)
    limit = (_FRACTION_OF_LIMIT if n_groups > 2 else _FRACTION_OF_TWO) * error
    shifts, left = _Shifts(counts, margin, limit), error - limit
    if n_groups == 2:

        def of_two(level: float) -> float:
            return level + float(ndtr(ndtri(level) - shifts.reverse))

        return Levels(0.0, _largest_level(of_two, left, 0.5))

    def of_pairs(level: float) -> float:
        return float(shifts.pair_errors(level).max())

    def of_all(level: float) -> float:
        return float((shifts.pooled_errors(level) + shifts.pair_errors(pair)).max())

    pair = _largest_level(of_pairs, _PAIR_FRACTION * left, 1.0 / (n_groups * (n_groups - 1)))
    return Levels(_largest_level(of_all, left, 0.5 * (1.0 - _PAIR_FRACTION) / n_groups), pair)


def _largest_level(errors: Callable[[float], float], error: float, part: float) -> float:
    """Return the largest level at which errors add up to an error, at least that part of it."""
    low, high = math.log(error * part), math.log(error)
    if errors(error) <= error:
        return error
    for _ in range(_N_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if errors(math.exp(middle)) <= error else (low, middle)
    return math.exp(low)


class _Shifts:
    """How far within the margin a contrast is, in deviations, where others share its end.

    Of a low group against all others, if all others were low too; of all others against a high
    group, if all others were high; of pairs whose groups are at one end; of the first two groups in
    reverse.
    """

    def __init__(self, counts: Counts, margin: Margin, error: float) -> None:
        every = counts._each(lambda values: values.sum(axis=-1, keepdims=True))
        room = -ndtri(error if margin.is_ratio else 0.5 * error) * np.sqrt(every.variances())
        # the highest rate is at least that of all groups together, by a difference not far from it
        highest = max(float((every.rates - room)[0]), 0.0)
        spread = (1.0 - margin.factor) * highest + margin.gap
        lowest = max(highest - spread, 0.0)
        ends: tuple[float, ...] = (lowest, highest)
        if not margin.is_ratio:
            top = min(float((every.rates + room)[0]) + spread, 1.0)
            ends = (lowest, top, min(max(0.5, lowest), top))
        own, others = (
            np.max([each.variances(end) for end in ends], axis=0)
            for each in (counts, counts.all_but_one())
        )
        square = margin.factor**2
        pairs = np.maximum(own[:, None] + square * own, own + square * own[:, None])
        within = (1.0 - margin.factor) * lowest + margin.gap
        reverse = (1.0 - square) * highest + (1.0 + margin.factor) * margin.gap
        self.low = _in_deviations(margin.factor * spread, own + square * others)
        self.high = _in_deviations(spread, others + square * own)
        self.pairs = _in_deviations(within, pairs)
        self.reverse = float(_in_deviations(reverse, pairs)[0, 1])
        self.fractions = counts.sizes / counts.sizes.sum()
        # fractions of the records that low groups may have, by small ranges
        edges = np.linspace(0.0, 1.0, _N_FRACTIONS + 1)
        self._edges = edges[:-1] - _ROUNDING, edges[1:] + _ROUNDING

    @cached_property
    def _n_across(self) -> FloatArray:
        """How many pairs of a low and a high group there are, -inf if no groups fit."""
        least, most = self._edges
        n, ordered = len(self.fractions), np.sort(self.fractions)
        n_most = np.searchsorted(np.cumsum(ordered), most, side="right")
        n_least = np.searchsorted(np.cumsum(ordered[::-1]), least) + (least > 0.0)
        n_low = np.clip(n // 2, n_least, np.maximum(n_most, n_least))
        return np.where(n_least > n_most, -np.inf, n_low * (n - n_low))

    def pooled_errors(self, level: float) -> FloatArray:
        """Return a bound of the sum of errors of contrasts with all others, by fraction."""
        least, most = self._edges
        return _of_one_end(level, self.low, self.fractions, least, most) + _of_one_end(
            level, self.high, self.fractions, 1.0 - most, 1.0 - least
        )

    def pair_errors(self, level: float) -> FloatArray:
        """Return a bound of the sum of errors of pairs, by fraction: few are at both ends."""
        inner = ndtr(ndtri(level) - self.pairs)
        return self._n_across * level + float(inner.sum() - np.trace(inner))


def _of_one_end(
    level: float, shifts: FloatArray, fractions: FloatArray, least: FloatArray, most: FloatArray
) -> FloatArray:
    """Return a bound of the errors where groups at one end have so much of all records.

    Which groups these are is a knapsack, whose relaxation is filled by gain a fraction.
    """
    quantile, fractions = ndtri(level), np.maximum(fractions, 1e-12)
    rest = np.maximum(1.0 - fractions, 1e-12)
    with np.errstate(invalid="ignore"):
        others = np.nan_to_num(shifts * np.maximum(least[:, None] - fractions, 0.0) / rest, nan=0.0)
    always = ndtr(quantile - shifts)
    gains = ndtr(quantile - np.minimum(others, shifts)) - always
    order = np.argsort(-gains / fractions, axis=1)
    size = fractions[order]
    kept = np.clip((most[:, None] - np.cumsum(size, axis=1) + size) / size, 0.0, 1.0)
    return np.asarray(always.sum() + (kept * np.take_along_axis(gains, order, axis=1)).sum(axis=1))
