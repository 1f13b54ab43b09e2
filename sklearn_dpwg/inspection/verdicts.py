"""Whether an impact ratio is large enough, and what would tell where nobody can."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sklearn_dpwg.metrics.intervals import Interval, impact_ratios, rate_interval, ratio_interval
from sklearn_dpwg.privacy import IntegerNoise

# An answer to whether groups are treated alike, which may be that nobody can tell.

Answer = Literal["passes", "fails", "cannot tell"]


@dataclass(frozen=True)
class Verdict:
    """Whether impact ratios are at least what is asked for.

    Parameters
    ----------
    answer : {"passes", "fails", "cannot tell"}
        The answer.
    sentence : str
        The answer in words, with its numbers.
    would_tell : str
        What would give an answer, where there is none: more people, or more ε; else empty.
    """

    answer: Answer
    sentence: str
    would_tell: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.would_tell}".strip()


# A rate of one group, with the interval that it may lie in.


@dataclass(frozen=True)
class GroupRate:
    """A number of one group, estimated from an audit.

    Parameters
    ----------
    group : label
        The group.
    metric : str
        What it is a number of.
    estimate : float
        Best guess, within the interval.
    low, high : float
        Ends of the interval, which covers noise and sampling.
    note : str, default=""
        What to know of it, in words; empty where there is nothing.
    """

    group: Hashable
    metric: str
    estimate: float
    low: float
    high: float
    note: str = ""

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


# Rates as shares of the four cells of truth and prediction.

# A cell is (is truly of the second class, is predicted to be).
Cell = tuple[int, int]
TRUE_NEGATIVE, FALSE_POSITIVE, FALSE_NEGATIVE, TRUE_POSITIVE = (0, 0), (0, 1), (1, 0), (1, 1)
CELLS = (TRUE_NEGATIVE, FALSE_POSITIVE, FALSE_NEGATIVE, TRUE_POSITIVE)


@dataclass(frozen=True)
class CellRate:
    """A rate: hits over hits and misses; cells that are in neither do not count."""

    hits: frozenset[Cell]
    misses: frozenset[Cell]
    greater_is_worse: bool
    words: str

    @property
    def is_of_all(self) -> bool:
        """Whether every record counts."""
        return len(self.hits | self.misses) == len(CELLS)


def _rate(
    hits: tuple[Cell, ...], misses: tuple[Cell, ...], greater_is_worse: bool, words: str
) -> CellRate:
    return CellRate(frozenset(hits), frozenset(misses), greater_is_worse, words)


_TN, _FP, _FN, _TP = TRUE_NEGATIVE, FALSE_POSITIVE, FALSE_NEGATIVE, TRUE_POSITIVE

RATES: Mapping[str, CellRate] = MappingProxyType(
    {
        "selection_rate": _rate((_TP, _FP), (_TN, _FN), False, "share that is selected"),
        "error_rate": _rate((_FP, _FN), (_TP, _TN), True, "share of wrong predictions"),
        "true_positive_rate": _rate((_TP,), (_FN,), False, "selected among the positive"),
        "false_positive_rate": _rate((_FP,), (_TN,), True, "selected among the negative"),
        "base_rate": _rate((_TP, _FN), (_TN, _FP), False, "share that is truly positive"),
        "accuracy": _rate((_TP, _TN), (_FP, _FN), False, "share of right predictions"),
        "false_negative_rate": _rate((_FN,), (_TP,), True, "not selected among the positive"),
        "true_negative_rate": _rate((_TN,), (_FP,), False, "not selected among the negative"),
        "precision": _rate((_TP,), (_FP,), False, "truly positive among the selected"),
    }
)


# Intervals of rates from the counts of truth and prediction in each group.


@dataclass(frozen=True)
class CountedRates:
    """Counts of shape (n_groups, 2, 2), and the noise that they have.

    ``n_noisy`` says of how many noisy numbers the counts of each prediction are the sum.
    """

    cells: NDArray[np.int64]
    n_noisy: tuple[int, int]
    noise: IntegerNoise | None
    sizes: tuple[int, ...] | None

    def interval(self, metric: str, group: int, confidence: float) -> Interval:
        """Return the interval of a rate in a group."""
        rate = RATES[metric]
        hits, n_hits = self.total(group, rate.hits)
        misses, n_misses = self.total(group, rate.misses)
        if self.sizes is not None and self.noise is not None and rate.is_of_all:
            return rate_interval(
                hits,
                self.sizes[group],
                failures=misses,
                noise=self.noise,
                n_cells=(n_hits, n_misses),
                confidence=confidence,
            )
        return ratio_interval(
            hits, misses, noise=self.noise, n_cells=(n_hits, n_misses), confidence=confidence
        )

    def total(self, group: int, cells: frozenset[Cell]) -> tuple[int, int]:
        """Return the sum of some cells of a group, and of how many noisy numbers it is."""
        table = self.cells[group]
        total = sum(int(table[cell]) for cell in cells)
        return total, sum(self.n_noisy[predicted] for _, predicted in cells)

    def group_sizes(self) -> list[float]:
        """Return the sizes of the groups, exact where they are public."""
        if self.sizes is not None:
            return [float(size) for size in self.sizes]
        return [float(total) for total in self.cells.sum(axis=(1, 2))]

    @property
    def size_std(self) -> float:
        """Standard deviation of the noise in a size."""
        if self.noise is None or self.sizes is not None:
            return 0.0
        return self.noise.std * math.sqrt(2 * sum(self.n_noisy))

    def size_error(self, confidence: float) -> float:
        """Return by how much a size is wrong, at most, with a probability."""
        if self.noise is None or self.sizes is not None:
            return 0.0
        numbers, probabilities = self.noise.law(2 * sum(self.n_noisy))
        below = np.cumsum(probabilities)
        place = int(np.searchsorted(below, 0.5 * (1.0 - confidence), side="right"))
        return float(-numbers[place])

    def scaled(self, factor: float) -> CountedRates:
        """Return counts of so many times as many people, with the same noise."""
        cells = np.rint(np.maximum(self.cells, 0) * factor).astype(np.int64)
        sizes = None if self.sizes is None else tuple(round(n * factor) for n in self.sizes)
        return replace(self, cells=cells, sizes=sizes)

    def with_noise(self, noise: IntegerNoise | None) -> CountedRates:
        """Return the same counts as if they had other noise, or none."""
        if noise is None:
            return replace(self, cells=np.maximum(self.cells, 0), noise=None)
        return replace(self, noise=noise)


# What is tried of people and of epsilon; a forecast is good for a quarter at best.
_STEP, _MOST_TIMES, _MOST_PEOPLE, _MOST_EPSILON = 1.25, 1000.0, 1e6, 64.0


def answer_of(ratio: Interval, at_least: float) -> Answer:
    """Return what an interval of a ratio says; one that holds both says that nobody can tell."""
    if ratio.low >= at_least:
        return "passes"
    return "fails" if ratio.high < at_least else "cannot tell"


@dataclass(frozen=True)
class Comparison:
    """Ratios of each group to the reference, and what they say.

    ``strict_rates`` hold at a confidence at which those of all groups hold together.
    """

    labels: tuple[str, ...]
    metric: str
    at_least: float
    reference: int
    rates: tuple[Interval, ...]
    strict_rates: tuple[Interval, ...]
    counted: CountedRates
    confidence: float
    epsilon: float

    def of_group(self, group: int) -> Verdict:
        """Return the verdict about one group by itself."""
        return self._verdict(group, impact_ratios(self.rates, reference=self.reference)[group])

    def of_all(self) -> Verdict:
        """Return the verdict about all groups together."""
        ratios, strict = (
            impact_ratios(rates, reference=self.reference)
            for rates in (self.rates, self.strict_rates)
        )
        from_lowest = sorted(range(len(ratios)), key=lambda place: _known(ratios[place].estimate))
        for place in from_lowest:
            if strict[place].high < self.at_least:
                return self._verdict(place, strict[place])
        for place in from_lowest:
            if ratios[place].high < self.at_least:
                said = self._words(place, ratios[place])
                more = "More people."
                by_chance = "but the lowest of so many groups may be so by chance"
                return Verdict(
                    "cannot tell", f"{said}, below {self.at_least:g}, {by_chance}.", more
                )
            if ratios[place].low < self.at_least:
                return self._verdict(place, ratios[place])
        lowest = from_lowest[0]
        said = f"Every ratio is at least {self.at_least:g}"
        return Verdict("passes", f"{said}: {self._words(lowest, ratios[lowest])}, the lowest.")

    def _verdict(self, group: int, ratio: Interval) -> Verdict:
        said = self._words(group, ratio)
        answer = answer_of(ratio, self.at_least)
        if answer == "passes":
            return Verdict(answer, f"{said}, at least {self.at_least:g}.")
        if answer == "fails":
            return Verdict(answer, f"{said}, below {self.at_least:g}.")
        forecast = Forecast(
            self.counted, self.metric, group, self.reference, self.at_least, self.confidence
        )
        said = f"{said}, which may be below {self.at_least:g} or not."
        return Verdict(answer, said, forecast.words(self.labels[group], self.epsilon))

    def _words(self, group: int, ratio: Interval) -> str:
        number = f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] times"
        if math.isnan(ratio.estimate):
            number = "an unknown multiple of"
        name = self.metric.replace("_", " ")
        return f"{self.labels[group]} has {number} the {name} of {self.labels[self.reference]}"


def _known(estimate: float) -> float:
    """Return an estimate, the largest where there is none."""
    return math.inf if math.isnan(estimate) else estimate


@dataclass(frozen=True)
class Forecast:
    """What other counts or other noise would say of the ratio of one group to another."""

    rates: CountedRates
    metric: str
    group: int
    reference: int
    at_least: float
    confidence: float

    def ratio(self, rates: CountedRates) -> Interval:
        """Return the interval of the ratio."""
        pair = [
            rates.interval(self.metric, place, self.confidence)
            for place in (self.group, self.reference)
        ]
        return impact_ratios(pair, reference=1)[0]

    def tells(self, rates: CountedRates) -> bool:
        """Return whether there would be an answer."""
        return answer_of(self.ratio(rates), self.at_least) != "cannot tell"

    def words(self, name: str, epsilon: float) -> str:
        """Say what would tell: people, or epsilon."""
        exact = self.rates.with_noise(None)
        sampling = _short(self.ratio(exact).width)
        seem = "if the rates are as they seem"
        people = self._people(name)
        noise = self.rates.noise
        if noise is None:
            return f"Width {sampling}; {seem}, {people} would tell."
        width = f"Width {_short(self.ratio(self.rates).width)}, of which sampling alone {sampling}"
        times = self._times_epsilon(noise) if self.tells(exact) else None
        if times is None:
            return f"{width}: more epsilon will not help; {seem}, {people} would tell."
        return (
            f"{width}; {seem}, epsilon = {epsilon * times:.2g} would tell, and so would {people}"
        ).rstrip(",") + "."

    def _times_epsilon(self, noise: IntegerNoise) -> float | None:
        """Return by what the epsilon of the audit would have to be multiplied."""

        def tells(times: float) -> bool:
            quieter = replace(noise, scale=noise.scale / times)
            return self.tells(self.rates.with_noise(quieter))

        return _least(tells, _MOST_EPSILON)

    def _people(self, name: str) -> str:
        pair = [int(self.rates.cells[place].sum()) for place in (self.group, self.reference)]
        most = min(_MOST_TIMES, _MOST_PEOPLE / max(*pair, 1))
        times = _least(lambda factor: self.tells(self.rates.scaled(factor)), most)
        if times is None or pair[0] < 1:
            return f"more people of {name} than can be said"
        return (
            f"about {_round_up(pair[0] * times):,} people of {name}, {times:.2g} times as many as "
            f"now in every group,"
        )


def _least(tells: Callable[[float], bool], most: float) -> float | None:
    """Return the smallest factor that tells, on a grid, by bisection; None where none does."""
    n_steps = math.floor(math.log(max(most, 1.0), _STEP))
    if n_steps < 1 or not tells(_STEP**n_steps):
        return None
    low, high = 0, n_steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(_STEP**middle) else (middle, high)
    return float(_STEP**high)


def _round_up(number: float) -> int:
    """Return a number with two digits."""
    unit = 10 ** max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return int(math.ceil(number / unit) * unit)


def _short(number: float) -> str:
    return "infinite" if math.isinf(number) else f"{number:.3f}"


# Sums of a clipped loss in every group, as they were released.


@dataclass(frozen=True)
class LossSums:
    """What was released of a loss: its mean follows.

    Parameters
    ----------
    name : str
        The loss.
    bound : float
        The losses are clipped to the interval from 0 to this.
    sums : tuple of float
        For each group the sum of what the clipped losses are above half the bound.
    squares : tuple of float
        For each group the sum of what the squares of these are above an eighth of the squared
        bound.
    sum_noise_std, square_noise_std : float
        Standard deviations of the noise in each; 0 without privacy.
    """

    name: str
    bound: float
    sums: tuple[float, ...]
    squares: tuple[float, ...]
    sum_noise_std: float = 0.0
    square_noise_std: float = 0.0


# Intervals of mean losses from noisy sums.


def mean_interval(
    loss: LossSums, group: int, size: float, size_std: float, confidence: float
) -> Interval:
    """Return a normal interval of a mean loss, of a group whose size may itself be noisy.

    The variance of the losses is raised by a quantile of the noise in it, so that noise does not
    make it too small; what noise in the sum and in the size adds is known.
    """
    if size < 1.0:
        return Interval(math.nan, 0.0, loss.bound, confidence)
    z = float(ndtri(0.5 + 0.5 * confidence))
    shift = loss.sums[group] / size
    square = loss.bound**2 / 8.0 + loss.squares[group] / size
    raised = square - shift**2 + z * loss.square_noise_std / size
    # no loss between 0 and the bound varies more
    variance = min(max(raised, 0.0), loss.bound**2 / 4.0)
    noise = math.hypot(loss.sum_noise_std, shift * size_std) / size
    half = z * math.hypot(math.sqrt(variance / size), noise)
    mean = min(max(0.5 * loss.bound + shift, 0.0), loss.bound)
    return Interval(mean, max(0.0, mean - half), min(loss.bound, mean + half), confidence)


# Group labels as text that shows what they are made of and cannot act as anything else.

# Joiners belong to emoji and to Persian; every other character of format is shown by its number.
_JOINERS = "\u200c\u200d"
_CONTROLS = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\0": r"\0"}
_UNSHOWN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
# About what stands beside an axis of five inches without taking half of it.
WIDTH = 22
# About what a reader takes in without stumbling.
_WIDTH_IN_SENTENCE = 48


def text_of(label: Hashable) -> str:
    """Return a label as text in which nothing is invisible; cells of several columns are joined."""
    if isinstance(label, tuple):
        return " × ".join(text_of(part) for part in label)
    text = str(label)
    if not text:
        return "(empty)"
    inner = text.strip()
    before = text[: len(text) - len(text.lstrip())]
    after = text[len(before) + len(inner) :]
    return "".join([*map(_outer_space, before), *map(_visible, inner), *map(_outer_space, after)])


def visible_line(text: str) -> str:
    """Return a line in which every character shows."""
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in _CONTROLS:
        return _CONTROLS[character]
    number = ord(character)
    if unicodedata.category(character) in _UNSHOWN and character not in _JOINERS:
        return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
    return character


def _outer_space(character: str) -> str:
    """Show a space that would be lost where text is trimmed."""
    shown = _visible(character)
    if character == " ":
        return "\u2423"
    return f"\\u{ord(character):04x}" if shown == character else shown


def texts_of(labels: Iterable[Hashable]) -> tuple[str, ...]:
    """Return a text a label, no two the same; 1 and "1" are told apart by a number."""
    return _numbered([text_of(label) for label in labels])


def in_sentence(text: str) -> str:
    """Return a name as it may stand in a sentence: short, and with its own direction of writing."""
    name = _cut(text, _WIDTH_IN_SENTENCE)
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in name):
        return f"\u2068{name}\u2069"
    return name


def shortened(texts: Sequence[str], width: int = WIDTH) -> tuple[str, ...]:
    """Return texts of at most about that many characters, no two the same."""
    return _numbered([_cut(text, width) for text in texts])


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    # names of a family often differ at their end alone
    tail = width // 4
    return f"{text[: width - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def _numbered(texts: Sequence[str]) -> tuple[str, ...]:
    """Tell equal texts apart by numbers that no other text has."""
    found: dict[str, None] = {}
    given = set(texts)
    for text in texts:
        distinct, number = text, 1
        while distinct in found or (number > 1 and distinct in given):
            number += 1
            distinct = f"{text} ({number})"
        found[distinct] = None
    return tuple(found)


# The groups that may be worst off.


@dataclass(frozen=True)
class WorstGroups:
    """Which groups may be worst by a metric, and how bad the worst is.

    Parameters
    ----------
    metric : str
        The metric.
    groups : tuple of labels
        Every group that may be the worst; the worst is among them with the audit's confidence.
    low, high : float
        Bounds of the metric in the worst group.
    gap : Interval
        How far the worst group is from the best.
    """

    metric: str
    groups: tuple[Hashable, ...]
    low: float
    high: float
    gap: Interval

    def __str__(self) -> str:
        """Return a line for people."""
        named = " or ".join(map(text_of, self.groups))
        return (
            f"worst by {self.metric}: {named}; there it is {self.low:.3g} to {self.high:.3g}, "
            f"{self.gap.low:.3g} to {self.gap.high:.3g} from the best group "
            f"({self.gap.confidence:.0%} confidence)"
        )
