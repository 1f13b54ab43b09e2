"""The histogram of (group, outcome, bin of score) that is released once, and what it tells.

Rates at an edge are sums of bins. The AUC, losses and the error of calibration take a score for the
middle of its bin; their limits solve equations as Fieller's do, so that noise in a denominator
counts (docs/theory/group-audit.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.metrics.intervals import Interval, rate_interval, ratio_interval
from sklearn_dpwg.metrics.intervals.rate import census_interval
from sklearn_dpwg.privacy import IntegerNoise

# Whether the records are a sample of what the rates are of, or are everybody.
Of = Literal["process", "records"]


@dataclass(frozen=True)
class GroupRate:
    """A number of one group, estimated from an audit."""

    group: Hashable
    metric: str
    estimate: float  # best guess, within the interval
    low: float  # ends of the interval, which covers noise and sampling
    high: float

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


# A cell is (is truly of the second class, is predicted to be).
Cell = tuple[int, int]
_TN, _FP, _FN, _TP = CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass(frozen=True)
class CellRate:
    """A rate: hits over hits and misses; cells that are in neither do not count."""

    hits: tuple[Cell, ...]
    misses: tuple[Cell, ...]
    greater_is_worse: bool = False


RATES: Mapping[str, CellRate] = {
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
# A probability below 0.01 counts as 0.01 in the log loss.
_SMALLEST_PROBABILITY = 0.01
# What bins of scores tell beside rates, and the largest value that each may have.
OF_SCORES: Mapping[str, float] = {
    "auc": 1.0,
    "calibration_error": 1.0,
    "log_loss": -math.log(_SMALLEST_PROBABILITY),
    "squared_error": 1.0,
}
# What decisions tell without outcomes.
OF_DECISIONS = ("selection_rate",)


def greater_is_worse(metric: str) -> bool:
    """Whether a large value is bad for a group: losses, errors; not scores."""
    return RATES[metric].greater_is_worse if metric in RATES else metric != "auc"


def unit_of(metric: str) -> str:
    """Return what a hundred times a number is in: a rate, or a difference of two; else nothing."""
    if metric.removesuffix(" difference") in (*RATES, "calibration", "calibration_error"):
        return "points" if metric.endswith(" difference") else "%"
    return ""


@dataclass(frozen=True)
class Histogram:
    """Counts of shape (n_groups, n_classes, n_bins), of which bins from ``first`` on are selected.

    There is one class where outcomes are not known. Each count is the sum of ``n_cells`` noisy
    numbers; ``edges`` are those of the bins, from 0 to 1, or None of decisions. Without
    ``is_sample`` rates are those of the very records.
    """

    counts: NDArray[np.int64]
    first: int
    noise: IntegerNoise | None
    sizes: tuple[int, ...] | None
    n_cells: int = 1
    edges: tuple[float, ...] | None = None
    is_sample: bool = True

    @property
    def metrics(self) -> tuple[str, ...]:
        """What the counts tell."""
        if self.counts.shape[1] == 1:
            return OF_DECISIONS
        return (*RATES, *(OF_SCORES if self.counts.shape[2] > 2 and self.is_sample else ()))

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """Counts of truth and decision, of shape (n_groups, n_classes, 2)."""
        parts = self.counts[:, :, : self.first], self.counts[:, :, self.first :]
        return np.stack([part.sum(axis=2) for part in parts], axis=2)

    @property
    def n_noisy(self) -> tuple[int, int]:
        """Of how many noisy numbers the counts of each decision are the sum."""
        return self.first * self.n_cells, (self.counts.shape[2] - self.first) * self.n_cells

    @property
    def middles(self) -> FloatArray:
        """The middle of each bin."""
        edges = np.array(self.edges)
        return np.asarray((edges[:-1] + edges[1:]) / 2.0)

    @property
    def std(self) -> float:
        """Standard deviation of the noise on a count."""
        return 0.0 if self.noise is None else self.noise.std * math.sqrt(self.n_cells)

    def interval(self, metric: str, group: int, confidence: float) -> Interval:
        """Return the interval of a metric in a group."""
        if metric in OF_SCORES:
            return self._of_scores(metric, group, confidence)
        rate = RATES[metric]
        (hits, n_hits), (misses, n_misses) = self.totals(rate.hits), self.totals(rate.misses)
        hits, misses, n_cells = int(hits[group]), int(misses[group]), (n_hits, n_misses)
        known = self.known_size(rate, group)
        if not self.is_sample:
            return census_interval((hits, misses), known, self.noise, n_cells, confidence)
        how: Any = {"noise": self.noise, "n_cells": n_cells, "confidence": confidence}
        if known is not None:
            return rate_interval(hits, known, failures=misses, **how)
        return ratio_interval(hits, misses, **how)

    def fraction(self, metric: str, group: int) -> float:
        """Return a rate without limits, NaN of nobody."""
        rate = RATES[metric]
        hits, misses = (max(self.totals(one)[0][group], 0) for one in (rate.hits, rate.misses))
        return float(hits / (hits + misses)) if hits + misses else math.nan

    def known_size(self, rate: CellRate, group: int) -> int | None:
        """Return the number of records that a noisy rate is of, where it is public."""
        if self.sizes is None or self.noise is None or {*rate.hits, *rate.misses} != {*CELLS}:
            return None
        return self.sizes[group]

    def pooled(self, groups: tuple[int, ...]) -> Histogram:
        """Return the counts of some groups together, as of one group."""
        sizes = None if self.sizes is None else (sum(self.sizes[one] for one in groups),)
        counts = self.counts[list(groups)].sum(axis=0, keepdims=True)
        return replace(self, counts=counts, n_cells=self.n_cells * len(groups), sizes=sizes)

    def without_noise(self) -> Histogram:
        """Return the same counts as if they had no noise."""
        return replace(self, counts=np.maximum(self.counts, 0), noise=None)

    def totals(self, cells: Sequence[Cell]) -> tuple[Any, int]:
        """Return the sum of some cells by group, and of how many noisy numbers each is."""
        # without outcomes everybody is counted as of one class
        there = [(true, decided) for true, decided in cells if true < self.counts.shape[1]]
        total = sum(self.cells[:, true, decided] for true, decided in there)
        return total, sum(self.n_noisy[decided] for _, decided in there)

    def group_sizes(self) -> list[float]:
        """Return the sizes of the groups, exact where they are public."""
        if self.sizes is not None:
            return [float(size) for size in self.sizes]
        return [float(total) for total in self.counts.sum(axis=(1, 2))]

    def size_error(self, confidence: float) -> float:
        """Return by how much a size is wrong, at most, with a probability."""
        if self.noise is None or self.sizes is not None:
            return 0.0
        numbers, probabilities = self.noise.law(self.counts.shape[1] * sum(self.n_noisy))
        below = np.cumsum(probabilities)
        place = int(np.searchsorted(below, 0.5 * (1.0 - confidence), side="right"))
        return float(-numbers[place])

    # What bins tell beside rates.

    def _deviations(self, confidence: float) -> tuple[float, float]:
        """Return how many deviations a normal limit is away, and one of the noise on a count."""
        level = 0.5 * (1.0 - confidence)
        normal = -float(ndtri(level))
        is_laplace = self.noise is not None and self.noise.mechanism == "laplace"
        return normal, -math.log(2.0 * level) / math.sqrt(2.0) if is_laplace else normal

    def _of_scores(self, metric: str, group: int, confidence: float) -> Interval:
        counts = self.counts[group].astype(np.float64)
        if (np.maximum(counts.sum(axis=1), 0.0) if metric == "auc" else counts.sum()).min() < 1.0:
            return Interval(math.nan, 0.0, OF_SCORES[metric], confidence)
        if metric == "auc":
            return self._auc(counts, confidence)
        if metric == "calibration_error":
            return self._calibration_error(counts, confidence)
        return self._mean_loss(metric, counts, confidence)

    def _auc(self, counts: FloatArray, confidence: float) -> Interval:
        """Return the fraction of pairs of both classes that scores order well, ties as halves.

        Of a fraction θ the statistic Σ nᵢ pⱼ (ψᵢⱼ − θ) has the mean 0, noise included. Its sampling
        variance at θ is Hanley and McNeil's, or DeLong's if that is larger (Newcombe 2006).
        """
        no, yes = counts
        normal, noisy = self._deviations(confidence)
        pairs = np.tri(len(no), k=-1).T + 0.5 * np.eye(len(no))  # of a negative's and a positive's
        n, p = no.sum(), yes.sum()
        estimate = min(max(float(no @ pairs @ yes) / (n * p), 0.0), 1.0)
        fractions = np.linspace(0.0, 1.0, 2001)
        below, above = pairs.T @ no, pairs @ yes
        # a half more of both is as Newcombe's fifth method has it
        mean = 0.5 * (n + p) - 1.0
        own = fractions / (2.0 - fractions) - fractions**2
        other = 2.0 * fractions**2 / (1.0 + fractions) - fractions**2
        sampling = n * p * (fractions * (1.0 - fractions) + max(mean, 0.0) * (own + other))
        of_records = np.maximum(yes, 0.0) @ (below / n - estimate) ** 2 * n**2
        of_records += np.maximum(no, 0.0) @ (above / p - estimate) ** 2 * p**2
        # Σ(value − count · θ)², of the noise in each class, and of the product of both
        loud = sum(
            float((values**2).sum())
            - 2.0 * one * fractions * values.sum()
            + len(no) * (one * fractions) ** 2
            for values, one in ((below, n), (above, p))
        )
        both = float((pairs**2).sum()) - 2.0 * fractions * pairs.sum() + pairs.size * fractions**2
        at_noise = np.maximum(loud * self.std**2 + both * self.std**4, 0.0)
        reach = np.sqrt(normal**2 * np.maximum(sampling, of_records) + noisy**2 * at_noise)
        kept = np.flatnonzero(np.abs(float(no @ pairs @ yes) - n * p * fractions) <= reach)
        low, high = (fractions[kept[0]], fractions[kept[-1]]) if len(kept) else (0.0, 1.0)
        return Interval(estimate, min(low, estimate), max(high, estimate), confidence)

    def _calibration_error(self, counts: FloatArray, confidence: float) -> Interval:
        """Return the mean distance of what scores say, by bin, from how often it came true.

        With D the sums of outcomes less scores by bin it is Σ|D|/n. Whatever the signs of the true
        sums are, Σ|D| is at least the sum of D with these signs: so the upper limit is one of a
        normal sum. By the triangle inequality the lower one is by the sum of all errors.
        """
        normal, noisy = self._deviations(confidence)
        middles, n = self.middles, counts.sum()
        sums = counts[1] * (1.0 - middles) - counts[0] * middles
        of_noise = self.std**2 * ((1.0 - middles) ** 2 + middles**2)
        in_bins = np.maximum(counts.sum(axis=0), 0.0)
        by_records = np.maximum(counts[1], 0.0) * (1.0 - middles) ** 2
        by_records += np.maximum(counts[0], 0.0) * middles**2
        sampling = np.maximum(by_records, in_bins * middles * (1.0 - middles))
        seen = np.abs(sums).sum()
        stds = np.sqrt(sampling + of_noise)
        up = math.hypot(normal * math.sqrt(sampling.sum()), noisy * math.sqrt(of_noise.sum()))
        down = math.sqrt(2.0 / math.pi) * stds.sum() + up * math.sqrt(1.0 - 2.0 / math.pi)
        estimate = float(np.sqrt(np.maximum(sums**2 - of_noise, 0.0)).sum() / n)
        of_size = self.size_error(confidence)
        low = max(seen - down, 0.0) / (n + of_size)
        high = min((seen + up) / max(n - of_size, 1.0), 1.0)
        estimate = min(estimate, 1.0)
        return Interval(estimate, min(low, estimate), max(high, estimate), confidence)

    def _mean_loss(self, metric: str, counts: FloatArray, confidence: float) -> Interval:
        """Return an interval of a mean loss, with limits that are exact for the most skewed losses.

        Sampling is that of losses of two values, one of them the bound beyond the limit, with the
        same mean and variance (docs/theory/group-audit.md). Noise is in Σ c (l − mean), whose mean
        is 0 at the true mean; the two are added in squares.
        """
        bound = OF_SCORES[metric]
        scores = np.stack([1.0 - self.middles, self.middles])  # of the class that is true
        losses = (1.0 - scores) ** 2
        if metric == "log_loss":
            losses = -np.log(np.maximum(scores, _SMALLEST_PROBABILITY)) / bound
        _, noisy = self._deviations(confidence)
        n, level = float(counts.sum()), 0.5 * (1.0 - confidence)
        mean = min(max(float((losses * counts).sum()) / n, 0.0), 1.0)
        squares = (losses - mean) ** 2
        spread = float((squares * counts).sum())
        spread += noisy * self.std * math.sqrt(float((squares**2).sum()))
        variance = min(max(spread / n, 0.0), 0.25)  # no loss between 0 and 1 varies more

        def above(mean: float, losses: FloatArray) -> float:
            """Return how large the mean may be, by Fieller's equation."""
            reach = 1.0 - mean - _least_mean(1.0 - mean, variance, n, level)
            loud = (noisy * self.std) ** 2
            # n²(m − µ)² = n² reach² + loud Σ(l − µ)²
            a = n**2 - loud * losses.size
            b = n**2 * mean - loud * float(losses.sum())
            c = n**2 * (mean**2 - reach**2) - loud * float((losses**2).sum())
            if a <= 0.0:
                return 1.0
            return min((b + math.sqrt(max(b**2 - a * c, 0.0))) / a, 1.0)

        high, low = above(mean, losses), 1.0 - above(1.0 - mean, 1.0 - losses)
        return Interval(bound * mean, bound * min(low, mean), bound * max(high, mean), confidence)


def _least_mean(mean: float, variance: float, size: float, level: float) -> float:
    """Return Clopper and Pearson's lower limit of a mean of losses of two values, one of them 0."""
    if mean <= 0.0:
        return 0.0
    other = mean + variance / mean
    fraction = mean / other
    return other * float(betaincinv(size * fraction, size * (1.0 - fraction) + 1.0, level))
