"""The released histogram of (group, outcome, bin of score), and metrics that follow from it.

Rates at an edge are sums of bins. The AUC, losses and the calibration error replace each score by
the middle of its bin. Their limits solve equations like Fieller's, which account for noise in a
denominator (docs/theory/group-audit.md).
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

# What rates describe: the process that the records are a sample of, or the records themselves.
Of = Literal["process", "records"]


@dataclass(frozen=True)
class GroupRate:
    """A metric of one group, estimated by an audit, with its confidence interval."""

    group: Hashable
    metric: str
    estimate: float  # within the interval
    low: float  # limits of the interval, which covers noise and sampling
    high: float

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


# A cell is (true class, predicted class), each 1 for the positive class and 0 for the negative.
Cell = tuple[int, int]
_TN, _FP, _FN, _TP = CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass(frozen=True)
class CellRate:
    """Definition of a rate, hits / (hits + misses), by the cells that count as each."""

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
# Metrics that need bins of scores, with the largest possible value of each.
OF_SCORES: Mapping[str, float] = {
    "auc": 1.0,
    "calibration_error": 1.0,
    "log_loss": -math.log(_SMALLEST_PROBABILITY),
    "squared_error": 1.0,
}
# Metrics that decisions determine without outcomes.
OF_DECISIONS = ("selection_rate",)


def greater_is_worse(metric: str) -> bool:
    """Whether a large value of a metric is bad for a group, as of losses and errors."""
    return RATES[metric].greater_is_worse if metric in RATES else metric != "auc"


def unit_of(metric: str) -> str:
    """Return the unit of 100 times a metric: "%", "points" for differences, else "" for none."""
    if metric.removesuffix(" difference") in (*RATES, "calibration", "calibration_error"):
        return "points" if metric.endswith(" difference") else "%"
    return ""


@dataclass(frozen=True)
class Histogram:
    """Noisy counts of records, of shape (n_groups, n_classes, n_bins).

    Records in bins from ``first_selected_bin`` on are predicted positive. There is one class if
    outcomes are not known. Each count sums ``n_cells`` noisy numbers; ``edges`` run from 0 to 1,
    None for decisions. If not ``is_sample``, the records are everybody: no sampling error.
    """

    counts: NDArray[np.int64]
    first_selected_bin: int
    noise: IntegerNoise | None
    sizes: tuple[int, ...] | None
    n_cells: int = 1
    edges: tuple[float, ...] | None = None
    is_sample: bool = True

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that the counts determine."""
        if self.counts.shape[1] == 1:
            return OF_DECISIONS
        return (*RATES, *(OF_SCORES if self.counts.shape[2] > 2 and self.is_sample else ()))

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """Counts by group, true class and decision, of shape (n_groups, n_classes, 2)."""
        not_selected, selected = np.split(self.counts, [self.first_selected_bin], axis=2)
        return np.stack([not_selected.sum(axis=2), selected.sum(axis=2)], axis=2)

    @property
    def n_noisy(self) -> tuple[int, int]:
        """How many noisy numbers a cell sums: of records not selected, and selected."""
        n_selected_bins = self.counts.shape[2] - self.first_selected_bin
        return self.first_selected_bin * self.n_cells, n_selected_bins * self.n_cells

    @property
    def middles(self) -> FloatArray:
        """The middle of each bin of scores, of shape (n_bins,)."""
        edges = np.array(self.edges)
        return np.asarray((edges[:-1] + edges[1:]) / 2.0)

    @property
    def std(self) -> float:
        """Standard deviation of the noise on a count."""
        return 0.0 if self.noise is None else self.noise.std * math.sqrt(self.n_cells)

    def interval(self, metric: str, group: int, confidence: float) -> Interval:
        """Return the estimate and limits of a metric in one group, which is given by its place."""
        if metric in OF_SCORES:
            return self._score_interval(metric, group, confidence)
        rate = RATES[metric]
        (hits, n_hits), (misses, n_misses) = self.totals(rate.hits), self.totals(rate.misses)
        hits, misses, n_cells = int(hits[group]), int(misses[group]), (n_hits, n_misses)
        public_size = self.public_size(rate, group)
        settings: Any = {"noise": self.noise, "n_cells": n_cells, "confidence": confidence}
        if not self.is_sample:
            return census_interval((hits, misses), total=public_size, **settings)
        if public_size is not None:
            return rate_interval(hits, public_size, failures=misses, **settings)
        return ratio_interval(hits, misses, **settings)

    def fraction(self, metric: str, group: int) -> float:
        """Return the estimate of a rate in one group; NaN if hits and misses are at most 0."""
        rate = RATES[metric]
        hits, misses = (max(self.totals(cells)[0][group], 0) for cells in (rate.hits, rate.misses))
        return float(hits / (hits + misses)) if hits + misses else math.nan

    def public_size(self, rate: CellRate, group: int) -> int | None:
        """Return the exact hits + misses of a rate, if noise is on counts and the sum is public."""
        if self.sizes is None or self.noise is None or {*rate.hits, *rate.misses} != {*CELLS}:
            return None
        return self.sizes[group]

    def pooled(self, groups: tuple[int, ...]) -> Histogram:
        """Return a histogram with a single group, which sums the given groups."""
        sizes = None if self.sizes is None else (sum(self.sizes[group] for group in groups),)
        counts = self.counts[list(groups)].sum(axis=0, keepdims=True)
        return replace(self, counts=counts, n_cells=self.n_cells * len(groups), sizes=sizes)

    def without_noise(self) -> Histogram:
        """Return the counts as if they were exact; widths then come from sampling alone."""
        return replace(self, counts=np.maximum(self.counts, 0), noise=None)

    def totals(self, cells: Sequence[Cell]) -> tuple[Any, int]:
        """Return the sum of some cells in each group, and how many noisy numbers a sum has."""
        # without outcomes all records count as of class 0
        counted = [(true, decided) for true, decided in cells if true < self.counts.shape[1]]
        total = sum(self.cells[:, true, decided] for true, decided in counted)
        return total, sum(self.n_noisy[decided] for _, decided in counted)

    def group_sizes(self) -> list[float]:
        """Return the number of records of each group, exact if it is public, else noisy."""
        if self.sizes is not None:
            return [float(size) for size in self.sizes]
        return [float(total) for total in self.counts.sum(axis=(1, 2))]

    def size_error(self, confidence: float) -> float:
        """Return the half width of the interval of a group's size, which noise makes uncertain."""
        if self.noise is None or self.sizes is not None:
            return 0.0
        numbers, probabilities = self.noise.law(self.counts.shape[1] * sum(self.n_noisy))
        below = np.cumsum(probabilities)
        place = int(np.searchsorted(below, 0.5 * (1.0 - confidence), side="right"))
        return float(-numbers[place])

    # Metrics that need bins of scores.

    def _quantiles(self, confidence: float) -> tuple[float, float]:
        """Return upper quantiles, in standard deviations, of a normal law and of the noise."""
        level = 0.5 * (1.0 - confidence)
        normal = -float(ndtri(level))
        is_laplace = self.noise is not None and self.noise.mechanism == "laplace"
        return normal, -math.log(2.0 * level) / math.sqrt(2.0) if is_laplace else normal

    def _score_interval(self, metric: str, group: int, confidence: float) -> Interval:
        """Return the interval of a metric of `OF_SCORES`; an AUC needs records of each class."""
        counts = self.counts[group].astype(np.float64)
        sizes = counts.sum(axis=1) if metric == "auc" else counts.sum()
        if sizes.min() < 1.0:
            return Interval(math.nan, 0.0, OF_SCORES[metric], confidence)
        if metric == "auc":
            return self._auc(counts, confidence)
        if metric == "calibration_error":
            return self._calibration_error(counts, confidence)
        return self._mean_loss(metric, counts, confidence)

    def _auc(self, counts: FloatArray, confidence: float) -> Interval:
        """Return the interval of the AUC: the fraction of (negative, positive) pairs in order.

        ψᵢⱼ is 1 if negative bin i is below positive bin j, 1/2 if equal. At an AUC of θ the
        statistic Σ nᵢ pⱼ (ψᵢⱼ − θ) has mean 0, noise included. Its sampling variance at θ is the
        larger of Hanley and McNeil's and DeLong's (Newcombe 2006). Each θ of a grid is tested.
        """
        negatives, positives = counts
        normal_quantile, noise_quantile = self._quantiles(confidence)
        order = np.tri(len(negatives), k=-1).T + 0.5 * np.eye(len(negatives))  # ψ
        n, p = negatives.sum(), positives.sum()
        estimate = min(max(float(negatives @ order @ positives) / (n * p), 0.0), 1.0)
        aucs = np.linspace(0.0, 1.0, 2001)
        below, above = order.T @ negatives, order @ positives
        # Hanley and McNeil's variance; (n + p)/2 − 1 for each class is Newcombe's fifth method
        n_others = 0.5 * (n + p) - 1.0
        shared_negative = aucs / (2.0 - aucs) - aucs**2
        shared_positive = 2.0 * aucs**2 / (1.0 + aucs) - aucs**2
        shared = max(n_others, 0.0) * (shared_negative + shared_positive)
        hanley = n * p * (aucs * (1.0 - aucs) + shared)
        delong = np.maximum(positives, 0.0) @ (below / n - estimate) ** 2 * n**2
        delong += np.maximum(negatives, 0.0) @ (above / p - estimate) ** 2 * p**2
        # the statistic is bilinear in counts: noise enters by class, and by products of both
        by_class = sum(
            float((values**2).sum())
            - 2.0 * size * aucs * values.sum()
            + len(negatives) * (size * aucs) ** 2
            for values, size in ((below, n), (above, p))
        )
        products = float((order**2).sum()) - 2.0 * aucs * order.sum() + order.size * aucs**2
        noise = np.maximum(by_class * self.std**2 + products * self.std**4, 0.0)
        reach = np.sqrt(normal_quantile**2 * np.maximum(hanley, delong) + noise_quantile**2 * noise)
        statistics = float(negatives @ order @ positives) - n * p * aucs
        accepted = np.flatnonzero(np.abs(statistics) <= reach)
        low, high = (aucs[accepted[0]], aucs[accepted[-1]]) if len(accepted) else (0.0, 1.0)
        return Interval(estimate, min(low, estimate), max(high, estimate), confidence)

    def _calibration_error(self, counts: FloatArray, confidence: float) -> Interval:
        """Return the interval of the mean distance, over bins, of scores from observed outcomes.

        With D the sum of outcomes less scores in each bin, the error is Σ|D|/n. Σ|D| is at least
        the sum of D with the signs of the true sums, which gives a normal upper limit. The lower
        limit subtracts the errors of all bins, by the triangle inequality.
        """
        normal_quantile, noise_quantile = self._quantiles(confidence)
        middles, n = self.middles, counts.sum()
        sums = counts[1] * (1.0 - middles) - counts[0] * middles  # D
        noise_variance = self.std**2 * ((1.0 - middles) ** 2 + middles**2)
        bin_sizes = np.maximum(counts.sum(axis=0), 0.0)
        squares = np.maximum(counts[1], 0.0) * (1.0 - middles) ** 2
        squares += np.maximum(counts[0], 0.0) * middles**2
        sampling_variance = np.maximum(squares, bin_sizes * middles * (1.0 - middles))
        total = np.abs(sums).sum()
        stds = np.sqrt(sampling_variance + noise_variance)
        sampling_error = normal_quantile * math.sqrt(sampling_variance.sum())
        above = math.hypot(sampling_error, noise_quantile * math.sqrt(noise_variance.sum()))
        # |Z| of a standard normal Z has mean √(2/π) and variance 1 − 2/π
        below = math.sqrt(2.0 / math.pi) * stds.sum() + above * math.sqrt(1.0 - 2.0 / math.pi)
        size_error = self.size_error(confidence)
        low = max(total - below, 0.0) / (n + size_error)
        high = min((total + above) / max(n - size_error, 1.0), 1.0)
        estimate = min(float(np.sqrt(np.maximum(sums**2 - noise_variance, 0.0)).sum() / n), 1.0)
        return Interval(estimate, min(low, estimate), max(high, estimate), confidence)

    def _mean_loss(self, metric: str, counts: FloatArray, confidence: float) -> Interval:
        """Return the interval of a mean loss; limits are exact for the most skewed losses.

        Sampling error is that of a loss with two values, one of them the bound beyond the limit,
        and the same mean and variance (docs/theory/group-audit.md). The noise error is that of
        Σ count (loss − mean), whose mean is 0 at the true mean. Both are added in squares.
        """
        bound = OF_SCORES[metric]
        scores = np.stack([1.0 - self.middles, self.middles])  # probability of the true class
        losses = (1.0 - scores) ** 2
        if metric == "log_loss":
            losses = -np.log(np.maximum(scores, _SMALLEST_PROBABILITY)) / bound
        _, noise_quantile = self._quantiles(confidence)
        n, level = float(counts.sum()), 0.5 * (1.0 - confidence)
        mean = min(max(float((losses * counts).sum()) / n, 0.0), 1.0)
        squares = (losses - mean) ** 2
        sum_of_squares = float((squares * counts).sum())
        sum_of_squares += noise_quantile * self.std * math.sqrt(float((squares**2).sum()))
        variance = min(max(sum_of_squares / n, 0.0), 0.25)  # 1/4 is the largest on [0, 1]

        def upper_limit(mean: float, losses: FloatArray) -> float:
            """Return the largest µ with n²(mean − µ)² ≤ n² sampling² + noise Σ(loss − µ)²."""
            # the error by sampling, that of the lower limit of 1 − loss; the squared one by noise
            sampling = 1.0 - mean - _least_mean(1.0 - mean, variance, n, level)
            noise = (noise_quantile * self.std) ** 2
            # solves aµ² − 2bµ + c ≤ 0
            a, b = n**2 - noise * losses.size, n**2 * mean - noise * float(losses.sum())
            c = n**2 * (mean**2 - sampling**2) - noise * float((losses**2).sum())
            if a <= 0.0:  # noise hides the size: no limit
                return 1.0
            return min((b + math.sqrt(max(b**2 - a * c, 0.0))) / a, 1.0)

        high, low = upper_limit(mean, losses), 1.0 - upper_limit(1.0 - mean, 1.0 - losses)
        return Interval(bound * mean, bound * min(low, mean), bound * max(high, mean), confidence)


def _least_mean(mean: float, variance: float, size: float, level: float) -> float:
    """Return Clopper and Pearson's lower limit of the mean of ``size`` losses of 0 or a value."""
    if mean <= 0.0:
        return 0.0
    value = mean + variance / mean  # with its fraction, it has this mean and variance
    fraction = mean / value
    return value * float(betaincinv(size * fraction, size * (1.0 - fraction) + 1.0, level))
