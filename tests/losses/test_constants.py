"""The constants that noise is calibrated to: no record exceeds them, wrong ones are caught."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss
from tests.helpers.loss_attacks import ALL, Attack, extreme_targets, records, violated

parametrize_loss = pytest.mark.parametrize("loss", ALL, ids=repr)


def claims_of(attack):
    problem = Problem(
        attack.loss, (10,), attack.n_features, attack.radius, (1.0,), attack.intercept
    )
    claims = {
        "supremum": problem.constants.supremum,
        "infimum": problem.constants.infimum,
        "lipschitz": problem.lipschitz,
        "smoothness": problem.smoothness,
        "gradient_diameter": problem.gradient_diameter,
    }
    if not attack.loss.smooth:
        assert claims.pop("smoothness") == math.inf
    return claims


@parametrize_loss
@pytest.mark.parametrize(("radius", "intercept"), [(0.3, 0.0), (2.0, 0.5), (12.0, 1.0)])
def test_no_attack_exceeds_a_constant(loss, radius, intercept):
    n_features = 2 if loss.n_outputs == 1 else loss.n_outputs
    attack = Attack(loss, radius, n_features, intercept)
    assert violated(attack, claims_of(attack), np.random.default_rng(1)) == {}


# bounds of more classes are not tight
@pytest.mark.parametrize("loss", [one for one in ALL if one.n_outputs <= 2], ids=repr)
@pytest.mark.parametrize("radius", [0.5, 6.0])
def test_the_attack_catches_constants_that_are_too_small(loss, radius):
    attack = Attack(loss, radius, 2)
    claims = claims_of(attack)
    width = claims["supremum"] - claims["infimum"]
    planted = {
        "supremum": claims["supremum"] - 0.05 * width,
        "infimum": claims["infimum"] + 0.05 * width,
        "lipschitz": 0.95 * claims["lipschitz"],
    }
    if loss.n_outputs == 1:  # of two classes it is 2L: safe, and not claimed to be tight
        planted["gradient_diameter"] = 0.95 * claims["gradient_diameter"]
    if isinstance(loss, BinaryLogLoss | MultinomialLogLoss):  # the others are steep at one point
        planted["smoothness"] = 0.95 * claims["smoothness"]
    assert violated(attack, planted, np.random.default_rng(2)).keys() == planted.keys()


@given(
    loss=st.sampled_from(ALL),
    radius=st.floats(0.02, 60),
    fraction=st.one_of(st.none(), st.floats(0, 1)),
    n_features=st.integers(1, 6),
    intercept=st.sampled_from([0.0, 0.1, 1.0, 3.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_records_stay_within(loss, radius, fraction, n_features, intercept, seed):
    """Weights anywhere in the ball, rows along them, across them, anywhere; targets anywhere."""
    rng = np.random.default_rng(seed)
    attack = Attack(loss, radius, n_features, intercept, interior=fraction)
    claims = {"smoothness": math.inf} | claims_of(attack)
    slack = 1e-9
    weights = attack.weights(1e3 * rng.normal(size=(1, loss.n_outputs * attack.n_columns)))
    along = 1e6 * weights[:, :, :n_features].sum(axis=1)
    rows = attack.rows(np.vstack([along, -along, 3 * rng.normal(size=(4, n_features))]))
    weights = np.repeat(weights, len(rows), axis=0)
    targets = extreme_targets(loss)
    if loss.task == "regression":
        targets += [0.0, rng.uniform(*targets)]
    gradients = []
    for target in targets:
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
