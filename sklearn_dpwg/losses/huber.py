"""Huber's loss of a bounded target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import Rules, positive
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses._gradient_diameter import gradient_diameter
from sklearn_dpwg.losses.base import Loss, LossConstants, Task


@dataclass(frozen=True)
class Huber(Loss):
    """Half squared error of small residuals, absolute error of large ones.

    For the residual ``e = a - y`` it is ``e²/2`` up to ``|e| = threshold`` and
    ``threshold (|e| - threshold/2)`` beyond.

    The derivative is ``ψ(a - y)`` with ``ψ(e)`` the residual cut to [-κ, κ], κ the threshold. For
    ``|a| <= r``: L = ψ(r + Y), the value lies between 0 and that of ``e = r + Y``, and H = 1.

    For given w and x the gradient ``ψ(a - y) x`` is affine in ψ, which lies between its values at
    y = ±Y, so the norm of a difference is largest at one of these for either record. As ψ is odd,
    (x, y) and (-x, -y) have the same gradient. So every gradient that matters is
    ``u f(<w, u>)`` with ``f(a) = ψ(a + Y)``, which is 1-Lipschitz: :func:`gradient_diameter`
    applies. But f is κ from a = κ - Y on, so where κ - Y <= r two rows with that score, opposite
    across w, have gradients ``2κ √(1 - ((κ-Y)/r)²)`` apart (2κ at w = 0 where κ <= Y). For
    κ - Y <= r/8 that is more than 0.99 · 2κ, and Γ = 2L is stated without a search.

    ``benchmarks/loss_defaults.py`` found the default: on two data sets thresholds of 0.25 and 0.5
    give the smallest absolute error in the worst-off group, within the spread of the seeds of each
    other, and smaller and larger ones, squared error among them, a larger one.
    """

    # where the loss turns linear, in units of the target; positive. The regressor maps
    # `target_bounds` to [-1, 1], so its unit is half their distance
    threshold: float = 0.25
    target_bound: float = 1.0  # the bound Y on the absolute value of the target
    name: ClassVar[str] = "huber"
    task: ClassVar[Task] = "regression"
    kernel: ClassVar[str | None] = "huber"
    rules: ClassVar[Rules] = Rules("Huber", threshold=positive(), target_bound=positive())

    @property
    def kernel_parameter(self) -> float:
        """The threshold."""
        return self.threshold

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the loss and the residual cut to the threshold."""
        residual = scores - targets
        slope = np.clip(residual, -self.threshold, self.threshold)
        return slope * (residual - 0.5 * slope), slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return 1 up to the threshold and 0 beyond."""
        return np.where(np.abs(scores - targets) < self.threshold, 1.0, 0.0)

    def constants(self, score_bound: float) -> LossConstants:
        residuals = np.array([self.target_bound, score_bound + self.target_bound])
        zero, highest = self.value(residuals, np.zeros(2)).tolist()
        lipschitz = min(score_bound + self.target_bound, self.threshold)
        diameter = 2.0 * lipschitz
        if self.threshold - self.target_bound > score_bound / 8.0:
            searched = gradient_diameter(
                _Slope(self.threshold, self.target_bound), score_bound, derivative_slope=1.0
            )
            diameter = min(diameter, searched)
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=0.0,
            supremum=highest,
            zero_score=zero,
            smoothness=1.0,
            gradient_diameter=diameter,
        )


@dataclass(frozen=True)
class _Slope:
    """The function f of the class notes."""

    threshold: float
    target_bound: float

    def __call__(self, score: FloatArray) -> FloatArray:
        return np.clip(score + self.target_bound, -self.threshold, self.threshold)
