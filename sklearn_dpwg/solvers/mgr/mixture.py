"""Noisy gradient steps as answers for fixed mixtures of groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, SumGrid
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.by_loss import by_loss
from sklearn_dpwg.solvers.centring.problem import (
    CentredProblem,
    centred_problem,
    largest_clip,
    least_unit,
)
from sklearn_dpwg.solvers.heavy_ball import HeavyBall
from sklearn_dpwg.solvers.mgr.bound import descent_bound_by_group
from sklearn_dpwg.solvers.mgr.parameters import MGRParameters
from sklearn_dpwg.solvers.mgr.planning import is_centred
from sklearn_dpwg.solvers.mgr.releases import GRADIENT, gradient_of_mixture
from sklearn_dpwg.solvers.mgr.step_rule import LONGEST_MEMORY, StepRule
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan
from sklearn_dpwg.solvers.plan import predict_seconds

# What who asks for mixtures decides, and how it is left to them.
SET_BY_CALLER: dict[str, tuple[object, ...]] = {
    "schedule": ("planned",),
    "risk_share": (None,),
    "group_rate": (None,),
    "loss_ceiling": (None,),
    "max_seconds": (None,),
    "sampling_rate": (None, 1),
}

# Numbers of calls that a plan may choose from: momentum does not outlast a call, and with 16 of
# them steps do not get far enough where there is little noise (benchmarks/best_response.py rounds).
CALLS = (1, 2, 4, 8)


@dataclass(frozen=True)
class MixtureSteps:
    """Everything that the steps of a call need besides the records and the noise."""

    n_steps: int  # of all calls together, for which step sizes are planned
    steps_a_call: int
    averaged: int  # how many of a call's last iterates are averaged
    aim: float  # norm of the weights that steps are planned for; 0 where they are fixed
    step_share: float
    step_size: float
    longest_step: float
    max_momentum: float
    gradient_diameter: float  # Γ, rounding included
    ceiling: float
    grid: SumGrid

    __repr__ = short_repr

    def __str__(self) -> str:
        """Return a line for people."""
        answer = f"the average of the last {self.averaged:,}" if self.averaged > 1 else "the last"
        return (
            f"{self.steps_a_call:,} weighted step(s) a call, one pass each, at most "
            f"{self.longest_step:.3g} long, momentum at most {self.max_momentum:.2g}; the answer "
            f"is {answer}"
        )


def learned_problem(problem: Problem, parameters: MGRParameters) -> Problem:
    """Return the problem, or that of centred rows where steps would centre them."""
    if not is_centred(problem, parameters):
        return problem
    return centred_problem(problem, unit=least_unit(problem.loss))


def numbers_of_calls(parameters: MGRParameters) -> tuple[int, ...]:
    """Return the numbers of calls that there are steps for."""
    return tuple(n_calls for n_calls in CALLS if n_calls <= _steps(parameters))


def _steps(parameters: MGRParameters) -> int:
    return parameters.max_passes if parameters.n_steps is None else parameters.n_steps


def plan_of_calls(problem: Problem, calls: Calls, parameters: MGRParameters) -> MixturePlan:
    """Return the plan of as many steps as the passes allow, shared among the calls."""
    steps_a_call = _steps(parameters) // calls.n_calls
    if steps_a_call < 1:
        raise ValueError(
            f"n_steps and max_passes of MGR must allow a step in each of {calls.n_calls} rounds, "
            f"got {parameters.n_steps!r} and {parameters.max_passes!r}."
        )
    n_steps = steps_a_call * calls.n_calls
    rule = StepRule.of(problem, parameters, n_steps)
    # momentum does not outlast a call
    memory = max(1.0, LONGEST_MEMORY * steps_a_call)
    max_momentum = min(rule.max_momentum, 1.0 - 1.0 / memory)
    bounds = descent_bound_by_group(
        problem,
        _gradient_variances(problem, rule, calls),
        n_steps=n_steps,
        aim=rule.aim,
        step_size=rule.longest_step,
        max_momentum=max_momentum,
        fixed_step=rule.is_fixed,
    )
    schedule = MixtureSteps(
        n_steps=n_steps,
        steps_a_call=steps_a_call,
        # the next call goes on from an answer, and answers are averaged
        averaged=1 if calls.n_calls > 1 else max(1, round(parameters.averaging * steps_a_call)),
        aim=0.0 if rule.is_fixed else rule.aim,
        step_share=by_loss(problem.loss).step_share,
        step_size=rule.step_size,
        longest_step=rule.longest_step,
        max_momentum=max_momentum,
        gradient_diameter=rule.sums.gradient_diameter,
        ceiling=rule.ceiling,
        grid=rule.sums.grid,
    )
    return MixturePlan(
        solver="mgr",
        problem=problem,
        calls=calls,
        release=calls.release(GRADIENT, steps_a_call),
        schedule=schedule,
        bounds=tuple(float(bound) for bound in bounds),
        averaged=max(1, round(parameters.averaging * calls.n_calls)),
        seconds=predict_seconds(
            problem, n_steps, n_draws=n_steps, n_coordinates=n_steps * problem.n_weights
        ),
    )


def _gradient_variances(problem: Problem, rule: StepRule, calls: Calls) -> FloatArray:
    """Return the variance of the mean gradient of all steps, if all weight is on a group."""
    sizes = np.asarray(problem.group_sizes, dtype=float)
    of_coordinate = rule.problem.gradient_diameter / (sizes * calls.mu)
    return np.asarray(problem.n_weights * of_coordinate**2 / calls.n_calls)


def run_call(
    plan: MixturePlan,
    group_weights: FloatArray,
    center: FloatArray,
    data: Risks,
    noise: NoiseSource,
) -> FloatArray:
    """Take the steps of a call from the centre; return the average of its last iterates."""
    schedule, problem = plan.schedule, plan.problem
    assert isinstance(schedule, MixtureSteps)
    unit = 1.0
    if isinstance(problem, CentredProblem):
        unit = problem.clip / largest_clip(problem.loss)
    weights, ball = center, HeavyBall(schedule, len(center))
    total = np.zeros_like(center)
    for t in range(schedule.steps_a_call):
        gradient, noise_std = gradient_of_mixture(
            data,
            weights,
            group_weights,
            gradient_diameter=schedule.gradient_diameter,
            ceiling=schedule.ceiling,
            grid=schedule.grid,
            unit=unit,
            noise=noise,
            release=plan.release,
        )
        weights = project_to_ball(weights + ball.push(gradient, noise_std), problem.radius)
        if t >= schedule.steps_a_call - schedule.averaged:
            total += weights
    return total / schedule.averaged
