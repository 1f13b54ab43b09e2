"""Intervals of rates from the counts of truth and prediction in each group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.inspection._cells import RATES, Cell
from sklearn_dpwg.metrics.intervals import Interval, rate_interval, ratio_interval
from sklearn_dpwg.privacy import IntegerNoise


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
