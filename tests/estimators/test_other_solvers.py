"""Phased ERM and online-to-batch behind the estimators: what they learn, and with which losses."""

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.solvers import OnlineToBatch
from tests.helpers.relations import relation_of

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.7, 0.7, size=(6000, 2))
GROUPS = np.where(RNG.random(6000) < 0.8, "many", "few")
TARGET = X[:, 0] + np.where(GROUPS == "many", 0.05, -0.05)


def classifier(solver="online-to-batch", **parameters):
    known = {"data_norm": 1.0, "radius": 8.0, "random_state": 0} | parameters
    return DPWorstGroupClassifier(8.0, 1e-5, solver=solver, **relation_of(solver) | known)


@pytest.mark.parametrize(
    ("solver", "n_classes"),
    [
        *((OnlineToBatch(learner), 2) for learner in ("optimistic", "ftrl")),
        ("online-to-batch", 3),
        ("phased-erm", 2),
        ("phased-erm", 3),
    ],
    ids=repr,
)
def test_classes(solver, n_classes):
    classes = TARGET > 0 if n_classes == 2 else np.digitize(TARGET, [-0.2, 0.2])
    model = classifier(solver).fit(X, classes, groups=GROUPS)
    name = solver if isinstance(solver, str) else solver.name
    assert model.score(X, classes) > {2: 0.9, 3: 0.6}[n_classes]
    assert model.predict_proba(X).shape == (len(X), n_classes)
    assert model.plan_.solver == name
    assert model.n_iter_ == model.plan_.n_steps
    assert model.privacy_.epsilon <= 8.0
    with pytest.raises(AttributeError, match=f"solver '{name}' does not release group weights"):
        _ = model.group_weights_
    assert not hasattr(model, "group_weights_")


@pytest.mark.parametrize(
    ("solver", "loss"),
    [("online-to-batch", each) for each in ("squared_error", "huber")]
    + [("phased-erm", each) for each in ("squared_error", "huber", "absolute_error", "quantile")],
)
def test_numbers(solver, loss):
    known = {"loss": loss, "data_norm": 1.0, "target_bounds": (-1, 1), "random_state": 0}
    model = DPWorstGroupRegressor(8.0, 1e-5, solver=solver, **relation_of(solver) | known)
    assert model.fit(X, TARGET, groups=GROUPS).score(X, TARGET) > 0.6
