"""What an audit will release, and how wide its intervals will be."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.histogram import OF_DECISIONS, Histogram
from sklearn_dpwg.privacy import Budget, IntegerNoise, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.statement import cost_of

# Rates that a plan shows.
_METRICS = ("selection_rate", "error_rate", "true_positive_rate", "false_positive_rate")
# Bins by default, and by how much these may widen the interval of a selection rate in a group so
# large a part of the mean size: the small ones pay most, and how small they are is secret.
N_BINS, MOST_PRICE, SMALL = 20, 0.1, 0.25


@dataclass(frozen=True)
class AuditPlan:
    """What an audit releases and costs, from public facts alone; ``print`` it.

    Parameters
    ----------
    release : Release or None
        The histogram; None without privacy.
    noise : IntegerNoise or None
        Law of the noise on every count.
    guarantee : PrivacyGuarantee
        What one audit costs.
    base_rate : float
        Share of the positive class that the widths assume.
    confidence : float
        That of the intervals.
    widths : tuple of (group, size, mapping)
        For each group, or None where only sizes are shown, a guess of its size, and by metric the
        width of its interval to expect and that without noise.
    n_bins : int
        How many bins of scores are counted.
    price : float or None
        By how much 20 bins widen the interval of a selection rate in a group of ``small_size``,
        where that decides about bins.
    small_size : int
        A quarter of the mean size.

    See Also
    --------
    GroupAudit.plan : Makes plans.
    """

    release: Release | None
    noise: IntegerNoise | None
    guarantee: PrivacyGuarantee
    base_rate: float
    confidence: float
    widths: tuple[tuple[Hashable, int, Mapping[str, tuple[float, float]]], ...]
    n_bins: int
    price: float | None
    small_size: int

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count, 0 without privacy."""
        return 0.0 if self.noise is None else self.noise.std

    def __str__(self) -> str:
        """Return the plan for people."""
        metrics = list(self.widths[0][2])
        rows = [["group", "size", *metrics]]
        for group, size, widths in self.widths:
            cells = [f"{width:.3f} ({sampling:.3f})" for width, sampling in widths.values()]
            rows.append(["any" if group is None else words.in_line(group), f"{size:,}", *cells])
        rate = "base rate" if len(metrics) > 1 else "selection rate"  # decisions alone
        said = (
            f"Widths of {100 * self.confidence:g} % intervals to expect at a {rate} of "
            f"{self.base_rate:g}, in brackets those of sampling alone:"
        )
        table = words.table(rows, (5, 9, *[13] * len(metrics)))
        return "\n".join([self._cost(), *self._noise_lines(), "", said, *table])

    def _cost(self) -> str:
        if self.noise is None:
            return "Audit without privacy: exact counts, which contain unprotected statistics."
        relation = self.guarantee.relation
        return f"Private audit: {cost_of(self.guarantee)}, neighbours: {relation}."

    def _noise_lines(self) -> list[str]:
        lines = []
        if self.noise is not None:
            std = self.noise.std
            lines.append(f"Every count has discrete Laplace noise of standard deviation {std:.2f}.")
        if self.price is not None:
            done = "are counted" if self.n_bins > 2 else "would be too many"
            lines.append(
                f"{N_BINS} bins of scores {done}: in a group of {self.small_size:,} people they "
                f"widen the interval of a selection rate by {100 * self.price:.0f} %."
            )
        return lines


@lru_cache(maxsize=64)  # the accountant is slow, and every run plans
def release_of(budget: Budget) -> Release:
    """Return the release of the histogram, at a budget."""
    (found,) = calibrate([Release("counts", "discrete-laplace", 1.0, max_count=1)], budget)
    return found


def default_edges(threshold: float) -> tuple[float, ...]:
    """Return inner edges of bins of equal width, and the threshold."""
    equal = [place / N_BINS for place in range(1, N_BINS)]
    return tuple(sorted({*equal, threshold}))


def price_of_bins(
    edges: tuple[float, ...],
    threshold: float,
    noise: IntegerNoise | None,
    size: float,
    n_classes: int,
) -> float:
    """Return by how much bins widen the interval of a selection rate of 0.3 in a group.

    That is by the variances of sampling, and of noise in the cells on both sides of the threshold.
    """
    if noise is None:
        return 0.0
    below = edges.index(threshold) + 1
    wide, narrow = (
        0.3 * 0.7 * size + n_classes * noise.std**2 * (0.7**2 * n_above + 0.3**2 * n_below)
        for n_below, n_above in ((below, len(edges) + 1 - below), (1, 1))
    )
    return math.sqrt(wide / narrow) - 1.0


def expected_widths(
    size: int,
    base_rate: float,
    noise: IntegerNoise | None,
    n_bins: tuple[int, int],
    *,
    has_outcomes: bool = True,
    is_public: bool,
    confidence: float,
) -> dict[str, tuple[float, float]]:
    """Return by metric the width, and that without noise.

    They are those at the counts of a model that selects as many as are positive and is wrong half
    as often as by chance.
    """
    wrong = 0.5 * base_rate * (1.0 - base_rate)
    shares = [[1.0 - base_rate - wrong, wrong], [wrong, base_rate - wrong]]
    metrics: tuple[str, ...] = _METRICS
    cells = np.rint(size * np.array([shares])).astype(np.int64)
    if not has_outcomes:
        cells, metrics = cells.sum(axis=1, keepdims=True), OF_DECISIONS
    sizes = (int(cells.sum()),) if is_public else None
    spread = np.zeros((1, len(cells[0]), sum(n_bins)), dtype=np.int64)
    spread[:, :, [0, n_bins[0]]] = cells
    noisy = Histogram(spread, n_bins[0], noise, sizes)
    exact = noisy.without_noise()
    return {
        metric: (
            noisy.interval(metric, 0, confidence).width,
            exact.interval(metric, 0, confidence).width,
        )
        for metric in metrics
    }
