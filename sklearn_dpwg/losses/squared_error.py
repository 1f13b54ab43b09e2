"""Half squared error of a bounded target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import Rules, positive
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses._gradient_diameter import gradient_diameter
from sklearn_dpwg.losses.base import Loss, LossConstants, Task


@dataclass(frozen=True)
class SquaredError(Loss):
    """Half squared error ``(a - y)²/2`` of a score a and a target y in [-Y, Y].

    For ``|a| <= r``: L = r + Y, the value lies in [0, (r+Y)²/2], H = 1.

    The gradient (a - y)x is affine in y, so the diameter is attained at y = -Y or Y; it is the
    same for (x, y) and (-x, -y), so every such gradient is ``u (<w, u> + Y)`` for a u in the
    unit ball, which is what :func:`gradient_diameter` needs.
    """

    target_bound: float = 1.0  # the bound Y on the absolute value of the target; positive
    name: ClassVar[str] = "squared_error"
    task: ClassVar[Task] = "regression"
    kernel: ClassVar[str | None] = "squared_error"
    rules: ClassVar[Rules] = Rules("SquaredError", target_bound=positive())

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``(a - y)²/2`` and ``a - y``."""
        residual = scores - targets
        return 0.5 * residual * residual, residual

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return ones."""
        return np.ones_like(scores)

    def constants(self, score_bound: float) -> LossConstants:
        lipschitz = score_bound + self.target_bound
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=0.0,
            supremum=0.5 * lipschitz * lipschitz,
            zero_score=0.5 * self.target_bound**2,
            smoothness=1.0,
            gradient_diameter=min(
                2.0 * lipschitz,
                gradient_diameter(
                    _ShiftedScore(self.target_bound), score_bound, derivative_slope=1.0
                ),
            ),
        )


@dataclass(frozen=True)
class _ShiftedScore:
    """The derivative as a function of the score; equal bounds are equal keys of the cache."""

    target_bound: float

    def __call__(self, score: FloatArray) -> FloatArray:
        return score + self.target_bound
