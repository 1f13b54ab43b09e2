"""Release of a histogram of scores: the only lines here that hand records to noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.data.problem import LABELS_THAT_OCCUR
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import (
    Budget,
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


def release_counts(
    counts: NDArray[np.int64], release: Release | None, noise: NoiseSource
) -> NDArray[np.int64]:
    """Return counts with the noise of a release, as whole numbers; without one as they are.

    A record is in one cell. Replaced, its group too, it leaves one and enters another, which is
    what `NoiseSource.integers` takes counts to be (docs/theory/thresholds.md, Lemma 1).
    """
    return counts if release is None else noise.integers(counts, release=release)


def noise_std(release: Release | None) -> float:
    """Return the standard deviation of the noise on a count."""
    return 0.0 if release is None else noise_on_integers(release).std


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
    said: dict[str, Any] = {"public": public, "relation": Relation.REPLACE_ONE}
    if release is None:
        return PrivacyGuarantee.non_private(delta, **said).for_person(rows_per_person)
    found = PrivacyGuarantee.from_releases([release], delta, seeded=seeded, **said)
    return found.for_person(rows_per_person)


# How far noise is trusted less than its size says: what is drawn to the usual is weighed as if by
# so many times the records that noise may feign. `benchmarks/thresholds.py trust` prints others.
TRUST = 3.0


# Log odds to which the bins reach: even in log odds, they tell apart scores of tables with few
# positives, too. `benchmarks/thresholds.py edges` prints equal ones beside them.
LOG_ODDS = 4.8
N_BINS = 12


def checked_edges(score_edges: Sequence[float] | ArrayLike | None, n_bins: int) -> FloatArray:
    """Return the public edges of the bins of scores, from 0 to 1; those between may be stated."""
    if score_edges is None:
        places = np.linspace(-1.0, 1.0, whole_number(n_bins, "n_bins", least=2) + 1)
        return np.concatenate([[0.0], expit(LOG_ODDS * places[1:-1]), [1.0]])
    try:
        between = np.asarray(score_edges, dtype=np.float64)
    except (TypeError, ValueError):
        between = np.empty(0)
    edges = np.concatenate([[0.0], between.ravel(), [1.0]])
    if between.ndim != 1 or not between.size or not bool((np.diff(edges) > 0.0).all()):
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


def from_edge_on(counts: FloatArray) -> FloatArray:
    """Return sums over the bins at and above each edge."""
    falling = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([falling, np.zeros((*counts.shape[:-1], 1))], axis=-1)


def log_falling(cells: FloatArray) -> FloatArray:
    """Return the logarithms of counts from each edge on, between which they are taken to be linear.

    Where few records are left, scores are denser at the lower end of a bin.
    """
    return np.asarray(np.log(np.maximum(from_edge_on(cells), 0.5)))


def on_simplex(cells: FloatArray) -> FloatArray:
    """Return the nearest rows that are not negative and have the same sums, or none below 0."""
    totals = np.maximum(cells.sum(axis=1, keepdims=True), 0.0)
    falling = -np.sort(-cells, axis=1)
    ranks = np.arange(1, cells.shape[1] + 1)
    levels = (np.cumsum(falling, axis=1) - totals) / ranks
    n_kept = np.maximum((falling > levels).sum(axis=1), 1)
    level = np.take_along_axis(levels, n_kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(cells - level, 0.0))


# How close to its budget a plan comes, where that takes a search of at most so many.
_SHADE, _MOST_PLANS = 0.999, 12
# Pays for noise on the whole numbers that counts as continuous, as `calibrate` does elsewhere.
_DISCRETE = 1e-6


def split_budget(
    budget: Budget,
    share: float,
    rows_per_person: int | None,
    planned: Callable[[Budget], Plan],
) -> tuple[Plan, Release | None]:
    """Return the plan of the model and the release of the histogram, which keep the total.

    The histogram gets its share of μ². That adds up where the model's noise is Gaussian, too;
    where its batches are sampled, its budget is lowered until both together keep the total.
    """
    if budget.epsilon == math.inf:
        return planned(budget), None
    mu = budget.mu * (1.0 - _DISCRETE)
    release = Release(
        "score histogram", "gaussian", (rows_per_person or 1) / (math.sqrt(share) * mu), max_count=1
    )
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


def lone_release(budget: Budget, rows_per_person: int | None) -> Release | None:
    """Return the release of a histogram that has its budget to itself: pure ε, δ is not used."""
    if budget.epsilon == math.inf:
        return None
    return Release(
        "score histogram", "discrete-laplace", (rows_per_person or 1) / budget.epsilon, max_count=1
    )


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
        lines = [f"One histogram of {cells}, each record in one cell."]
        if self.release is None:
            lines.append("No noise is added.")
        else:
            lines.append(
                f"Each count has {self.release.mechanism} noise of standard deviation "
                f"{self.count_std:.3g}, the size of a group {self.size_std:.3g}: thresholds of a "
                f"group of fewer than about {_about(3.0 * self.size_std)} records are mostly those "
                f"of all."
            )
        if self.model is not None:
            epsilon = rounded_up(self.model.budget.epsilon)
            lines.append(f"The model is fitted with epsilon={epsilon}.")
        else:
            lines.append("This is the histogram alone; privacy_ adds what the frozen model cost.")
        of_model = "" if self.model is None else f"\n\n{self.model._without_guarantee()}"
        return f"{' '.join(lines)}{of_model}\n\n{self.guarantee}"


def _about(number: float) -> str:
    """Write a number with two digits."""
    unit = 10.0 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return f"{round(number / unit) * unit:,.0f}"
