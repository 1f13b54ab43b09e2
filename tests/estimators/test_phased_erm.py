"""The phased solver through the estimators."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import DeltaWarning, SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.solvers import Exact, PhasedERM

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{category.__module__}.{category.__name__}")
    for category in (DeltaWarning, SeededNoiseWarning, WeakPlanWarning)
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 4000
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    groups = np.where(rng.random(n) < 0.8, "many", "few")
    shift = np.where(groups == "many", 0.2, -0.2)
    return X, X[:, 0] + shift + 0.05 * rng.standard_normal(n), groups


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(data, n_classes):
    X, scores, groups = data
    y = np.digitize(scores, np.linspace(-0.2, 0.2, n_classes - 1))
    model = DPWorstGroupClassifier(
        4.0, solver="phased-erm", random_state=0, radius=10.0, data_norm=1.0
    )
    model.fit(X, y, groups=groups)
    assert model.score(X, y) > 0.5  # chance is one in three
    assert model.predict_proba(X).shape == (len(X), n_classes)
    assert model.n_iter_ == model.plan_.n_steps
    assert model.plan_.solver == "phased-erm"
    assert model.privacy_.epsilon <= 4.0


@pytest.mark.parametrize("loss", ["squared_error", "huber", "absolute_error", "quantile"])
def test_regression(data, loss):
    X, y, groups = data
    model = DPWorstGroupRegressor(
        4.0, solver="phased-erm", loss=loss, random_state=0, data_norm=1.0, target_bounds=(-1, 1)
    )
    model.fit(X, y, groups=groups)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.7


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "squared_hinge"])
def test_hinges(data, loss):
    X, scores, groups = data
    model = DPWorstGroupClassifier(
        4.0, solver=PhasedERM(), loss=loss, random_state=0, data_norm=1.0
    )
    model.fit(X, scores > 0, groups=groups)
    assert model.score(X, scores > 0) > 0.7


def test_group_weights_are_not_released(data):
    X, scores, groups = data
    model = DPWorstGroupClassifier(solver="phased-erm", random_state=0, data_norm=1.0).fit(
        X, scores > 0, groups=groups
    )
    with pytest.raises(AttributeError, match="solver 'phased-erm' does not release group weights"):
        _ = model.group_weights_
    assert not hasattr(model, "group_weights_")


def test_parameters_nest_and_survive_cloning_and_pickling(data):
    X, scores, groups = data
    model = DPWorstGroupClassifier(solver=PhasedERM(3), random_state=0, data_norm=1.0)
    assert model.get_params()["solver__n_phases"] == 3
    model.set_params(solver__n_phases=2, solver__sharpening=1.5)
    assert repr(clone(model).solver) == "PhasedERM(n_phases=2, sharpening=1.5)"
    model.fit(X, scores > 0, groups=groups)
    assert model.n_iter_ == 2
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.coef_, model.coef_)
    assert again.plan_ == model.plan_
    assert str(again.plan_) == str(model.plan_)


def test_a_search_over_its_parameters(data):
    X, scores, groups = data
    search = GridSearchCV(
        DPWorstGroupClassifier(solver=PhasedERM(), random_state=0, radius=10.0, data_norm=1.0),
        {"solver__n_phases": [1, 2], "solver": [PhasedERM(), PhasedERM(sharpening=1.5)]},
        cv=2,
    )
    with config_context(enable_metadata_routing=True):
        search.fit(X, scores > 0, groups=groups)
    assert search.best_score_ > 0.6
    assert len(search.cv_results_["params"]) == 4


def test_a_preview_is_the_plan_of_the_fit(data):
    X, scores, groups = data
    model = DPWorstGroupClassifier(solver="phased-erm", random_state=0, data_norm=1.0)
    sizes = dict(zip(*np.unique(groups, return_counts=True), strict=True))
    preview = model.plan(group_sizes=sizes, n_features=3)
    assert model.fit(X, scores > 0, groups=groups).plan_ == preview


def test_secure_noise_and_no_budget(data):
    X, scores, groups = data
    model = DPWorstGroupClassifier(solver=PhasedERM(2), data_norm=1.0).fit(
        X, scores > 0, groups=groups
    )
    assert not model.privacy_.seeded
    exact = DPWorstGroupClassifier(float("inf"), solver="phased-erm", radius=10.0, data_norm=1.0)
    assert exact.fit(X, scores > 0, groups=groups).plan_.solver == "exact"
    assert isinstance(exact.solver, str)
    assert Exact().get_params()
