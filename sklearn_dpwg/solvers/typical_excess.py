"""Typical excess of a default fit: a model of what was measured on many tasks, and no bound."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.problem import Problem

# Of log excess, by kernel and solver: constant, then the logarithms of the number of records, of
# the smallest group, of the numbers of groups and of features, and of μ. Least squares over the
# choosing half of the population (benchmarks/typical_excess.py fits and prints them).
COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {
    "binary_log": {
        "mgr": (-1.46, 0.052, -0.591, -0.086, 0.065, -0.554),
        "phased-erm": (-1.358, 0.052, -0.591, -0.086, 0.065, -0.43),
    },
    "squared_error": {
        "mgr": (-2.017, -0.52, -0.425, 0.409, 0.552, -0.371),
        "moments": (-0.754, -0.52, -0.425, 0.409, 0.552, -0.732),
    },
}

# No task that was measured has fewer training records.
FEWEST_RECORDS = 2_000


def typical_excess(solver: str, problem: Problem, budget: Budget) -> float | None:
    """Return what the excess worst-group risk of default fits was on tasks like this one.

    In units of the loss; None where nothing was measured: for other losses and solvers, without an
    intercept, and for fewer than 2,000 records.
    """
    kernel = type(problem.loss).__dict__.get("kernel")
    coefficients = COEFFICIENTS.get(kernel or "", {}).get(solver)
    is_known = problem.intercept_scaling > 0.0 and problem.n_records >= FEWEST_RECORDS
    if coefficients is None or not is_known:
        return None
    return math.exp(float(np.dot(coefficients, features(problem, budget))))


def features(problem: Problem, budget: Budget) -> tuple[float, ...]:
    """Return what the logarithm of the excess is linear in."""
    return (
        1.0,
        math.log(problem.n_records),
        math.log(min(problem.group_sizes)),
        math.log(problem.n_groups),
        math.log(max(problem.n_features, 1)),
        math.log(budget.mu),
    )
