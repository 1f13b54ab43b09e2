"""Losses of bounded targets; docs/theory/losses.md proves their constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, inside, positive
from sklearn_dpwg.losses.base import (
    CutLine,
    KinkedLoss,
    Loss,
    LossConstants,
    Task,
    constants_at_the_ends,
)


class _ParabolicResidual(Loss):
    """Half squared error of a residual ``e = a - y``, continued as a line beyond a threshold κ.

    The derivative is ``ψ(e)``, the residual cut to [-κ, κ]. For targets in [-Y, Y]: L = ψ(r + Y),
    H = 1, the value lies between 0 and that of ``e = r + Y``, and an extreme gradient is
    ``u f(<w, u>)`` with ``f(a) = ψ(a + Y)`` (docs/theory/losses.md).
    """

    task: ClassVar[Task] = "regression"
    target_bound: float
    threshold: float

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        residual = scores - targets
        slope = np.clip(residual, -self.threshold, self.threshold)
        return slope * (residual - 0.5 * slope), slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        return np.where(np.abs(scores - targets) < self.threshold, 1.0, 0.0)

    def ends(self, targets: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        reach = np.where(limits < self.threshold, limits, np.inf)
        return targets - reach, targets + reach

    def constants(self, score_bound: float) -> LossConstants:
        is_near = self.threshold - self.target_bound <= score_bound / 8.0
        slope = CutLine(self.target_bound, low=-self.threshold, high=self.threshold)
        return constants_at_the_ends(
            self, score_bound, smoothness=1.0, derivative=None if is_near else slope
        )


@dataclass(frozen=True)
class SquaredError(_ParabolicResidual):
    """Half squared error ``(a - y)²/2`` of a score a and a target y in [-Y, Y]."""

    target_bound: float = 1.0  # the bound Y on the absolute value of the target; positive
    name: ClassVar[str] = "squared_error"
    rules: ClassVar[Rules] = Rules("SquaredError", target_bound=positive())
    threshold: ClassVar[float] = math.inf  # type: ignore[misc]


@dataclass(frozen=True)
class Huber(_ParabolicResidual):
    """Half squared error of small residuals, absolute error of large ones.

    For the residual ``e = a - y`` it is ``e²/2`` up to ``|e| = threshold`` and
    ``threshold (|e| - threshold/2)`` beyond. Γ is 2L without a search where ``threshold - Y`` is at
    most r/8.
    """

    # where the loss turns linear, in units of the target; positive. The regressor maps
    # `target_bounds` to [-1, 1], so its unit is half their distance (benchmarks/loss_defaults.py)
    threshold: float = 0.25
    target_bound: float = 1.0  # the bound Y on the absolute value of the target
    name: ClassVar[str] = "huber"
    rules: ClassVar[Rules] = Rules("Huber", threshold=positive(), target_bound=positive())


@dataclass(frozen=True)
class AbsoluteError(KinkedLoss):
    """Absolute error ``|a - y|`` of a score a and a target y in [-Y, Y].

    L = 1, the value lies in [0, r + Y], and Γ = 2.
    """

    target_bound: float = 1.0  # the bound Y on the absolute value of the target; positive
    name: ClassVar[str] = "absolute_error"
    task: ClassVar[Task] = "regression"
    rules: ClassVar[Rules] = Rules("AbsoluteError", target_bound=positive())

    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.full_like(targets, -1.0), np.ones_like(targets)


@dataclass(frozen=True)
class Quantile(KinkedLoss):
    """Quantile (pinball) loss: ``level (y - a)`` below the target, ``(1 - level)(a - y)`` above.

    L is the larger of level and 1 - level, the value lies in [0, L (r + Y)], and Γ = 2L.
    """

    # the quantile to predict, between 0 and 1; 0.5, the median, is half the absolute error. Its
    # constants, and with them the noise, are the smallest
    level: float = 0.5
    target_bound: float = 1.0  # the bound Y on the absolute value of the target; positive
    name: ClassVar[str] = "quantile"
    task: ClassVar[Task] = "regression"
    rules: ClassVar[Rules] = Rules("Quantile", level=inside(0.0, 1.0), target_bound=positive())

    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.full_like(targets, -self.level), np.full_like(targets, 1.0 - self.level)
