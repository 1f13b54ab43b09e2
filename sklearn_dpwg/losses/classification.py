"""Losses of two and of more classes; docs/theory/losses.md proves their constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp, softmax

from sklearn_dpwg._checks import FloatArray, Rules, above, positive, whole
from sklearn_dpwg.exceptions import InputError
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


# Elementary functions by operations that IEEE 754 rounds alike everywhere: every machine finds the
# same bits of a record's loss. Each errs by less than 2.2 units of roundoff.

LN2_HIGH, LN2_LOW, INVERSE_LN2 = 0.693145751953125, 1.4286068203094172e-06, 1.4426950408889634
# R/s² of `log1p`, fitted at Chebyshev's nodes of [0, 1/9] to 2/3 + 2/5 s² + 2/7 s⁴ + ...
SERIES = (
    *(0.6666666666666666, 0.40000000000014585, 0.2857142856710876, 0.22222222717427864),
    *(0.18181789436132859, 0.15385570064958623, 0.13314144209654935, 0.12001072809590713),
    *(0.08800738486144674, 0.1616404561194353),
)
# r coth(r/2) - 2 over r², with Bernoulli numbers
BERNOULLI = (1 / 6, -1 / 360, 1 / 15120, -1 / 604800, 1 / 23950080, -691 / 653837184000)


def _polynomial(factors: tuple[float, ...], z: FloatArray) -> FloatArray:
    """Return ``factors[0] + factors[1] z + ...``, from the last to the first."""
    total = z * factors[-1]
    for factor in factors[-2:0:-1]:
        total += factor
        total *= z
    total += factors[0]
    return total


def exp(exponents: FloatArray) -> FloatArray:
    """Return the exponential of numbers of at most 0; below -708 that of -708.

    With ``R = r coth(r/2)``, a series in r², ``exp(r) = 1 + 2 r/(R - r)``.
    """
    rest = np.maximum(exponents, -708.0)
    halvings = np.rint(rest * -INVERSE_LN2)
    rest += halvings * LN2_HIGH
    rest += halvings * LN2_LOW
    z = rest * rest
    series = _polynomial(BERNOULLI, z)
    series *= z
    series += 2.0
    series -= rest
    rest *= 2.0
    rest /= series
    rest += 1.0
    with np.errstate(invalid="ignore"):  # of what is not a number, which stays so
        power = halvings.astype(np.int64)
    np.subtract(1023, power, out=power)
    power <<= 52
    rest *= power.view(np.float64)
    return rest


def log1p(values: FloatArray) -> FloatArray:
    """Return ``log(1 + x)`` of numbers from 0 to 1.

    With ``s = x/(2 + x)`` that is ``x - s (x - R)``, and R/s² a polynomial in s².
    """
    s = values + 2.0
    np.divide(values, s, out=s)
    z = s * s
    rest = _polynomial(SERIES, z)
    rest *= z
    np.subtract(values, rest, out=rest)
    rest *= s
    return np.subtract(values, rest, out=rest)


def log(values: FloatArray) -> FloatArray:
    """Return the logarithm of positive numbers."""
    fractions, powers = np.frexp(values)
    powers -= 1
    return powers * LN2_HIGH + (powers * LN2_LOW + log1p(2.0 * fractions - 1.0))


def ends_of_margins(targets: FloatArray, margins: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores whose margins are not below some."""
    low = np.where(targets > 0.0, margins, -np.inf)
    return low, np.where(targets > 0.0, np.inf, -margins)


@dataclass(frozen=True)
class BinaryLogLoss(Loss):
    """Logistic loss ``log(1 + exp(-y a))`` of a score a and a target y in {-1, 1}.

    With margin ``m = y a`` the loss is logistic down to ``m_c = log((1-c)/c)``, where its slope is
    -c, and ``c (m_c - m) - log(1-c)`` below. The derivative in the score is ``-y f(-m)`` with
    ``f(t) = min(expit(t), c)``: L = f(r), H = 1/4, and the value is between those of m = r and -r.
    """

    # a slope c above 1/2, at most 1. Where the logistic loss is steeper, this one goes on as a line
    # of slope c, so that records far on the wrong side move a gradient less
    largest_slope: float = 1.0
    name: ClassVar[str] = "log_loss"
    task: ClassVar[Task] = "binary"
    rules: ClassVar[Rules] = Rules("BinaryLogLoss", largest_slope=above(0.5, most=1.0))

    @property
    def edge(self) -> float:
        """The margin m_c below which the loss is a line."""
        slope = self.largest_slope
        return -math.inf if slope == 1.0 else math.log((1.0 - slope) / slope)

    def with_bounded_slope(self) -> BinaryLogLoss:
        return replace(self, largest_slope=min(self.largest_slope, BOUNDED_SLOPE))

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        margin = targets * scores
        held = np.maximum(margin, self.edge) if self.largest_slope < 1.0 else margin
        small = exp(-np.abs(held))
        with np.errstate(under="ignore"):  # of very large margins
            values = log1p(small)
        values -= np.minimum(held, 0.0)
        slopes = np.where(held > 0.0, small, 1.0)
        small += 1.0
        slopes /= small
        if self.largest_slope < 1.0:
            np.minimum(slopes, self.largest_slope, out=slopes)
            values += self.largest_slope * np.maximum(self.edge - margin, 0.0)
        slopes *= -targets
        return values, slopes

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        curvature = expit(scores) * expit(-scores)
        return np.asarray(np.where(targets * scores > self.edge, curvature, 0.0))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probability of each class, ``expit(-a)`` and ``expit(a)``, (n_records, 2)."""
        return np.column_stack([expit(-scores), expit(scores)])

    def ends(self, targets: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        is_steeper = limits < self.largest_slope
        odds = np.where(is_steeper, 1.0 / limits - 1.0, 1.0)
        return ends_of_margins(targets, np.where(is_steeper, log(odds), self.edge))

    def constants(self, score_bound: float) -> LossConstants:
        largest = self.largest_slope
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

    As y = ±1, ``1 - y a = -y (a - y)``: the kink is where the score meets the target. L = 1, the
    value lies in [max(0, 1-r), 1+r], and Γ = 2.
    """

    name: ClassVar[str] = "hinge"
    task: ClassVar[Task] = "binary"

    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.minimum(-targets, 0.0), np.maximum(-targets, 0.0)


class _ParabolicHinge(Loss):
    """A parabola of what is missing from a margin of 1, and a line from a slope on.

    The derivative in the score is ``-y f(-y a)`` with ``f(t) = min(max(0, 1+t)/width, steepest)``:
    L = f(r), H = 1/width, and the value is between those of the margins r and -r.
    """

    task: ClassVar[Task] = "binary"
    width: float
    steepest: ClassVar[float]

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        missing = np.maximum(1.0 - targets * scores, 0.0)
        slope = np.minimum(missing / self.width, self.steepest)
        return slope * (missing - 0.5 * self.width * slope), -targets * slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        missing = 1.0 - targets * scores
        inside = (missing > 0.0) & (missing < self.width * self.steepest)
        return np.where(inside, 1.0 / self.width, 0.0)

    def ends(self, targets: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        margins = np.where(limits < self.steepest, 1.0 - limits * self.width, -np.inf)
        return ends_of_margins(targets, margins)

    def constants(self, score_bound: float) -> LossConstants:
        is_near = self.width * self.steepest - 1.0 <= score_bound / 8.0
        slope = None if is_near else CutLine(1.0, self.width, 0.0, self.steepest)
        return constants_at_the_ends(
            self, score_bound, smoothness=1.0 / self.width, derivative=slope
        )


@dataclass(frozen=True)
class SmoothedHinge(_ParabolicHinge):
    """Hinge loss of the margin ``m = y a``, smooth between ``1 - width`` and 1.

    It is 0 for m >= 1, ``(1 - m)²/(2 width)`` down to ``m = 1 - width``, and
    ``1 - m - width/2`` below. Γ is 2 without a search where ``width - 1 <= r/8``.
    (Shalev-Shwartz and Zhang 2013, section 5; width 1 is Rennie's smooth hinge)
    """

    # width of the parabola, in units of the decision value; positive. benchmarks/loss_defaults.py:
    # narrower ones mean shorter steps, and one of 2 or more is a squared error for most records
    width: float = 0.5
    name: ClassVar[str] = "smoothed_hinge"
    rules: ClassVar[Rules] = Rules("SmoothedHinge", width=positive())
    steepest: ClassVar[float] = 1.0


@dataclass(frozen=True)
class SquaredHinge(_ParabolicHinge):
    """Squared hinge loss ``max(0, 1 - y a)²`` of a score a and a target y in {-1, 1}."""

    name: ClassVar[str] = "squared_hinge"
    width: ClassVar[float] = 0.5  # type: ignore[misc]
    steepest: ClassVar[float] = math.inf


# The supremum is searched at so many points; it comes out too large by at most 0.01 % of r.
_ARC_POINTS = 4096 + 1


@dataclass(frozen=True)
class MultinomialLogLoss(Loss):
    """Cross-entropy of the softmax of k scores; targets are class indices 0..k-1.

    The derivative is p - e_y with p the softmax. The infimum is
    ``log(1 + (k-1) e^{-r √(k/(k-1))})``, and the supremum is searched on an arc. With
    ``M = exp(-infimum)`` and ``S = 1 - exp(-supremum)``: L = √(S (S + min(S, M))),
    H = min(1/2, M) and Γ = 2L.
    """

    n_outputs: int  # number of classes k, at least 2
    name: ClassVar[str] = "log_loss"
    task: ClassVar[Task] = "multiclass"
    rules: ClassVar[Rules] = Rules("MultinomialLogLoss", n_outputs=whole(2))

    def __post_init__(self) -> None:
        if self.n_outputs == 1:  # that of other losses, which rules take for a default
            raise InputError("n_outputs of MultinomialLogLoss must be at least 2, got 1.")
        super().__post_init__()

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        largest = scores.max(axis=1)
        derivatives = exp(scores - largest[:, None])
        total = derivatives.sum(axis=1)
        records, label = np.arange(len(scores)), targets.astype(np.intp)
        values = log(total) + (largest - scores[records, label])
        derivatives /= total[:, None]
        derivatives[records, label] -= 1.0
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
        )


def _supremum(n_classes: int, score_bound: float) -> float:
    """Return the largest loss for scores of norm at most r, or a little more.

    It is reached on an arc of the sphere, from where all scores but the target's are equal to where
    all but one of them are 0, and changes along it by at most √2 r times the angle.
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
