"""A price for sampling: checked, said, and ignored by no solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.solvers import SOLVERS
from tests.helpers.relations import WITHIN_GROUP

SIZES = {"group_sizes": [40_000, 9_000], "n_features": 3}


def regressor(**parameters):
    return DPWorstGroupRegressor(target_bounds=(-1.0, 1.0), **WITHIN_GROUP | parameters)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "exact"])
def test_no_solver_ignores_a_price(name):
    assert "price" not in str(regressor(solver=name).plan(**SIZES))
    stated = str(regressor(solver=name, sampling_price=0).plan(**SIZES))
    assert "sampling has no price" in stated
    if not SOLVERS[name].prices_sampling and name != "auto":
        with pytest.raises(ValueError, match=r"^sampling_price must be .* solver .* got 1\.5\.$"):
            regressor(solver=name, sampling_price=1.5).plan(**SIZES)


def test_auto_takes_a_solver_that_plays_the_game_as_stated():
    assert regressor(sampling_price=1.5).plan(**SIZES).solver == "mgr"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"sampling_price": -1}, "sampling_price must be None, or at least 0 and finite, got -1"),
        ({"sampling_price": np.inf}, "sampling_price must be None, or at least 0 and finite"),
        ({"sampling_price": "2"}, "sampling_price must be a number"),
    ],
)
def test_what_no_group_player_can_have_is_refused(value, says):
    for model in (DPWorstGroupClassifier(epsilon=np.inf, **value), regressor(**value)):
        with pytest.raises((ValueError, TypeError), match=f"^{says}"):
            model.plan(**SIZES)
    assert clone(model).get_params()[next(iter(value))] == next(iter(value.values()))


def test_the_planned_price_falls_with_the_budget_and_is_in_units_of_the_loss():
    for loss, unit in ((BinaryLogLoss(), 1.0), (SquaredError(), 0.15 * 0.5)):
        problem = Problem(loss, (40, 9), 3, 4.0, (0.8, 0.2))
        prices = [problem.price_of_sampling(mu) for mu in (0.5, 1.0, 10.0, np.inf)]
        assert np.allclose(prices, unit * np.array([0.25, 1.0, 1.0, 0.5]))
        assert replace(problem, sampling_price=3.0).price_of_sampling(0.5) == pytest.approx(
            3 * unit
        )


def test_a_planned_price_of_large_groups_falls_as_one_over_their_size():
    def prices(n_features, **stated):
        sizes = (900, 10_000, 1_000_000)
        problem = Problem(BinaryLogLoss(), sizes, n_features, 4.0, (0.8, 0.1, 0.1), **stated)
        return 1.0 / np.sqrt(problem.sizes_of_sampling)

    assert np.allclose(prices(3), [1 / 30.0, np.sqrt(1e3) / 1e4, np.sqrt(1e3) / 1e6])
    assert np.allclose(prices(99), [1 / 30.0, 0.01, 100 / 1e6])  # 100² = 10,000 records
    assert np.allclose(prices(3, sampling_price=2.0), [1 / 30.0, 0.01, 1e-3])


ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (4000, 2))
CODES = np.repeat([0, 1, 2], [2000, 1940, 60])
LABELS = ROWS[:, 0] * np.array([8.0, 6.0, -3.0])[CODES] + 0.3 > 0


def fitted(**parameters):
    model = DPWorstGroupClassifier(np.inf, data_norm=1.0, **parameters)
    return model.fit(ROWS, LABELS, groups=CODES)


def test_a_price_takes_weight_off_small_groups():
    weights = [fitted(sampling_price=price).group_weights_ for price in (0, 0.5, 5, 500)]
    assert all(np.diff([each**2 @ (1.0 / np.bincount(CODES)) for each in weights]) < 0.0)
    assert weights[0][2] > 0.45 > weights[2][2]
    assert np.allclose(weights[-1], np.bincount(CODES) / len(CODES), atol=1e-2)
    # that of 60 records is planned as if stated, that of the large ones is less
    assert weights[1][2] - 0.05 < fitted().group_weights_[2] < weights[0][2]
    assert not np.allclose(fitted().group_weights_, weights[1])


def test_one_group_has_no_price():
    plans = [
        DPWorstGroupClassifier(np.inf, sampling_price=price).plan(group_sizes=[9], n_features=2)
        for price in (0, None)
    ]
    assert plans[0].schedule == plans[1].schedule
