"""Division of a budget between a model and the histogram of its scores."""

from __future__ import annotations

import math
from collections.abc import Callable

from sklearn_dpwg.postprocessing.histogram_release import histogram_guarantee
from sklearn_dpwg.privacy import (
    Budget,
    PrivacyGuarantee,
    Release,
    gdp_epsilon,
    joint_guarantee,
)

# How close to its budget a plan comes, where that takes a search of at most so many.
_SHADE, _MOST_PLANS = 0.999, 12
# Pays for noise on the whole numbers that counts as continuous, as `calibrate` does elsewhere.
_DISCRETE = 1e-6


def split_budget(
    budget: Budget,
    share: float,
    rows_per_person: int,
    planned: Callable[[Budget], PrivacyGuarantee],
) -> tuple[Budget, Release | None]:
    """Return the budget of the model and the release of the histogram, which keep the total.

    The histogram gets its share of μ². That adds up where the model's noise is Gaussian, too;
    where its batches are sampled, its budget is lowered until both together keep the total.
    """
    if budget.epsilon == math.inf:
        return budget, None
    mu = budget.mu * (1.0 - _DISCRETE)
    release = Release(
        "score histogram", "gaussian", rows_per_person / (math.sqrt(share) * mu), max_count=1
    )
    of_histogram = histogram_guarantee(release, budget.delta, rows_per_person)
    epsilon = gdp_epsilon(budget.delta, math.sqrt(1.0 - share) * mu)
    for _ in range(_MOST_PLANS):
        if not epsilon > 0.0:
            break
        of_model = Budget(epsilon, budget.delta)
        cost = joint_guarantee([planned(of_model), of_histogram], budget.delta).epsilon
        if cost <= budget.epsilon:
            return of_model, release
        epsilon *= _SHADE * budget.epsilon / cost
    raise ValueError(
        f"epsilon must be large enough for a model and a histogram at delta={budget.delta!r} and "
        f"histogram_share={share!r}, got {budget.epsilon!r}."
    )


def lone_release(budget: Budget, rows_per_person: int) -> Release | None:
    """Return the release of a histogram that has its budget to itself: pure ε, δ is not used."""
    if budget.epsilon == math.inf:
        return None
    return Release(
        "score histogram", "discrete-laplace", rows_per_person / budget.epsilon, max_count=1
    )
