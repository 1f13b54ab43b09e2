"""Logistic loss of three or more classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, softmax

from sklearn_dpwg._checks import Rules, whole
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses.base import Loss, LossConstants, Task

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
        """Return ``logsumexp(a) - a_y`` and ``softmax(a) - e_y``."""
        label = targets.astype(np.intp)[:, None]
        normaliser = logsumexp(scores, axis=1, keepdims=True)
        values = (normaliser - np.take_along_axis(scores, label, axis=1))[:, 0]
        derivatives = np.exp(scores - normaliser)
        one_less = np.take_along_axis(derivatives, label, axis=1) - 1.0
        np.put_along_axis(derivatives, label, one_less, axis=1)
        return values, derivatives

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return ``diag(p) - p pᵀ`` with p the softmax."""
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
