"""Means, intervals, ratios and what is said about all cells together."""

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
    """A quotient or difference of means with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


class Verdict(NamedTuple):
    """What a set of ratios comes to."""

    n_cells: int
    geometric_mean: float
    worst_cell: str
    worst: Ratio
    won: int
    lost: int


def interval(values: Sequence[float | None]) -> Interval:
    """Return the mean of seeds and half its 95 % interval, by Student's t."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if not len(known):
        return Interval(math.nan, 0.0)
    if len(known) < 2:
        return Interval(float(known.mean()), 0.0)
    half = student.ppf(LEVEL, len(known) - 1) * known.std(ddof=1) / math.sqrt(len(known))
    return Interval(float(known.mean()), float(half))


def ratio(ours: Sequence[float], theirs: Sequence[float], floor: float = FLOOR) -> Ratio:
    """Return the quotient of two mean excesses, each seed's floored.

    Parameters
    ----------
    ours, theirs : sequence of float
        Excess of each seed.
    floor : float, default=1e-3
        Smaller excesses count as this much.

    Returns
    -------
    Ratio
        With an interval by the delta method on the logarithm, and Welch's degrees of freedom.
    """
    parts = []
    for values in (ours, theirs):
        floored = np.maximum(np.asarray(values, dtype=float), floor)
        n, mean = len(floored), float(floored.mean())
        variance = float(floored.var(ddof=1)) / n / mean**2 if n > 1 else 0.0
        parts.append((mean, variance, n))
    total = sum(variance for _, variance, _ in parts)
    width = 0.0
    if total > 0.0:
        freedom = total**2 / sum(
            variance**2 / (n - 1) for _, variance, n in parts if variance > 0.0
        )
        width = float(student.ppf(LEVEL, freedom)) * math.sqrt(total)
    value = parts[0][0] / parts[1][0]
    return Ratio(value, value * math.exp(-width), value * math.exp(width))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Return the difference of two means with its 95 % interval, by Welch's t."""
    parts = [np.asarray(values, dtype=float) for values in (ours, theirs)]
    value = float(parts[0].mean() - parts[1].mean())
    variances = [float(each.var(ddof=1)) / len(each) if len(each) > 1 else 0.0 for each in parts]
    total = sum(variances)
    if total == 0.0:
        return Ratio(value, value, value)
    freedom = total**2 / sum(
        variance**2 / (len(each) - 1)
        for variance, each in zip(variances, parts, strict=True)
        if variance > 0.0
    )
    half = float(student.ppf(LEVEL, freedom)) * math.sqrt(total)
    return Ratio(value, value - half, value + half)


def verdict(ratios: dict[str, Ratio]) -> Verdict:
    """Return geometric mean, worst cell, and cells that are won and lost beyond their intervals.

    Parameters
    ----------
    ratios : dict of str to Ratio
        At least one, by cell.

    Returns
    -------
    Verdict
        A cell is won where its whole interval is below 1, lost where it is above.
    """
    worst = max(ratios, key=lambda cell: ratios[cell].value)
    logs = [math.log(each.value) for each in ratios.values()]
    return Verdict(
        len(ratios),
        math.exp(sum(logs) / len(logs)),
        worst,
        ratios[worst],
        sum(each.high < 1.0 for each in ratios.values()),
        sum(each.low > 1.0 for each in ratios.values()),
    )
