"""Plans that cost a person at most the budget, and outcomes that are none of a plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.groups import OTHER
from sklearn_dpwg.data.problem import Problem, with_equal_groups
from sklearn_dpwg.exceptions import (
    InputError,
    InputTypeError,
    PlanExceededError,
    UnsupportedMechanismError,
    WeakPlanWarning,
    warn,
)
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.gaussian import gdp_epsilon
from sklearn_dpwg.solvers import SOLVERS, Plan, Solution, Solver
from sklearn_dpwg.solvers.counts import COUNT_FRACTION, COUNTS, RESERVED, CountStage

Outcome = TypeVar("Outcome")

# Fraction of a budget by which a plan is planned again whose cost is not known before, at most so
# often; a person's budget it uses at least to the last fraction.
_SHADE, _MAX_PLANS, _CLOSE = 0.999, 12, 0.995


def plan_within(
    budget: Budget,
    solver: Solver,
    problem: Problem,
    rows_per_person: int | None = None,
    first: Solution | None = None,
) -> Plan:
    """Return a plan that costs at most the budget, and names the weights that its run begins with.

    It is for a person where somebody says how many rows one has, and for a row otherwise.
    """
    rows = int(rows_per_person or 1)
    if problem.hidden is not None:
        plan = _plan_in_stages(budget, solver, problem, rows)
    elif rows > 1 and budget.epsilon < math.inf:
        plan = _plan_for_persons(budget, solver, problem, rows)
    else:
        plan = _plan_of_solver(budget, solver, problem)
    remark = plan.remark
    if first is not None:
        remark = "; ".join(each for each in (remark, _remark_on_start(plan, solver, first)) if each)
    is_person = rows_per_person is not None
    return replace(plan, records_per_person=rows, of_person=is_person, remark=remark)


def _plan_of_solver(budget: Budget, solver: Solver, problem: Problem) -> Plan:
    """Return the plan that a solver makes, refused if it is for another budget or exceeds it."""
    plan = solver.plan(problem, budget)
    if type(plan) is not Plan:
        raise InputTypeError(f"plan of solver {solver!r} must return a Plan, got {plan!r}.")
    if plan.budget != budget:
        raise PlanExceededError(
            f"the plan of solver {plan.solver!r} must cost at most epsilon={budget.epsilon!r} at "
            f"delta={budget.delta!r}, the budget of the estimator, got one for {plan.budget!r}."
        )
    return plan  # its guarantee raises where the releases cost more than that


def _remark_on_start(plan: Plan, solver: Solver, first: Solution) -> str:
    """Say where a run begins."""
    if not SOLVERS.get(plan.solver, type(solver)).uses_start:
        return f"start has no influence on solver {plan.solver!r}"
    radius, norm = plan.problem.radius, float(np.linalg.norm(first.weights))
    before = f" to which they are projected, {norm:.3g} before" if norm > radius else ""
    return (
        f"begins at the weights of start, of norm {min(norm, radius):.3g} in the ball{before}; "
        "initial_distance is the distance from them"
    )


def check_solution(plan: Plan, solution: Solution, solver: object) -> None:
    """Refuse what is no outcome of a plan; the budget is spent by then."""
    problem, weights = plan.problem, np.asarray(solution.weights, dtype=float)
    n_weights, n_groups, of_groups = problem.n_weights, problem.n_groups, solution.group_weights
    of_groups = np.asarray(problem.prior if of_groups is None else of_groups, dtype=float)
    norm = 0.0 if not plan.releases else float(np.linalg.norm(weights))
    for needed, is_kept in {
        f"{n_weights} finite weights": weights.shape == (n_weights,) and np.isfinite(weights).all(),
        "weights in the ball of its problem": norm <= problem.radius * (1.0 + 1e-6),
        f"{n_groups} group weights": of_groups.shape == (n_groups,) and (of_groups >= 0.0).all(),
        f"n_iter <= {plan.n_steps}": not plan.releases or 0 <= solution.n_iter <= plan.n_steps,
    }.items():
        if not is_kept:
            raise RuntimeError(f"solver {solver!r} must return {needed}, as was planned.")


# Plans for persons with several rows each.


def _plan_for_persons(
    budget: Budget, solver: Solver, problem: Problem, rows_per_person: int
) -> Plan:
    """Return a plan whose releases cost a person with so many rows at most the budget.

    It is the solver's plan for the budget of a row whose group privacy is the person's: exactly μ
    over the number of rows where all noise is Gaussian, and otherwise found by planning again.
    """
    epsilon, delta, best = budget.epsilon, budget.delta, None
    of_row = _budget_of_row(budget, rows_per_person).epsilon
    for _ in range(_MAX_PLANS):
        if not of_row > 0.0:
            break
        plan = _plan_of_solver(Budget(of_row, delta), solver, problem)
        try:
            cost = plan.guarantee.for_records(rows_per_person).epsilon
        except UnsupportedMechanismError as error:
            raise _no_batches(rows_per_person) from error
        if cost <= epsilon:
            best = plan
            if cost >= _CLOSE * epsilon:
                break
        # the logarithms of both change by about as much
        of_row *= _SHADE * epsilon / cost
    if best is None:
        raise _too_many_rows(budget, rows_per_person)
    return replace(best, budget=budget, records_per_person=rows_per_person)


def _budget_of_row(budget: Budget, rows_per_person: int) -> Budget:
    """Return the budget of a row whose group privacy is the person's, where noise is Gaussian."""
    epsilon = gdp_epsilon(budget.delta, budget.mu / rows_per_person)
    if not epsilon > 0.0:
        raise _too_many_rows(budget, rows_per_person)
    return Budget(epsilon, budget.delta)


def _too_many_rows(budget: Budget, rows_per_person: int) -> InputError:
    return InputError(
        f"rows_per_person must be small enough for a row to have a budget at epsilon="
        f"{budget.epsilon!r} and delta={budget.delta!r}, got {rows_per_person!r}."
    )


def _no_batches(rows_per_person: int) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(
        "rows_per_person must be 1 where steps read Poisson batches, of which no guarantee for "
        f"several rows is known, got {rows_per_person!r}: choose a solver that reads all "
        "records, such as MGR(sampling_rate=1.0) or 'phased-erm'."
    )


# Plans for hidden groups: what is fixed before their counts, and what follows them.


def _plan_in_stages(budget: Budget, solver: Solver, problem: Problem, rows_per_person: int) -> Plan:
    """Return the plan of a fit whose first release are the counts of hidden groups.

    What both stages cost follows from public facts other than the sizes, which may be released
    counts or a guess.
    """
    solver._check_budget(budget)
    of_row = budget
    if rows_per_person > 1:
        of_row = _budget_of_row(budget, rows_per_person)
    stage = _fixed_before_counts(of_row, solver, with_equal_groups(problem))
    if rows_per_person > 1 and stage.reserved[0].name != RESERVED:
        raise _no_batches(rows_per_person)
    plan = solver.plan(_with_noise(problem, stage), stage.budget)
    bounds = _bounds(plan)
    return replace(
        plan,
        budget=budget,
        releases=(*stage.releases, *plan.releases),
        counts=stage,
        records_per_person=rows_per_person,
        predicted_excess_if_worst=tuple(bounds.tolist()),
    )


def _fixed_before_counts(budget: Budget, solver: Solver, problem: Problem) -> CountStage:
    """Return what is fixed before the counts, given groups of equal size in place of the real."""
    assert problem.hidden is not None
    fraction = COUNT_FRACTION if problem.n_groups > 1 else 0.0
    asked = [Release(RESERVED, "gaussian", 1.0 / math.sqrt(1.0 - fraction), 1)]
    if fraction > 0.0:
        asked.insert(0, Release(COUNTS, "gaussian", 1.0 / math.sqrt(fraction), 1))
    *counts, after = calibrate(asked, budget)
    release = counts[0] if counts else None
    epsilon = gdp_epsilon(budget.delta, 1.0 / after.noise_multiplier)
    for _ in range(_MAX_PLANS):
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
    raise InputError(
        f"epsilon must leave a budget for what comes after the counts of hidden groups, got "
        f"{budget.epsilon!r} at delta={budget.delta!r}."
    )


def _with_noise(problem: Problem, stage: CountStage) -> Problem:
    """Return the problem with the noise that is on its sizes."""
    assert problem.hidden is not None
    return replace(problem, hidden=replace(problem.hidden, count_std=stage.count_std))


def _bounds(plan: Plan) -> np.ndarray:
    """Return a plan's bounds with what wrong sizes add, which for groups not active is all of it.

    A risk that is summed over m in place of n is wrong by the ratio's error times its distance from
    the centre, counted as half of what predicting nothing costs.
    """
    problem, bounds = plan.problem, np.asarray(plan.predicted_excess_if_worst)
    assert problem.hidden is not None
    nothing = problem.constants.zero_score
    ratios = problem.hidden.size_std / np.asarray(problem.group_sizes, dtype=float)
    errors = math.sqrt(2.0 / math.pi) * ratios * nothing / 2.0
    bounds = bounds + errors + float(np.asarray(problem.prior) @ errors)
    return np.where(problem.is_active, bounds, np.maximum(bounds, nothing))


# A group for which a fit is expected to lose so much beyond a model without privacy, as a fraction
# of what predicting nothing costs, is warned of.
_LOSS_TO_WARN_OF = 0.1


def loss_of_privacy(plan: Plan) -> FloatArray:
    """Return what groups are expected to lose beyond a model without privacy.

    It is a fraction of what predicting nothing costs, a quarter of (d^(1/3) / (μ n))^(3/4):
    constants that fit the choosing half, held out (benchmarks/small_groups.py, which checks them).
    """
    problem, mu = plan.problem, plan.budget.mu / plan.records_per_person
    sizes = np.asarray(problem.group_sizes, dtype=float)
    return np.asarray(0.25 * (np.cbrt(problem.n_features) / (mu * sizes)) ** 0.75)


def warn_of_plan(plan: Plan, labels: NDArray[np.object_]) -> None:
    """Warn of groups that are too small for their ε, in the same words for every fold."""
    if not plan.releases:
        return
    is_active = plan.problem.is_active
    # that nobody is in no group is no news
    if np.any(np.where(is_active, loss_of_privacy(plan) >= _LOSS_TO_WARN_OF, labels != OTHER)):
        warn(
            "some groups are so small that their mean loss is expected to exceed that of a model "
            "without privacy by a tenth of what predicting nothing costs, or more: a larger "
            "epsilon, more records of theirs or fewer columns lower that, and merging groups, "
            "which hides the small ones, is the last resort.",
            WeakPlanWarning,
        )


# A verbose fit prints so many lines while it runs.
N_LINES = 10


def with_progress(
    model: Any, plan: Plan, noise: NoiseSource, work: Callable[[], Outcome]
) -> Outcome:
    """Return what the work returns; a verbose model prints the planned steps and how many are done.

    All of that is public: what is released is planned.
    """
    if not model.verbose:
        return work()
    n_planned = sum(release.max_count for release in plan.releases)

    def write(text: str) -> None:
        # whatever the terminal can write: a label must not end a fit that is paid for
        for each in text.encode("ascii", "backslashreplace").decode().splitlines():
            print(f"[{type(model).__name__}] {each}".rstrip(), flush=True)  # noqa: T201

    def show(n_drawn: int) -> None:
        if n_drawn * N_LINES // n_planned > (n_drawn - 1) * N_LINES // n_planned:
            write(f"{n_drawn:,} of {n_planned:,} planned draws of noise")

    if not noise.draws:  # no earlier call of partial_fit
        write(plan._without_guarantee())
    noise.on_draw = show
    try:
        return work()
    finally:
        noise.on_draw = None
