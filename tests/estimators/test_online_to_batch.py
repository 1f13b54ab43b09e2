"""The online-to-batch solver behind the estimators: fits, oracles, parts, searches, refusals."""

import math
import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import GeneratorOracle
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.solvers import OnlineToBatch
from sklearn_dpwg.solvers.stream.learners import ParameterFree

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
]


def made(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2)) / math.sqrt(2)
    groups = np.where(rng.random(n) < 0.8, "many", "few")
    return X, X[:, 0] + np.where(groups == "many", 0.05, -0.05), groups


def classifier(**parameters):
    parameters = {"solver": "online-to-batch", "data_norm": 1.0, "radius": 8.0} | parameters
    return DPWorstGroupClassifier(8.0, 1e-5, random_state=0, **parameters)


@pytest.mark.parametrize("learner", ["optimistic", "ftrl", "gradient-descent"])
def test_two_classes(learner):
    X, target, groups = made()
    model = classifier(solver=OnlineToBatch(learner)).fit(X, target > 0, groups=groups)
    assert model.score(X, target > 0) > 0.9
    assert model.plan_.solver == "online-to-batch"
    assert model.n_iter_ == model.plan_.n_steps
    assert model.privacy_.epsilon <= 8.0
    with pytest.raises(AttributeError, match="'online-to-batch' does not release group weights"):
        _ = model.group_weights_
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_three_classes_and_numbers():
    X, target, groups = made()
    classes = np.digitize(target, [-0.2, 0.2])
    assert classifier().fit(X, classes, groups=groups).score(X, classes) > 0.6
    for loss in ("squared_error", "huber"):
        model = DPWorstGroupRegressor(
            8.0, 1e-5, solver="online-to-batch", data_norm=1.0, target_bounds=(-1, 1), loss=loss,
            random_state=0,
        )  # fmt: skip
        assert model.fit(X, target, groups=groups).score(X, target) > 0.6


def test_an_oracle():
    def generate(group, size, rng):
        X = rng.uniform(-0.7, 0.7, size=(size, 2))
        return X, (X[:, 0] > (0.1 if group == "a" else -0.1)).astype(int)

    facts = {"group_labels": ["a", "b"], "n_features": 2, "classes": [0, 1]}
    model = classifier().fit_oracle(
        GeneratorOracle(generate, random_state=0), group_sizes=[4000, 800], **facts
    )
    X, y = generate("a", 500, np.random.default_rng(1))
    assert model.score(X, y) > 0.85
    endless = classifier(solver=OnlineToBatch(n_rounds=40, batch_size=100), prior=[0.5, 0.5])
    endless.fit_oracle(
        GeneratorOracle(generate, random_state=0), group_sizes=[math.inf, math.inf], **facts
    )
    assert endless.n_iter_ == 40
    assert endless.score(X, y) > 0.85


def test_parts_go_on_with_one_budget():
    X, target, groups = made()
    model = classifier(solver=OnlineToBatch(horizon=3))
    costs, scores = [], []
    for part in np.array_split(np.arange(6000), 3):
        model.partial_fit(X[part], target[part] > 0, groups=groups[part])
        costs.append(model.privacy_.epsilon)
        scores.append(model.score(X, target > 0))
    assert len(set(costs)) == 1
    assert costs[0] <= 8.0
    assert model.n_iter_ > 0.9 * model.plan_.n_steps
    assert scores[-1] > 0.85


def test_parameters_nest_in_a_search():
    X, target, _ = made(2000)
    search = GridSearchCV(
        classifier(solver=OnlineToBatch(ParameterFree(), n_rounds=20)),
        {"solver__power": [1.0, 2.0], "solver__learner__wealth": [0.1]},
        cv=2,
    )
    with pytest.warns(UngroupedWarning):
        search.fit(X, target > 0)
    assert search.best_params_["solver__learner__wealth"] == 0.1


@pytest.mark.parametrize("loss", ["hinge"])
def test_losses_with_kinks_are_refused(loss):
    X, target, groups = made(500)
    with pytest.raises(ValueError, match=r"^loss must be smooth for solver 'online-to-batch'"):
        classifier(loss=loss).fit(X, target > 0, groups=groups)


def test_preview():
    plan = classifier().plan(group_sizes=[900, 100], n_features=3)
    assert "sums of gradient differences: 1 x gaussian" in str(plan)
    assert "not that of the worst group" in str(plan)
    assert plan.predicted_excess_if_worst[1] == pytest.approx(9 * plan.predicted_excess_if_worst[0])
