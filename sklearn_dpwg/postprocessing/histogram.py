"""One histogram of scores: what its release costs, and what thresholds and calibration read in it.

`release_counts` alone hands records to noise; everything else follows from public facts or from the
noisy counts, of shape (n_groups, 2, n_bins).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.isotonic import isotonic_regression

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.data.problem import LABELS_THAT_OCCUR
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.metrics.intervals.rate import census_interval, survival_of
from sklearn_dpwg.privacy import (
    Budget,
    IntegerNoise,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    joint_guarantee,
)
from sklearn_dpwg.privacy.gaussian import gdp_epsilon
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import Plan

PUBLIC_FACTS = (
    "the number of records",
    "the group labels and the classes",
    "the edges of the bins of scores",
    "every parameter of the thresholds or the calibration",
)
# Log odds to which the bins reach: even in log odds, they tell apart scores of tables with few
# positives, too. `benchmarks/thresholds.py edges` prints equal ones beside them.
LOG_ODDS = 4.8
N_BINS = 12
# How far noise is trusted less than its size says: what is drawn to the usual is weighed as if by
# so many times the records that noise may feign. `benchmarks/thresholds.py trust` prints others.
TRUST = 3.0
# Records of the usual share that every bin of a group has besides its own in a calibration, so that
# a few people are not taken for a law where noise is quiet. `benchmarks/thresholds.py usual` prints
# others.
USUAL = 3.0
# A score that nobody has, so that a threshold there chooses nobody.
NOBODY = np.inf
# How close to its budget a plan comes, where that takes a search of at most so many.
_SHADE, _MOST_PLANS = 0.999, 12
# Pays for noise on the whole numbers that counts as continuous, as `calibrate` does elsewhere.
_DISCRETE = 1e-6
# Rates that thresholds are sought for; finer ones differ by less than the noise.
_RATES = np.linspace(0.0, 1.0, 401)
# Probability that limits of shares miss.
_ERROR = 0.05


# --- plan and release -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PostprocessingPlan:
    """What fitting thresholds or a calibration will release, from public facts alone; print it.

    ``model`` is None where it is fitted already, ``release`` without privacy; ``guarantee`` is what
    the fit costs, and a frozen model's own cost comes on top.
    """

    model: Plan | None
    release: Release | None
    budget: Budget
    n_groups: int
    n_bins: int
    guarantee: PrivacyGuarantee

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on the count of one cell."""
        return noise_std(self.release)

    @property
    def size_std(self) -> float:
        """Standard deviation of the noise on the number of records of one group."""
        return self.count_std * math.sqrt(2.0 * self.n_bins)

    def __str__(self) -> str:
        """Return a preview for people."""
        cells = f"{self.n_groups} groups, 2 classes and {self.n_bins} bins of scores"
        noise, of_model = "No noise is added.", ""
        if self.release is not None:
            small = float(f"{max(3.0 * self.size_std, 1.0):.2g}")
            noise = (
                f"Each count has {self.release.mechanism} noise of standard deviation "
                f"{self.count_std:.3g}, the size of a group {self.size_std:.3g}: thresholds of a "
                f"group of fewer than about {small:,.0f} records are mostly those of all."
            )
        budget = "This is the histogram alone; privacy_ adds what the frozen model cost."
        if self.model is not None:
            budget = f"The model is fitted with epsilon={rounded_up(self.model.budget.epsilon)}."
            of_model = f"\n\n{self.model._without_guarantee()}"
        return (
            f"One histogram of {cells}, each record in one cell. {noise} {budget}{of_model}\n\n"
            f"{self.guarantee}"
        )


def plan_release(
    budget: Budget,
    share: float,
    rows_per_person: int | None,
    planned: Callable[[Budget], Plan] | None,
) -> tuple[Plan | None, Release | None]:
    """Return the plan of the model and the release of the histogram, which keep the total.

    Around a frozen model, of which nothing is ``planned``, the histogram has all of ε, and δ is not
    used. Else it gets its share of μ². That adds up where the model's noise is Gaussian, too; where
    its batches are sampled, its budget is lowered until both together keep the total.
    """
    k = rows_per_person or 1
    if budget.epsilon == math.inf:
        return (None if planned is None else planned(budget)), None
    if planned is None:
        scale = k / budget.epsilon
        return None, Release("score histogram", "discrete-laplace", scale, max_count=1)
    mu = budget.mu * (1.0 - _DISCRETE)
    release = Release("score histogram", "gaussian", k / (math.sqrt(share) * mu), max_count=1)
    of_histogram = histogram_guarantee(release, budget.delta, rows_per_person)
    epsilon = gdp_epsilon(budget.delta, math.sqrt(1.0 - share) * mu)
    for _ in range(_MOST_PLANS):
        if not epsilon > 0.0:
            break
        model = planned(Budget(epsilon, budget.delta))
        cost = joint_guarantee([model.guarantee, of_histogram], budget.delta).epsilon
        if cost <= budget.epsilon:
            return model, release
        epsilon *= _SHADE * budget.epsilon / cost
    raise InputError(
        f"epsilon must be large enough for a model and a histogram at delta={budget.delta!r} and "
        f"histogram_share={share!r}, got {budget.epsilon!r}."
    )


def histogram_guarantee(
    release: Release | None,
    delta: float,
    rows_per_person: int | None,
    *,
    seeded: bool = False,
    labels_stated: bool = True,
) -> PrivacyGuarantee:
    """Return what a histogram costs by itself a person with so many rows."""
    public = PUBLIC_FACTS if labels_stated else (*PUBLIC_FACTS, LABELS_THAT_OCCUR)
    stated: dict[str, Any] = {"public": public, "relation": Relation.REPLACE_ONE}
    if release is None:
        guarantee = PrivacyGuarantee.non_private(delta, **stated)
    else:
        guarantee = PrivacyGuarantee.from_releases([release], delta, seeded=seeded, **stated)
    return guarantee.for_person(rows_per_person)


def noise_std(release: Release | None) -> float:
    """Return the standard deviation of the noise on a count."""
    return 0.0 if release is None else noise_on_integers(release).std


def checked_edges(score_edges: ArrayLike | None, n_bins: int) -> FloatArray:
    """Return the public edges of the bins of scores, from 0 to 1; those between may be stated."""
    if score_edges is None:
        places = np.linspace(-1.0, 1.0, whole_number(n_bins, "n_bins", least=2) + 1)
        return np.concatenate([[0.0], expit(LOG_ODDS * places[1:-1]), [1.0]])
    edges = np.concatenate([[0.0], np.asarray(score_edges, dtype=np.float64).ravel(), [1.0]])
    if len(edges) < 3 or not (np.diff(edges) > 0.0).all():
        raise InputError(
            f"score_edges must hold rising numbers between 0 and 1, at least one, got "
            f"{score_edges!r}."
        )
    return edges


def count_scores(
    scores: FloatArray,
    is_positive: NDArray[np.bool_],
    codes: NDArray[np.intp],
    n_groups: int,
    edges: FloatArray,
) -> NDArray[np.int64]:
    """Return how many records of each group and class have a score in each bin.

    A record is in one cell, whatever its score is: a NaN, too, which counts in the first bin.
    """
    n_bins = len(edges) - 1
    inside = np.searchsorted(edges, np.nan_to_num(scores, nan=0.0), side="right") - 1
    bins = np.clip(inside, 0, n_bins - 1)
    cells = (codes * 2 + is_positive) * n_bins + bins
    counts = np.bincount(cells, minlength=n_groups * 2 * n_bins)
    return counts.reshape(n_groups, 2, n_bins).astype(np.int64)


def release_counts(
    counts: NDArray[np.int64], release: Release | None, noise: NoiseSource
) -> NDArray[np.int64]:
    """Return counts with the noise of a release, as whole numbers; without one as they are.

    A record is in one cell. Replaced, its group too, it leaves one and enters another, which is
    what `NoiseSource.integers` takes counts to be (docs/theory/thresholds.md, Lemma 1).
    """
    return counts if release is None else noise.integers(counts, release=release)


# --- what noisy counts stand for ------------------------------------------------------------------


def likely_counts(
    noisy: ArrayLike,
    edges: FloatArray,
    noise_std: float,
    trust: float = TRUST,
    usual: float = 0.0,
) -> FloatArray:
    """Return counts of at least 0 that noisy ones may stand for, quieter than they are.

    Where noise is loud, how the scores of a group lie is drawn to how all lie, and which share of a
    bin is positive to that of all groups, which is drawn to what the scores say themselves. The
    former share has the weight of at least ``usual`` records, however quiet the noise is.
    """
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups, _, n_bins = cells.shape
    pooled, claimed = cells.sum(axis=0), (edges[:-1] + edges[1:]) / 2
    in_bins = on_simplex(cells.sum(axis=1))
    of_all = on_simplex(pooled.sum(axis=0)[None])[0]
    of_all = of_all / of_all.sum() if of_all.any() else np.diff(edges)
    # noise on the sum of half of a group's cells; where nobody is, one record stands for all
    added = trust * noise_std * np.sqrt(n_bins) + (in_bins.sum(axis=1, keepdims=True) == 0.0)
    loud = trust * noise_std
    overall = _share(pooled[1], pooled.sum(axis=0), claimed, loud * np.sqrt(n_groups))
    shares = _share(cells[:, 1], in_bins, overall, max(loud, usual))
    in_bins = in_bins + added * of_all
    return np.stack([in_bins * (1.0 - shares), in_bins * shares], axis=1)


def _share(
    positives: FloatArray, totals: FloatArray, usual: FloatArray, added: float
) -> FloatArray:
    """Return shares of positives, with so many records of the usual share added to every bin."""
    totals, added = np.maximum(totals, 0.0), max(added, 1e-9)
    return np.asarray((np.clip(positives, 0.0, totals) + added * usual) / (totals + added))


def on_simplex(cells: FloatArray) -> FloatArray:
    """Return the nearest rows that are not negative and have the same sums, or none below 0."""
    totals = np.maximum(cells.sum(axis=1, keepdims=True), 0.0)
    falling = -np.sort(-cells, axis=1)
    ranks = np.arange(1, cells.shape[1] + 1)
    levels = (np.cumsum(falling, axis=1) - totals) / ranks
    n_kept = np.maximum((falling > levels).sum(axis=1), 1)
    level = np.take_along_axis(levels, n_kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(cells - level, 0.0))


def from_edge_on(counts: FloatArray) -> FloatArray:
    """Return sums over the bins at and above each edge."""
    falling = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([falling, np.zeros((*counts.shape[:-1], 1))], axis=-1)


def log_falling(cells: FloatArray) -> FloatArray:
    """Return the logarithms of counts from each edge on, between which they are taken to be linear.

    Where few records are left, scores are denser at the lower end of a bin.
    """
    return np.asarray(np.log(np.maximum(from_edge_on(cells), 0.5)))


# --- calibration and thresholds -------------------------------------------------------------------


def calibrated_shares(
    noisy: ArrayLike,
    edges: FloatArray,
    noise_std: float,
    per_group: bool,
    usual: float = USUAL,
) -> FloatArray:
    """Return for each group the share of positives in each bin, rising with the score."""
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups = len(cells)
    if not per_group:
        cells, noise_std = cells.sum(axis=0, keepdims=True), noise_std * np.sqrt(n_groups)
    likely = likely_counts(cells, edges, noise_std, usual=usual)
    in_bins = likely.sum(axis=1)
    claimed = (edges[:-1] + edges[1:]) / 2
    shares = np.where(in_bins > 0.0, likely[:, 1] / np.maximum(in_bins, 1e-300), claimed)
    rising = [
        isotonic_regression(of_group, sample_weight=weights + 1e-9, y_min=0.0, y_max=1.0)
        for of_group, weights in zip(shares, in_bins, strict=True)
    ]
    return np.repeat(rising, n_groups // len(rising), axis=0)


# What thresholds are chosen for: one for the worst group, and whose rates are to be equal.
CONSTRAINTS = ("selection_rate", "true_positive_rate", "worst_error")


def least_errors(
    constraint: str,
    counts: FloatArray,
    edges: FloatArray,
    per_group: bool,
    max_gap: float,
    miss_cost: float,
) -> FloatArray:
    """Return thresholds with few errors: of the worst group, or of all with rates that are near.

    Errors are those at each edge; the last chooses nobody.
    """
    chosen, candidates = from_edge_on(counts), np.append(edges[:-1], NOBODY)
    errors = chosen[:, 0] + miss_cost * (chosen[:, 1, :1] - chosen[:, 1])
    if constraint == "worst_error":
        of_group = errors / counts.sum(axis=(1, 2))[:, None]
        if per_group:
            return np.asarray(candidates[of_group.argmin(axis=1)])
        return np.full(len(counts), candidates[of_group.max(axis=0).argmin()])
    chosen = from_edge_on(counted(constraint, counts))
    rates = chosen / np.maximum(chosen[:, :1], np.finfo(float).tiny)
    if not per_group:
        is_near = np.ptp(rates, axis=0) <= max_gap
        total = np.where(is_near, errors.sum(axis=0), np.inf)
        return np.full(len(errors), candidates[total.argmin()])
    # where, in bins, a falling curve of rates takes each of the rates, and the errors there
    numbers = np.arange(len(edges), dtype=np.float64)
    places = np.stack([np.interp(_RATES, each[::-1], numbers[::-1]) for each in rates])
    costs = np.stack(
        [np.interp(at, numbers, each) for at, each in zip(places, errors, strict=True)]
    )
    width = int(max_gap * (len(_RATES) - 1) + 1e-9)
    windows = np.lib.stride_tricks.sliding_window_view(costs, width + 1, axis=1)
    start = int(windows.min(axis=2).sum(axis=0).argmin())
    best = start + windows[:, start].argmin(axis=1)
    at = places[np.arange(len(errors)), best]
    return np.where(best == 0, NOBODY, np.interp(at, numbers, edges))


def counted(constraint: str, counts: FloatArray) -> FloatArray:
    """Return counts by bin of those whose shares are to be equal, or to be stated."""
    return counts[:, 1] if constraint == "true_positive_rate" else np.asarray(counts.sum(axis=1))


def thresholds_of_share(
    likely: FloatArray, noisy: FloatArray, edges: FloatArray, per_group: bool, share: float
) -> FloatArray:
    """Return the thresholds that choose a share of what is counted, of each group or of all.

    Those of groups follow from likely counts, which never are below 0, so that a sparse bin has too
    many on average and too few are chosen. For all together the noise is low enough to take sums of
    noisy counts instead, which are right in the mean, made to fall from edge to edge.
    """
    if per_group:
        falling = log_falling(likely)
    else:
        sums = from_edge_on(noisy.sum(axis=0))
        falling = np.log(np.maximum(isotonic_regression(sums, increasing=False), 0.5))[None]
    thresholds = [
        np.interp(of_group[0] + np.log(share), of_group[::-1], edges[::-1]) for of_group in falling
    ]
    return np.repeat(thresholds, len(likely) // len(thresholds))


# --- who is chosen --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """How many records thresholds choose, by a released histogram: right in the mean, with limits.

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
        sizes = self.noisy.sum(axis=(1, 2)) if self.sizes is None else self.sizes
        return np.append(sizes, self.n_records)

    def positive(self) -> FloatArray:
        """Return the share of the second class, of each group and of all."""
        first, second = self.noisy.sum(axis=2).T.astype(np.float64)
        cells = np.full(len(first), float(self.noisy.shape[2]))
        return self._shares(_with_all(second, first, cells, cells))

    def chosen(self, thresholds: FloatArray) -> FloatArray:
        """Return the share with a score of at least its threshold, of each group and of all.

        Of a bin that a threshold divides the part is chosen that the likely counts say.
        """
        first, divides = self._cuts(thresholds)
        parts, tiny = np.zeros(len(first)), np.finfo(float).tiny
        logs = log_falling(self.likely.sum(axis=1))
        for group in np.flatnonzero(divides):
            ends = slice(first[group] - 1, first[group] + 1)
            there = np.exp(np.interp(thresholds[group], self.edges[ends], logs[group, ends]))
            low, high = np.exp(logs[group, ends])
            parts[group] = min(max((there - high) / max(low - high, tiny), tiny), 1.0)
        return self._shares(self._numbers(first, parts))

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
        least, most = (self._numbers(one, whole).astype(int).T for one in (first, first - divides))
        error = _ERROR / max(len(self.edges) - 2, 1)
        rows = [
            (_limits(low, total, noise, error)[0], _limits(high, total, noise, error)[1])
            for low, high, total in zip(least, most, self._totals(), strict=True)
        ]
        if per_group:
            error /= len(first)
            lows, highs = (
                sum(max(row[0] + sign * _radius(row[2], noise, error), 0.0) for row in numbers[:-1])
                for sign, numbers in ((-1, least), (1, most))
            )
            rows[-1] = lows / self.n_records, highs / self.n_records
        return np.clip(rows, 0.0, 1.0)

    def _totals(self) -> list[int | None]:
        """Return the number of records of each group, None where only noise says it, and of all."""
        sizes = [None] * len(self.noisy) if self.sizes is None else map(int, self.sizes)
        return [*sizes, self.n_records]

    def _cuts(self, thresholds: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the first bin above each threshold, and whether that divides the one below.

        Where a threshold lies says so, and no count: however few there seem to be, some may be
        chosen. Who has the highest score, as a threshold, is in the last bin.
        """
        first = np.minimum(np.searchsorted(self.edges, thresholds), len(self.edges) - 1)
        divides = (first > 0) & (thresholds < self.edges[first])
        return first, divides | (thresholds == self.edges[-1])

    def _numbers(self, first: NDArray[np.intp], part: FloatArray) -> FloatArray:
        """Return who is chosen from a bin on, and by a part of the one below, and who is not.

        Of both numbers there is how many cells they sum, of which a part has its square of the
        variance.
        """
        sums, groups = from_edge_on(self.noisy.sum(axis=1)), np.arange(len(first))
        of_bin = sums[groups, first - 1] - sums[groups, first]
        chosen = sums[groups, first] + part * of_bin
        above = 2.0 * (self.noisy.shape[2] - first + part**2)
        below = 2.0 * (first - 1 + (1.0 - part) ** 2)
        return _with_all(chosen, sums[:, 0] - chosen, above, below)

    def _shares(self, numbers: FloatArray) -> FloatArray:
        """Return the share that is chosen, each number weighed by the noise of the other."""
        shares = []
        for (chosen, others, above, below), total in zip(numbers.T, self._totals(), strict=True):
            seen = chosen + others
            if 0.0 in (above, below):  # nobody can be chosen, or everybody is
                shares.append(float(below == 0.0))
            elif total is None:
                shares.append(min(max(chosen / seen, 0.0), 1.0) if seen > 0.0 else math.nan)
            else:
                both = below * chosen + above * (total - others)
                shares.append(both / (above + below) / total if total else math.nan)
        return np.array(shares)


def _with_all(*numbers: FloatArray) -> FloatArray:
    """Return rows of numbers with a column for each group, and one for all."""
    rows = np.stack(numbers)
    return np.column_stack([rows, rows.sum(axis=1)])


def _limits(
    numbers: NDArray[np.int64], total: int | None, noise: IntegerNoise | None, error: float
) -> tuple[float, float]:
    """Return limits of a share, which miss it with at most the probability of an error."""
    chosen, others, above, below = map(int, numbers)
    if total == 0:
        return 0.0, 1.0
    if 0 in (above, below):
        return float(below == 0), float(below == 0)
    interval = census_interval((chosen, others), total, noise, (above, below), 1.0 - error)
    return interval.low, interval.high


def _radius(n_cells: int, noise: IntegerNoise | None, error: float) -> int:
    """Return by how much a sum of noisy counts is wrong, at most, but for an error."""
    if noise is None or not n_cells:
        return 0
    return int(survival_of(noise, (int(n_cells),), (1,)).two_sided_radius(error))
