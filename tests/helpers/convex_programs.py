"""The same problems written for CVXPY, which shares no code with the solvers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Loss,
    MultinomialLogLoss,
    Quantile,
    SquaredHinge,
)
from tests.helpers.group_data import dense


@dataclass(frozen=True)
class Found:
    """Weights and objective of a conic solution."""

    weights: np.ndarray
    value: float


def losses_of(loss: Loss, scores: cp.Expression, targets: np.ndarray) -> cp.Expression:
    """Return the losses, as CVXPY writes them."""
    if isinstance(loss, MultinomialLogLoss):
        chosen = np.eye(loss.n_outputs)[targets.astype(int)]
        return cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(chosen, scores), axis=1)
    scores = scores[:, 0]
    if isinstance(loss, BinaryLogLoss):
        margins = cp.multiply(targets, scores)
        if loss.largest_slope == 1.0:
            return cp.logistic(-margins)
        # the line begins where moving a margin costs less than the logistic loss falls
        moved = cp.Variable(len(targets), nonneg=True)
        return cp.logistic(-margins - moved) + loss.largest_slope * moved
    if loss.task == "binary":
        missing = cp.pos(1.0 - cp.multiply(targets, scores))
        if isinstance(loss, Hinge):
            return missing
        if isinstance(loss, SquaredHinge):
            return cp.square(missing)
        # the least of m²/2w + (missing - m) over 0 <= m <= missing: half a Huber function
        return cp.huber(missing / loss.width, 1.0) * (loss.width / 2)
    residual = scores - targets
    if isinstance(loss, Huber):
        return cp.huber(residual, loss.threshold) / 2
    if isinstance(loss, AbsoluteError):
        return cp.abs(residual)
    if isinstance(loss, Quantile):
        return cp.maximum(-loss.level * residual, (1 - loss.level) * residual)
    return 0.5 * cp.square(residual)


def risk_expressions(risks: GroupRisks, weights: cp.Variable) -> list[cp.Expression]:
    """Return each group's mean loss, convex in weights of shape (outputs, columns)."""
    expressions = []
    for group in range(risks.n_groups):
        rows, targets = dense(risks, group)
        losses = losses_of(risks.loss, rows @ weights.T, targets)
        expressions.append(cp.sum(losses) / len(targets))
    return expressions


def regularised(
    risks: GroupRisks,
    *,
    radius: float,
    prior: np.ndarray,
    mu_weights: float,
    mu_groups: float,
    center: np.ndarray,
) -> Found:
    """Minimise the primal side of the regularised problem."""
    weights, levels = _variables(risks)
    smooth_maximum = mu_groups * cp.log_sum_exp(np.log(prior) + levels / mu_groups)
    return _solve(
        risks, weights, levels, smooth_maximum + _quadratic(weights, mu_weights, center), radius
    )


def mixture(
    risks: GroupRisks,
    group_weights: np.ndarray,
    *,
    radius: float,
    mu_weights: float,
    center: np.ndarray,
) -> Found:
    """Minimise a fixed mixture of the group risks plus the quadratic."""
    weights, levels = _variables(risks)
    objective = group_weights @ levels + _quadratic(weights, mu_weights, center)
    return _solve(risks, weights, levels, objective, radius)


def worst_group(risks: GroupRisks, *, radius: float) -> Found:
    """Minimise the largest group risk: its epigraph form."""
    weights, levels = _variables(risks)
    return _solve(risks, weights, levels, cp.max(levels), radius)


def _variables(risks: GroupRisks) -> tuple[cp.Variable, cp.Variable]:
    return cp.Variable((risks.loss.n_outputs, risks.n_columns)), cp.Variable(risks.n_groups)


def _quadratic(weights: cp.Variable, mu_weights: float, center: np.ndarray) -> cp.Expression:
    return 0.5 * mu_weights * cp.sum_squares(cp.vec(weights, order="C") - center)


def _solve(
    risks: GroupRisks,
    weights: cp.Variable,
    levels: cp.Variable,
    objective: cp.Expression,
    radius: float,
    others: Sequence[cp.Constraint] = (),
) -> Found:
    constraints = [cp.norm(weights, "fro") <= radius, *others]
    constraints += [
        risk <= level for risk, level in zip(risk_expressions(risks, weights), levels, strict=True)
    ]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        # a last digit that the solver misses on some processors is far below what tests compare
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=3e-9, tol_gap_rel=3e-9, tol_feas=1e-8)
    assert weights.value is not None
    return Found(weights.value.ravel(), float(problem.value))
