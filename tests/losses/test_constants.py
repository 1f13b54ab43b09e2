"""The constants that noise is calibrated to: no record exceeds them, wrong ones are caught."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from tests.helpers.loss_attacks import Attack, extreme_targets, records, violated

SCALAR_LOSSES = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    BinaryLogLoss(0.6),
    SquaredError(1.0),
    SquaredError(0.3),
    SquaredError(4.0),
)
LOSSES = (*SCALAR_LOSSES, *(MultinomialLogLoss(k) for k in (2, 3, 4, 6)))
BOUNDS = (0.05, 0.5, 1.0, 3.0, 10.0, 40.0)


def identify(value):
    return repr(value)


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


@pytest.mark.parametrize("loss", LOSSES, ids=identify)
@pytest.mark.parametrize(("radius", "intercept"), [(0.3, 0.0), (2.0, 0.5), (12.0, 1.0)])
def test_no_attack_exceeds_a_constant(loss, radius, intercept):
    n_features = 2 if loss.n_outputs == 1 else loss.n_outputs
    attack = Attack(loss, radius, n_features, intercept)
    assert violated(attack, claims_of(attack), np.random.default_rng(1)) == {}


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(2)])
@pytest.mark.parametrize("radius", [0.5, 6.0])
def test_the_attack_catches_constants_that_are_too_small(loss, radius):
    attack = Attack(loss, radius, 2)
    claims = claims_of(attack)
    width = claims["supremum"] - claims["infimum"]
    planted = {
        "supremum": claims["supremum"] - 0.05 * width,
        "infimum": claims["infimum"] + 0.05 * width,
        "lipschitz": 0.95 * claims["lipschitz"],
        "smoothness": 0.95 * claims["smoothness"],
        "gradient_diameter": 0.95 * claims["gradient_diameter"],
    }
    if loss.n_outputs > 1:
        del planted["gradient_diameter"]  # 2L: safe, and not claimed to be tight
    assert violated(attack, planted, np.random.default_rng(2)).keys() == planted.keys()


@settings(max_examples=120, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    radius=st.floats(0.02, 60),
    n_features=st.integers(1, 6),
    intercept=st.sampled_from([0.0, 0.1, 1.0, 3.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_records_stay_within(loss, radius, n_features, intercept, seed):
    rng = np.random.default_rng(seed)
    attack = Attack(loss, radius, n_features, intercept)
    claims = claims_of(attack)
    slack = 1e-9
    weights = attack.weights(1e3 * rng.normal(size=(1, loss.n_outputs * attack.n_columns)))
    # along the weights, against them, and anywhere
    along = 1e6 * weights[:, :, :n_features].sum(axis=1)
    rows = attack.rows(np.vstack([along, -along, 3 * rng.normal(size=(4, n_features))]))
    weights = np.repeat(weights, len(rows), axis=0)
    gradients = []
    for target in extreme_targets(loss):
        values, slopes, curvatures = records(loss, weights, rows, target)
        assert claims["infimum"] - slack <= values.min()
        assert values.max() <= claims["supremum"] * (1 + slack)
        bends = np.linalg.norm(curvatures, 2, axis=(1, 2)) * np.sum(rows**2, axis=1)
        assert bends.max() <= claims["smoothness"] * (1 + slack)
        gradients.append(slopes.reshape(len(rows), -1))
    gradients = np.vstack(gradients)
    assert np.linalg.norm(gradients, axis=1).max() <= claims["lipschitz"] * (1 + slack)
    apart = np.linalg.norm(gradients[:, None] - gradients, axis=2)
    assert apart.max() <= claims["gradient_diameter"] * (1 + slack)


@pytest.mark.parametrize("score_bound", BOUNDS)
@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError(1.0)], ids=identify)
def test_gradient_diameter_is_tight(loss, score_bound):
    attack = Attack(loss, score_bound, 2)
    claimed = loss.constants(score_bound).gradient_diameter
    found = attack.largest("gradient_diameter", np.random.default_rng(3), n_random=3000, n_starts=6)
    assert 0.97 * claimed <= found <= claimed
    assert claimed <= 2 * loss.constants(score_bound).lipschitz


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("score_bound", [0.5, 1.278, 2.0, 8.0])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError(1.0)], ids=identify)
def test_interior_weights_do_no_better(loss, score_bound, share):
    attack = Attack(loss, score_bound, 2, interior=share)
    found = attack.largest("gradient_diameter", np.random.default_rng(4), n_starts=2)
    # the certified bound has slack, so hold it against the true value on the sphere
    angle = np.linspace(-np.pi / 2, np.pi / 2, 721)
    slope = expit if isinstance(loss, BinaryLogLoss) else lambda a: a + loss.target_bound
    value = slope(score_bound * np.sin(angle))
    along, across = value * np.sin(angle), np.abs(value) * np.cos(angle)
    sphere = np.hypot(along[:, None] - along, across[:, None] + across).max()
    assert found <= sphere * (1 + 1e-4)


def test_binary_constants_in_closed_form():
    for bound in BOUNDS:
        constants = BinaryLogLoss().constants(bound)
        assert constants.loss_range == pytest.approx(bound, rel=1e-12)
        assert constants.lipschitz == pytest.approx(1 / (1 + math.exp(-bound)), rel=1e-14)
        assert constants.smoothness == 0.25
        assert constants.zero_score == pytest.approx(math.log(2), rel=1e-15)
    # the values of the symmetric pair, which the certified search exceeds by its slack at most
    for bound, symmetric in ((1.0, 1.10), (3.0, 1.42), (5.0, 1.62), (10.0, 1.82)):
        diameter = BinaryLogLoss().constants(bound).gradient_diameter
        assert diameter == pytest.approx(symmetric, abs=0.008)


def test_squared_error_constants_in_closed_form():
    for bound in BOUNDS:
        for target_bound in (0.3, 1.0, 4.0):
            constants = SquaredError(target_bound).constants(bound)
            assert constants.lipschitz == bound + target_bound
            assert constants.infimum == 0.0
            assert constants.loss_range == pytest.approx((bound + target_bound) ** 2 / 2)
            assert constants.smoothness == 1.0
            assert constants.zero_score == target_bound**2 / 2


@pytest.mark.parametrize("score_bound", BOUNDS)
def test_two_class_constants_either_way(score_bound):
    # two softmax scores of norm r differ by at most √2 r, and the gradient by the same factor
    both = MultinomialLogLoss(2).constants(score_bound)
    binary = BinaryLogLoss().constants(math.sqrt(2) * score_bound)
    assert both.lipschitz == pytest.approx(math.sqrt(2) * binary.lipschitz, rel=1e-14)
    assert both.loss_range == pytest.approx(binary.loss_range, rel=1e-12)
    assert both.infimum == pytest.approx(binary.infimum, rel=1e-12)
    assert both.smoothness == pytest.approx(2 * binary.smoothness)
    assert both.zero_score == pytest.approx(binary.zero_score)
    assert both.gradient_diameter >= math.sqrt(2) * binary.gradient_diameter * (1 - 2.1e-3)


@pytest.mark.parametrize("n_classes", [3, 4, 6])
@pytest.mark.parametrize("score_bound", [0.5, 2.0, 6.0])
def test_binary_formulas_fail_for_more_classes(n_classes, score_bound):
    attack = Attack(MultinomialLogLoss(n_classes), score_bound, 2)
    binary = BinaryLogLoss().constants(score_bound)
    rng = np.random.default_rng(5)
    width = attack.largest("supremum", rng) + attack.largest("infimum", rng)
    assert width > 1.05 * binary.loss_range
    assert attack.largest("lipschitz", rng) > 1.02 * binary.lipschitz
    if score_bound > 5:  # half the mass on each of two classes needs long scores
        assert attack.largest("smoothness", rng) > 1.5 * binary.smoothness


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6])
def test_multinomial_bounds_are_near_what_is_reached(n_classes):
    rng = np.random.default_rng(6)
    for score_bound in (0.5, 3.0, 12.0):
        loss = MultinomialLogLoss(n_classes)
        claims = loss.constants(score_bound)
        attack = Attack(loss, score_bound, 2)
        lowest = -attack.largest("infimum", rng)
        assert claims.infimum - 1e-12 <= lowest <= 1.02 * claims.infimum + 1e-4
        width = attack.largest("supremum", rng) - lowest
        assert 0.8 * claims.loss_range <= width <= claims.loss_range * (1 + 1e-9)
        steepest = attack.largest("lipschitz", rng)
        assert 0.7 * claims.lipschitz <= steepest <= claims.lipschitz * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=identify)
def test_constants_grow_with_the_bound(loss):
    constants = [loss.constants(bound) for bound in BOUNDS]
    for smaller, larger in itertools.pairwise(constants):
        assert smaller.lipschitz <= larger.lipschitz
        assert smaller.supremum <= larger.supremum
        assert smaller.infimum >= larger.infimum
        assert smaller.gradient_diameter <= larger.gradient_diameter * (1 + 2e-3)
    assert all(value.score_bound == bound for value, bound in zip(constants, BOUNDS, strict=True))
