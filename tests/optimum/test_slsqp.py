"""SciPy's SLSQP on the epigraph does not get below the optimum, and the certificate is true."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.losses import (
    BinaryLogLoss,
    SquaredError,
    SquaredHinge,
)
from sklearn_dpwg.optimum import worst_group_optimum


def slsqp(value_and_gradients, n_weights, radius):
    """Minimise the largest of several functions over a ball, as t subject to R_g(w) <= t."""
    last = {}

    def at(point):
        if not np.array_equal(last.get("weights"), point[1:]):
            last["weights"] = point[1:].copy()
            last["answer"] = value_and_gradients(point[1:])
        return last["answer"]

    start = np.zeros(n_weights + 1)
    start[0] = at(start)[0].max()
    result = minimize(
        lambda point: point[0], start, jac=lambda point: np.eye(n_weights + 1)[0], method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda point: point[0] - at(point)[0],
             "jac": lambda point: np.insert(-at(point)[1], 0, 1.0, axis=1)},
            {"type": "ineq", "fun": lambda point: radius**2 - point[1:] @ point[1:],
             "jac": lambda point: np.insert(-2.0 * point[1:], 0, 0.0)},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    weights = result.x[1:]
    return weights * min(1.0, radius / np.linalg.norm(weights))


def assert_as_low_as_slsqp(risks, radius, *, theirs_above=np.inf):
    actual = worst_group_optimum(risks, radius=radius)
    ours = risks.risks(actual.weights).max()
    weights = slsqp(risks.risks_and_gradients, risks.n_weights, radius)
    theirs = risks.risks(weights).max()
    assert np.linalg.norm(actual.weights) <= radius * (1 + 1e-12)
    assert ours <= theirs + 1e-8
    assert theirs - ours <= theirs_above
    # no weights of the ball are better by more than the gap: those of SLSQP, nor those that are
    # best for the mixture of groups that the certificate stands on
    assert actual.gap <= 1e-8
    assert theirs >= ours - actual.gap - 1e-13

    def of_mixture(weights):
        values, gradients = risks.risks_and_gradients(weights)
        return actual.group_weights @ values[:, None], (actual.group_weights @ gradients)[None]

    response = slsqp(of_mixture, risks.n_weights, radius)
    assert actual.group_weights @ risks.risks(response) >= ours - actual.gap - 1e-13


def table(name, loss, n_records=None):
    """Rows of a table with a unit intercept, or the first ones, and its targets within [-1, 1]."""
    data = load_dataset(name)
    low, high = np.min(data.target), np.max(data.target)
    targets = 2.0 * (np.asarray(data.target, dtype=float) - low) / (high - low) - 1.0
    codes = np.unique(data.groups, return_inverse=True)[1]
    encoder = RecordEncoder(len(np.unique(codes)), data.data_norm)
    rows = slice(n_records)
    return GroupRisks(encoder.encode(data.data[rows], targets[rows], codes[rows]), loss, 1.0)


@pytest.mark.parametrize("radius", [1.0, 200.0])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError()], ids=["log loss", "squares"])
def test_law_school(loss, radius):
    assert_as_low_as_slsqp(table("law-school", loss), radius, theirs_above=1e-8)


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredHinge()], ids=["log loss", "hinge"])
def test_adult(loss):
    assert_as_low_as_slsqp(table("adult", loss, 1_500), 5.0)
