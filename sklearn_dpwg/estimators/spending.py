"""Spending of a fit's budget, and what a fit that fails leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.ledger.charge import charge, take_payment
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers import Plan, Solver

# by how much two computations of the same epsilon may differ
_ROUNDING = 1e-9


def plan_within(budget: Budget, solver: Solver, problem: Problem) -> Plan:
    """Return a solver's plan, refused if it costs more than the budget that it was asked for."""
    plan = solver.plan(problem, budget)
    cost = plan.guarantee.epsilon_at(budget.delta)
    if not cost <= budget.epsilon * (1.0 + _ROUNDING):
        raise PlanExceededError(
            f"the plan of solver {plan.solver!r} must cost at most epsilon={budget.epsilon!r} at "
            f"delta={budget.delta!r}, the budget of the estimator, got epsilon={cost!r}."
        )
    return plan


@contextmanager
def spending(
    noise: NoiseSource, budget: Budget, plan: Plan, estimator: Any, key: str | None = None
) -> Iterator[None]:
    """Charge a plan to the ledgers, once a key, and say in errors whether its budget is spent."""
    try:
        # whether a number over- or underflows depends on the records: no warning, no error
        guarantee = replace(plan.guarantee, seeded=noise.seeded, groupings=estimator._groupings)
        name = type(estimator).__name__
        is_paid = take_payment(estimator)
        with np.errstate(all="ignore"), charge(guarantee, noise, name, key, is_paid=is_paid):
            yield
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
