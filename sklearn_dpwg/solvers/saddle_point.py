"""Exact saddle point of the regularised worst-group objective, with a certificate.

Not private: it stands behind ``epsilon=inf``, behind every excess risk that the project prints
and inside solvers that add their own noise to its weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, softmax

from sklearn_dpwg.risks import GroupRisks
from sklearn_dpwg.solvers.accelerated_gradient import accelerated_gradient

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SaddlePoint:
    """A certified approximate saddle point.

    Parameters
    ----------
    weights : ndarray of shape (n_weights,)
        Weights, inside the ball.
    group_weights : ndarray of shape (n_groups,)
        Best response of the group player to the weights.
    gap : float
        Certified duality gap: no other choice of either player gains more than this together.
    n_newton_steps : int
        Newton steps taken.
    n_first_order_steps : int
        Accelerated gradient steps taken where Newton's method missed the tolerance; usually 0.
    """

    weights: FloatArray
    group_weights: FloatArray
    gap: float
    n_newton_steps: int
    n_first_order_steps: int = 0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The primal objective at one point.

    Parameters
    ----------
    weights : ndarray of shape (n_weights,)
        The point.
    value : float
        Primal objective P.
    gradient : ndarray of shape (n_weights,)
        Gradient of P.
    group_weights : ndarray of shape (n_groups,)
        Closed-form best response of the group player.
    group_gradients : ndarray of shape (n_groups, n_weights)
        Gradients of the group risks.
    gap : float
        Certified duality gap at the point.
    """

    weights: FloatArray
    value: float
    gradient: FloatArray
    group_weights: FloatArray
    group_gradients: FloatArray
    gap: float


@dataclass(eq=False)
class RegularisedObjective:
    """Primal side of ``min_w max_λ Σ λ_i L_i(w) + μ_w/2 ‖w - c‖² - μ_λ KL(λ‖π)`` on a ball.

    The group player has the closed form ``λ_i ∝ π_i exp(L_i(w)/μ_λ)``, which leaves
    ``P(w) = μ_λ log Σ π_i exp(L_i(w)/μ_λ) + μ_w/2 ‖w - c‖²`` to be minimised.

    Parameters
    ----------
    risks : GroupRisks
        Group risks L_i.
    radius : float
        Radius of the ball of weights.
    prior : ndarray of shape (n_groups,)
        Prior π of the group player.
    mu_weights, mu_groups : float
        Strengths μ_w and μ_λ, both positive; an infinite μ_λ keeps the group weights at π.
    center : ndarray of shape (n_weights,)
        Centre c of the quadratic.
    """

    risks: GroupRisks
    radius: float
    prior: FloatArray
    mu_weights: float
    mu_groups: float
    center: FloatArray

    def evaluate(self, weights: FloatArray) -> Evaluation:
        """Return value, gradient, best response and certificate at a point of the ball.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Point of the ball.

        Returns
        -------
        Evaluation
            One pass over the rows.

        Notes
        -----
        P is μ_w-strongly convex, so for every v of the ball ``P(w) - P(v) <= -<∇P(w), v-w> -
        μ_w/2 ‖v-w‖²``; the maximum of the right side over the ball is attained at the projection
        of ``w - ∇P(w)/μ_w`` and bounds the gap of (w, λ(w)) (the same computation bounds
        ``F(w, λ(w)) - min_v F(v, λ(w))``, and λ(w) is the exact best response).
        """
        group_risks, group_gradients = self.risks.risks_and_gradients(weights)
        # relative to the largest risk: risks over a small μ_λ leave no digits for the weights
        worst = group_risks.max()
        exponents = np.log(self.prior) + (group_risks - worst) / self.mu_groups
        group_weights = softmax(exponents)
        offset = weights - self.center
        gradient = group_weights @ group_gradients + self.mu_weights * offset
        if self.mu_groups < np.inf:
            value = worst + self.mu_groups * logsumexp(exponents)
        else:
            value = group_weights @ group_risks
        value += 0.5 * self.mu_weights * (offset @ offset)
        step = project_to_ball(weights - gradient / self.mu_weights, self.radius) - weights
        gap = -(gradient @ step) - 0.5 * self.mu_weights * (step @ step)
        return Evaluation(
            weights, float(value), gradient, group_weights, group_gradients, max(float(gap), 0.0)
        )

    def hessian(self, at: Evaluation) -> FloatArray:
        """Return the Hessian of P at an evaluated point, in one more pass.

        Parameters
        ----------
        at : Evaluation
            The point.

        Returns
        -------
        ndarray of shape (n_weights, n_weights)
            Weighted loss curvature, plus the spread of the group gradients over μ_λ, plus μ_w.
        """
        spread = at.group_gradients - at.group_weights @ at.group_gradients
        hessian = self.risks.hessian(at.weights, at.group_weights)
        hessian += (spread.T * at.group_weights) @ spread / self.mu_groups
        hessian[np.diag_indices_from(hessian)] += self.mu_weights
        return hessian


def solve_saddle_point(
    risks: GroupRisks,
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
    risks : GroupRisks
        Group risks of a smooth loss.
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
    Newton's method minimises the quadratic model over the ball exactly (one eigendecomposition
    and a scalar root) and searches back along the segment. A small μ_λ is approached through
    larger ones, each solved roughly. The first-order method reaches any tolerance that
    floating point can show, at least ``attainable_gap``, within its cap on every data set.
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
    """Minimise a regularised objective by Newton's method on the ball.

    Parameters
    ----------
    objective : RegularisedObjective
        What to minimise.
    weights : ndarray of shape (n_weights,)
        First point, in the ball.
    tolerance : float
        Stop at this gap.
    max_steps : int
        Stop after this many steps.
    keep_hessian : float, default=0.0
        A full step that leaves at most this share of the gap keeps its Hessian for the next one.

    Returns
    -------
    at : Evaluation
        The last point.
    n_steps : int
        Steps taken.
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
            new = objective.evaluate(at.weights + length * direction)
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
    """Minimise ``v'Qv/2 - b'v`` over a ball.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric positive definite Q.
    vector : ndarray of shape (n,)
        The vector b.
    radius : float
        Radius of the ball.
    least_eigenvalue : float
        Known lower bound on the eigenvalues of Q, which rounding may have lost.

    Returns
    -------
    ndarray of shape (n,)
        ``(Q + νI)⁻¹ b`` with the smallest ν >= 0 that brings it into the ball.
    """
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


def project_to_ball(weights: FloatArray, radius: float) -> FloatArray:
    """Return the nearest point of the ball of a radius around zero.

    Parameters
    ----------
    weights : ndarray
        Any point.
    radius : float
        Radius of the ball.

    Returns
    -------
    ndarray
        The point itself where it lies inside.
    """
    norm = float(np.linalg.norm(weights))
    return weights if norm <= radius else weights * (radius / norm)


def attainable_gap(
    radius: float,
    lipschitz: float,
    mu_weights: float,
    center_norm: float = 0.0,
    *,
    mu_groups: float = np.inf,
) -> float:
    """Return the smallest gap that floating point can be asked to show on every data set.

    Parameters
    ----------
    radius, lipschitz, mu_weights : float
        Radius of the ball, Lipschitz constant of the loss, regularisation of the weights.
    center_norm : float, default=0.0
        Norm of the centre of the quadratic.
    mu_groups : float, default=inf
        Regularisation of the group player.

    Returns
    -------
    float
        A hundred units of rounding of the largest slope times the radius, and what rounding of
        the group weights adds.

    Notes
    -----
    Risks known to ten units of rounding of R L give group weights, and so a gradient, wrong by
    about ``h = 10 ε_mach R L²/μ_λ``, which no choice of weights can undo. An error of the gradient
    by h adds at most ``min(2 R h, h²/(2 μ_w))`` to the gap at the solution.
    """
    slope = lipschitz + mu_weights * (radius + center_norm)
    unit = float(np.finfo(float).eps) * radius
    error = 10.0 * unit * lipschitz**2 / mu_groups
    return float(100.0 * unit * slope + min(2.0 * radius * error, error**2 / (2.0 * mu_weights)))
