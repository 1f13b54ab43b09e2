"""How many records thresholds choose, by a released histogram: right in the mean, with limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
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
        if self.total is not None:
            low, high = self.records(noise, error)
            return low / self.total, high / self.total
        other = Counted(self.others, self.chosen, self.cells[::-1], None)
        (low, high), (few, many) = (one.records(noise, error / 2.0) for one in (self, other))
        return (
            low / (low + many) if low + many > 0.0 else 0.0,
            high / (high + few) if high + few > 0.0 else 1.0,
        )

    def records(self, noise: IntegerNoise | None, error: float) -> tuple[float, float]:
        """Return limits of how many are chosen; cells are whole ones."""
        cells = (int(self.cells[0]), int(self.cells[1]))
        if cells[0] == 0:
            return 0.0, 0.0
        if self.total is None:
            radius = _radius(noise, cells[:1], (1,), error)
            return max(self.chosen - radius, 0.0), max(self.chosen + radius, 0.0)
        if cells[1] == 0:
            return float(self.total), float(self.total)
        common = math.gcd(*cells)
        weights = (cells[1] // common, cells[0] // common)
        centre = weights[0] * self.chosen + weights[1] * (self.total - self.others)
        radius = _radius(noise, cells, weights, error)
        low = max(math.ceil((centre - radius) / sum(weights)), 0)
        high = min(math.floor((centre + radius) / sum(weights)), self.total)
        return (float(low), float(high)) if low <= high else (0.0, float(self.total))


def _radius(
    noise: IntegerNoise | None, cells: Sequence[int], weights: Sequence[int], error: float
) -> int:
    """Return the least number that a sum of noises exceeds, either way, with so little chance."""
    if noise is None:
        return 0
    numbers, probabilities = noise.law(cells, weights)
    beyond = 2.0 * (np.cumsum(probabilities[::-1])[::-1] - probabilities)
    return int(numbers[(numbers >= 0) & (beyond <= error)][0])


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
        rows = self._counted(*self._cuts(thresholds))
        return np.array([one.share() for one in (*rows, self._all(rows))])

    def limits(
        self, thresholds: FloatArray, noise: IntegerNoise | None, per_group: bool
    ) -> FloatArray:
        """Return limits of these shares for thresholds that were chosen by the same counts.

        At each of the edges between bins they would miss with the probability of an error over
        their number, so that they hold at whichever one is chosen. Where each group has a
        threshold of its own, limits of all are those of the groups together.
        """
        first, part = self._cuts(thresholds)
        whole = np.zeros_like(part)
        # where it lies, and no count, says whether a threshold divides a bin: none, and all of it
        ends = np.array(self.edges)
        divides = (first > 0) & (thresholds < ends[first])
        divides |= thresholds == ends[-1]  # who has this very score is in the bin below
        least, most = self._counted(first, whole), self._counted(first - divides, whole)
        error = _ERROR / max(len(self.edges) - 2, 1)
        found = [
            (low.limits(noise, error)[0], high.limits(noise, error)[1])
            for low, high in zip(least, most, strict=True)
        ]
        if per_group:
            error /= len(found)
            low = sum(one.records(noise, error)[0] for one in least)
            high = sum(one.records(noise, error)[1] for one in most)
            of_all = low / self.n_records, high / self.n_records
        else:
            of_all = (
                self._all(least).limits(noise, error)[0],
                self._all(most).limits(noise, error)[1],
            )
        return np.clip([*found, of_all], 0.0, 1.0)

    def _totals(self) -> list[int | None]:
        return [None] * len(self.noisy) if self.sizes is None else [int(n) for n in self.sizes]

    def _all(self, rows: Sequence[Counted]) -> Counted:
        """Return the numbers of all groups together."""
        cells = (sum(one.cells[0] for one in rows), sum(one.cells[1] for one in rows))
        chosen, others = sum(one.chosen for one in rows), sum(one.others for one in rows)
        return Counted(chosen, others, cells, self.n_records)

    def _cuts(self, thresholds: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the first bin above each threshold, and the part of the one below that is chosen.

        Scores are denser at the lower end of a bin where few records are left (`log_falling`).
        """
        first = np.minimum(np.searchsorted(self.edges, thresholds), len(self.edges) - 1)
        part = np.zeros(len(first))
        falling = log_falling(self.likely.sum(axis=1))
        for group, (at, bin_above) in enumerate(zip(thresholds, first, strict=True)):
            if bin_above and at < self.edges[bin_above]:
                places = self.edges[bin_above - 1 : bin_above + 1]
                logs = falling[group, bin_above - 1 : bin_above + 1]
                there, of_bin = np.exp(np.interp(at, places, logs)), np.exp(logs)
                share = (there - of_bin[1]) / max(of_bin[0] - of_bin[1], np.finfo(float).tiny)
                part[group] = min(share, 1.0)
            elif at == self.edges[-1]:  # who has this very score is in the bin below
                part[group] = np.finfo(float).tiny
        return first, part

    def _counted(self, first: NDArray[np.intp], part: FloatArray) -> list[Counted]:
        """Return who is chosen by whole bins from a first one on, and a part of the one below."""
        by_bin, n_bins, rows = self.noisy.sum(axis=1), self.noisy.shape[2], []
        for counts, at, share, total in zip(by_bin, first, part, self._totals(), strict=True):
            divided = share > 0.0
            below = float(counts[at - 1]) * share if divided else 0.0
            chosen = float(counts[at:].sum()) + below
            # a cell of each class, of which a part has its square of the variance
            cells = (
                2.0 * (n_bins - at + share**2),
                2.0 * (at - 1 + (1.0 - share) ** 2 if divided else at),
            )
            rows.append(Counted(chosen, float(counts.sum()) - chosen, cells, total))
        return rows
