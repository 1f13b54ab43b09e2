"""Absolute error of a bounded target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import Rules, positive
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses.base import LossConstants, Task
from sklearn_dpwg.losses.kinked_loss import KinkedLoss


@dataclass(frozen=True)
class AbsoluteError(KinkedLoss):
    """Absolute error ``|a - y|`` of a score a and a target y in [-Y, Y].

    For ``|a| <= r``: the slope is -1, 0 or 1, so L = 1; the value lies in [0, r + Y], both
    reached. Γ = 2L = 2 and no less: at w = 0 the records (x, -Y) and (-x, -Y) have the gradients x
    and -x.
    """

    target_bound: float = 1.0  # the bound Y on the absolute value of the target; positive
    name: ClassVar[str] = "absolute_error"
    task: ClassVar[Task] = "regression"
    kernel: ClassVar[str | None] = "absolute_error"
    rules: ClassVar[Rules] = Rules("AbsoluteError", target_bound=positive())

    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -1 and 1."""
        return np.full_like(targets, -1.0), np.ones_like(targets)

    def constants(self, score_bound: float) -> LossConstants:
        return LossConstants(
            score_bound=score_bound,
            lipschitz=1.0,
            infimum=0.0,
            supremum=score_bound + self.target_bound,
            zero_score=self.target_bound,
            smoothness=np.inf,
            gradient_diameter=2.0,
        )
