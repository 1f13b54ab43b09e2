"""An infinite budget: the exact optimum, and no promise."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.exceptions import WeakPlanWarning


def test_it_says_so_and_draws_nothing(task, draws):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a seed is of no use here, so there is nothing to warn of
        warnings.simplefilter("ignore", WeakPlanWarning)  # but that groups are small
        fitted = task.fit(epsilon=math.inf, random_state=0)
        again = task.fit(epsilon=math.inf, random_state="not looked at")
    assert fitted.privacy_.epsilon == math.inf
    assert not fitted.privacy_.is_private
    assert not fitted.privacy_.seeded
    assert "no privacy" in str(fitted.privacy_).lower()
    assert fitted.plan_.releases == ()
    assert not draws()
    assert np.array_equal(fitted.coef_, again.coef_)


def test_one_group_is_least_squares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) + 0.3
    y = X @ [0.5, -1.0, 2.0] + 4.0 + rng.normal(size=200)
    bounds = (-100.0, 100.0)
    norm = np.linalg.norm(X, axis=1).max()
    fitted = DPWorstGroupRegressor(math.inf, target_bounds=bounds, data_norm=norm, radius=5.0)
    fitted.fit(X, y, ["all"] * 200)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), y, rcond=None)[0]
    assert fitted.coef_ == pytest.approx(expected[:3], abs=1e-4)
    assert fitted.intercept_ == pytest.approx(expected[3], abs=1e-4)
    assert fitted.group_weights_.tolist() == [1.0]
