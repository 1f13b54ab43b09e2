"""Searches that protect who is in which group: places are held out, counts stand for sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.estimators.public_facts import check_neighbours
from sklearn_dpwg.model_selection.search_plan import SearchPlan
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers.counts.releases import count_groups

Indices = NDArray[np.intp]

# Scores become multiples of this, so that their sums are exact; docs/theory/sums.md, section 9a.
GRID = 2.0**-20


@dataclass(frozen=True)
class HeldOutSizes:
    """What stands for the numbers of held-out records in hidden groups, for all runs alike."""

    n_held_out: int
    divisors: FloatArray
    is_heard: NDArray[np.bool_]


def share_of_counts(estimator: Any) -> float | None:
    """Return the share of the budget that counts take, None where groups are public."""
    final = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if getattr(final, "neighbours", None) != "replace-any":
        return None
    check_neighbours(final.neighbours, final.count_share, final.group_labels)
    return float(final.count_share) if len(final.group_labels) > 1 else 0.0


def check_relation(final: Any, plan: SearchPlan, parameters: Mapping[str, Any]) -> None:
    """Refuse a candidate that protects something else than the search does."""
    if (final.neighbours == "replace-any") != plan.hides_groups:
        raise ValueError(
            f"param_distributions must leave neighbours to the estimator, as the search protects "
            f"what it says, got {dict(parameters)!r}."
        )
    names = {name.rpartition("__")[2] for name in parameters}
    if plan.hides_groups and "group_labels" in names:
        raise ValueError(
            f"param_distributions must leave group_labels to the estimator with "
            f"neighbours='replace-any', got {dict(parameters)!r}."
        )


def split_places(
    codes: Indices, labels: NDArray[np.object_], test_size: float, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Hold out a share of all records, at random places, whatever group is there."""
    n_records = len(codes)
    n_held_out = math.ceil(test_size * n_records)
    if n_held_out == n_records:
        raise ValueError(f"X has {n_records} record(s), too few to hold out {n_held_out}.")
    places = rng.permutation(n_records)
    return np.sort(places[n_held_out:]), np.sort(places[:n_held_out])


def release_held_out_sizes(
    plan: SearchPlan, codes: Indices, n_groups: int, n_held_out: int, seed: int | None
) -> HeldOutSizes:
    """Release the counts of the groups among all records, and return their public share."""
    noise = NoiseSource(seed, [] if plan.counts is None else [plan.counts])
    sizes = np.asarray(count_groups(plan.counts, codes, n_groups, noise), dtype=float)
    is_heard = sizes > (0 if plan.counts is None else plan.count_floor)
    return HeldOutSizes(n_held_out, sizes * (n_held_out / len(codes)), is_heard)


def worst_over_sizes(scores: FloatArray, codes: Indices) -> tuple[float, float]:
    """Return the worst group's score where groups are public, and how far a record moves it.

    A record moves its group's mean by at most one over the group's number of records, and the
    smallest of the means by no more.
    """
    sizes = np.bincount(codes)
    sums = np.bincount(codes, weights=np.rint(scores / GRID))
    worst = float((sums / (sizes / GRID)).min())
    return worst, float((1.0 + sizes.min() * 2.0**-50) / sizes.min())


def worst_over_counts(
    scores: FloatArray, codes: Indices, sizes: HeldOutSizes
) -> tuple[float, float]:
    """Return the worst group's score over what stands for sizes, and how far a record moves it.

    A record that stays in its group moves one mean by one over the divisor, and one that leaves it
    two by half of that at most, as scores count from the middle of their range; the smallest mean
    moves by no more. Groups that may be empty are left out; where all may, all records are one.
    """
    centred = np.rint(scores / GRID) - 0.5 / GRID
    if sizes.is_heard.any():
        sums = np.bincount(codes, weights=centred, minlength=len(sizes.divisors))[sizes.is_heard]
        divisors = sizes.divisors[sizes.is_heard]
    else:
        sums, divisors = centred.sum(keepdims=True), np.array([float(sizes.n_held_out)])
    worst = float((0.5 + sums / (divisors / GRID)).min())
    of_rounding = sizes.n_held_out * 2.0**-50
    return worst, float((1.0 + of_rounding) / divisors.min())
