"""Spending of a fit's budget, and what a fit that fails leaves behind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.ledger.charge import charge, take_payment
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers import Plan, Solution, Solver

# by how much two computations of the same epsilon may differ
_ROUNDING = 1e-9


def plan_within(budget: Budget, solver: Solver, problem: Problem) -> Plan:
    """Return a copy of a solver's plan, refused if its releases cost more than the budget.

    What is returned shares neither releases nor budget with what the solver holds.
    """
    epsilon, delta = budget.epsilon, budget.delta
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
    return replace(plan, releases=releases, budget=Budget(epsilon, delta))


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
    noise: NoiseSource, budget: Budget, plan: Plan, estimator: Any, key: str | None = None
) -> Iterator[PrivacyGuarantee]:
    """Charge a plan to the ledgers, once a key, and say in errors whether its budget is spent.

    Yields the guarantee that is charged.
    """
    try:
        guarantee = replace(plan.guarantee, seeded=noise.seeded, groupings=estimator._groupings)
        # whether a number over- or underflows depends on the records: no warning, no error
        name = type(estimator).__name__
        is_paid = take_payment(estimator)
        with np.errstate(all="ignore"), charge(guarantee, noise, name, key, is_paid=is_paid):
            yield guarantee
    except BaseException as error:
        if noise.draws:
            # how many is not said: where a run fails may depend on the records
            error.add_note(
                f"Noisy values had been released before this error: count the budget of "
                f"this fit, epsilon={budget.epsilon:g} and delta={budget.delta:g}, as spent."
            )
        raise


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Give an estimator all its attributes back if what is done inside fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise
