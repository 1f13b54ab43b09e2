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

# Weights count as longer by this times d + 16, so that those next to the sphere are on it.
ON_SPHERE = 2.0**-51

# Least ratio of the entries on a Cholesky factor's diagonal at which few digits are lost with it.
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

    A small `mu_groups` is approached through larger ones, each solved roughly. With the constants L
    and H of the loss, `accelerated_gradient` takes over where Newton's method misses the tolerance,
    so that any from ``attainable_gap`` on is reached on every data set. A full step that leaves at
    most the fraction `keep_hessian` of the gap keeps its Hessian, which costs far more than a step.
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
    """Minimise a regularised objective by Newton's method on the ball; return the steps too."""
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
    """Return the smallest gap that floating point can show: docs/theory/saddle-point.md."""
    slope = lipschitz + mu_weights * (radius + center_norm)
    unit = float(np.finfo(float).eps) * radius
    error = 10.0 * unit * lipschitz**2 / mu_groups
    of_weights = np.minimum(2.0 * radius * error, error**2 / (2.0 * mu_weights))
    return 100.0 * unit * slope + of_weights


# The objective that is minimised, and geometry.


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The primal objective P at one point, the best response to it, and the certified gap."""

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
        """Return value, gradient, best response and certificate at a point: Theorem 1."""
        group_risks, group_gradients = self.risks.risks_and_gradients(weights)
        # relative to the largest risk: risks over a small μ_λ leave no digits for the weights
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
        """Return the Hessian of P: curvature, what the group player's answer adds, and μ_w."""
        hessian = self.risks.hessian(at.weights, at.group_weights)
        spread = at.group_gradients - at.group_weights @ at.group_gradients
        hessian += (spread.T * at.group_weights) @ spread / self.mu_groups
        hessian[np.diag_indices_from(hessian)] += self.mu_weights
        return hessian


def log_sum_exp(exponents: FloatArray) -> float:
    """Return what SciPy's `logsumexp` does of a vector, to the bit, in a fraction of its time."""
    largest = exponents.max()
    if not math.isfinite(largest):
        return float(largest)
    is_largest = exponents == largest
    count = np.float64(np.count_nonzero(is_largest))
    others = np.exp(np.where(is_largest, -np.inf, exponents) - largest).sum()
    return float(np.log1p(others / count) + np.log(count) + largest)


def ball_gap(weights: FloatArray, gradient: FloatArray, mu_weights: float, radius: float) -> float:
    """Return the maximum over the ball of ``-<g, v-w> - μ/2 ‖v-w‖²``, for w in it.

    Weights count as longer by rounding, up to the sphere (docs/theory/phased-erm-sensitivity.md).

    With a = w - g/μ, v its projection and ρ = max(1, ‖a‖/R) the maximum is
    ``μ/2 (ρ ‖v-w‖² + (ρ-1) (R²-‖w‖²))``. Nothing cancels there, so a gap of 1e-30 is one.
    """
    step = gradient / mu_weights
    aimed = weights - step
    stretch = float(np.linalg.norm(aimed)) / radius
    if stretch <= 1.0:
        return float(0.5 * mu_weights * (step @ step))
    step = aimed / stretch - weights
    reach = 1.0 + ON_SPHERE * (len(weights) + 16.0)
    inside = max(radius - reach * float(np.linalg.norm(weights)), 0.0)
    sphere = (stretch - 1.0) * inside * (2.0 * radius - inside)
    return float(0.5 * mu_weights * (stretch * (step @ step) + sphere))


def project_to_ball(weights: FloatArray, radius: float) -> FloatArray:
    """Return the nearest point of the ball of a radius around zero."""
    norm = float(np.linalg.norm(weights))
    return weights if norm <= radius else weights * (radius / norm)


def on_simplex(values: FloatArray) -> FloatArray:
    """Return the nearest distribution: ``v_i - τ`` cut at 0, where the sum is 1.

    The sum falls in τ along a line between two values.
    """
    points = np.sort(values)
    low, high = -1, len(points) - 1
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = np.maximum(values - points[middle], 0.0).sum() >= 1.0
        low, high = (middle, high) if is_enough else (low, middle)
    fractions = np.asarray(values >= points[high], dtype=float)
    level = (fractions @ values - 1.0) / fractions.sum()
    best = np.clip(values - level, 0.0, 1.0)
    return np.asarray(best / best.sum())


# First-order method with a proved cap on its iterations, behind Newton's method.


def iteration_cap(
    objective: RegularisedObjective, tolerance: float, *, lipschitz: float, smoothness: float
) -> int:
    """Return a number of accelerated steps that certifies the gap `tolerance` on every data set.

    Theorem 3 of docs/theory/saddle-point.md has it, for constants L and H in the weights.
    """
    radius, mu_weights = objective.radius, objective.mu_weights
    condition = (smoothness + mu_weights + lipschitz**2 / objective.mu_groups) / mu_weights
    reach = radius + float(np.linalg.norm(objective.center))
    spread = 2.0 * radius * (lipschitz + mu_weights * reach)
    decades = math.log(max(8.0 * condition * spread / tolerance, 1.0))
    return math.ceil(math.sqrt(condition) * decades) + 1


def accelerated_gradient(
    objective: RegularisedObjective,
    weights: FloatArray,
    tolerance: float,
    *,
    lipschitz: float,
    smoothness: float,
) -> tuple[Evaluation, int]:
    """Minimise a regularised objective by Nesterov's method within `iteration_cap` steps.

    L need not hold outside the ball, so the variant is one that never leaves it.
    """
    cap = iteration_cap(objective, tolerance, lipschitz=lipschitz, smoothness=smoothness)
    smooth = smoothness + objective.mu_weights + lipschitz**2 / objective.mu_groups
    theta = math.sqrt(objective.mu_weights / smooth)

    def step(origin: FloatArray, gradient: FloatArray, rate: float) -> FloatArray:
        return project_to_ball(origin - gradient / rate, objective.radius)

    current = anchor = weights
    for n_steps in range(1, cap + 1):
        between = (current + theta * anchor) / (1.0 + theta)
        gradient = objective.evaluate(between).gradient
        pulled = (1.0 - theta) * anchor + theta * between
        anchor = step(pulled, gradient, objective.mu_weights / theta)
        # of two points of the ball, so this undoes rounding alone
        current = project_to_ball((1.0 - theta) * current + theta * anchor, objective.radius)
        if n_steps % 10 == 0 or n_steps == cap:
            at = objective.evaluate(current)
            certified = objective.evaluate(step(at.weights, at.gradient, smooth))
            if certified.gap <= tolerance:
                break
    return certified, n_steps
