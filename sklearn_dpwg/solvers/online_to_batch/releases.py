"""Releases of the online-to-batch solver: every line that hands records to noise, and its price.

`difference_sum` is all that reads records, and `DifferenceSums.release` alone adds the noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.prefix_sums import PrefixSumStream, make_prefix_sums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.batch_sums import batch_losses, gradient_sum
from sklearn_dpwg.solvers.online_to_batch.schedule import OnlineToBatchSchedule
from sklearn_dpwg.solvers.plan import SECONDS_PER_ENTRY, Plan

SUMS = "sums of gradient differences"

# For planning: what a round costs beside its records and its noise, and each group in it.
SECONDS_PER_ROUND = 5e-5
SECONDS_PER_GROUP = 3e-5
SECONDS_TO_PLAN = 0.05


def planned_release(budget: Budget) -> Release:
    """Return the release whose noise just keeps the budget: all sums are one, exactly."""
    (release,) = calibrate([Release(SUMS, "gaussian", 1.0, 1)], budget)
    return release


def difference_sum(
    problem: Problem,
    rows: FloatArray,
    targets: ArrayLike,
    here: tuple[float, FloatArray],
    before: tuple[float, FloatArray],
) -> FloatArray:
    """Return the sum over a batch of β_t ∇ℓ(x_t) - β_{t-1} ∇ℓ(x_{t-1}), of the same records."""
    weight, point = here
    _, slopes = batch_losses(problem, rows, targets, point)
    slopes = weight * slopes
    weight_before, point_before = before
    if weight_before:
        _, old = batch_losses(problem, rows, targets, point_before)
        slopes = slopes - weight_before * old
    return gradient_sum(problem, rows, slopes, len(rows))


class DifferenceSums:
    """Noisy sums of all differences so far, which open with the first difference."""

    def __init__(
        self, schedule: OnlineToBatchSchedule, noise: NoiseSource, release: Release
    ) -> None:
        self._schedule, self._noise, self._release = schedule, noise, release
        self._stream: PrefixSumStream | None = None

    def release(self, difference: FloatArray, sensitivity: float) -> FloatArray:
        """Add a difference and return the noisy sum: the gradient of the risk so far, times β_t."""
        if self._stream is None:
            mechanism = make_prefix_sums(
                self._schedule.noise,
                n_steps=self._schedule.n_rounds,
                n_dimensions=len(difference),
            )
            self._stream = mechanism.open(self._noise, self._release, sensitivity=None)
        return self._stream.add(difference, sensitivity)


def make_plan(
    problem: Problem,
    budget: Budget,
    release: Release,
    schedule: OnlineToBatchSchedule,
    bound: float,
) -> Plan:
    """Return the plan of a schedule whose bound is on the risk of the mixture.

    Where all groups have the same best weights, a bound e on the mixture's excess is one of e/λ_i
    on that of group i.
    """
    n_rounds = schedule.n_rounds
    n_drawn = n_rounds * float(sum(schedule.rates))
    mechanism = make_prefix_sums(schedule.noise, n_steps=n_rounds, n_dimensions=problem.n_weights)
    seconds = (
        n_rounds * (SECONDS_PER_ROUND + problem.n_groups * SECONDS_PER_GROUP)
        + 3.0 * n_drawn * problem.n_columns * problem.loss.n_outputs * SECONDS_PER_ENTRY
        + mechanism.secure_seconds
    )
    return Plan.of(
        "online-to-batch",
        problem,
        budget,
        releases=(release,),
        schedule=schedule,
        bounds=bound / np.asarray(schedule.mixture),
        n_steps=n_rounds,
        seconds=seconds,
        seconds_to_plan=SECONDS_TO_PLAN,
        n_drawn=round(min(n_drawn, problem.n_records)),
    )
