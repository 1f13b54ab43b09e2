"""Plans of fits with hidden groups: what is fixed before the counts, and what follows them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate, gdp_epsilon
from sklearn_dpwg.problem import Problem, with_equal_groups
from sklearn_dpwg.solvers import Plan, Solver
from sklearn_dpwg.solvers.counts.stage import COUNTS, RESERVED, CountStage

# Share of the budget by which a second stage that samples is planned again, at most so often.
_SHADE, _MOST_PLANS = 0.999, 12


def plan_in_stages(
    budget: Budget, solver: Solver, problem: Problem, rows_per_person: int = 1
) -> Plan:
    """Return the plan of a fit whose first release are the counts of hidden groups.

    What both stages cost follows from public facts other than the sizes, which may be released
    counts or a guess.
    """
    assert problem.hidden is not None
    of_row = budget
    if rows_per_person > 1:
        solver = solver.for_persons()
        epsilon = gdp_epsilon(budget.delta, budget.mu / rows_per_person)
        if not epsilon > 0.0:
            raise ValueError(
                f"rows_per_person must be small enough for a row to have a budget at epsilon="
                f"{budget.epsilon!r} and delta={budget.delta!r}, got {rows_per_person!r}."
            )
        of_row = Budget(epsilon, budget.delta)
    stage = _fixed(of_row, solver, with_equal_groups(problem))
    if rows_per_person > 1 and stage.reserved[0].name != RESERVED:
        raise UnsupportedMechanismError(
            "rows_per_person must be 1 where steps read Poisson batches, of which no guarantee for "
            f"several rows is known, got {rows_per_person!r}: choose a solver that reads all "
            "records, such as MGR(sampling_rate=1.0) or 'phased-erm'."
        )
    problem = _with_noise(problem, stage)
    plan = solver.plan(problem, stage.budget)
    bounds = _bounds(plan)
    return replace(
        plan,
        budget=Budget(budget.epsilon, budget.delta),
        releases=(*stage.releases, *map(replace, plan.releases)),
        counts=stage,
        records_per_person=rows_per_person,
        predicted_excess=float(np.asarray(problem.prior) @ bounds),
        predicted_excess_if_worst=tuple(bounds.tolist()),
    )


def _fixed(budget: Budget, solver: Solver, problem: Problem) -> CountStage:
    """Return what is fixed before the counts, given groups of equal size in place of the real."""
    assert problem.hidden is not None
    share = problem.hidden.count_share if problem.n_groups > 1 else 0.0
    wanted = [Release(RESERVED, "gaussian", 1.0 / math.sqrt(1.0 - share), 1)]
    if share > 0.0:
        wanted.insert(0, Release(COUNTS, "gaussian", 1.0 / math.sqrt(share), 1))
    *counts, after = calibrate(wanted, budget)
    release = counts[0] if counts else None
    epsilon = gdp_epsilon(budget.delta, 1.0 / after.noise_multiplier)
    for _ in range(_MOST_PLANS):
        if not epsilon > 0.0:
            break
        stage = CountStage(release, (after,), Budget(epsilon, budget.delta))
        plan = solver.plan(_with_noise(problem, stage), stage.budget)
        if stage.covers(plan.releases):
            return stage
        # samples have another profile than the Gaussian that was planned for
        cost = PrivacyGuarantee.from_releases([*counts, *plan.releases], budget.delta).epsilon
        if cost <= budget.epsilon:
            return replace(stage, reserved=plan.releases)
        epsilon *= _SHADE * budget.epsilon / cost
    raise ValueError(
        f"count_share must leave a budget for what comes after the counts, got {share!r} of "
        f"epsilon={budget.epsilon!r} at delta={budget.delta!r}."
    )


def _with_noise(problem: Problem, stage: CountStage) -> Problem:
    """Return the problem with the noise that is on its sizes."""
    assert problem.hidden is not None
    return replace(problem, hidden=replace(problem.hidden, count_std=stage.count_std))


def _bounds(plan: Plan) -> np.ndarray:
    """Return a plan's bounds with what wrong sizes add, which for groups not heard is all of it.

    A risk that is summed over m in place of n is wrong by the ratio's error times its distance from
    the centre, counted as half of what predicting nothing costs.
    """
    problem, bounds = plan.problem, np.asarray(plan.predicted_excess_if_worst)
    assert problem.hidden is not None
    nothing = problem.constants.zero_score
    ratios = problem.hidden.count_std / np.asarray(problem.group_sizes, dtype=float)
    errors = math.sqrt(2.0 / math.pi) * ratios * nothing / 2.0
    bounds = bounds + errors + float(np.asarray(problem.prior) @ errors)
    return np.where(problem.is_heard, bounds, np.maximum(bounds, nothing))
