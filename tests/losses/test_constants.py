"""The constants that noise is calibrated to: no record exceeds them, wrong ones are caught."""

import math

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss
from tests.helpers.loss_attacks import ALL, Attack, violated

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
