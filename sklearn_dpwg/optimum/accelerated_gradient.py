"""First-order method with a proved cap on its iterations, behind Newton's method."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import Evaluation, RegularisedObjective, project_to_ball


def iteration_cap(
    tolerance: float,
    *,
    radius: float,
    lipschitz: float,
    smoothness: float,
    mu_weights: float,
    mu_groups: float,
    center_norm: float = 0.0,
) -> int:
    """Return a number of accelerated steps that certifies the gap `tolerance` on every data set.

    It is ``⌈√κ log(8 κ D / tolerance)⌉ + 1`` with κ = S/μ_w, ``S = H + μ_w + L²/μ_λ`` and
    ``D = 2R (L + μ_w (R + ‖c‖))``, and at least 1; L and H are constants of the loss in the weights
    and c is the centre of the quadratic. L need not hold outside the ball, so the method is the
    variant of Nesterov's that never leaves it: docs/theory/saddle-point.md, Theorems 2 and 3.
    """
    smooth = smoothness + mu_weights + lipschitz**2 / mu_groups
    condition = smooth / mu_weights
    spread = 2.0 * radius * (lipschitz + mu_weights * (radius + center_norm))
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
    """Minimise a regularised objective by Nesterov's method, all of it inside the ball.

    The gap of the point returned is at most `tolerance`, unless floating point cannot show it; the
    steps are at most `iteration_cap`.
    """
    cap = iteration_cap(
        tolerance,
        radius=objective.radius,
        lipschitz=lipschitz,
        smoothness=smoothness,
        mu_weights=objective.mu_weights,
        mu_groups=objective.mu_groups,
        center_norm=float(np.linalg.norm(objective.center)),
    )
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
