"""Phases as answers for fixed mixtures of groups."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from operator import itemgetter

import numpy as np

from sklearn_dpwg.privacy import SECONDS_PER_SECURE_COORDINATE
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.centring.problem import CentredProblem
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan
from sklearn_dpwg.solvers.phased_erm.parameters import MOST_PHASES, PhasedERMParameters
from sklearn_dpwg.solvers.phased_erm.planning import (
    descent_bound,
    numbers_averaged,
    sharpenings,
    solved_problems,
    weights_bounds,
)
from sklearn_dpwg.solvers.phased_erm.releases import (
    SECONDS_PER_ENTRY_OF_HESSIAN,
    WEIGHTS,
    passes_of_a_phase,
)
from sklearn_dpwg.solvers.phased_erm.schedule import PhasedERMSchedule
from sklearn_dpwg.solvers.plan import first_of_least, predict_seconds

# What who asks for mixtures decides, and how it is left to them.
SET_BY_CALLER: dict[str, tuple[object, ...]] = {
    "n_phases": (None,),
    "schedule": ("planned",),
    "mu_groups": (None, math.inf),
    "risk_share": (None,),
}


def plan_of_calls(problem: Problem, calls: Calls, parameters: PhasedERMParameters) -> MixturePlan:
    """Return the plan of the least bound over strengths, averages and the width of kinks."""
    if calls.n_calls > MOST_PHASES:
        raise ValueError(
            f"n_rounds must be at most {MOST_PHASES} where phases of PhasedERM answer, got "
            f"{calls.n_calls}."
        )
    multiplier, sizes = 1.0 / calls.mu, problem.group_sizes
    prior, ways = np.asarray(problem.prior), []
    for width, solved in solved_problems(problem, parameters.smoothing_width):
        for averaged, sharpening in itertools.product(
            numbers_averaged(parameters, calls.n_calls), sharpenings(parameters, calls.n_calls)
        ):
            bound = descent_bound(
                parameters, problem, solved, calls.n_calls, averaged=averaged, sharpening=sharpening
            )
            bounds = weights_bounds(
                problem,
                solved,
                parameters.mu_weights,
                sizes,
                bound,
                multiplier=multiplier,
                mu_groups=math.inf,
                feedback=problem.n_groups > 1 and calls.n_calls > 1,
            )
            bounds = bounds + problem.constants.lipschitz * width / 2.0
            ways.append((float(prior @ bounds), solved, width, bound, bounds))
    _, solved, width, bound, bounds = first_of_least(ways, itemgetter(0))
    fixed = None
    if parameters.mu_weights is not None:
        fixed = tuple(float(parameters.mu_weights * ratio) for ratio in bound.strength_ratios)
    schedule = PhasedERMSchedule(
        composition="sequential",
        sizes=(sizes,) * calls.n_calls,
        solved=solved,
        smoothing_width=width,
        prior=problem.prior,
        weights_multipliers=(multiplier,) * calls.n_calls,
        risks_multiplier=0.0,
        mu_groups=(math.inf,) * calls.n_calls,
        averaged=bound.averaged,
        mu_weights=fixed,
        bound=bound,
    )
    passes = passes_of_a_phase(problem) * calls.n_calls
    return MixturePlan(
        solver="phased-erm",
        problem=problem,
        calls=calls,
        release=calls.release(WEIGHTS),
        schedule=schedule,
        bounds=tuple(float(each) for each in bounds),
        averaged=bound.averaged,
        seconds=predict_seconds(problem, passes, n_draws=calls.n_calls)
        + calls.n_calls
        * problem.n_weights
        * (SECONDS_PER_SECURE_COORDINATE + SECONDS_PER_ENTRY_OF_HESSIAN * problem.n_weights),
    )


def schedule_of(plan: MixturePlan) -> PhasedERMSchedule:
    """Return the schedule of a run: with the noise that was paid for, and the released clip."""
    schedule = plan.schedule
    assert isinstance(schedule, PhasedERMSchedule)
    paid = (plan.release.noise_multiplier,) * plan.calls.n_calls
    solved = schedule.solved
    if isinstance(plan.problem, CentredProblem):
        assert isinstance(solved, CentredProblem)
        solved = replace(solved, clip=plan.problem.clip)
    return replace(schedule, weights_multipliers=paid, solved=solved)
