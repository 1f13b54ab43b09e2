"""How many records thresholds choose, by a released histogram: right in the mean, with limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.metrics.intervals.rate import census_interval, survival_of
from sklearn_dpwg.postprocessing.histogram import log_falling
from sklearn_dpwg.privacy import IntegerNoise

# Probability that limits miss.
_ERROR = 0.05


@dataclass(frozen=True)
class Counted:
    """Noisy numbers of who is chosen and who is not, of how many, None where only noise says it.

    Of each number there is how many cells it sums, in units of the noise of one.
    """

    chosen: float
    others: float
    cells: tuple[float, float]
    total: int | None

    def share(self) -> float:
        """Return the share that is chosen, each number weighed by the noise of the other."""
        if 0.0 in self.cells:  # nobody can be chosen, or everybody is
            return float(self.cells[1] == 0.0)
        if self.total is None:
            seen = self.chosen + self.others
            return min(max(self.chosen / seen, 0.0), 1.0) if seen > 0.0 else math.nan
        of_chosen, of_others = self.cells
        both = of_others * self.chosen + of_chosen * (self.total - self.others)
        return both / (of_chosen + of_others) / self.total if self.total else math.nan

    def limits(self, noise: IntegerNoise | None, error: float) -> tuple[float, float]:
        """Return limits of the share, which miss it with at most the probability of an error."""
        if self.total == 0 or 0.0 in self.cells:
            return (0.0, 1.0) if self.total == 0 else (self.share(), self.share())
        counts, cells = (
            (int(self.chosen), int(self.others)),
            (int(self.cells[0]), int(self.cells[1])),
        )
        found = census_interval(counts, self.total, noise, cells, 1.0 - error)
        return found.low, found.high

    def records(self, noise: IntegerNoise | None, error: float) -> tuple[float, float]:
        """Return limits of how many are chosen; cells are whole ones."""
        n_cells, radius = int(self.cells[0]), 0
        if noise is not None and n_cells:
            radius = survival_of(noise, (n_cells,), (1,)).two_sided_radius(error)
        return max(self.chosen - radius, 0.0), max(self.chosen + radius, 0.0)


@dataclass(frozen=True)
class Selection:
    """A released histogram by group and bin, and what is known of how many records there are.

    ``likely`` counts, which the noisy ones stand for, say how a bin is divided. ``sizes`` of
    groups are None where they are not public; the number of all records is.
    """

    noisy: NDArray[np.int64]
    likely: FloatArray
    edges: FloatArray
    sizes: NDArray[np.int64] | None
    n_records: int

    def records(self) -> NDArray[np.int64]:
        """Return the number of records of each group and of all, by the histogram if need be."""
        found = self.noisy.sum(axis=(1, 2)) if self.sizes is None else self.sizes
        return np.append(found, self.n_records)

    def positive(self) -> FloatArray:
        """Return the share of the second class, of each group and of all."""
        counts, n_bins = self.noisy.sum(axis=2), self.noisy.shape[2]
        rows = [
            Counted(float(second), float(first), (n_bins, n_bins), total)
            for (first, second), total in zip(counts, self._totals(), strict=True)
        ]
        return np.array([one.share() for one in (*rows, self._all(rows))])

    def chosen(self, thresholds: FloatArray) -> FloatArray:
        """Return the share with a score of at least its threshold, of each group and of all."""
        first, divides = self._cuts(thresholds)
        rows = self._counted(first, np.where(divides, self._parts(thresholds, first), 0.0))
        return np.array([one.share() for one in (*rows, self._all(rows))])

    def limits(
        self, thresholds: FloatArray, noise: IntegerNoise | None, per_group: bool
    ) -> FloatArray:
        """Return limits of these shares for thresholds that were chosen by the same counts.

        At each of the edges between bins they would miss with the probability of an error over
        their number, so that they hold at whichever one is chosen. Where a threshold divides a bin
        they take none of it, and all. Where each group has a threshold of its own, limits of all
        are those of the groups together.
        """
        first, divides = self._cuts(thresholds)
        whole = np.zeros(len(first))
        least, most = self._counted(first, whole), self._counted(first - divides, whole)
        error = _ERROR / max(len(self.edges) - 2, 1)
        pairs = list(zip(least, most, strict=True))
        if not per_group:
            pairs.append((self._all(least), self._all(most)))
        found = [(low.limits(noise, error)[0], high.limits(noise, error)[1]) for low, high in pairs]
        if per_group:
            error /= len(found)
            ends = [
                (low.records(noise, error)[0], high.records(noise, error)[1]) for low, high in pairs
            ]
            found.append(tuple(np.sum(ends, axis=0) / self.n_records))
        return np.clip(found, 0.0, 1.0)

    def _totals(self) -> list[int | None]:
        return [None] * len(self.noisy) if self.sizes is None else [int(n) for n in self.sizes]

    def _all(self, rows: list[Counted]) -> Counted:
        """Return the numbers of all groups together."""
        cells = (sum(one.cells[0] for one in rows), sum(one.cells[1] for one in rows))
        chosen, others = sum(one.chosen for one in rows), sum(one.others for one in rows)
        return Counted(chosen, others, cells, self.n_records)

    def _cuts(self, thresholds: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the first bin above each threshold, and whether that divides the one below.

        Where a threshold lies says so, and no count: however few there seem to be, some may be
        chosen. Who has the highest score, as a threshold, is in the last bin.
        """
        first = np.minimum(np.searchsorted(self.edges, thresholds), len(self.edges) - 1)
        divides = (first > 0) & (thresholds < self.edges[first])
        return first, divides | (thresholds == self.edges[-1])

    def _parts(self, thresholds: FloatArray, first: NDArray[np.intp]) -> FloatArray:
        """Return the part of the bin below that is chosen, by the likely counts.

        Scores are denser at the lower end of a bin where few records are left (`log_falling`).
        """
        found = []
        for at, above, logs in zip(
            thresholds, first, log_falling(self.likely.sum(axis=1)), strict=True
        ):
            ends = slice(max(above - 1, 0), above + 1)
            there, of_bin = np.exp(np.interp(at, self.edges[ends], logs[ends])), np.exp(logs[ends])
            share = (there - of_bin[-1]) / max(of_bin[0] - of_bin[-1], np.finfo(float).tiny)
            found.append(min(max(share, np.finfo(float).tiny), 1.0))
        return np.array(found)

    def _counted(self, first: NDArray[np.intp], part: FloatArray) -> list[Counted]:
        """Return who is chosen by whole bins from a first one on, and a part of the one below."""
        by_bin, n_bins, rows = self.noisy.sum(axis=1), self.noisy.shape[2], []
        for counts, at, share, total in zip(by_bin, first, part, self._totals(), strict=True):
            below = float(counts[at - 1]) * share if share else 0.0
            chosen = float(counts[at:].sum()) + below
            # a cell of each class, of which a part has its square of the variance
            cells = (
                2.0 * (n_bins - at + share**2),
                2.0 * (at - 1 + (1.0 - share) ** 2 if share else at),
            )
            rows.append(Counted(chosen, float(counts.sum()) - chosen, cells, total))
        return rows
