"""Spending of a fit's budget, and what a fit that fails leaves behind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from sklearn_dpwg.estimators.auc_plan import AUCPlan
from sklearn_dpwg.estimators.staged_plans import plan_in_stages
from sklearn_dpwg.exceptions import PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.ledger.charge import charge, note_of_spending, take_payment
from sklearn_dpwg.ledger.starts import in_words
from sklearn_dpwg.privacy import Budget, Draw, PrivacyGuarantee, gdp_epsilon
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers import Plan, Solution, Solver

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
