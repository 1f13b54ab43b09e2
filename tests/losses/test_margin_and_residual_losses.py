"""Hinge, Huber, absolute, quantile, cut logistic losses: values, slopes, attacked constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Quantile,
    SmoothedHinge,
    SquaredHinge,
)
from tests.helpers.loss_attacks import Attack, records, violated

KINKED = (Hinge(), AbsoluteError(), AbsoluteError(0.4), Quantile(0.9), Quantile(0.3, 2.0))
SMOOTH = (
    SmoothedHinge(),
    SmoothedHinge(0.2),
    SmoothedHinge(3.0),
    SquaredHinge(),
    Huber(),
    Huber(0.7, 0.5),
    Huber(2.0),
    BinaryLogLoss(0.85),
    BinaryLogLoss(0.6),
)
LOSSES = (*KINKED, *SMOOTH)
BOUNDS = (0.05, 1.0, 4.0, 30.0)

parametrize_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def extremes(loss):
    if loss.task == "binary":
        return [-1.0, 1.0]
    return [-loss.target_bound, loss.target_bound]


def written_out(loss, a, y):
    """The definition of each loss, case by case."""
    margin, residual = y * a, a - y
    if isinstance(loss, Hinge):
        return max(0.0, 1.0 - margin)
    if isinstance(loss, BinaryLogLoss):
        slope = loss.largest_slope
        edge = -math.log(slope / (1.0 - slope))
        logistic = math.log1p(math.exp(-max(margin, edge)))
        return logistic if margin >= edge else logistic + slope * (edge - margin)
    if isinstance(loss, SquaredHinge):
        return max(0.0, 1.0 - margin) ** 2
    if isinstance(loss, SmoothedHinge):
        if margin >= 1.0:
            return 0.0
        if margin <= 1.0 - loss.width:
            return 1.0 - margin - loss.width / 2
        return (1.0 - margin) ** 2 / (2 * loss.width)
    if isinstance(loss, Huber):
        if abs(residual) <= loss.threshold:
            return residual**2 / 2
        return loss.threshold * (abs(residual) - loss.threshold / 2)
    if isinstance(loss, AbsoluteError):
        return abs(residual)
    return loss.level * -residual if residual < 0 else (1 - loss.level) * residual


def batch(loss, seed, n=200, scale=3.0):
    rng = np.random.default_rng(seed)
    if loss.task == "binary":
        targets = rng.choice([-1.0, 1.0], size=n)
    else:
        targets = rng.uniform(-1, 1, size=n) * loss.target_bound
    return scale * rng.normal(size=n), targets


@parametrize_loss
def test_values_are_the_definition(loss):
    scores, targets = batch(loss, 0)
    expected = [written_out(loss, a, y) for a, y in zip(scores, targets, strict=True)]
    np.testing.assert_allclose(loss.value(scores, targets), expected, rtol=1e-13, atol=1e-15)


@parametrize_loss
def test_derivatives_and_curvature(loss):
    scores, targets = batch(loss, 1)
    step = 1e-6
    value, slope = loss.value_and_derivative(scores, targets)
    assert slope.shape == value.shape == scores.shape
    numeric = (loss.value(scores + step, targets) - loss.value(scores - step, targets)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, atol=2e-6 * 15)
    above = loss.value_and_derivative(scores + step, targets)[1]
    below = loss.value_and_derivative(scores - step, targets)[1]
    bend = (above - below) / (2 * step)
    away = np.abs(bend - loss.curvature(scores, targets)) > 1e-4
    assert away.mean() <= 0.01  # within a step of where the curvature jumps
    assert np.all(loss.curvature(scores, targets) >= 0.0)


@settings(max_examples=100, deadline=None)
@given(loss=st.sampled_from(LOSSES), scale=st.floats(1e-3, 30), seed=st.integers(0, 2**32 - 1))
def test_slopes_are_subgradients(loss, scale, seed):
    """Convexity and, at kinks, a slope that the minorant allows."""
    scores, targets = batch(loss, seed, n=30, scale=scale)
    scores[:5] = targets[:5]  # at the kink
    value, slope = loss.value_and_derivative(scores, targets)
    for other in (*batch(loss, seed + 1, n=30, scale=scale)[:1], targets, np.zeros(30)):
        assert np.all(
            value + slope * (other - scores)
            <= loss.value(other, targets) + 1e-12 * (1 + np.abs(value) + np.abs(slope) * scale)
        )


@settings(max_examples=100, deadline=None)
@given(
    loss=st.sampled_from(KINKED), log_width=st.floats(-7, 1), seed=st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_stand_in_of_a_kink_keeps_its_contract(loss, log_width, seed):
    width = 10**log_width
    scores, targets = batch(loss, seed, n=40)
    scores[:20] = targets[:20] + 2 * width * np.linspace(-1, 1, 20)
    smooth = loss.smoothed(width)
    value, slope = smooth.value_and_derivative(scores, targets)
    slack = 1e-12 * (1 + np.abs(value))
    assert np.all(value >= loss.value(scores, targets) - slack)
    assert np.all(value <= loss.value(scores, targets) + width / 2 + slack)
    support = smooth.supporting_value(scores, targets)
    for other in (*batch(loss, seed + 1, n=40)[:1], targets, scores + width, scores - width):
        line = support + slope * (other - scores)
        assert np.all(line <= loss.value(other, targets) + 1e-9 * width + 1e-12 * np.abs(line - 1))
    far = np.abs(scores - targets) >= width
    np.testing.assert_allclose(support[far], loss.value(scores, targets)[far], atol=1e-12)
    # and it is what it says it is: smooth, with that derivative
    step = 1e-3 * width
    numeric = smooth.value(scores + step, targets) - smooth.value(scores - step, targets)
    np.testing.assert_allclose(slope, numeric / (2 * step), atol=2e-3 + 1e-12 / step)
    claims = smooth.constants(30.0)
    assert smooth.curvature(scores, targets).max() <= claims.smoothness * (1 + 1e-12)
    assert np.abs(slope).max() <= claims.lipschitz * (1 + 1e-12)
    assert value.max() <= claims.supremum + 1e-12


# ---- constants


@dataclass(frozen=True)
class ScalarAttack(Attack):
    """An attack with the targets of these losses; a target inside reaches the infimum."""

    def targets(self, name):
        first, last = extremes(self.loss)
        if name == "gradient_diameter":
            return [(first, first), (first, last), (last, last)]
        if self.loss.task == "regression" and name == "infimum":
            return [(0.0, 0.0)]
        return [(first, first), (last, last)]


def claims_of(attack):
    problem = Problem(
        attack.loss, (10,), attack.n_features, attack.radius, (1.0,), attack.intercept
    )
    return {
        "supremum": problem.constants.supremum,
        "infimum": problem.constants.infimum,
        "lipschitz": problem.lipschitz,
        "smoothness": problem.smoothness,
        "gradient_diameter": problem.gradient_diameter,
    }


@parametrize_loss
@pytest.mark.parametrize(("radius", "intercept"), [(0.3, 0.0), (2.0, 0.5), (12.0, 1.0)])
def test_no_attack_exceeds_a_constant(loss, radius, intercept):
    attack = ScalarAttack(loss, radius, 2, intercept)
    claims = claims_of(attack)
    if not loss.smooth:
        assert claims.pop("smoothness") == math.inf
    assert violated(attack, claims, np.random.default_rng(1)) == {}


@parametrize_loss
@pytest.mark.parametrize("radius", [0.5, 6.0])
def test_the_attack_catches_constants_that_are_too_small(loss, radius):
    attack = ScalarAttack(loss, radius, 2)
    claims = claims_of(attack)
    width = claims["supremum"] - claims["infimum"]
    planted = {
        "supremum": claims["supremum"] - 0.05 * width,
        "infimum": claims["infimum"] + 0.05 * width,
        "lipschitz": 0.95 * claims["lipschitz"],
        "gradient_diameter": 0.95 * claims["gradient_diameter"],
    }
    found = violated(attack, planted, np.random.default_rng(2))
    assert found.keys() == planted.keys()


@settings(max_examples=100, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    radius=st.sampled_from([0.02, 0.4, 3.0, 60.0]),
    share=st.floats(0, 1),
    n_features=st.integers(1, 5),
    intercept=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_records_stay_within(loss, radius, share, n_features, intercept, seed):
    """Weights anywhere in the ball, rows along them, across them, anywhere; targets anywhere."""
    rng = np.random.default_rng(seed)
    attack = ScalarAttack(loss, radius, n_features, intercept, interior=share)
    claims = claims_of(attack)
    weights = attack.weights(rng.normal(size=(1, attack.n_columns)))
    along = 1e6 * weights[:, 0, :n_features]
    rows = attack.rows(np.vstack([along, -along, 3 * rng.normal(size=(4, n_features))]))
    weights = np.repeat(weights, len(rows), axis=0)
    low, high = extremes(loss)
    inner = [] if loss.task == "binary" else [0.0, rng.uniform(low, high)]
    gradients, slack = [], 1e-9
    for target in (low, *inner, high):
        values, slopes, curvatures = records(loss, weights, rows, target)
        assert claims["infimum"] - slack <= values.min()
        assert values.max() <= claims["supremum"] * (1 + slack)
        assert curvatures.max() * np.sum(rows**2, axis=1).max() <= claims["smoothness"] * (
            1 + slack
        )
        gradients.append(slopes.reshape(len(rows), -1))
    stacked = np.vstack(gradients)
    assert np.linalg.norm(stacked, axis=1).max() <= claims["lipschitz"] * (1 + slack)
    apart = np.linalg.norm(stacked[:, None] - stacked, axis=2)
    assert apart.max() <= claims["gradient_diameter"] * (1 + slack)


@parametrize_loss
@pytest.mark.parametrize("score_bound", BOUNDS)
def test_gradient_diameter_is_tight_and_zero_score_is_reached(loss, score_bound):
    constants = loss.constants(score_bound)
    attack = ScalarAttack(loss, score_bound, 2)
    found = attack.largest("gradient_diameter", np.random.default_rng(3), n_random=600)
    assert 0.97 * constants.gradient_diameter <= found <= constants.gradient_diameter * (1 + 1e-12)
    assert constants.gradient_diameter <= 2 * constants.lipschitz
    at_zero = loss.value(np.zeros(2), np.array(extremes(loss))).max()
    assert constants.zero_score == pytest.approx(at_zero, rel=1e-14)


@pytest.mark.parametrize("loss", [SquaredHinge(), SmoothedHinge(3.0), Huber(2.0)], ids=repr)
def test_one_more_dimension_holds_the_interior(loss):
    """Shorter weights are weights of full length with a coordinate that no row has."""
    rng = np.random.default_rng(4)
    radius = 3.0
    for _ in range(50):
        short, first, second = rng.normal(size=(3, 2))
        short *= radius * rng.uniform() / np.linalg.norm(short)
        lifted = np.append(short, math.sqrt(radius**2 - short @ short))
        assert np.linalg.norm(lifted) == pytest.approx(radius)
        for row in (first, second):
            assert lifted @ np.append(row, 0.0) == pytest.approx(short @ row)


def test_constants_in_closed_form():
    for r in BOUNDS:
        assert Hinge().constants(r).loss_range == pytest.approx(min(1 + r, 2 * r))
        assert SquaredHinge().constants(r).lipschitz == 2 * (1 + r)
        assert SquaredHinge().constants(r).supremum == (1 + r) ** 2
        assert SmoothedHinge(0.5).constants(r).supremum == pytest.approx(0.75 + r)
        assert SmoothedHinge(4.0).constants(r).lipschitz == min(1.0, (1 + r) / 4)
        assert AbsoluteError(2.0).constants(r).loss_range == pytest.approx(2.0 + r)
        assert Quantile(0.8).constants(r).loss_range == pytest.approx(0.8 * (1 + r))
        assert Huber(0.25).constants(r).supremum == pytest.approx(0.25 * (1 + r) - 0.03125)
        # below the threshold Huber's loss is the squared error
        assert Huber(100.0).constants(r).supremum == pytest.approx((1 + r) ** 2 / 2)
        assert Huber(100.0).constants(r).lipschitz == 1 + r


# ---- parameters


@pytest.mark.parametrize("value", [0.0, 0.5, 1.01, math.nan, math.inf, "1", None, True])
def test_slopes_out_of_range(value):
    with pytest.raises(ValueError, match=r"^largest_slope of BinaryLogLoss must be above 0.5 a"):
        BinaryLogLoss(value)


@pytest.mark.parametrize("slope", [1.0, 0.85, np.float32(0.85)])
def test_infinite_margins(slope):
    value, derivative = BinaryLogLoss(slope).value_and_derivative(
        np.array([np.inf, -np.inf]), np.ones(2)
    )
    assert value.tolist() == [0.0, math.inf]
    assert derivative.tolist() == [0.0, -float(slope)]


def test_a_slope_of_one_is_the_logistic_loss():
    scores, targets = batch(BinaryLogLoss(), 5, scale=20.0)
    np.testing.assert_allclose(
        BinaryLogLoss().value(scores, targets), np.logaddexp(0.0, -targets * scores), rtol=1e-15
    )
    assert BinaryLogLoss().with_bounded_slope() == BinaryLogLoss(0.85)
    assert BinaryLogLoss(0.6).with_bounded_slope() == BinaryLogLoss(0.6)
    assert Huber(3.0).with_bounded_slope() == Huber(3.0)
    # the stand-in is the same loss wherever the slope allows, and never above it
    cut = BinaryLogLoss(0.85)
    same = targets * scores >= cut.edge
    assert 0.1 < same.mean() < 0.9
    gap = BinaryLogLoss().value(scores, targets) - cut.value(scores, targets)
    np.testing.assert_allclose(gap[same], 0.0, atol=1e-15)
    assert np.all(gap[~same] > 0.0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_parameters_out_of_range(value):
    with pytest.raises(ValueError, match=r"^width of SmoothedHinge must be positive and finite"):
        SmoothedHinge(value)
    with pytest.raises(ValueError, match=r"^threshold of Huber must be positive and finite"):
        Huber(value)
    with pytest.raises(ValueError, match=r"^target_bound of AbsoluteError must be positive"):
        AbsoluteError(value)
    with pytest.raises(ValueError, match=r"^level of Quantile must be strictly between 0 and 1"):
        Quantile(value)


def test_parameters_as_scikit_learn_wants_them():
    loss = Quantile(0.9)
    assert loss.get_params() == {"level": 0.9, "target_bound": 1.0}
    copied = clone(loss)
    assert copied == loss
    assert copied is not loss
    assert copied.set_params(level=0.2) is copied
    assert copied == Quantile(0.2)
    assert loss == Quantile(0.9)
    with pytest.raises(ValueError, match=r"level of Quantile must be strictly between"):
        copied.set_params(level=2.0)
    with pytest.raises(ValueError, match=r"^Quantile has no parameter 'width', only \["):
        copied.set_params(width=2.0)
    assert copied == Quantile(0.2)
    assert Hinge().set_params() == Hinge()


def test_a_loss_without_a_stand_in_says_so():
    with pytest.raises(TypeError, match=r"^SquaredHinge has no smoothed\(\) and"):
        SquaredHinge().smoothed(0.1)
