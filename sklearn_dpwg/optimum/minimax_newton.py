"""Newton's method for the largest of several group risks."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.minimax_step import minimax_step
from sklearn_dpwg.optimum.objective import SaddlePoint
from sklearn_dpwg.risks import RiskFunctions

# Steps that leave more of the gap than this ask for a new Hessian, and, where the Hessian was
# new, steps that leave more than that ask for one of all records.
RENEW, DISTRUST = 0.3, 0.5


def minimax_newton(
    risks: RiskFunctions,
    weights: FloatArray,
    mixture: FloatArray,
    *,
    radius: float,
    tolerance: float,
    max_steps: int,
    curvature: RiskFunctions | None = None,
    enough: float = 0.0,
) -> SaddlePoint:
    """Minimise the largest group risk over a ball by steps to the minimum of a model of it.

    Risks are smooth, and `curvature` (all records, or a sample) gives Hessians for as long as that
    serves. Where the next step promises to lower the largest risk by no more than `enough`, that
    step is taken unseen, and the gap is infinite; else the pair with the smallest gap is returned.

    A Hessian is kept, and taught the change of gradient along each step (BFGS), for as long as the
    gap falls quickly: docs/theory/saddle-point.md. (J. Nocedal and S. J. Wright 2006, Numerical
    Optimization, chapters 6 and 18)
    """
    source = risks if curvature is None else curvature
    mu_weights = tolerance / (4.0 * radius**2)
    values, gradients = risks.risks_and_gradients(weights)
    gap = frank_wolfe_gap(weights, mixture, values, gradients, radius)
    best, n_steps = SaddlePoint(weights, mixture, gap, 0), 0
    hessian, is_new = None, False

    def height(values: FloatArray, weights: FloatArray) -> float:
        return float(values.max() + 0.5 * mu_weights * (weights @ weights))

    while best.gap > tolerance and n_steps < max_steps:
        if hessian is None:
            hessian, is_new = source.hessian(weights, mixture), True
        try:
            target, mixture = minimax_step(
                weights,
                values,
                gradients,
                hessian,
                radius=radius,
                mu_weights=mu_weights,
                tolerance=max(0.1 * tolerance, 1e-2 * enough),
            )
        except LinAlgError:  # rounding has the last word
            break
        n_steps += 1
        direction = target - weights
        now = height(values, weights)
        # what the groups' lines alone promise bounds the fall of the maximum along the segment
        slope = height(values + gradients @ direction, target) - now
        if -(slope + 0.5 * direction @ hessian @ direction) <= enough > 0.0:
            return SaddlePoint(target, mixture, np.inf, n_steps)
        length = 1.0
        while length > 1e-4:
            new = weights + length * direction
            new_values, new_gradients = risks.risks_and_gradients(new)
            new_gap = frank_wolfe_gap(new, mixture, new_values, new_gradients, radius)
            if new_gap < best.gap:
                best = SaddlePoint(new, mixture, new_gap, 0)
            rise = height(new_values, new) - now
            # next to the optimum the risks no longer show progress, the gap does
            unseen = rise <= 1e-3 * tolerance + 1e-12 * abs(now) and new_gap <= 0.5 * gap
            if rise <= 1e-4 * length * slope or unseen or new_gap <= tolerance:
                break
            length /= 4.0
        else:
            if is_new and source is risks:
                break
            source, hessian = risks if is_new else source, None
            continue
        hessian = _bfgs_update(hessian, new - weights, mixture @ (new_gradients - gradients))
        if new_gap > RENEW * gap and (source is risks or not is_new):
            hessian = None
        elif new_gap > DISTRUST * gap:
            source, hessian = risks, None
        weights, values, gradients, gap, is_new = new, new_values, new_gradients, new_gap, False
    return SaddlePoint(best.weights, best.group_weights, best.gap, n_steps)


def frank_wolfe_gap(
    weights: FloatArray,
    mixture: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    radius: float,
) -> float:
    """Bound how far weights w and a mixture λ of groups are from optimal, both together.

    With g the gradient of the mixture it is ``max_i L_i(w) - Σ λ_i L_i(w) + <g, w> + R ‖g‖``, at
    least ``max_i L_i(w) - min_v Σ λ_i L_i(v)``, and not negative.
    """
    slope = mixture @ gradients
    over_mixture = values.max() - mixture @ values
    return max(float(over_mixture + slope @ weights + radius * np.linalg.norm(slope)), 0.0)


def _bfgs_update(hessian: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Return the BFGS update, which maps a step to the change of gradient along it."""
    image = hessian @ step
    modelled, seen = float(step @ image), float(step @ change)
    # a loss that is flat along the step, or rounding, teaches nothing
    if not min(modelled, seen) > 1e-8 * max(modelled, seen):
        return hessian
    return hessian - np.outer(image, image / modelled) + np.outer(change, change / seen)
