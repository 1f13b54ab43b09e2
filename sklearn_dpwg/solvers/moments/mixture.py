"""Noisy second moments of a fixed mixture of groups, and the optimum of what they show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan
from sklearn_dpwg.solvers.moments.noisy_moments import robust_optimum
from sklearn_dpwg.solvers.moments.parameters import MomentsParameters
from sklearn_dpwg.solvers.moments.planning import excess_of_weights, n_released, schedule_of_rounds
from sklearn_dpwg.solvers.moments.releases import MOMENTS, from_pass_of_mixture
from sklearn_dpwg.solvers.moments.schedule import MomentsSchedule
from sklearn_dpwg.solvers.plan import predict_seconds

# What who asks for mixtures decides, and how it is left to them: each call has one matrix.
SET_BY_CALLER: dict[str, tuple[object, ...]] = {
    "n_rounds": (MomentsParameters.n_rounds,),
    "growth": (MomentsParameters.growth,),
    "smoothing": (MomentsParameters.smoothing,),
}

# Numbers of calls that a plan may choose from.
CALLS = (1, 2, 4, 8, 16)

# Residuals are never clipped to less than this share of the target bound.
LEAST_CLIP = 0.05


@dataclass(frozen=True)
class MixtureMoments(MomentsSchedule):
    """Everything that calls need besides the records and the noise: one matrix each."""

    def __str__(self) -> str:
        """Return a line for people."""
        return (
            "one pass over the rows a call: the second moments of rows and residuals of the "
            f"mixture, residuals clipped to at least {self.clip:.3g} times what the released risks "
            "say their root mean square is"
        )


def reach(schedule: MomentsSchedule, std: float, mean_square: float) -> float:
    """Return how large residuals of a mean square may count, beside noise so loud."""
    # noise is about this large beside what is clipped, in groups of average loudness
    quiet = max(1.0, -math.log(min(1.0, std)))
    return max(schedule.clip, math.sqrt(quiet)) * math.sqrt(max(mean_square, 0.0))


def plan_of_calls(problem: Problem, calls: Calls, parameters: MomentsParameters) -> MixturePlan:
    """Return the plan of one matrix a call, of which the second half's answers are averaged."""
    averaged = max(1, calls.n_calls // 2)
    multipliers = [1.0 / calls.mu] * calls.n_calls
    schedule = MixtureMoments(**schedule_of_rounds(problem, parameters, multipliers))
    of_mean = schedule.sensitivity / (np.asarray(problem.group_sizes, dtype=float) * calls.mu)
    stds = np.sqrt(averaged * of_mean**2) / averaged
    bounds, _ = excess_of_weights(problem, schedule, stds, aim=parameters.aim * problem.radius)
    bounds = np.minimum(bounds, problem.constants.zero_score)
    # a product of rows with rows takes a pass for every eight columns
    passes = (2 + problem.n_columns // 8) * calls.n_calls
    return MixturePlan(
        solver="moments",
        problem=problem,
        calls=calls,
        release=calls.release(MOMENTS),
        schedule=schedule,
        bounds=tuple(float(bound) for bound in bounds),
        averaged=averaged,
        seconds=predict_seconds(
            problem,
            passes,
            n_draws=calls.n_calls,
            n_coordinates=calls.n_calls * n_released(problem),
        ),
    )


def run_call(
    plan: MixturePlan,
    group_weights: FloatArray,
    center: FloatArray,
    data: Risks,
    noise: NoiseSource,
    risks: FloatArray | None,
) -> FloatArray:
    """Release the moments around the centre, or of the targets; return what minimises them.

    Residuals of the centre are clipped to a few times their root mean square, which the released
    risks tell, where that is less than the targets' bound.
    """
    schedule, problem = plan.schedule, plan.problem
    assert isinstance(schedule, MixtureMoments)
    release = plan.release
    sizes = np.asarray(data.group_sizes, dtype=float)
    ratio = float((group_weights / sizes).max())
    clip, around = schedule.target_bound, np.zeros_like(center)
    if risks is not None:
        std = ratio * schedule.sensitivity * release.noise_multiplier
        wanted = reach(schedule, std, 2.0 * float(group_weights @ risks))
        if wanted < schedule.target_bound:
            clip, around = max(wanted, LEAST_CLIP * schedule.target_bound), center
    moments, std = from_pass_of_mixture(release, schedule, group_weights, data, around, clip, noise)
    units = np.ones(len(moments))
    units[-1] = clip / schedule.length
    if schedule.constant > 0.0:
        units[-2] = problem.intercept_scaling / schedule.constant
    weights, _ = robust_optimum(
        moments[None],
        units,
        center=around,
        mean_noise=std**2,
        pooled_noise=std,
        ridge=schedule.ridge,
        smoothing=0.0,
        shares=np.ones(1),
        radius=problem.radius,
    )
    return weights
