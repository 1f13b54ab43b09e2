"""Quantile loss of a bounded target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import Rules, inside, positive
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses.base import LossConstants, Task
from sklearn_dpwg.losses.kinked_loss import KinkedLoss


@dataclass(frozen=True)
class Quantile(KinkedLoss):
    """Quantile (pinball) loss: ``level (y - a)`` below the target, ``(1 - level)(a - y)`` above.

    For ``|a| <= r``: the slope is -level, 0 or 1 - level, so L is the larger of level and
    1 - level; the value lies in [0, L (r + Y)], both reached. Γ = 2L and no less: at w = 0 the
    records (x, ∓Y) and (-x, ∓Y) have gradients of opposite signs and norm 1 - level (level).
    """

    # the quantile to predict, between 0 and 1; 0.5, the median, is half the absolute error. Its
    # constants, and with them the noise, are the smallest
    level: float = 0.5
    target_bound: float = 1.0  # the bound Y on the absolute value of the target; positive
    name: ClassVar[str] = "quantile"
    task: ClassVar[Task] = "regression"
    kernel: ClassVar[str | None] = "quantile"
    rules: ClassVar[Rules] = Rules("Quantile", level=inside(0.0, 1.0), target_bound=positive())

    @property
    def kernel_parameter(self) -> float:
        """The level."""
        return self.level

    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -level and 1 - level."""
        return np.full_like(targets, -self.level), np.full_like(targets, 1.0 - self.level)

    def constants(self, score_bound: float) -> LossConstants:
        lipschitz = max(self.level, 1.0 - self.level)
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=0.0,
            supremum=lipschitz * (score_bound + self.target_bound),
            zero_score=lipschitz * self.target_bound,
            smoothness=np.inf,
            gradient_diameter=2.0 * lipschitz,
        )
