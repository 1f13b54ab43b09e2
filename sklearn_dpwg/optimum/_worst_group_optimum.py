"""The exact non-private minimax optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.kinked_optimum import kinked_optimum
from sklearn_dpwg.optimum.minimax_newton import frank_wolfe_gap
from sklearn_dpwg.optimum.objective import Evaluation, RegularisedObjective, SaddlePoint
from sklearn_dpwg.optimum.saddle_point import minimise_quadratic_on_ball, newton
from sklearn_dpwg.optimum.sampled_newton import nested_samples, sampled_newton
from sklearn_dpwg.risks import RiskFunctions, Risks


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
    if not risks.loss.smooth:
        return kinked_optimum(
            risks, radius=radius, tolerance=tolerance, max_newton_steps=max_newton_steps
        )
    return smooth_optimum(
        risks,
        radius=radius,
        tolerance=tolerance,
        max_newton_steps=max_newton_steps,
        samples=nested_samples(risks),
    )


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
    Newton's method for the largest risk comes first, on the samples and then on all records
    (``sampled_newton``). Where it misses the tolerance, the regularised problem is followed to
    vanishing regularisation: at strengths μ_λ and μ_w its solution is within
    ``μ_λ log p + μ_w R²/2`` of the optimum. The certificate needs neither: by convexity
    ``Σ λ_i L_i(v) >= Σ λ_i L_i(w) + <g, v - w>`` with g the gradient of the mixture, and the right
    side, the Frank–Wolfe gap's, is least at ``v = -R g/‖g‖``.
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

    Rounding of a risk by ε moves the closed form by ε/μ_λ. This update reads gradients along a
    short step instead, and any pair is allowed in the certificate.
    """
    hessian = objective.hessian(at)
    # no step along what is flat but for rounding
    hessian[np.diag_indices_from(hessian)] += np.finfo(float).eps * np.trace(hessian)
    target = minimise_quadratic_on_ball(
        hessian, hessian @ at.weights - at.gradient, objective.radius, objective.mu_weights
    )
    along = at.group_gradients @ (target - at.weights)
    growth = 1.0 + (along - at.group_weights @ along) / objective.mu_groups
    group_weights = at.group_weights * np.maximum(growth, 0.0)
    return target, group_weights / group_weights.sum()
