"""The saddle point of the regularised objective, with its certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.risks import RiskFunctions
from sklearn_dpwg.optimum.objective import (
    Evaluation,
    RegularisedObjective,
    SaddlePoint,
    accelerated_gradient,
    project_to_ball,
)

# Least ratio of the entries on a Cholesky factor's diagonal at which few digits are lost with it.
CURVED = 1e-4


def solve_saddle_point(
    risks: RiskFunctions,
    *,
    radius: float,
    prior: FloatArray,
    mu_weights: float,
    mu_groups: float,
    center: FloatArray | None = None,
    start: FloatArray | None = None,
    tolerance: float = 1e-12,
    max_newton_steps: int = 100,
    lipschitz: float | None = None,
    smoothness: float | None = None,
    keep_hessian: float = 0.0,
) -> SaddlePoint:
    """Solve the regularised worst-group problem on a ball to a certified gap.

    Parameters
    ----------
    risks : RiskFunctions
        Smooth group risks.
    radius : float
        Radius of the ball of weights.
    prior : ndarray of shape (n_groups,)
        Prior of the group player, positive, summing to 1.
    mu_weights, mu_groups : float
        Regularisation of the two players, both positive; an infinite `mu_groups` keeps the group
        weights at the prior.
    center : ndarray of shape (n_weights,), optional
        Centre of the quadratic; zero by default.
    start : ndarray of shape (n_weights,), optional
        First point; the centre by default.
    tolerance : float, default=1e-12
        Gap to reach.
    max_newton_steps : int, default=100
        Newton steps before the first-order method takes over.
    lipschitz, smoothness : float, optional
        Constants L and H of the loss; with them, an accelerated gradient method with a proved
        cap on its iterations takes over where Newton's method misses the tolerance.
    keep_hessian : float, default=0.0
        A full step that leaves at most this share of the gap keeps its Hessian for the next one;
        with many weights a Hessian costs far more than a step.

    Returns
    -------
    SaddlePoint
        Weights, group weights and the certified gap, which exceeds `tolerance` only where no
        constants are given.

    Notes
    -----
    A small μ_λ is approached through larger ones, each solved roughly. The first-order method
    reaches any tolerance that floating point can show, at least ``attainable_gap``, within its cap
    on every data set.
    """
    center = np.zeros(risks.n_weights) if center is None else center
    weights = project_to_ball(center if start is None else start, radius)
    strength, n_steps = mu_groups, 0
    if risks.n_groups > 1:
        # not their spread, which is zero where all scores are: risks start out equal there
        strength = max(mu_groups, 0.1 * float(risks.risks(weights).max()))
    while True:
        objective = RegularisedObjective(risks, radius, prior, mu_weights, strength, center)
        last = strength <= mu_groups
        stage_tolerance = tolerance if last else max(tolerance, 1e-2 * strength)
        at, taken = newton(
            objective, weights, stage_tolerance, max_newton_steps - n_steps, keep_hessian
        )
        n_steps += taken
        weights = at.weights
        if last:
            break
        strength = max(mu_groups, strength / 10)
    n_first_order = 0
    if at.gap > tolerance and lipschitz is not None and smoothness is not None:
        at, n_first_order = accelerated_gradient(
            objective, weights, tolerance, lipschitz=lipschitz, smoothness=smoothness
        )
    return SaddlePoint(at.weights, at.group_weights, at.gap, n_steps, n_first_order)


def newton(
    objective: RegularisedObjective,
    weights: FloatArray,
    tolerance: float,
    max_steps: int,
    keep_hessian: float = 0.0,
) -> tuple[Evaluation, int]:
    """Minimise a regularised objective by Newton's method on the ball; return the steps too.

    A full step that leaves at most the share `keep_hessian` of the gap keeps its Hessian for the
    next one.
    """
    at = objective.evaluate(weights)
    n_steps = 0
    hessian = None
    strength = objective.mu_groups if objective.mu_groups < np.inf else 0.0
    while at.gap > tolerance and n_steps < max_steps:
        fresh = hessian is None
        if hessian is None:
            hessian = objective.hessian(at)
        target = minimise_quadratic_on_ball(
            hessian, hessian @ at.weights - at.gradient, objective.radius, objective.mu_weights
        )
        direction = target - at.weights
        slope = at.gradient @ direction
        n_steps += 1
        # near the solution P no longer shows progress in floating point, the gap does; where P
        # visibly grows, a smaller gap is no progress and steps chosen by it can go in circles
        rounding = 1e-12 * (abs(at.value) + strength)
        length = 1.0
        while length > 1e-10:
            # both ends are in the ball, so this undoes rounding alone
            moved = project_to_ball(at.weights + length * direction, objective.radius)
            new = objective.evaluate(moved)
            rise = new.value - at.value
            if rise <= 1e-4 * length * slope or (rise <= rounding and new.gap <= 0.5 * at.gap):
                break
            length /= 4
        else:
            if fresh:
                break
            hessian = None
            continue
        stalled = fresh and new.gap >= at.gap and new.value >= at.value
        if length < 1.0 or new.gap > keep_hessian * at.gap:
            hessian = None
        at = new
        if stalled:
            break
    return at, n_steps


def minimise_quadratic_on_ball(
    matrix: FloatArray, vector: FloatArray, radius: float, least_eigenvalue: float
) -> FloatArray:
    """Minimise ``v'Qv/2 - b'v`` over a ball; rounding may have lost Q's least eigenvalue.

    The minimiser is ``(Q + νI)⁻¹ b`` with the smallest ν >= 0 that brings it into the ball. For
    ν = 0 a Cholesky factor has it, in a twentieth of the time that eigenvalues take.
    """
    factor, failed = dpotrf(matrix.T, lower=True, clean=False)
    diagonal = np.diagonal(factor)
    if not failed and diagonal.min() > CURVED * diagonal.max():
        found = np.asarray(dpotrs(factor, vector, lower=True)[0])
        if float(np.linalg.norm(found)) <= radius:
            return found
    eigenvalues, basis = np.linalg.eigh(matrix)
    eigenvalues = np.maximum(eigenvalues, least_eigenvalue)
    coordinates = basis.T @ vector

    def norm(multiplier: float) -> float:
        return float(np.linalg.norm(coordinates / (eigenvalues + multiplier)))

    if norm(0.0) <= radius:
        return np.asarray(basis @ (coordinates / eigenvalues))
    # 1/norm is nearly linear in the multiplier, which makes the root easy
    # the factor keeps the bracket where rounding makes the eigenvalues invisible beside it
    largest = (1.0 + 1e-9) * float(np.linalg.norm(vector)) / radius
    multiplier = brentq(lambda nu: 1 / radius - 1 / norm(nu), 0.0, largest, xtol=1e-300)
    return project_to_ball(basis @ (coordinates / (eigenvalues + multiplier)), radius)


def attainable_gap(
    radius: float,
    lipschitz: float,
    mu_weights: Any,
    center_norm: float = 0.0,
    *,
    mu_groups: float = np.inf,
) -> Any:
    """Return the smallest gap that floating point can be asked to show on every data set.

    One for each strength of the weights' regularisation, if there are several.

    It is a hundred units of rounding of the largest slope times the radius, and what rounding of
    the group weights adds to a gradient, ``h = 10 ε_mach R L²/μ_λ``, and by that to the gap, at
    most ``min(2 R h, h²/(2 μ_w))``: docs/theory/saddle-point.md.
    """
    slope = lipschitz + mu_weights * (radius + center_norm)
    unit = float(np.finfo(float).eps) * radius
    error = 10.0 * unit * lipschitz**2 / mu_groups
    of_weights = np.minimum(2.0 * radius * error, error**2 / (2.0 * mu_weights))
    return 100.0 * unit * slope + of_weights
