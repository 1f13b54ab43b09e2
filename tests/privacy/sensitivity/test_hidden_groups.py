"""How far one record, its group included, moves regularised worst-group weights."""

import math

import numpy as np
import pytest

from sklearn_dpwg.privacy.sensitivity import (
    _largest_move,
    hidden_group_sensitivities,
)
from tests.helpers.saddle_bounds import saddle_point_sensitivity

FACTS = {
    "normalisers": [40, 100],
    "lipschitz": 1.0,
    "gradient_diameter": 1.6,
    "loss_range": 5.0,
    "strong_convexities": [0.01, 0.1, 2.0],
    "prior": [0.3, 0.7],
}


def test_fixed_weights_are_in_closed_form():
    result = hidden_group_sensitivities(**FACTS, entropy_weight=math.inf)
    assert result == pytest.approx(1.6 * 0.3 / 40 / np.array([0.01, 0.1, 2.0]))
    # a record that leaves its group takes all of its gradient with it
    alike = hidden_group_sensitivities(**FACTS | {"gradient_diameter": 0.1}, entropy_weight=1e999)
    assert alike == pytest.approx(1.0 * 0.3 / 40 / np.array([0.01, 0.1, 2.0]))
    # one group is regularised empirical risk
    one = FACTS | {"normalisers": [50], "prior": [1.0]}
    result = hidden_group_sensitivities(**one, entropy_weight=0.1)
    assert result == pytest.approx(1.6 / 50 / np.array([0.01, 0.1, 2.0]))


def test_the_largest_move_is_that_of_the_inequality():
    """``μ x² <= λ κ x + τ (β - μ_λ ρ)`` for weights λ and λ + τ that are ρ apart in log-odds."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(400):
        kappa, beta, mu, mu_groups = 10.0 ** rng.uniform([-2, -2, -3, -4], [1, 1, 1, 2])
        bound = float(_largest_move(kappa, beta, np.array([mu]), mu_groups)[0])
        low = 1.0 / (1.0 + np.exp(-rng.uniform(-12, 12, size=400)))
        rho = rng.uniform(0.0, 1.0, size=400) * min(beta / mu_groups, 30.0)
        high = low * np.exp(rho) / (1.0 - low + low * np.exp(rho))
        gain = np.maximum(beta - mu_groups * rho, 0.0) * (high - low)
        moves = (low * kappa + np.sqrt((low * kappa) ** 2 + 4.0 * mu * gain)) / (2.0 * mu)
        assert moves.max() <= bound * (1.0 + 1e-9)
        ratios.append(moves.max() / bound)
    assert max(ratios) > 0.97  # it is no larger than it must be
    assert np.median(ratios) > 0.6


@pytest.mark.parametrize("mu_groups", [1e-3, 0.1, 1.0, 30.0])
def test_hidden_groups_cost_more_than_public_ones_but_not_without_end(mu_groups):
    result = hidden_group_sensitivities(**FACTS, entropy_weight=mu_groups)
    for strength, bound in zip(FACTS["strong_convexities"], result, strict=True):
        public = saddle_point_sensitivity(
            group_sizes=FACTS["normalisers"],
            **{name: FACTS[name] for name in ("lipschitz", "gradient_diameter", "loss_range")},
            prior=FACTS["prior"],
            strong_convexity=strength,
            entropy_weight=mu_groups,
        )
        assert 0.9 * public <= bound <= 8.0 * public


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("normalisers", wrong) for wrong in ([40, 0], [40])),
        *(("lipschitz", -1.0), ("loss_range", math.nan), ("entropy_weight", 0.0)),
        ("strong_convexities", [0.0]),
    ],
)
def test_wrong_facts_are_refused_by_name(name, wrong):
    with pytest.raises(ValueError, match=name.replace("normalisers", "sizes")):
        hidden_group_sensitivities(**{**FACTS, "entropy_weight": 1.0, name: wrong})
