"""Closed-form limits, in place until the exact ones are merged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import norm


@dataclass(frozen=True)
class Interval:
    """An estimate between two limits."""

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


@dataclass(frozen=True)
class WorstGroupSet:
    """Positions that may be the worst."""

    members: tuple[int, ...]
    value_low: float
    value_high: float
    gap: Interval


def _wilson(hits: float, total: float, variance: float, confidence: float) -> Interval:
    z = float(norm.ppf(0.5 + confidence / 2.0))
    if total < 1.0:
        return Interval(0.5, 0.0, 1.0, confidence)
    rate = min(max(hits / total, 0.0), 1.0)
    spread = z * z * (1.0 + variance / (total * max(rate * (1.0 - rate), 1.0 / total))) / total
    middle = (rate + spread / 2.0) / (1.0 + spread)
    half = math.sqrt(spread * rate * (1.0 - rate) + spread * spread / 4.0) / (1.0 + spread)
    return Interval(rate, max(0.0, middle - half), min(1.0, middle + half), confidence)


def rate_interval(
    successes: float, total: float, *, noise: Any = None, n_cells: int = 1, confidence: float = 0.95
) -> Interval:
    """Return limits of a rate with known total."""
    variance = 0.0 if noise is None else n_cells * noise.std**2
    return _wilson(successes, total, variance, confidence)


def ratio_interval(
    hits: float,
    misses: float,
    *,
    noise: Any = None,
    n_cells: tuple[int, int] = (1, 1),
    confidence: float = 0.95,
) -> Interval:
    """Return limits of a rate with unknown total."""
    total = hits + misses
    rate = min(max(hits / total, 0.0), 1.0) if total >= 1.0 else 0.5
    variance = 0.0
    if noise is not None:
        cells = n_cells[0] * (1.0 - rate) ** 2 + n_cells[1] * rate**2
        variance = cells * noise.std**2
    return _wilson(hits, total, variance, confidence)


def impact_ratios(rates: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return ratios to the largest rate."""
    best = max(rates, key=lambda rate: rate.estimate)
    ratios = []
    for rate in rates:
        ratio = rate.estimate / max(best.estimate, 1e-12)
        low, high = rate.low / max(best.high, 1e-12), rate.high / max(best.low, 1e-12)
        at_best = rate is best
        ratios.append(
            Interval(
                1.0 if at_best else ratio,
                1.0 if at_best else low,
                1.0 if at_best else high,
                rate.confidence,
            )
        )
    return tuple(ratios)


def worst_group_set(
    rates: Sequence[Callable[[float], Interval]],
    *,
    greater_is_worse: bool = True,
    confidence: float = 0.95,
) -> WorstGroupSet:
    """Return positions whose intervals overlap the worst one's."""
    at = [rate(confidence) for rate in rates]
    if greater_is_worse:
        floor = max(one.low for one in at)
        members = tuple(i for i, one in enumerate(at) if one.high >= floor)
        low, high = floor, max(one.high for one in at)
    else:
        ceiling = min(one.high for one in at)
        members = tuple(i for i, one in enumerate(at) if one.low <= ceiling)
        low, high = min(one.low for one in at), ceiling
    spread = max(one.estimate for one in at) - min(one.estimate for one in at)
    least = max(0.0, max(one.low for one in at) - min(one.high for one in at))
    most = max(one.high for one in at) - min(one.low for one in at)
    return WorstGroupSet(members, low, high, Interval(spread, least, most, confidence))
