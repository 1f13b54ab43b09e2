"""Phased ERM and online-to-batch behind the estimators: what they learn, and with which losses."""

import math
import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import GeneratorOracle
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.solvers import OnlineToBatch, PhasedERM
from sklearn_dpwg.solvers.stream.learners import ParameterFree

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.7, 0.7, size=(6000, 2))
GROUPS = np.where(RNG.random(6000) < 0.8, "many", "few")
TARGET = X[:, 0] + np.where(GROUPS == "many", 0.05, -0.05)


def classifier(solver="online-to-batch", **parameters):
    known = {"data_norm": 1.0, "radius": 8.0, "random_state": 0} | parameters
    return DPWorstGroupClassifier(8.0, 1e-5, solver=solver, **known)


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
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.plan_ == model.plan_


@pytest.mark.parametrize(
    ("solver", "loss"),
    [("online-to-batch", each) for each in ("squared_error", "huber")]
    + [("phased-erm", each) for each in ("squared_error", "huber", "absolute_error", "quantile")],
)
def test_numbers(solver, loss):
    model = DPWorstGroupRegressor(
        8.0, 1e-5, solver=solver, loss=loss, data_norm=1.0, target_bounds=(-1, 1), random_state=0
    )
    assert model.fit(X, TARGET, groups=GROUPS).score(X, TARGET) > 0.6


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "squared_hinge"])
def test_hinges(loss):
    model = classifier(PhasedERM(), loss=loss).fit(X, TARGET > 0, groups=GROUPS)
    assert model.score(X, TARGET > 0) > 0.7
    if loss == "hinge":
        with pytest.raises(ValueError, match=r"^loss must be smooth for solver 'online-to-batch'"):
            classifier(loss=loss).fit(X, TARGET > 0, groups=GROUPS)


def test_an_infinite_epsilon_has_another_solver_in_its_place():
    model = classifier("phased-erm").set_params(epsilon=float("inf"), random_state=None)
    assert model.fit(X, TARGET > 0, groups=GROUPS).plan_.solver == "exact"
    assert model.solver == "phased-erm"


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (classifier(), [4000, 800]),
        (classifier(OnlineToBatch(n_rounds=40, batch_size=100), prior=[0.5, 0.5]), [math.inf] * 2),
    ],
    ids=["two sizes", "without end"],
)
def test_an_oracle(model, sizes):
    def generate(group, size, rng):
        X = rng.uniform(-0.7, 0.7, size=(size, 2))
        return X, (X[:, 0] > (0.1 if group == "a" else -0.1)).astype(int)

    oracle = GeneratorOracle(generate, random_state=0)
    facts = {"group_labels": ["a", "b"], "n_features": 2, "classes": [0, 1]}
    model.fit_oracle(oracle, group_sizes=sizes, **facts)
    assert model.score(*generate("a", 500, np.random.default_rng(1))) > 0.85
    assert model.n_iter_ == model.plan_.n_steps
    assert math.inf not in sizes or model.n_iter_ == 40


def test_parts_go_on_with_one_budget():
    model = classifier(OnlineToBatch(horizon=3))
    costs = set()
    for part in np.array_split(np.arange(6000), 3):
        model.partial_fit(X[part], TARGET[part] > 0, groups=GROUPS[part])
        costs.add(model.privacy_.epsilon)
    assert len(costs) == 1
    assert max(costs) <= 8.0
    assert model.n_iter_ > 0.9 * model.plan_.n_steps
    assert model.score(X, TARGET > 0) > 0.85


def test_parameters_nest_in_a_search():
    search = GridSearchCV(
        classifier(OnlineToBatch(ParameterFree(), n_rounds=20)),
        {"solver__power": [1.0, 2.0], "solver__learner__wealth": [0.1]},
        cv=2,
    )
    with pytest.warns(UngroupedWarning):
        search.fit(X[:2000], TARGET[:2000] > 0)
    assert search.best_params_["solver__learner__wealth"] == 0.1


def test_a_preview_says_whose_bound_it_is():
    plan = classifier().plan(group_sizes=[900, 100], n_features=3)
    assert "sums of gradient differences: 1 x gaussian" in str(plan)
    assert "not that of the worst group" in str(plan)
    assert plan.predicted_excess_if_worst[1] == pytest.approx(9 * plan.predicted_excess_if_worst[0])
