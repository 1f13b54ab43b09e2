"""Squared hinge loss of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses._gradient_diameter import gradient_diameter
from sklearn_dpwg.losses.base import Loss, LossConstants, Task


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """Squared hinge loss ``max(0, 1 - y a)²`` of a score a and a target y in {-1, 1}.

    The derivative in the score is ``-y f(-y a)`` with ``f(t) = 2 max(0, 1+t)``. As f does not
    fall, for ``|a| <= r``: L = f(r) = 2(1+r), the value lies in [max(0, 1-r)², (1+r)²], and H = 2.

    The gradient in the weights is ``u f(<w, u>)`` with ``u = -y x`` in the unit ball, and f is
    2-Lipschitz, which is what :func:`gradient_diameter` needs.
    """

    name: ClassVar[str] = "squared_hinge"
    task: ClassVar[Task] = "binary"
    kernel: ClassVar[str | None] = "squared_hinge"

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``max(0, 1 - y a)²`` and ``-2 y max(0, 1 - y a)``."""
        missing = np.maximum(1.0 - targets * scores, 0.0)
        return missing * missing, -2.0 * targets * missing

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return 2 where the margin is missed and 0 elsewhere."""
        return np.where(targets * scores < 1.0, 2.0, 0.0)

    def constants(self, score_bound: float) -> LossConstants:
        lipschitz = 2.0 * (1.0 + score_bound)
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=max(0.0, 1.0 - score_bound) ** 2,
            supremum=(1.0 + score_bound) ** 2,
            zero_score=1.0,
            smoothness=2.0,
            gradient_diameter=min(
                2.0 * lipschitz, gradient_diameter(_slope, score_bound, derivative_slope=2.0)
            ),
        )


def _slope(score: FloatArray) -> FloatArray:
    """Return the function f of the class notes."""
    return 2.0 * np.maximum(1.0 + score, 0.0)
