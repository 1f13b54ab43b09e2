"""The exact non-private minimax optimum of a loss with kinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses import Loss, LossConstants, SmoothedLoss
from sklearn_dpwg.optimum.objective import RegularisedObjective, SaddlePoint, project_to_ball
from sklearn_dpwg.optimum.saddle_point import newton
from sklearn_dpwg.risks import RiskFunctions, Risks

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

    The gap is a bound on ``max_i L_i(w) - min_v Σ λ_i L_i(v)`` over the ball; the loss has
    ``smoothed``.

    Stage by stage the kinks are replaced by parabolas of a smaller width h, each stage is solved by
    Newton's method, and the line through the last two solutions predicts the next, and at h = 0 the
    optimum. Widths shrink faster where that works and more slowly where Newton's method then needs
    many steps. The certificate is about the loss with its kinks and holds for whatever the stages
    return, as lines of the stand-in's slopes lie nowhere above the loss (`SmoothedLoss`):
    docs/theory/saddle-point.md, Theorem 5. (Y. Nesterov 2005, Smooth minimization of non-smooth
    functions, for smoothing)
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
        objective = RegularisedObjective(
            risks.with_loss(stand_in), radius, prior, mu_weights, STRENGTH * width, center
        )
        at_most = 15 if len(path) > 1 and factor > 1.3 else 50
        stage_tolerance = max(tolerance / 4, 1e-3 * STRENGTH * width)
        at, taken = newton(
            objective,
            _predict(path, width, radius, center),
            stage_tolerance,
            min(at_most, max_newton_steps - n_steps),
        )
        n_steps += taken
        lines = risks.with_loss(_Lines(stand_in))
        value = _bound_below(lines, at.weights, at.group_weights, radius)
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


def _bound_below(
    lines: RiskFunctions, weights: FloatArray, mixture: FloatArray, radius: float
) -> float:
    values, gradients = lines.risks_and_gradients(weights)
    slope = mixture @ gradients
    return float(mixture @ values - slope @ weights - radius * np.linalg.norm(slope))


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
