"""Plans within the budget of a person, checks of a solver's solution, warnings and progress."""

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

# Some plans tell their cost afterwards only. They are planned again, `_MAX_PLANS` times at most, at
# a budget scaled towards `_TARGETED` times the stated cost, until `_CLOSE` times it is reached.
_TARGETED, _MAX_PLANS, _CLOSE = 0.999, 12, 0.995


def plan_within(
    budget: Budget,
    solver: Solver,
    problem: Problem,
    rows_per_person: int | None = None,
    start: Solution | None = None,
) -> Plan:
    """Return the solver's plan for a problem, at a cost within the budget.

    The budget is that of a person with `rows_per_person` rows, or of one row where that is None. A
    `start`, in the units of the solver, is named in the plan's remark.
    """
    n_rows = int(rows_per_person or 1)
    if problem.hidden is not None:
        plan = _two_stage_plan(budget, solver, problem, n_rows)
    elif n_rows > 1 and budget.epsilon < math.inf:
        plan = _plan_for_persons(budget, solver, problem, n_rows)
    else:
        plan = _checked_plan(budget, solver, problem)
    remark = plan.remark
    if start is not None:
        remark = "; ".join(filter(None, (remark, _remark_on_start(plan, solver, start))))
    is_person = rows_per_person is not None
    return replace(plan, records_per_person=n_rows, of_person=is_person, remark=remark)


def _checked_plan(budget: Budget, solver: Solver, problem: Problem) -> Plan:
    """Return ``solver.plan(problem, budget)``; refuse a plan for another budget."""
    plan = solver.plan(problem, budget)
    if type(plan) is not Plan:
        raise InputTypeError(f"plan of solver {solver!r} must return a Plan, got {plan!r}.")
    if plan.budget != budget:
        raise PlanExceededError(
            f"the plan of solver {plan.solver!r} must cost at most epsilon={budget.epsilon!r} at "
            f"delta={budget.delta!r}, the budget of the estimator, got one for {plan.budget!r}."
        )
    return plan  # `plan.guarantee` raises where the releases cost more than the budget


def _remark_on_start(plan: Plan, solver: Solver, start: Solution) -> str:
    """Return the remark of a plan on `start`: norm of the weights, before and after projection."""
    if not SOLVERS.get(plan.solver, type(solver)).uses_start:
        return f"start has no influence on solver {plan.solver!r}"
    radius, norm = plan.problem.radius, float(np.linalg.norm(start.weights))
    projection = f" to which they are projected, {norm:.3g} before" if norm > radius else ""
    return (
        f"begins at the weights of start, of norm {min(norm, radius):.3g} in the ball{projection}; "
        "initial_distance is the distance from them"
    )


def check_solution(plan: Plan, solution: Solution, solver: object) -> None:
    """Check shapes, norm and steps of a solution against its plan, after the budget is spent."""
    problem, weights = plan.problem, np.asarray(solution.weights, dtype=float)
    n_weights, n_groups = problem.n_weights, problem.n_groups
    released: Any = solution.group_weights  # None is replaced by the prior, which passes
    group_weights = np.asarray(problem.prior if released is None else released, dtype=float)
    is_private = bool(plan.releases)  # else the exact solution, of any norm and number of steps
    norm = float(np.linalg.norm(weights)) if is_private else 0.0
    for requirement, is_met in {
        f"{n_weights} finite weights": weights.shape == (n_weights,) and np.isfinite(weights).all(),
        "weights in the ball of its problem": norm <= problem.radius * (1.0 + 1e-6),  # rounding
        f"{n_groups} group weights": (
            group_weights.shape == (n_groups,) and (group_weights >= 0.0).all()
        ),
        f"n_iter <= {plan.n_steps}": not is_private or 0 <= solution.n_iter <= plan.n_steps,
    }.items():
        if not is_met:
            raise RuntimeError(f"solver {solver!r} must return {requirement}, as was planned.")


# Plans for persons with several rows each.


def _plan_for_persons(
    budget: Budget, solver: Solver, problem: Problem, rows_per_person: int
) -> Plan:
    """Return a plan whose cost for a person with `rows_per_person` rows is within the budget.

    It is the solver's plan at a smaller budget, that of one row. Where all noise is Gaussian, a row
    has the person's μ over the number of rows; else ε of a row is searched for.
    """
    epsilon, delta, best_plan = budget.epsilon, budget.delta, None
    row_epsilon = _row_budget(budget, rows_per_person).epsilon
    for _ in range(_MAX_PLANS):
        if not row_epsilon > 0.0:
            break
        plan = _checked_plan(Budget(row_epsilon, delta), solver, problem)
        try:
            cost = plan.guarantee.for_records(rows_per_person).epsilon
        except UnsupportedMechanismError as error:
            raise _no_batches(rows_per_person) from error
        if cost <= epsilon:
            best_plan = plan
            if cost >= _CLOSE * epsilon:
                break
        # the person's cost is about proportional to the row's epsilon
        row_epsilon *= _TARGETED * epsilon / cost
    if best_plan is None:
        raise _too_many_rows(budget, rows_per_person)
    return replace(best_plan, budget=budget, records_per_person=rows_per_person)


def _row_budget(budget: Budget, rows_per_person: int) -> Budget:
    """Return the budget of one row, at μ / rows_per_person of the person's; for Gaussian noise."""
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


# Plans for hidden groups: first a count stage, which releases noisy counts, then the solver's run.


def _two_stage_plan(budget: Budget, solver: Solver, problem: Problem, rows_per_person: int) -> Plan:
    """Return a plan that releases the counts of hidden groups before the solver's releases.

    The group sizes of the problem are a guess, or counts that were released. The split of the
    budget does not depend on them.
    """
    solver._check_budget(budget)
    row_budget = budget
    if rows_per_person > 1:
        row_budget = _row_budget(budget, rows_per_person)
    stage = _plan_count_stage(row_budget, solver, with_equal_groups(problem))
    # a reserved release of another name is of Poisson samples
    if rows_per_person > 1 and stage.reserved[0].name != RESERVED:
        raise _no_batches(rows_per_person)
    plan = solver.plan(_with_count_noise(problem, stage), stage.budget)
    bounds = _excess_with_count_noise(plan)
    return replace(
        plan,
        budget=budget,
        releases=(*stage.releases, *plan.releases),
        counts=stage,
        records_per_person=rows_per_person,
        predicted_excess_if_worst=tuple(bounds.tolist()),
    )


def _plan_count_stage(budget: Budget, solver: Solver, problem: Problem) -> CountStage:
    """Return the release of the counts, for a fraction of μ², and the budget after it."""
    assert problem.hidden is not None
    fraction = COUNT_FRACTION if problem.n_groups > 1 else 0.0  # one group needs no count
    # noise multipliers in the ratio that divides μ² so; `calibrate` scales both to the budget
    ratios = [Release(RESERVED, "gaussian", 1.0 / math.sqrt(1.0 - fraction), max_count=1)]
    if fraction > 0.0:
        ratios.insert(0, Release(COUNTS, "gaussian", 1.0 / math.sqrt(fraction), max_count=1))
    *count_releases, run_release = calibrate(ratios, budget)
    count_release = count_releases[0] if count_releases else None
    run_epsilon = gdp_epsilon(budget.delta, 1.0 / run_release.noise_multiplier)
    for _ in range(_MAX_PLANS):
        if not run_epsilon > 0.0:
            break
        stage = CountStage(count_release, (run_release,), Budget(run_epsilon, budget.delta))
        plan = solver.plan(_with_count_noise(problem, stage), stage.budget)
        if stage.covers(plan.releases):
            return stage
        # Poisson samples have another privacy profile than the reserved Gaussian release
        releases = [*count_releases, *plan.releases]
        cost = PrivacyGuarantee.from_releases(releases, budget.delta).epsilon
        if cost <= budget.epsilon:
            return replace(stage, reserved=plan.releases)
        run_epsilon *= _TARGETED * budget.epsilon / cost
    raise InputError(
        f"epsilon must leave a budget for what comes after the counts of hidden groups, got "
        f"{budget.epsilon!r} at delta={budget.delta!r}."
    )


def _with_count_noise(problem: Problem, stage: CountStage) -> Problem:
    """Return the problem with the standard deviation of the noise on its group sizes."""
    assert problem.hidden is not None
    return replace(problem, hidden=replace(problem.hidden, count_std=stage.count_std))


def _excess_with_count_noise(plan: Plan) -> np.ndarray:
    """Return the predicted excess risk of each group if it is the worst, with noisy group sizes.

    A sum of losses over a noisy size in place of the true one is wrong by the relative error of the
    size, times the loss's distance from its centre: half of the loss of a score of 0. A group that
    may be empty (not active) may do as badly as a score of 0.
    """
    problem, excess = plan.problem, np.asarray(plan.predicted_excess_if_worst)
    assert problem.hidden is not None
    zero_score_loss = problem.constants.zero_score
    relative_stds = problem.hidden.size_std / np.asarray(problem.group_sizes, dtype=float)
    # E|Z| = √(2/π) for standard normal Z
    errors = math.sqrt(2.0 / math.pi) * relative_stds * zero_score_loss / 2.0
    excess = excess + errors + float(np.asarray(problem.prior) @ errors)
    return np.where(problem.is_active, excess, np.maximum(excess, zero_score_loss))


# Expected loss of privacy from which on a fit warns of a group; a fraction, as below.
_LOSS_TO_WARN_OF = 0.1


def loss_of_privacy(plan: Plan) -> FloatArray:
    """Return each group's expected loss beyond that of a model without privacy, (n_groups,).

    Unit: the loss of a score of 0. It is (d^(1/3) / (μ n))^(3/4) / 4 with d = n_features and
    n = group size; these constants are fitted, and checked by benchmarks/small_groups.py.
    """
    problem, mu = plan.problem, plan.budget.mu / plan.records_per_person
    sizes = np.asarray(problem.group_sizes, dtype=float)
    return np.asarray(0.25 * (np.cbrt(problem.n_features) / (mu * sizes)) ** 0.75)


def warn_of_plan(plan: Plan, labels: NDArray[np.object_]) -> None:
    """Warn if some groups are too small for ε; no group is named, so folds warn alike."""
    if not plan.releases:
        return
    loses_much = loss_of_privacy(plan) >= _LOSS_TO_WARN_OF
    # a group that may be empty is too small, but "other" is often empty on purpose
    if np.any(np.where(plan.problem.is_active, loses_much, labels != OTHER)):
        warn(
            "some groups are so small that their mean loss is expected to exceed that of a model "
            "without privacy by a tenth of what predicting nothing costs, or more: a larger "
            "epsilon, more records of theirs or fewer columns lower that, and merging groups, "
            "which hides the small ones, is the last resort.",
            WeakPlanWarning,
        )


# Number of lines that a verbose fit prints while it runs.
N_LINES = 10


def with_progress(
    model: Any, plan: Plan, noise: NoiseSource, work: Callable[[], Outcome]
) -> Outcome:
    """Call `work` and return its result; print the plan and the progress if the model is verbose.

    The progress is the number of draws of noise, which follows from the plan and is public.
    """
    if not model.verbose:
        return work()
    n_planned = sum(release.max_count for release in plan.releases)

    def write(text: str) -> None:
        # ASCII alone, as a label that the terminal cannot write would end a fit that is paid for
        for line in text.encode("ascii", "backslashreplace").decode().splitlines():
            print(f"[{type(model).__name__}] {line}".rstrip(), flush=True)  # noqa: T201

    def show(n_drawn: int) -> None:
        # each time another tenth (of N_LINES) of the draws is reached
        if n_drawn * N_LINES // n_planned > (n_drawn - 1) * N_LINES // n_planned:
            write(f"{n_drawn:,} of {n_planned:,} planned draws of noise")

    if not noise.draws:  # no earlier call of partial_fit
        write(plan._without_guarantee())
    noise.on_draw = show
    try:
        return work()
    finally:
        noise.on_draw = None
