"""Means over cells of several tasks, with intervals by source.

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

from utility.summary import LEVEL, Ratio


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


def clustered(values: Sequence[float], clusters: Sequence[str]) -> Estimate:
    """Return the mean of values, and its standard error over clusters.

    Parameters
    ----------
    values : sequence of float
        At least one.
    clusters : sequence of str
        The cluster of each.

    Returns
    -------
    Estimate
        Every value counts the same.
    """
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
    logs = clustered([math.log(each) for each in ratios], clusters)
    value = math.exp(logs.mean)
    if math.isinf(logs.half):
        return Ratio(value, 0.0, math.inf)
    return Ratio(value, value * math.exp(-logs.half), value * math.exp(logs.half))


def gap(
    ours: tuple[Sequence[float], Sequence[str]], theirs: tuple[Sequence[float], Sequence[str]]
) -> tuple[float, float]:
    """Return the difference of two geometric means, and half the width of its 95 % interval.

    Parameters
    ----------
    ours, theirs : tuple of sequences
        Ratios and their clusters; no cluster is in both.

    Returns
    -------
    tuple of float
        First mean less second, by the delta method with Welch's degrees of freedom.
    """
    means, variances, freedoms = [], [], []
    for ratios, clusters in (ours, theirs):
        logs = clustered([math.log(each) for each in ratios], clusters)
        means.append(math.exp(logs.mean))
        variances.append((means[-1] * logs.error) ** 2)
        freedoms.append(logs.n_clusters - 1)
    difference, total = means[0] - means[1], sum(variances)
    if min(freedoms) < 1:
        return difference, math.inf
    if total == 0.0:
        return difference, 0.0
    freedom = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    return difference, float(student.ppf(LEVEL, freedom)) * math.sqrt(total)
