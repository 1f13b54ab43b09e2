"""Every loss through the estimators: names, instances, nested parameters, probabilities."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.losses import BinaryLogLoss, Huber, Quantile, SmoothedHinge

MARGINS = ["hinge", "smoothed_hinge", "squared_hinge"]
RESIDUALS = ["squared_error", "huber", "absolute_error", "quantile"]


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize("loss", ["log_loss", *MARGINS, SmoothedHinge(0.3)], ids=repr)
def test_classifier(binary, loss, epsilon):
    fitted = binary.fit(loss=loss, epsilon=epsilon)
    X, y, _ = binary.data
    scores = fitted.decision_function(X)
    assert np.array_equal(fitted.predict(X), np.where(scores > 0, "yes", "no"))
    if epsilon == math.inf:
        assert fitted.score(X, y) > 0.7
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).decision_function(X), scores)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize("loss", [*RESIDUALS, Huber(0.1), Quantile(0.7)], ids=repr)
def test_regressor(regressor, loss, epsilon):
    fitted = regressor.fit(loss=loss, epsilon=epsilon)
    X, y, _ = regressor.data
    assert fitted.predict(X).shape == y.shape
    if epsilon == math.inf and loss != Quantile(0.7):
        assert fitted.score(X, y) > 0.4


@pytest.mark.parametrize("loss", ["log_loss", BinaryLogLoss()], ids=repr)
def test_probabilities_with_a_log_loss(binary, loss):
    assert hasattr(binary.make(loss=loss), "predict_proba")
    fitted = binary.fit(loss=loss)
    expected = 1 / (1 + np.exp(-fitted.decision_function(binary.data.X)))
    result = fitted.predict_proba(binary.data.X)
    np.testing.assert_allclose(result[:, 1], expected, rtol=1e-12)
    np.testing.assert_allclose(result.sum(axis=1), 1.0)
    # what was fitted counts, not what the next fit will use
    assert hasattr(fitted.set_params(loss="hinge"), "predict_proba")
    assert not hasattr(binary.fit(loss="hinge").set_params(loss="log_loss"), "predict_proba")


def test_quantiles_of_one_group():
    """Whatever the units of y: the fractions of targets below the predictions."""
    y = np.linspace(100.0, 200.0, 101)
    for level in (0.1, 0.5, 0.9):
        model = DPWorstGroupRegressor(
            math.inf, loss=Quantile(level), target_bounds=(50.0, 250.0), data_norm=1.0
        ).fit(np.zeros((101, 1)), y, ["all"] * 101)
        assert model.predict([[0.0]]) == pytest.approx([100 + 100 * level], abs=0.51)
