"""Phases as answers for fixed mixtures of groups."""

from __future__ import annotations

import itertools
import math
from copy import copy
from dataclasses import replace
from operator import itemgetter

import numpy as np

from sklearn_dpwg.privacy import SECONDS_PER_SECURE_COORDINATE
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.centring.problem import CentredProblem, centred_problem
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan
from sklearn_dpwg.solvers.phased_erm.parameters import MOST_PHASES, PhasedERMParameters
from sklearn_dpwg.solvers.phased_erm.planning import (
    descent_bound,
    is_centred,
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
    "composition": ("sequential",),
    "mu_groups": (None, math.inf),
    "risk_share": (None,),
}


def learned_problem(
    problem: Problem, parameters: PhasedERMParameters, *, is_parallel: bool
) -> Problem:
    """Return the problem, or that of centred rows where phases would centre them."""
    asked = copy(parameters)
    asked.composition = "parallel" if is_parallel else "sequential"
    return centred_problem(problem) if is_centred(problem, asked) else problem


def plan_of_calls(problem: Problem, calls: Calls, parameters: PhasedERMParameters) -> MixturePlan:
    """Return the plan of the least bound over strengths, averages and the width of kinks."""
    if calls.n_calls > MOST_PHASES:
        raise ValueError(
            f"n_rounds must be at most {MOST_PHASES} where phases of PhasedERM answer, got "
            f"{calls.n_calls}."
        )
    multipliers = tuple(1.0 / mu for mu in calls.mus)
    prior, ways = np.asarray(problem.prior), []
    for width, solved in solved_problems(problem, parameters.smoothing_width):
        for averaged, sharpening in itertools.product(
            numbers_averaged(parameters, calls.n_calls), sharpenings(parameters, calls.n_calls)
        ):
            bound = descent_bound(
                parameters, problem, solved, calls.sizes, averaged=averaged, sharpening=sharpening
            )
            bounds = weights_bounds(
                problem,
                solved,
                parameters.mu_weights,
                calls.sizes[-1],
                bound,
                multiplier=multipliers[-1],
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
        composition=calls.composition,
        sizes=calls.sizes,
        solved=solved,
        smoothing_width=width,
        prior=problem.prior,
        weights_multipliers=multipliers,
        risks_multiplier=0.0,
        mu_groups=(math.inf,) * calls.n_calls,
        averaged=bound.averaged,
        mu_weights=fixed,
        bound=bound,
    )
    passes = passes_of_a_phase(problem) * (1 if calls.is_parallel else calls.n_calls)
    return MixturePlan(
        solver="phased-erm",
        problem=problem,
        calls=calls,
        releases=calls.releases(WEIGHTS),
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
    paid = [release.noise_multiplier for release in plan.releases]
    if not plan.calls.is_parallel:
        paid = paid * plan.calls.n_calls
    solved = schedule.solved
    if isinstance(plan.problem, CentredProblem):
        assert isinstance(solved, CentredProblem)
        solved = replace(solved, clip=plan.problem.clip)
    return replace(schedule, weights_multipliers=tuple(paid), solved=solved)
