"""An infinite budget: the exact optimum, and no promise."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_nobody_does_better_for_the_worst_group(n_classes):
    """SLSQP on the epigraph, which shares no code with the solver."""
    rng = np.random.default_rng(1)
    n = 120
    X = rng.normal(size=(n, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    X = np.trunc(X * 2.0**16) / 2.0**16  # as rows are cut
    groups = np.arange(n) % 3
    signal = X[:, 0] + np.array([1.0, -1.0, 0.3])[groups] * X[:, 1] + 0.5 * rng.normal(size=n)
    y = np.digitize(signal, [0.0] if n_classes == 2 else [-0.3, 0.3])
    n_outputs = 1 if n_classes == 2 else n_classes
    radius, scaling = 4.0, 0.5

    def risks(weights):
        scores = X @ weights[:, :2].T + scaling * weights[:, 2]
        scores = np.column_stack([np.zeros(n), scores]) if n_outputs == 1 else scores
        losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(n), y]
        return np.bincount(groups, losses) / np.bincount(groups)

    result = minimize(
        lambda v: v[-1],
        np.append(np.zeros(3 * n_outputs), 2.0),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda v: v[-1] - risks(v[:-1].reshape(n_outputs, 3))},
            {"type": "ineq", "fun": lambda v: radius**2 - v[:-1] @ v[:-1]},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert result.success
    on_records = DPWorstGroupClassifier(math.inf, radius=radius, data_norm=1.0, solver="exact")
    fitted = on_records.fit(X, y, groups)
    weights = np.column_stack([fitted.coef_, fitted.intercept_ / scaling])
    assert np.linalg.norm(weights) <= radius * (1 + 1e-9)
    assert risks(weights).max() == pytest.approx(result.fun, abs=1e-6)
