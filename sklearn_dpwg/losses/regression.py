"""Half squared error of a bounded target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, inside, positive
from sklearn_dpwg.losses.base import KinkedLoss, Loss, LossConstants, Task, gradient_diameter


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


# Huber's loss of a bounded target.


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


# Absolute error of a bounded target.


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


# Quantile loss of a bounded target.


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
