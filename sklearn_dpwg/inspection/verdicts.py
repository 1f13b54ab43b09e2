"""What an audit says of groups: rates, losses, verdicts, and how counts become rates."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.inspection.contrasts import Answer, Counts
from sklearn_dpwg.inspection.words import table, text_of
from sklearn_dpwg.metrics.intervals import Interval, rate_interval, ratio_interval
from sklearn_dpwg.metrics.intervals.rate import census_interval
from sklearn_dpwg.privacy import IntegerNoise


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
class GroupRate:
    """A number of one group, estimated from an audit."""

    group: Hashable
    metric: str
    estimate: float  # best guess, within the interval
    low: float  # ends of the interval, which covers noise and sampling
    high: float
    note: str = ""  # what to know of it

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


def in_lines(listed: dict[str, tuple[GroupRate, ...]]) -> list[str]:
    """Return a line a group: each number with the limits of its interval."""
    groups = zip(*listed.values(), strict=True)
    named = ([text_of(row[0].group), *map(_cell, row)] for row in groups)
    return table([["group", *listed], *named])


def _cell(rate: GroupRate) -> str:
    if rate.metric == "size":
        return f"{rate.estimate:,.0f}"
    if math.isnan(rate.estimate):
        return "cannot tell"
    if unit_of(rate.metric) == "points":
        return "{:.1f} [{:.1f}, {:.1f}] points".format(
            *(round(100 * end, 1) + 0.0 for end in (rate.estimate, rate.low, rate.high))  # not −0.0
        )
    return f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]"


# Rates as shares of the four cells of truth and prediction.

# A cell is (is truly of the second class, is predicted to be).
Cell = tuple[int, int]
_TN, _FP, _FN, _TP = CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass(frozen=True)
class CellRate:
    """A rate: hits over hits and misses; cells that are in neither do not count."""

    hits: tuple[Cell, ...]
    misses: tuple[Cell, ...]
    greater_is_worse: bool = False

    @property
    def is_of_all(self) -> bool:
        """Whether every record counts."""
        return {*self.hits, *self.misses} == set(CELLS)


RATES: Mapping[str, CellRate] = MappingProxyType(
    {
        "selection_rate": CellRate((_TP, _FP), (_TN, _FN)),
        "error_rate": CellRate((_FP, _FN), (_TP, _TN), greater_is_worse=True),
        "true_positive_rate": CellRate((_TP,), (_FN,)),
        "false_positive_rate": CellRate((_FP,), (_TN,), greater_is_worse=True),
        "base_rate": CellRate((_TP, _FN), (_TN, _FP)),
        "accuracy": CellRate((_TP, _TN), (_FP, _FN)),
        "false_negative_rate": CellRate((_FN,), (_TP,), greater_is_worse=True),
        "true_negative_rate": CellRate((_TN,), (_FP,)),
        "precision": CellRate((_TP,), (_FP,)),
    }
)


# Groups of fewer people are not judged, nor are those that noise alone may have made.
_FEWEST = 10
_SURELY = 0.99999

# Metrics of which each has to pass.
JOINT = {"equalized_odds": ("true_positive_rate", "false_positive_rate")}
# What decisions tell without outcomes.
OF_DECISIONS = ("selection_rate",)


def greater_is_worse(metric: str) -> bool:
    """Whether a large value is bad for a group: losses, errors; not scores."""
    return metric != "score" and (metric not in RATES or RATES[metric].greater_is_worse)


def metrics_of(metric: Any) -> tuple[str, ...]:
    """Return the rates that are judged together: one, several, or those of a joint name."""
    names = [metric] if isinstance(metric, str) else metric
    if not (isinstance(names, Sequence) and all(isinstance(one, str) for one in names)):
        raise InputTypeError(f"metric must be a name or a sequence of names, got {metric!r}.")
    found = dict.fromkeys(one for name in names for one in JOINT.get(name, (name,)))
    if not found:
        raise InputError(f"metric must be one of {', '.join(RATES)}, or several, got none.")
    return tuple(found)


def unit_of(metric: str) -> str | None:
    """Return what a hundred times a number is in: a rate, or a difference of two; else None."""
    if metric.removesuffix(" difference") in RATES:
        return "%" if metric in RATES else "points"
    return None


@dataclass(frozen=True)
class CountedRates:
    """Counts of shape (n_groups, 2, 2), or (n_groups, 1, 2) of decisions, and their noise.

    ``n_noisy`` says of how many noisy numbers the counts of each prediction are the sum. Without
    ``is_sample`` the rates are those of the very records.
    """

    cells: NDArray[np.int64]
    n_noisy: tuple[int, int]
    noise: IntegerNoise | None
    sizes: tuple[int, ...] | None
    is_sample: bool = True

    def interval(self, metric: str, group: int, confidence: float) -> Interval:
        """Return the interval of a rate in a group."""
        rate = RATES[metric]
        hits, n_hits = self.total(group, rate.hits)
        misses, n_misses = self.total(group, rate.misses)
        known = self.sizes is not None and self.noise is not None and rate.is_of_all
        if not self.is_sample:
            total = self.sizes[group] if known and self.sizes else None
            return census_interval(
                (hits, misses), total, self.noise, (n_hits, n_misses), confidence
            )
        if known and self.sizes is not None:
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

    def pooled(self, groups: tuple[int, ...]) -> CountedRates:
        """Return the counts of some groups together, as of one group."""
        n_noisy = (self.n_noisy[0] * len(groups), self.n_noisy[1] * len(groups))
        sizes = None if self.sizes is None else (sum(self.sizes[one] for one in groups),)
        cells = self.cells[list(groups)].sum(axis=0, keepdims=True)
        return replace(self, cells=cells, n_noisy=n_noisy, sizes=sizes)

    def arrays(self, metric: str) -> Counts:
        """Return the hits and misses of a rate in all groups, with the variances of their noise."""
        rate = RATES[metric]
        groups = range(len(self.cells))
        hits, misses = (
            np.array([self.total(one, cells) for one in groups], dtype=np.float64)
            for cells in (rate.hits, rate.misses)
        )
        variance = 0.0 if self.noise is None else self.noise.std**2
        known = self.sizes is not None and self.noise is not None and rate.is_of_all
        totals = np.array(self.sizes, dtype=np.float64) if known else None
        noise = (hits[:, 1] * variance, misses[:, 1] * variance)
        return Counts(hits[:, 0], misses[:, 0], *noise, totals, self.is_sample)

    def total(self, group: int, cells: Sequence[Cell]) -> tuple[int, int]:
        """Return the sum of some cells of a group, and of how many noisy numbers it is."""
        table = self.cells[group]
        # without outcomes everybody is counted as of one
        there = [cell for cell in cells if cell[0] < len(table)]
        total = sum(int(table[cell]) for cell in there)
        return total, sum(self.n_noisy[predicted] for _, predicted in there)

    def group_sizes(self) -> list[float]:
        """Return the sizes of the groups, exact where they are public."""
        if self.sizes is not None:
            return [float(size) for size in self.sizes]
        return [float(total) for total in self.cells.sum(axis=(1, 2))]

    def size_error(self, confidence: float) -> float:
        """Return by how much a size is wrong, at most, with a probability."""
        if self.noise is None or self.sizes is not None:
            return 0.0
        numbers, probabilities = self.noise.law(self.cells.shape[1] * sum(self.n_noisy))
        below = np.cumsum(probabilities)
        place = int(np.searchsorted(below, 0.5 * (1.0 - confidence), side="right"))
        return float(-numbers[place])

    def fewest_judged(self, confidence: float) -> tuple[float, int]:
        """Return by how much a size may be wrong, and up from which a group is judged with that."""
        half = self.size_error(confidence)
        # an empty group is below this but for one time in 200,000
        return half, max(_FEWEST, math.ceil(half + self.size_error(_SURELY)) + 1)

    def with_noise(self, noise: IntegerNoise | None) -> CountedRates:
        """Return the same counts as if they had other noise, or none."""
        if noise is None:
            return replace(self, cells=np.maximum(self.cells, 0), noise=None)
        return replace(self, noise=noise)


@dataclass(frozen=True)
class LossSums:
    """What was released of a loss, clipped to the interval from 0 to a bound: its mean follows."""

    name: str
    bound: float
    sums: tuple[float, ...]  # for each group, of losses less half the bound
    squares: tuple[float, ...]  # of the squares of these, less an eighth of the squared bound
    sum_noise_std: float = 0.0
    square_noise_std: float = 0.0


def mean_interval(loss: LossSums, group: int, counted: CountedRates, confidence: float) -> Interval:
    """Return an interval of a mean loss, whose limits are exact ones for the most skewed losses.

    Sampling is that of losses of two values, one of them the bound beyond the limit, with the same
    mean and variance (docs/theory/group-audit.md). Errors of the sum, the size and the variance by
    noise are quantiles of its law, of which all but the last are added in squares.
    """
    size = float(counted.cells[group].sum() if counted.sizes is None else counted.sizes[group])
    bound = loss.bound
    if size < 1.0:
        return Interval(math.nan, 0.0, bound, confidence)
    level = 0.5 * (1.0 - confidence)
    is_laplace = counted.noise is not None and counted.noise.mechanism == "laplace"
    deviations = -math.log(2.0 * level) / math.sqrt(2.0) if is_laplace else -float(ndtri(level))
    of_sum = deviations * loss.sum_noise_std / bound
    of_squares = deviations * loss.square_noise_std / bound**2
    of_size = counted.size_error(confidence)
    shift = min(max(loss.sums[group] / (bound * size), -0.5), 0.5)
    square = loss.squares[group] / (bound**2 * size)
    # noise in the sum and the size moves the square of the mean, too
    parts = of_squares, 2.0 * shift * of_sum, (2.0 * shift**2 - square) * of_size
    raised = 0.125 + square - shift**2 + math.hypot(*parts) / size
    # no loss between 0 and 1 varies more
    variance = min(max(raised, 0.0), 0.25)

    def above(shift: float) -> float:
        """Return how far above the middle the mean may be, Fieller's where the size is noisy."""
        room = 0.5 - shift
        error = math.hypot(size * (room - _least_mean(room, variance, size, level)), of_sum)
        quiet = size**2 - of_size**2
        if quiet <= 0.0:
            return 0.5
        root = math.sqrt((of_size * size * shift) ** 2 + quiet * error**2)
        return min((size**2 * shift + root) / quiet, 0.5)

    estimate, low, high = 0.5 + shift, 0.5 - above(-shift), 0.5 + above(shift)
    return Interval(
        bound * estimate, bound * min(low, estimate), bound * max(high, estimate), confidence
    )


def _least_mean(mean: float, variance: float, size: float, level: float) -> float:
    """Return Clopper and Pearson's lower limit of a mean of losses of two values, one of them 0."""
    if mean <= 0.0:
        return 0.0
    other = mean + variance / mean
    share = mean / other
    return other * float(betaincinv(size * share, size * (1.0 - share) + 1.0, level))


@dataclass(frozen=True)
class WorstGroups:
    """Every judged group that may be worst by a metric, and how bad the worst is.

    The worst one is among them with the audit's confidence; of mean losses that is no theorem but
    was measured (docs/theory/group-audit.md).
    """

    metric: str
    groups: tuple[Hashable, ...]
    low: float  # bounds of the metric in the worst group
    high: float
    gap: Interval  # how far the worst group is from the best

    def __str__(self) -> str:
        """Return a line for people."""
        named = " or ".join(map(text_of, self.groups)) or "nobody is judged"
        return (
            f"worst by {self.metric}: {named}; there it is {self.low:.3g} to {self.high:.3g}, "
            f"{self.gap.low:.3g} to {self.gap.high:.3g} from the best group "
            f"({self.gap.confidence:.0%} confidence)"
        )
