"""The regularised worst-group game on a ball: its saddle point, with a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq
from scipy.special import softmax

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.risks import RiskFunctions

# Norms count as larger by this times d + 16, so that weights that round to the sphere are on it.
ON_SPHERE = 2.0**-51

# Least ratio of smallest to largest diagonal entry of a Cholesky factor that is accurate enough.
CURVED = 1e-4


@dataclass(frozen=True, eq=False)
class SaddlePoint:
    """A certified approximate saddle point."""

    weights: FloatArray  # weights, inside the ball; (n_weights,)
    group_weights: FloatArray  # best response of the group player to the weights; (n_groups,)
    # certified duality gap: no other choice of either player gains more than this together, up to
    # the certificate's own rounding, which `docs/theory/saddle-point.md` bounds
    gap: float
    n_newton_steps: int  # Newton steps taken
    # accelerated gradient steps taken where Newton's method missed the tolerance; usually 0
    n_first_order_steps: int = 0


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

    A small `mu_groups` is approached through larger ones, each solved roughly. If Newton's method
    misses the tolerance and L and H of the loss are passed, `accelerated_gradient` takes over and
    reaches any tolerance of at least ``attainable_gap`` on every data set. A Hessian, far dearer
    than a step, is kept after a full step that leaves at most `keep_hessian` of the gap.
    """
    center = np.zeros(risks.n_weights) if center is None else center
    weights = project_to_ball(center if start is None else start, radius)
    strength, n_steps = mu_groups, 0
    if risks.n_groups > 1:
        # the scale is the largest risk: the spread of the risks is 0 where all scores are 0
        strength = max(mu_groups, 0.1 * float(risks.risks(weights).max()))
    while True:
        objective = RegularisedObjective(risks, radius, prior, mu_weights, strength, center)
        is_last_stage = strength <= mu_groups
        stage_tolerance = tolerance if is_last_stage else max(tolerance, 1e-2 * strength)
        at, n_taken = newton(
            objective, weights, stage_tolerance, max_newton_steps - n_steps, keep_hessian
        )
        n_steps += n_taken
        weights = at.weights
        if is_last_stage:
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
    """Minimise a regularised objective on the ball by Newton's method; return also the steps."""
    at = objective.evaluate(weights)
    n_steps = 0
    hessian = None
    strength = objective.mu_groups if objective.mu_groups < np.inf else 0.0
    while at.gap > tolerance and n_steps < max_steps:
        hessian_is_new = hessian is None
        if hessian is None:
            hessian = objective.hessian(at)
        target = minimise_quadratic_on_ball(
            hessian, hessian @ at.weights - at.gradient, objective.radius, objective.mu_weights
        )
        direction = target - at.weights
        slope = at.gradient @ direction
        n_steps += 1
        # near the solution rounding hides progress in the value, so half the gap counts, too; not
        # if the value visibly grows: such steps can go in circles
        rounding = 1e-12 * (abs(at.value) + strength)
        length = 1.0
        while length > 1e-10:
            # both ends are in the ball, so the projection corrects rounding only
            moved = project_to_ball(at.weights + length * direction, objective.radius)
            new = objective.evaluate(moved)
            rise = new.value - at.value
            if rise <= 1e-4 * length * slope or (rise <= rounding and new.gap <= 0.5 * at.gap):
                break
            length /= 4
        else:
            # no length is progress: give up, or try again with a new Hessian
            if hessian_is_new:
                break
            hessian = None
            continue
        stalled = hessian_is_new and new.gap >= at.gap and new.value >= at.value
        if length < 1.0 or new.gap > keep_hessian * at.gap:
            hessian = None
        at = new
        if stalled:
            break
    return at, n_steps


def minimise_quadratic_on_ball(
    matrix: FloatArray, vector: FloatArray, radius: float, least_eigenvalue: float
) -> FloatArray:
    """Minimise ``v'Qv/2 - b'v`` over a ball: Q is `matrix`, b is `vector`.

    The minimiser is ``(Q + νI)⁻¹ b`` with the smallest ν >= 0 for which it is in the ball. A
    Cholesky factor tries ν = 0, in a twentieth of the time of an eigendecomposition. Eigenvalues
    are raised to `least_eigenvalue`, in case rounding made them smaller.
    """
    factor, failed = dpotrf(matrix.T, lower=True, clean=False)
    diagonal = np.diagonal(factor)
    if not failed and diagonal.min() > CURVED * diagonal.max():
        inside = np.asarray(dpotrs(factor, vector, lower=True)[0])
        if float(np.linalg.norm(inside)) <= radius:
            return inside
    eigenvalues, basis = np.linalg.eigh(matrix)
    eigenvalues = np.maximum(eigenvalues, least_eigenvalue)
    coordinates = basis.T @ vector

    def norm(multiplier: float) -> float:
        return float(np.linalg.norm(coordinates / (eigenvalues + multiplier)))

    if norm(0.0) <= radius:
        return np.asarray(basis @ (coordinates / eigenvalues))
    # 1/norm is nearly linear in the multiplier, so its root is found fast; 1e-9 keeps the root in
    # the bracket if the eigenvalues are too small to change the sum
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
    """Return the smallest gap that floating point can certify, by docs/theory/saddle-point.md."""
    slope = lipschitz + mu_weights * (radius + center_norm)
    unit = float(np.finfo(float).eps) * radius  # rounding error of weights
    error = 10.0 * unit * lipschitz**2 / mu_groups  # of the gradient, through the best response
    response_gap = np.minimum(2.0 * radius * error, error**2 / (2.0 * mu_weights))
    return 100.0 * unit * slope + response_gap


# The objective that is minimised, and geometry.


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Primal objective P at one point: value, gradient, best response of the groups, and gap."""

    weights: FloatArray
    value: float
    gradient: FloatArray
    group_weights: FloatArray
    group_gradients: FloatArray
    gap: float


@dataclass(eq=False)
class RegularisedObjective:
    """Primal side of ``min_w max_λ Σ λ_i L_i(w) + μ_w/2 ‖w - c‖² - μ_λ KL(λ‖π)`` on a ball.

    Both strengths are positive; an infinite μ_λ keeps the group weights at the prior π.
    """

    risks: RiskFunctions
    radius: float
    prior: FloatArray
    mu_weights: float
    mu_groups: float
    center: FloatArray

    def evaluate(self, weights: FloatArray) -> Evaluation:
        """Evaluate P at weights; docs/theory/saddle-point.md, Theorem 1 certifies the gap."""
        group_risks, group_gradients = self.risks.risks_and_gradients(weights)
        # the largest risk is subtracted: over a small μ_λ the risks themselves would lose digits
        worst = group_risks.max()
        exponents = np.log(self.prior) + (group_risks - worst) / self.mu_groups
        group_weights = softmax(exponents)
        value = group_weights @ group_risks
        if self.mu_groups < np.inf:
            value = worst + self.mu_groups * log_sum_exp(exponents)
        offset = weights - self.center
        gradient = group_weights @ group_gradients + self.mu_weights * offset
        value += 0.5 * self.mu_weights * float(offset @ offset)
        gap = ball_gap(weights, gradient, self.mu_weights, self.radius)
        return Evaluation(weights, float(value), gradient, group_weights, group_gradients, gap)

    def hessian(self, at: Evaluation) -> FloatArray:
        """Return the Hessian of P: Σ λ_i ∇²L_i, the covariance of gradients over μ_λ, and μ_w I."""
        hessian = self.risks.hessian(at.weights, at.group_weights)
        spread = at.group_gradients - at.group_weights @ at.group_gradients
        hessian += (spread.T * at.group_weights) @ spread / self.mu_groups
        hessian[np.diag_indices_from(hessian)] += self.mu_weights
        return hessian


def log_sum_exp(exponents: FloatArray) -> float:
    """Return ``log Σ exp(x_i)``, bit for bit as SciPy's `logsumexp` but several times faster."""
    largest = exponents.max()
    if not math.isfinite(largest):
        return float(largest)
    is_largest = exponents == largest
    count = np.float64(np.count_nonzero(is_largest))
    others = np.exp(np.where(is_largest, -np.inf, exponents) - largest).sum()
    return float(np.log1p(others / count) + np.log(count) + largest)


def ball_gap(weights: FloatArray, gradient: FloatArray, mu_weights: float, radius: float) -> float:
    """Return the maximum over v of the ball of ``-<g, v-w> - μ/2 ‖v-w‖²``, for w in the ball.

    It bounds how far a μ-strongly convex function with gradient g at w is above its minimum on the
    ball. With a = w - g/μ, v the projection of a, and ρ = max(1, ‖a‖/R) the maximum is
    ``μ/2 (ρ ‖v-w‖² + (ρ-1) (R²-‖w‖²))``: no terms cancel, so even a gap of 1e-30 has correct
    digits. ‖w‖ counts as larger by its rounding (docs/theory/phased-erm-sensitivity.md).
    """
    step = gradient / mu_weights
    unprojected = weights - step  # a
    stretch = float(np.linalg.norm(unprojected)) / radius  # ρ
    if stretch <= 1.0:
        return float(0.5 * mu_weights * (step @ step))
    step = unprojected / stretch - weights  # v - w
    enlargement = 1.0 + ON_SPHERE * (len(weights) + 16.0)
    depth = max(radius - enlargement * float(np.linalg.norm(weights)), 0.0)  # R - ‖w‖
    boundary_term = (stretch - 1.0) * depth * (2.0 * radius - depth)
    return float(0.5 * mu_weights * (stretch * (step @ step) + boundary_term))


def project_to_ball(weights: FloatArray, radius: float) -> FloatArray:
    """Return the point of the ball of this radius around 0 that is nearest to the weights."""
    norm = float(np.linalg.norm(weights))
    return weights if norm <= radius else weights * (radius / norm)


def on_simplex(values: FloatArray) -> FloatArray:
    """Project values to the nearest probability distribution: ``max(v_i - τ, 0)`` of sum 1.

    The sum falls in τ, linearly between two neighbouring values. Bisection finds these two.
    """
    points = np.sort(values)
    low, high = -1, len(points) - 1
    while high - low > 1:
        middle = (low + high) // 2
        sum_is_enough = np.maximum(values - points[middle], 0.0).sum() >= 1.0
        low, high = (middle, high) if sum_is_enough else (low, middle)
    is_positive = np.asarray(values >= points[high], dtype=float)
    level = (is_positive @ values - 1.0) / is_positive.sum()  # τ
    projection = np.clip(values - level, 0.0, 1.0)
    return np.asarray(projection / projection.sum())


# First-order method with a proved bound on its iterations, for when Newton's method fails.


def iteration_cap(
    objective: RegularisedObjective, tolerance: float, *, lipschitz: float, smoothness: float
) -> int:
    """Return a number of accelerated steps after which the gap is at most `tolerance`, always.

    docs/theory/saddle-point.md, Theorem 3, with constants L (`lipschitz`) and H (`smoothness`) of
    the risks in the weights.
    """
    radius, mu_weights = objective.radius, objective.mu_weights
    condition = (smoothness + mu_weights + lipschitz**2 / objective.mu_groups) / mu_weights
    largest_offset = radius + float(np.linalg.norm(objective.center))
    value_range = 2.0 * radius * (lipschitz + mu_weights * largest_offset)
    log_reduction = math.log(max(8.0 * condition * value_range / tolerance, 1.0))
    return math.ceil(math.sqrt(condition) * log_reduction) + 1


def accelerated_gradient(
    objective: RegularisedObjective,
    weights: FloatArray,
    tolerance: float,
    *,
    lipschitz: float,
    smoothness: float,
) -> tuple[Evaluation, int]:
    """Minimise a regularised objective by Nesterov's method within `iteration_cap` steps.

    L need not hold outside the ball, so this variant never leaves it. Returns also the steps.
    """
    cap = iteration_cap(objective, tolerance, lipschitz=lipschitz, smoothness=smoothness)
    total_smoothness = smoothness + objective.mu_weights + lipschitz**2 / objective.mu_groups
    theta = math.sqrt(objective.mu_weights / total_smoothness)

    def gradient_step(origin: FloatArray, gradient: FloatArray, rate: float) -> FloatArray:
        return project_to_ball(origin - gradient / rate, objective.radius)

    current = anchor = weights
    for n_steps in range(1, cap + 1):
        between = (current + theta * anchor) / (1.0 + theta)
        gradient = objective.evaluate(between).gradient
        pulled = (1.0 - theta) * anchor + theta * between
        anchor = gradient_step(pulled, gradient, objective.mu_weights / theta)
        # a mean of two points of the ball, so the projection corrects rounding only
        current = project_to_ball((1.0 - theta) * current + theta * anchor, objective.radius)
        if n_steps % 10 == 0 or n_steps == cap:
            at = objective.evaluate(current)
            certified = objective.evaluate(gradient_step(at.weights, at.gradient, total_smoothness))
            if certified.gap <= tolerance:
                break
    return certified, n_steps
