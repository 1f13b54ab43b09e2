"""Logistic loss of two classes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import expit

from sklearn_dpwg._checks import Rules, above
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses._gradient_diameter import gradient_diameter
from sklearn_dpwg.losses.base import Loss, LossConstants, Task

# Slopes that `solver="auto"` counts at most: 0.8 to 0.9 do equally well on six data sets
# (benchmarks/mgr_defaults.py).
BOUNDED_SLOPE = 0.85


@dataclass(frozen=True)
class BinaryLogLoss(Loss):
    """Logistic loss ``log(1 + exp(-y a))`` of a score a and a target y in {-1, 1}.

    With margin ``m = y a`` the loss is logistic down to ``m_c = log((1-c)/c)``, where its slope is
    -c, and ``c (m_c - m) - log(1-c)`` below; for c = 1 it is logistic everywhere. The derivative in
    the score is ``-y f(-m)`` with ``f(t) = min(expit(t), c)``. As f does not fall, for
    ``|a| <= r``: L = f(r), the value lies between that of m = r and that of m = -r (for c = 1
    exactly r apart), and H = 1/4.

    The gradient in the weights is ``u f(<w, u>)`` with ``u = -y x`` in the unit ball, and f is
    1/4-Lipschitz, which is what :func:`gradient_diameter` needs.
    """

    # a slope c above 1/2, at most 1. Where the logistic loss is steeper, this one goes on as a line
    # of slope c, so that records far on the wrong side move a gradient less
    largest_slope: float = 1.0
    name: ClassVar[str] = "log_loss"
    task: ClassVar[Task] = "binary"
    kernel: ClassVar[str | None] = "binary_log"
    rules: ClassVar[Rules] = Rules("BinaryLogLoss", largest_slope=above(0.5, most=1.0))

    @property
    def kernel_parameter(self) -> float:
        """The largest slope."""
        return float(self.largest_slope)

    @property
    def edge(self) -> float:
        """The margin m_c below which the loss is a line."""
        slope = self.kernel_parameter
        return -math.inf if slope == 1.0 else math.log((1.0 - slope) / slope)

    def with_bounded_slope(self) -> BinaryLogLoss:
        """Return the loss with slopes up to 0.85, or fewer if it has fewer."""
        return replace(self, largest_slope=min(self.largest_slope, BOUNDED_SLOPE))

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the loss and ``-y min(expit(-y a), c)``."""
        largest, edge = self.kernel_parameter, self.edge
        margin = targets * scores
        held = np.maximum(margin, edge)
        slope = np.minimum(expit(-held), largest)
        with np.errstate(invalid="ignore"):  # of infinite margins, which are above the edge
            line = np.where(margin < edge, largest * (edge - margin), 0.0)
        return np.logaddexp(0.0, -held) + line, -targets * slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return ``expit(a) expit(-a)``, and 0 on the line."""
        curvature = expit(scores) * expit(-scores)
        return np.asarray(np.where(targets * scores > self.edge, curvature, 0.0))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probability of each class, ``expit(-a)`` and ``expit(a)``, (n_records, 2)."""
        return np.column_stack([expit(-scores), expit(scores)])

    def constants(self, score_bound: float) -> LossConstants:
        lipschitz = min(float(expit(score_bound)), float(self.largest_slope))
        lowest, highest = self.value(np.array([score_bound, -score_bound]), np.ones(2)).tolist()
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=lowest,
            supremum=highest,
            zero_score=float(np.log(2.0)),
            smoothness=0.25,
            gradient_diameter=min(
                2.0 * lipschitz,
                gradient_diameter(
                    _Slope(float(self.largest_slope)), score_bound, derivative_slope=0.25
                ),
            ),
        )


@dataclass(frozen=True)
class _Slope:
    """The function f of the class notes; equal slopes are equal keys of the cache."""

    largest_slope: float

    def __call__(self, score: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(expit(score), self.largest_slope))
