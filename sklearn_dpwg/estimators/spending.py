"""Spending of a fit's budget, and what a fit that fails leaves behind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from sklearn_dpwg.data.problem import Problem, with_equal_groups
from sklearn_dpwg.estimators.auc_plan import AUCPlan
from sklearn_dpwg.exceptions import PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.ledger.costs import in_words
from sklearn_dpwg.ledger.ledger import charge, note_of_spending, take_payment
from sklearn_dpwg.privacy import Budget, Draw, PrivacyGuarantee, Release, calibrate, gdp_epsilon
from sklearn_dpwg.solvers import Plan, Solution, Solver
from sklearn_dpwg.solvers.counts import COUNTS, RESERVED, CountStage

# Plans of fits with hidden groups: what is fixed before the counts, and what follows them.

# Share of the budget by which a second stage that samples is planned again, at most so often.
_STAGED_SHADE, _MOST_STAGES = 0.999, 12


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
    for _ in range(_MOST_STAGES):
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
        epsilon *= _STAGED_SHADE * budget.epsilon / cost
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


# What a guarantee calls first weights that carry none of their own.
PUBLIC_START = (
    "the weights that the fit began with, which by the caller's word were not learned from these "
    "records"
)
# by how much two computations of the same epsilon may differ
_ROUNDING = 1e-9
# Share of a person's budget that a plan uses at least, where that takes a search of so many plans.
_CLOSE, _SHADE, _MOST_PLANS = 0.995, 0.999, 12


class Drawn(Protocol):
    """What tells which values were released; a `NoiseSource` does, or several of them."""

    @property
    def draws(self) -> tuple[Draw, ...]: ...
    @property
    def seeded(self) -> bool: ...


def plan_within(budget: Budget, solver: Solver, problem: Problem, rows_per_person: int = 1) -> Plan:
    """Return a copy of a solver's plan, refused if its releases cost more than the budget.

    What is returned shares neither releases nor budget with what the solver holds.
    """
    epsilon, delta = budget.epsilon, budget.delta
    if problem.hidden is not None:
        return plan_in_stages(budget, solver, problem, rows_per_person)
    if rows_per_person > 1 and epsilon < math.inf:
        return plan_for_persons(budget, solver, problem, rows_per_person)
    plan = solver.plan(problem, Budget(epsilon, delta))
    if type(plan) is not Plan:
        raise TypeError(f"plan of solver {solver!r} must return a Plan, got {plan!r}.")
    releases = tuple(replace(release) for release in plan.releases)
    cost = PrivacyGuarantee.from_releases(releases, delta).epsilon if releases else math.inf
    if not cost <= epsilon * (1.0 + _ROUNDING):
        raise PlanExceededError(
            f"the plan of solver {plan.solver!r} must cost at most epsilon={epsilon!r} at "
            f"delta={delta!r}, the budget of the estimator, got epsilon={cost!r}."
        )
    return replace(
        plan,
        releases=releases,
        budget=Budget(epsilon, delta),
        records_per_person=rows_per_person,
    )


def plan_for_persons(
    budget: Budget, solver: Solver, problem: Problem, rows_per_person: int
) -> Plan:
    """Return a plan whose releases cost a person with so many rows at most the budget.

    It is the solver's plan for the budget of a row whose group privacy is the person's: exactly μ
    over the number of rows where all noise is Gaussian, and otherwise found by planning again.
    """
    epsilon, delta = budget.epsilon, budget.delta
    solver = solver.for_persons()
    of_row = gdp_epsilon(delta, budget.mu / rows_per_person)
    best: Plan | None = None
    for _ in range(_MOST_PLANS):
        if not of_row > 0.0:
            break
        plan = plan_within(Budget(of_row, delta), solver, problem)
        cost = _cost_of_person(plan, rows_per_person)
        if cost <= epsilon:
            best = plan
            if cost >= _CLOSE * epsilon:
                break
        # the logarithms of both change by about as much
        of_row *= _SHADE * epsilon / cost
    if best is None:
        raise ValueError(
            f"rows_per_person must be small enough for a row to have a budget at epsilon="
            f"{epsilon!r} and delta={delta!r}, got {rows_per_person!r}."
        )
    return replace(best, budget=Budget(epsilon, delta), records_per_person=rows_per_person)


def _cost_of_person(plan: Plan, rows_per_person: int) -> float:
    """Return the epsilon of a person with so many rows."""
    try:
        return plan.guarantee.for_records(rows_per_person).epsilon
    except UnsupportedMechanismError as error:
        raise UnsupportedMechanismError(
            f"rows_per_person must be 1 where steps read Poisson batches, of which no guarantee "
            f"for several rows is known, got {rows_per_person!r}: choose a solver that reads all "
            f"records, such as MGR(sampling_rate=1.0) or 'phased-erm'."
        ) from error


def check_solution(plan: Plan, solution: Solution, solver: object) -> None:
    """Refuse what is no outcome of a plan; the budget is spent by then."""
    problem = plan.problem
    if not isinstance(solution, Solution):
        raise RuntimeError(f"solver {solver!r} must return a Solution, got {type(solution)!r}.")
    weights = np.asarray(solution.weights, dtype=float)
    if weights.shape != (problem.n_weights,) or not np.isfinite(weights).all():
        raise RuntimeError(
            f"solver {solver!r} must return {problem.n_weights} weights, all finite, got "
            f"an array of shape {weights.shape}."
        )
    if plan.releases and np.linalg.norm(weights) > problem.radius * (1.0 + 1e-6):
        raise RuntimeError(f"solver {solver!r} must return weights in the ball of its problem.")
    if solution.group_weights is not None:
        group_weights = np.asarray(solution.group_weights, dtype=float)
        if group_weights.shape != (problem.n_groups,) or not (group_weights >= 0.0).all():
            raise RuntimeError(
                f"solver {solver!r} must return {problem.n_groups} group weights of at least 0, "
                f"got an array of shape {group_weights.shape}."
            )
    if plan.releases and not 0 <= solution.n_iter <= plan.n_steps:
        raise RuntimeError(
            f"solver {solver!r} must take at most the {plan.n_steps} planned steps, got "
            f"n_iter={solution.n_iter!r}."
        )


@contextmanager
def spending(
    noise: Drawn,
    budget: Budget,
    plan: Plan | AUCPlan,
    estimator: Any,
    key: str | None = None,
) -> Iterator[PrivacyGuarantee]:
    """Charge a plan to the ledgers, once a key, and say in errors whether its budget is spent.

    Yields the guarantee that is charged.
    """
    with note_of_spending(lambda: noise.draws, budget):
        guarantee = _stated(plan, noise, estimator)
        # whether a number over- or underflows depends on the records: no warning, no error
        name = type(estimator).__name__
        is_paid = take_payment(estimator)
        costs = estimator._start_costs
        with (
            np.errstate(all="ignore"),
            charge(guarantee, noise, name, key, is_paid=is_paid, before=costs),
        ):
            yield guarantee


def _stated(plan: Plan | AUCPlan, noise: Drawn, estimator: Any) -> PrivacyGuarantee:
    """Return the guarantee of a fit, which says what it began with, if it began with anything."""
    guarantee, costs = plan.guarantee, estimator._start_costs
    public = guarantee.public
    if getattr(estimator, "start", None) is not None and not costs:
        public = (*public, PUBLIC_START)
    return replace(
        guarantee,
        seeded=noise.seeded,
        groupings=estimator._groupings,
        public=public,
        outside=(*guarantee.outside, *in_words(costs)),
    )


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Give an estimator all its attributes back if what is done inside fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise
