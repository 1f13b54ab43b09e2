"""First weights of a fit, from weights in the units of the caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.estimators.targets import Targets
from sklearn_dpwg.solvers import SOLVERS, Plan, Solution, Solver

# What a message calls a start that is none.
_ALLOWED = (
    "a fitted linear model with coef_ and intercept_, or a pair (coef, intercept) in the units of "
    "X and y"
)


def first_weights(
    start: Any,
    targets: Targets,
    problem: Problem,
    *,
    row_norm: float,
    names: Any = None,
) -> Solution | None:
    """Return the weights that a run begins with, for rows divided by their largest norm.

    They may lie outside the ball: a run projects them to it.
    """
    if start is None:
        return None
    coef, intercept = _coef_and_intercept(start)
    classes = targets.attributes.get("classes_")
    of_start = getattr(start, "classes_", None)
    if classes is None and of_start is not None:
        raise ValueError(
            f"start must be a regressor where y holds numbers, got {type(start).__name__}, which "
            f"knows the classes {np.asarray(of_start).tolist()!r}."
        )
    if classes is not None and of_start is not None and not np.array_equal(classes, of_start):
        raise ValueError(
            f"start must know the classes {np.asarray(classes).tolist()!r}, in this order, got "
            f"{np.asarray(of_start).tolist()!r}."
        )
    known = getattr(start, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise ValueError(
            f"start must be fitted to columns of the names {list(names)!r}, got {list(known)!r}."
        )
    n_outputs = problem.loss.n_outputs
    wanted = (n_outputs, problem.n_features)
    matrix, constants = np.atleast_2d(coef), np.ravel(intercept)
    if matrix.shape != wanted or constants.size not in {1, n_outputs}:
        raise ValueError(
            f"start must have a coef of shape {wanted} and one intercept or {n_outputs}, got "
            f"shapes {coef.shape} and {intercept.shape}."
        )
    matrix, constants = targets.encode_weights(matrix, np.broadcast_to(constants, n_outputs))
    with np.errstate(all="ignore"):
        matrix = matrix * row_norm
        if problem.intercept_scaling > 0.0:
            matrix = np.column_stack([matrix, constants / problem.intercept_scaling])
        elif np.any(np.abs(constants) > 1e-9):
            raise ValueError(
                "start must have the intercept of a model that predicts nothing with "
                f"fit_intercept=False, got {np.ravel(intercept).tolist()!r}."
            )
        is_usable = np.isfinite(np.linalg.norm(matrix))
    if not is_usable:
        raise ValueError("start must be finite in the units of the fit, got infinite or NaN.")
    return Solution(matrix.ravel(), None, 0)


def _coef_and_intercept(start: Any) -> tuple[FloatArray, FloatArray]:
    """Return both as arrays of finite numbers, or refuse what has none."""
    if hasattr(start, "coef_") and not isinstance(start, type):
        given = start.coef_, getattr(start, "intercept_", 0.0)
    elif isinstance(start, BaseEstimator):
        raise ValueError(
            f"start must be {_ALLOWED}, got {type(start).__name__}, which is not fitted or is not "
            "linear: a search clones the values of its grid, which forgets a fit, so pass "
            "FrozenEstimator(model) there."
        )
    elif isinstance(start, tuple | list) and len(start) == 2:
        given = start[0], start[1]
    else:
        raise ValueError(f"start must be {_ALLOWED}, got {type(start).__name__}.")
    found = []
    for each in given:
        try:
            plain = each.toarray() if hasattr(each, "toarray") else each
            array = np.asarray(plain, dtype=float)
        except (TypeError, ValueError):
            array = np.array(np.nan)
        if not np.isfinite(array).all():
            raise ValueError(f"start must hold finite numbers, got {each!r}.")
        found.append(array)
    return found[0], found[1]


def told(plan: Plan, solver: Solver, first: Solution | None) -> Plan:
    """Return a plan that says where its run begins."""
    if first is None:
        return plan
    radius, norm = plan.problem.radius, float(np.linalg.norm(first.weights))
    if SOLVERS.get(plan.solver, type(solver)).uses_start:
        text = f"begins at the weights of start, of norm {min(norm, radius):.3g} in the ball"
        if norm > radius:
            text += f" to which they are projected, {norm:.3g} before"
        text += "; aim is the distance from them"
    else:
        text = f"start has no influence on solver {plan.solver!r}"
    return replace(plan, remark="; ".join(each for each in (plan.remark, text) if each))
