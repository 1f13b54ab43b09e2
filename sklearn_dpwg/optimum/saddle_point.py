"""The saddle point of the regularised objective, and the exact optimum, with certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.risks import RiskFunctions, Risks
from sklearn_dpwg.losses import Loss, LossConstants, SmoothedLoss
from sklearn_dpwg.optimum.newton import (
    CURVED,
    frank_wolfe_gap,
    nested_samples,
    sampled_newton,
)
from sklearn_dpwg.optimum.objective import (
    Evaluation,
    RegularisedObjective,
    SaddlePoint,
    accelerated_gradient,
    project_to_ball,
)


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


# The optimum of a loss with kinks.

# In units of the score: targets, and margins to be kept, are at most 1.
FIRST_WIDTH = 1.0
# Strength of the group player's regularisation at width 1; both vanish together.
STRENGTH = 0.1


def kinked_optimum(
    risks: Risks,
    *,
    radius: float,
    tolerance: float = 1e-8,
    max_newton_steps: int = 500,
) -> SaddlePoint:
    """Minimise the largest group risk of a loss with kinks over a ball, to a certified gap.

    Stage by stage the kinks are replaced by parabolas of a smaller width h, each stage is solved by
    Newton's method, and the line through the last two solutions predicts the next, and at h = 0 the
    optimum. Widths shrink faster where that works and more slowly where Newton's method then needs
    many steps. The certificate is about the loss with its kinks, whatever the stages return, as
    lines of the stand-in's slopes lie nowhere above the loss: docs/theory/saddle-point.md, Theorem
    5. (Y. Nesterov 2005, Smooth minimization of non-smooth functions, for smoothing)
    """
    n_groups = risks.n_groups
    prior = np.full(n_groups, 1.0 / n_groups)
    center = np.zeros(risks.n_weights)
    mu_weights = tolerance / (4.0 * radius**2)
    lowest, best_weights = np.inf, center
    highest, best_mixture = -np.inf, prior
    path: list[tuple[float, FloatArray]] = []  # width and solution of the stages accepted
    width, factor, n_steps = FIRST_WIDTH, 5.0, 0
    while True:
        stand_in = risks.loss.smoothed(width)
        game = (risks.with_loss(stand_in), radius, prior, mu_weights, STRENGTH * width, center)
        objective = RegularisedObjective(*game)
        at_most = 15 if len(path) > 1 and factor > 1.3 else 50
        stage_tolerance = max(tolerance / 4, 1e-3 * STRENGTH * width)
        at, taken = newton(
            objective,
            _predict(path, width, radius, center),
            stage_tolerance,
            min(at_most, max_newton_steps - n_steps),
        )
        n_steps += taken
        values, slopes = risks.with_loss(_Lines(stand_in)).risks_and_gradients(at.weights)
        slope = at.group_weights @ slopes
        steepest = float(np.linalg.norm(slope))
        value = float(at.group_weights @ values - slope @ at.weights - radius * steepest)
        if value > highest:
            highest, best_mixture = value, at.group_weights
        solved = [*path, (width, at.weights)]
        for weights in (at.weights, _predict(solved, 0.0, radius, center)):
            value = float(risks.risks(weights).max())
            if value < lowest:
                lowest, best_weights = value, weights
        gap = max(lowest - highest, 0.0)
        if gap <= tolerance or n_steps >= max_newton_steps or width < 1e-2 * tolerance:
            return SaddlePoint(best_weights, best_mixture, gap, n_steps)
        if at.gap <= stage_tolerance or factor < 1.3:
            path = solved[-2:]
            if at.gap <= stage_tolerance and taken <= 5:
                factor = min(factor**1.5, 10.0)
        else:
            factor **= 0.5
        width = (path[-1][0] if path else FIRST_WIDTH) / factor


def _predict(
    path: list[tuple[float, FloatArray]], width: float, radius: float, start: FloatArray
) -> FloatArray:
    """Return the point of the ball where the line through the last two solutions leads."""
    if len(path) < 2:
        return path[-1][1] if path else start
    (wider, before), (current, weights) = path[-2:]
    moved = weights + (weights - before) * ((current - width) / (wider - current))
    return project_to_ball(moved, radius)


@dataclass(frozen=True)
class _Lines(Loss):
    """Lines below a loss: their values and slopes at the scores they were drawn for."""

    stand_in: SmoothedLoss
    name: ClassVar[str] = "lines"

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        slopes = self.stand_in.value_and_derivative(scores, targets)[1]
        return self.stand_in.supporting_value(scores, targets), slopes

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        return np.zeros_like(scores)

    def constants(self, score_bound: float) -> LossConstants:
        return self.stand_in.constants(score_bound)


def worst_group_optimum(
    risks: Risks,
    *,
    radius: float,
    tolerance: float = 1e-8,
    max_newton_steps: int = 500,
) -> SaddlePoint:
    """Minimise the largest group risk over a ball, to a certified gap.

    Parameters
    ----------
    risks : Risks
        Group risks of records; the loss may have kinks if it has ``smoothed``.
    radius : float
        Radius of the ball of weights.
    tolerance : float, default=1e-8
        Gap to reach.
    max_newton_steps : int, default=500
        Newton steps in all stages together.

    Returns
    -------
    SaddlePoint
        Weights, the least favourable mixture of groups, and the gap
        ``max_i L_i(w) - min_v Σ λ_i L_i(v)`` over the ball, bounded from above.

    Notes
    -----
    A loss with kinks is rounded by parabolas that shrink (``kinked_optimum``). A smooth one is
    solved by `smooth_optimum`, on samples of growing size and then on all records. Risks off by ρ
    and their gradients by η in floating point make the gap off by at most ``2ρ + 2Rη``.

    References
    ----------
    Zhou and Bassily (2024), equation (6), is the problem.
    """
    limits: dict[str, Any] = {"radius": radius, "tolerance": tolerance}
    limits["max_newton_steps"] = max_newton_steps
    if not risks.loss.smooth:
        return kinked_optimum(risks, **limits)
    return smooth_optimum(risks, samples=nested_samples(risks), **limits)


def smooth_optimum(
    risks: RiskFunctions,
    *,
    radius: float,
    tolerance: float = 1e-8,
    max_newton_steps: int = 500,
    samples: Sequence[Risks] = (),
) -> SaddlePoint:
    """Minimise the largest of smooth functions of the weights over a ball, to a certified gap.

    Parameters
    ----------
    risks : RiskFunctions
        Convex functions with gradients and Hessians, such as the risks of a known population.
    radius : float
        Radius of the ball of weights.
    tolerance : float, default=1e-8
        Gap to reach.
    max_newton_steps : int, default=500
        Newton steps in all stages together.
    samples : sequence of Risks, default=()
        Risks of fewer of the records, the fewest first, to start from.

    Returns
    -------
    SaddlePoint
        Weights, the least favourable mixture of groups, and the gap as in `worst_group_optimum`.

    Notes
    -----
    Newton's method for the largest risk comes first, on the samples and then on all records.
    Where it misses the tolerance, the regularised problem is followed to vanishing regularisation.
    The certificate, a Frank–Wolfe gap, needs neither.
    """
    found = sampled_newton(
        risks, samples, radius=radius, tolerance=tolerance, max_steps=max_newton_steps
    )
    if found.gap <= tolerance or found.n_newton_steps >= max_newton_steps:
        return found
    return _followed(risks, radius, tolerance, max_newton_steps, found)


def _followed(
    risks: RiskFunctions,
    radius: float,
    tolerance: float,
    max_newton_steps: int,
    best: SaddlePoint,
) -> SaddlePoint:
    """Follow the regularised problem; return the best pair, counting that from before."""
    n_groups = risks.n_groups
    prior = np.full(n_groups, 1.0 / n_groups)
    center = np.zeros(risks.n_weights)
    weights, n_steps, strength = center, best.n_newton_steps, 0.1
    mu_weights = tolerance / (4.0 * radius**2)

    def certified(weights: FloatArray, mixture: FloatArray) -> SaddlePoint:
        gap = frank_wolfe_gap(weights, mixture, *risks.risks_and_gradients(weights), radius)
        return SaddlePoint(weights, mixture, gap, n_steps)

    while True:
        objective = RegularisedObjective(risks, radius, prior, mu_weights, strength, center)
        at, taken = newton(
            objective, weights, max(tolerance / 4, 1e-3 * strength), max_newton_steps - n_steps
        )
        weights, n_steps = at.weights, n_steps + taken
        found = certified(weights, at.group_weights)
        if found.gap > tolerance and n_steps < max_newton_steps:
            n_steps += 1
            found = min(found, certified(*_joint_step(objective, at)), key=lambda pair: pair.gap)
        if found.gap < best.gap:
            best = found
        # far below the tolerance, rounding of the risks over the strength spoils the steps
        if found.gap <= tolerance or strength < 1e-2 * tolerance or n_steps >= max_newton_steps:
            return replace(best, n_newton_steps=n_steps)
        strength /= 5.0


def _joint_step(objective: RegularisedObjective, at: Evaluation) -> tuple[FloatArray, FloatArray]:
    """Return where a Newton step leads, and the group weights that go with it to first order.

    Rounding of a risk by ε moves the closed form by ε/μ_λ; this reads gradients instead.
    """
    hessian = objective.hessian(at)
    # no step along what is flat but for rounding
    hessian[np.diag_indices_from(hessian)] += np.finfo(float).eps * np.trace(hessian)
    target = minimise_quadratic_on_ball(
        hessian, hessian @ at.weights - at.gradient, objective.radius, objective.mu_weights
    )
    return target, objective.answer(at, at.group_gradients @ (target - at.weights))
