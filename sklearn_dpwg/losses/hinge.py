"""Hinge loss of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses.base import LossConstants, Task
from sklearn_dpwg.losses.kinked_loss import KinkedLoss


@dataclass(frozen=True)
class Hinge(KinkedLoss):
    """Hinge loss ``max(0, 1 - y a)`` of a score a and a target y in {-1, 1}.

    As y = ±1, ``1 - y a = -y (a - y)``: the kink is where the score meets the target. For
    ``|a| <= r``: the slope is -y or 0, so L = 1, reached at a = 0; the value lies in
    [max(0, 1-r), 1+r], both reached. Γ = 2L = 2 and no less: at w = 0 the rows x and -x of the
    same class have the gradients -y x and y x.
    """

    name: ClassVar[str] = "hinge"
    task: ClassVar[Task] = "binary"
    kernel: ClassVar[str | None] = "hinge"

    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return 0 where the margin is kept and -y where it is not."""
        return np.minimum(-targets, 0.0), np.maximum(-targets, 0.0)

    def constants(self, score_bound: float) -> LossConstants:
        return LossConstants(
            score_bound=score_bound,
            lipschitz=1.0,
            infimum=max(0.0, 1.0 - score_bound),
            supremum=1.0 + score_bound,
            zero_score=1.0,
            smoothness=np.inf,
            gradient_diameter=2.0,
        )
