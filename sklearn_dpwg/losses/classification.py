"""Losses of two and of more classes; docs/theory/losses.md proves their constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp, softmax

from sklearn_dpwg._checks import FloatArray, Rules, above, positive, whole
from sklearn_dpwg.losses.base import (
    CutLine,
    KinkedLoss,
    Loss,
    LossConstants,
    Task,
    constants_at_the_ends,
)

# Slopes that `solver="auto"` counts at most: 0.8 to 0.9 do equally well.
BOUNDED_SLOPE = 0.85


@dataclass(frozen=True)
class BinaryLogLoss(Loss):
    """Logistic loss ``log(1 + exp(-y a))`` of a score a and a target y in {-1, 1}.

    With margin ``m = y a`` the loss is logistic down to ``m_c = log((1-c)/c)``, where its slope is
    -c, and ``c (m_c - m) - log(1-c)`` below; for c = 1 it is logistic everywhere. The derivative in
    the score is ``-y f(-m)`` with ``f(t) = min(expit(t), c)``. As f does not fall, for
    ``|a| <= r``: L = f(r), the value lies between that of m = r and that of m = -r (for c = 1
    exactly r apart), and H = 1/4. The gradient in the weights is ``u f(<w, u>)`` with ``u = -y x``
    in the unit ball, and f is 1/4-Lipschitz.
    """

    # a slope c above 1/2, at most 1. Where the logistic loss is steeper, this one goes on as a line
    # of slope c, so that records far on the wrong side move a gradient less
    largest_slope: float = 1.0
    name: ClassVar[str] = "log_loss"
    task: ClassVar[Task] = "binary"
    kernel: ClassVar[str | None] = "binary_log"
    kernel_field: ClassVar[str | None] = "largest_slope"
    rules: ClassVar[Rules] = Rules("BinaryLogLoss", largest_slope=above(0.5, most=1.0))

    @property
    def edge(self) -> float:
        """The margin m_c below which the loss is a line."""
        slope = self.kernel_parameter
        return -math.inf if slope == 1.0 else math.log((1.0 - slope) / slope)

    def with_bounded_slope(self) -> BinaryLogLoss:
        return replace(self, largest_slope=min(self.largest_slope, BOUNDED_SLOPE))

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        largest, edge = self.kernel_parameter, self.edge
        margin = targets * scores
        held = np.maximum(margin, edge)
        slope = np.minimum(expit(-held), largest)
        # of infinite margins, which are above the edge, and of very large ones
        with np.errstate(invalid="ignore", under="ignore"):
            line = np.where(margin < edge, largest * (edge - margin), 0.0)
            return np.logaddexp(0.0, -held) + line, -targets * slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        curvature = expit(scores) * expit(-scores)
        return np.asarray(np.where(targets * scores > self.edge, curvature, 0.0))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probability of each class, ``expit(-a)`` and ``expit(a)``, (n_records, 2)."""
        return np.column_stack([expit(-scores), expit(scores)])

    def constants(self, score_bound: float) -> LossConstants:
        largest = self.kernel_parameter
        return constants_at_the_ends(
            self,
            score_bound,
            lipschitz=min(float(expit(score_bound)), largest),
            smoothness=0.25,
            derivative=_LogSlope(largest),
        )


@dataclass(frozen=True)
class _LogSlope:
    """The function f of the class notes, as a key of the cache."""

    largest_slope: float

    def __call__(self, score: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(expit(score), self.largest_slope))


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
        return np.minimum(-targets, 0.0), np.maximum(-targets, 0.0)

    def constants(self, score_bound: float) -> LossConstants:
        return constants_at_the_ends(self, score_bound)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """Hinge loss of the margin ``m = y a``, smooth between ``1 - width`` and 1.

    It is 0 for m >= 1, ``(1 - m)²/(2 width)`` down to ``m = 1 - width``, and
    ``1 - m - width/2`` below.

    The derivative in the score is ``-y f(-m)`` with ``f(t) = min(1, max(0, 1+t)/width)``. As f does
    not fall, for ``|a| <= r``: L = f(r), the value lies between that of m = r and that of m = -r,
    and H = 1/width. The gradient in the weights is ``u f(<w, u>)`` with ``u = -y x`` in the unit
    ball, and f is 1/width-Lipschitz. But f is 1 from width - 1 on, so where width - 1 <= r two rows
    with that score, opposite across w, have gradients ``2 √(1 - ((width-1)/r)²)`` apart (2 at w = 0
    where width <= 1). For width - 1 <= r/8 that is more than 0.99 · 2, and Γ = 2L = 2 is stated
    without a search. (Shalev-Shwartz and Zhang 2013, section 5; width 1 is Rennie's smooth hinge)
    """

    # width of the parabola, in units of the decision value; positive. benchmarks/loss_defaults.py:
    # narrower ones mean shorter steps, and one of 2 or more is a squared error for most records
    width: float = 0.5
    name: ClassVar[str] = "smoothed_hinge"
    task: ClassVar[Task] = "binary"
    kernel: ClassVar[str | None] = "smoothed_hinge"
    kernel_field: ClassVar[str | None] = "width"
    rules: ClassVar[Rules] = Rules("SmoothedHinge", width=positive())

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        missing = np.maximum(1.0 - targets * scores, 0.0)
        slope = np.minimum(missing / self.width, 1.0)
        # slope · (missing - slope · width/2) is the parabola, and the line from slope 1 on
        return slope * (missing - 0.5 * self.width * slope), -targets * slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        missing = 1.0 - targets * scores
        inside = (missing > 0.0) & (missing < self.width)
        return np.where(inside, 1.0 / self.width, 0.0)

    def constants(self, score_bound: float) -> LossConstants:
        is_near = self.width - 1.0 <= score_bound / 8.0
        slope = None if is_near else CutLine(1.0, self.width, 0.0, 1.0)
        return constants_at_the_ends(
            self, score_bound, smoothness=1.0 / self.width, derivative=slope
        )


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """Squared hinge loss ``max(0, 1 - y a)²`` of a score a and a target y in {-1, 1}.

    The derivative in the score is ``-y f(-y a)`` with ``f(t) = 2 max(0, 1+t)``. As f does not
    fall, for ``|a| <= r``: L = f(r) = 2(1+r), the value lies in [max(0, 1-r)², (1+r)²], and H = 2.
    The gradient in the weights is ``u f(<w, u>)`` with ``u = -y x`` in the unit ball, and f is
    2-Lipschitz.
    """

    name: ClassVar[str] = "squared_hinge"
    task: ClassVar[Task] = "binary"
    kernel: ClassVar[str | None] = "squared_hinge"

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        missing = np.maximum(1.0 - targets * scores, 0.0)
        return missing * missing, -2.0 * targets * missing

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        return np.where(targets * scores < 1.0, 2.0, 0.0)

    def constants(self, score_bound: float) -> LossConstants:
        slope = CutLine(1.0, 0.5, low=0.0)
        return constants_at_the_ends(self, score_bound, smoothness=2.0, derivative=slope)


# The supremum is searched at so many points; it comes out too large by at most 0.01 % of r.
_ARC_POINTS = 4096 + 1


@dataclass(frozen=True)
class MultinomialLogLoss(Loss):
    """Cross-entropy of the softmax of k scores; targets are class indices 0..k-1.

    The derivative is p - e_y with p the softmax. For scores of norm at most r:

    - By convexity and symmetry in the other k - 1 scores the least value spreads them evenly:
      ``log(1 + (k-1) e^{-r √(k/(k-1))})``. So no p_j exceeds ``M = exp(-infimum)``.
    - The largest value is reached on an arc between two directions, see `_supremum`; no p_y is
      below ``exp(-supremum)``. For k = 2 it is ``log(1 + e^{√2 r})``.
    - ``‖p - e_y‖² = (1-p_y)² + Σ p_j²`` over the others, at most ``s² + s min(s, M)`` with
      ``s = 1 - p_y <= S = 1 - exp(-supremum)``: L = √(S (S + min(S, M))).
    - The second derivative diag(p) - ppᵀ is at most diag(p), so H <= M; and it is the variance of
      entries of a unit vector, which lie in an interval of length √2, so H <= 1/2.
    - Γ = 2L.
    """

    n_outputs: int  # number of classes k, at least 2
    name: ClassVar[str] = "log_loss"
    task: ClassVar[Task] = "multiclass"
    kernel: ClassVar[str | None] = "multinomial_log"
    rules: ClassVar[Rules] = Rules("MultinomialLogLoss", n_outputs=whole(2))

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        label = targets.astype(np.intp)[:, None]
        normaliser = logsumexp(scores, axis=1, keepdims=True)
        values = (normaliser - np.take_along_axis(scores, label, axis=1))[:, 0]
        derivatives = np.exp(scores - normaliser)
        one_less = np.take_along_axis(derivatives, label, axis=1) - 1.0
        np.put_along_axis(derivatives, label, one_less, axis=1)
        return values, derivatives

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        probability = softmax(scores, axis=1)
        curvature = -probability[:, :, None] * probability[:, None, :]
        diagonal = np.arange(self.n_outputs)
        curvature[:, diagonal, diagonal] += probability
        return curvature

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probability of each class, (n_records, n_outputs)."""
        return np.asarray(softmax(scores, axis=1))

    def constants(self, score_bound: float) -> LossConstants:
        k = self.n_outputs
        best = math.log(k - 1) - score_bound * math.sqrt(k / (k - 1))
        infimum = float(np.logaddexp(0.0, best))
        supremum = _supremum(k, score_bound)
        likeliest = math.exp(-infimum)
        missed = -math.expm1(-supremum)
        lipschitz = math.sqrt(missed * (missed + min(missed, likeliest)))
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=infimum,
            supremum=supremum,
            zero_score=math.log(k),
            smoothness=min(0.5, likeliest),
            gradient_diameter=2.0 * lipschitz,
        )


def _supremum(n_classes: int, score_bound: float) -> float:
    """Return the largest loss for scores of norm at most r, or a little more.

    The loss ``log Σ e^{a_j} - a_y`` is convex, so it is largest on the sphere, at a point with
    ``∇ = ν a``, ν > 0: ``a_j = p_j/ν > 0`` for j other than y, and the scores sum to 0. If two of
    them are equal, ``e_i - e_j`` is tangent to the sphere, and as the curvature along it,
    2 p_i, cannot exceed 2 ν there, both are at most 1. As ``e^a/a`` takes a value at most
    twice, once on each side of 1, all but at most one of the others are equal, and the one is
    larger. Such points, of norm r, are an arc: from the direction where all others are equal to
    that where all but one are 0. The loss changes along it by at most √2 r times the angle.
    """
    at_most = float(np.logaddexp(0.0, math.log(n_classes - 1) + math.sqrt(2.0) * score_bound))
    if n_classes == 2:
        return at_most
    length = math.acos(math.sqrt(n_classes / (2.0 * (n_classes - 1.0))))
    angle = np.linspace(0.0, length, _ARC_POINTS)[:, None]
    # the target's score, the one larger score, each of the others
    one = np.array([-1.0, 1.0, 0.0]) / math.sqrt(2.0)
    rest = n_classes - 2.0
    even = np.array([-1.0 - rest, 1.0, 1.0]) / math.sqrt(n_classes * (n_classes - 1.0))
    side = even - (even[:2] @ one[:2]) * one
    side /= math.sqrt(side[0] ** 2 + side[1] ** 2 + rest * side[2] ** 2)
    scores = score_bound * (np.cos(angle) * one + np.sin(angle) * side)
    values = logsumexp(scores - scores[:, :1], axis=1, b=[1.0, 1.0, rest])
    slack = math.sqrt(2.0) * score_bound * length / (2.0 * (_ARC_POINTS - 1))
    return min(at_most, float(values.max()) + slack)
