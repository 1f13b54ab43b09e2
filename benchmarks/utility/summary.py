"""Means, ratios and what many of them come to, with intervals by seed or by source.

Cells of one source (a survey or study) share records, so they are one cluster: the variance of a
mean is that of the clusters' sums of residuals (the delta method), and Student's t has one degree
of freedom less than there are sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

# Below this excess a difference is of no use to anybody.
FLOOR = 1e-3
LEVEL = 0.975


class Interval(NamedTuple):
    """A mean, and half the width of its 95 % interval; 0 for what has no spread."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + (f" ± {self.half:.4f}" if self.half else "")


class Ratio(NamedTuple):
    """A quotient of means with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


class Estimate(NamedTuple):
    """A mean of values in clusters, with its standard error; NaN for a single cluster."""

    mean: float
    error: float
    n_clusters: int

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        freedom = self.n_clusters - 1
        return float(student.ppf(LEVEL, freedom)) * self.error if freedom else math.inf


def interval(values: Sequence[float | None]) -> Interval:
    """Return the mean of seeds and half its 95 % interval, by Student's t."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if len(known) < 2:
        return Interval(float(known[0]) if len(known) else math.nan, 0.0)
    half = student.ppf(LEVEL, len(known) - 1) * known.std(ddof=1) / math.sqrt(len(known))
    return Interval(float(known.mean()), float(half))


def ratio(ours: Sequence[float], theirs: Sequence[float], floor: float = FLOOR) -> Ratio:
    """Return the quotient of two mean excesses, where each seed's is at least the floor.

    The interval is by the delta method on the logarithm, with Welch's degrees of freedom.
    """
    floored = [np.maximum(np.asarray(values, dtype=float), floor) for values in (ours, theirs)]
    means = [float(each.mean()) for each in floored]
    variances = [
        variance_of_mean(each) / mean**2 for each, mean in zip(floored, means, strict=True)
    ]
    width = half_width(variances, [len(each) - 1 for each in floored])
    value = means[0] / means[1]
    return Ratio(value, value * math.exp(-width), value * math.exp(width))


def variance_of_mean(values: np.ndarray) -> float:
    """Return the variance of a mean, 0 for one value, whose spread nobody knows."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def half_width(variances: Sequence[float], freedoms: Sequence[int]) -> float:
    """Return half the 95 % interval of a difference, with Welch's degrees of freedom."""
    total = sum(variances)
    if total == 0.0:
        return 0.0
    known = zip(variances, freedoms, strict=True)
    freedom = total**2 / sum(each**2 / degrees for each, degrees in known if each > 0.0)
    return float(student.ppf(LEVEL, freedom)) * math.sqrt(total)


def clustered(values: Sequence[float], clusters: Sequence[str]) -> Estimate:
    """Return the mean of at least one value, each counting the same, and its error by cluster."""
    known = np.asarray(values, dtype=float)
    names, codes = np.unique(np.asarray(clusters), return_inverse=True)
    mean = float(known.mean())
    if len(names) < 2:
        return Estimate(mean, math.nan, len(names))
    sums = np.bincount(codes, known - mean)
    variance = len(names) / (len(names) - 1) * float(sums @ sums) / len(known) ** 2
    return Estimate(mean, math.sqrt(variance), len(names))


def geometric_mean(ratios: Sequence[float], clusters: Sequence[str]) -> Ratio:
    """Return the geometric mean of ratios with its 95 % interval over clusters."""
    logs = clustered(list(map(math.log, ratios)), clusters)
    value = math.exp(logs.mean)
    if math.isinf(logs.half):
        return Ratio(value, 0.0, math.inf)
    return Ratio(value, value * math.exp(-logs.half), value * math.exp(logs.half))


def gap(
    ours: tuple[Sequence[float], Sequence[str]], theirs: tuple[Sequence[float], Sequence[str]]
) -> tuple[float, float]:
    """Return the difference of two geometric means, and half the width of its 95 % interval.

    Each is of ratios and their clusters, of which none is in both; by the delta method.
    """
    logs = [clustered(list(map(math.log, ratios)), clusters) for ratios, clusters in (ours, theirs)]
    means = [math.exp(each.mean) for each in logs]
    if min(each.n_clusters for each in logs) < 2:
        return means[0] - means[1], math.inf
    variances = [(mean * each.error) ** 2 for mean, each in zip(means, logs, strict=True)]
    return means[0] - means[1], half_width(variances, [each.n_clusters - 1 for each in logs])
