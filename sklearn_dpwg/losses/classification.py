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

# Largest slope of the logistic loss with `solver="auto"`: 0.8 to 0.9 do equally well.
BOUNDED_SLOPE = 0.85


# Elementary functions made of operations that IEEE 754 rounds alike on every machine, so losses are
# equal bit by bit. The relative error is below 2.2 units of roundoff.

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
    """Return ``factors[0] + factors[1] z + ...`` by Horner's rule."""
    total = z * factors[-1]
    for factor in factors[-2:0:-1]:
        total += factor
        total *= z
    total += factors[0]
    return total


def exp(exponents: FloatArray) -> FloatArray:
    """Return the exponential of numbers at most 0; those below -708 count as -708.

    With ``x = r - n log 2`` the result is ``2^-n exp(r)``. With ``R = r coth(r/2)``, a series in
    r², ``exp(r) = 1 + 2 r/(R - r)``.
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
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        power = halvings.astype(np.int64)
    np.subtract(1023, power, out=power)  # the exponent bits of 2^-n
    power <<= 52
    rest *= power.view(np.float64)
    return rest


def log1p(values: FloatArray) -> FloatArray:
    """Return ``log(1 + x)`` of numbers x in [0, 1].

    With ``s = x/(2 + x)`` the result is ``x - s (x - R)``, where R/s² is a polynomial in s².
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
    """Return the interval of scores whose margin, target times score, is at least `margins`."""
    low = np.where(targets > 0.0, margins, -np.inf)
    return low, np.where(targets > 0.0, np.inf, -margins)


@dataclass(frozen=True)
class BinaryLogLoss(Loss):
    """Logistic loss ``log(1 + exp(-y a))`` of a score a and a target y in {-1, 1}.

    With margin ``m = y a`` the loss is logistic down to ``m_c = log((1-c)/c)``, where its slope is
    -c, and ``c (m_c - m) - log(1-c)`` below. The derivative in the score is ``-y f(-m)`` with
    ``f(t) = min(expit(t), c)``: L = f(r), H = 1/4, and the value is between those of m = r and -r.
    """

    # the largest slope c, in (1/2, 1]. Where the logistic loss is steeper, this one is a line of
    # slope c, so that one record far on the wrong side changes a gradient less
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
        curved = np.maximum(margin, self.edge) if self.largest_slope < 1.0 else margin
        small = exp(-np.abs(curved))
        with np.errstate(under="ignore"):  # at very large margins
            values = log1p(small)
        values -= np.minimum(curved, 0.0)
        slopes = np.where(curved > 0.0, small, 1.0)
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
    """The function f of `BinaryLogLoss`, hashable, as `gradient_diameter` caches by it."""

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
    """A parabola in the shortfall from margin 1, continued as a line at the slope `steepest`.

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


# Points of the search for the supremum; the bound is too large by at most 0.01 % of r.
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
        if self.n_outputs == 1:  # the default of `Loss`, which rules do not check
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
    """Return an upper bound on the cross-entropy for scores of norm at most r = `score_bound`.

    The maximum is on an arc of the sphere, from where all scores but the target's are equal to
    where all but one of them are 0. Along it the loss changes by at most √2 r times the angle.
    """
    simple_bound = float(np.logaddexp(0.0, math.log(n_classes - 1) + math.sqrt(2.0) * score_bound))
    if n_classes == 2:
        return simple_bound
    length = math.acos(math.sqrt(n_classes / (2.0 * (n_classes - 1.0))))
    angle = np.linspace(0.0, length, _ARC_POINTS)[:, None]
    # directions as (the target's score, one larger score, each of the n_rest others)
    single = np.array([-1.0, 1.0, 0.0]) / math.sqrt(2.0)
    n_rest = n_classes - 2.0
    equal = np.array([-1.0 - n_rest, 1.0, 1.0]) / math.sqrt(n_classes * (n_classes - 1.0))
    orthogonal = equal - (equal[:2] @ single[:2]) * single
    norm = math.sqrt(orthogonal[0] ** 2 + orthogonal[1] ** 2 + n_rest * orthogonal[2] ** 2)
    orthogonal /= norm
    scores = score_bound * (np.cos(angle) * single + np.sin(angle) * orthogonal)
    values = logsumexp(scores - scores[:, :1], axis=1, b=[1.0, 1.0, n_rest])
    slack = math.sqrt(2.0) * score_bound * length / (2.0 * (_ARC_POINTS - 1))
    return min(simple_bound, float(values.max()) + slack)
