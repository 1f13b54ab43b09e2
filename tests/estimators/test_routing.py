"""Groups on their way through pipelines and searches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.solvers import MGR

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning"),
]


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def pipeline_of(estimator):
    return Pipeline([("same", FunctionTransformer()), ("est", estimator)])


def search_of(estimator):
    grid = {"est__solver__n_steps": [2, 3], "est__epsilon": [1.0, 2.0]}
    return GridSearchCV(pipeline_of(estimator), grid, cv=3, error_score="raise")


def assert_grouped(fitted, expected):
    assert fitted.group_labels_.tolist() == ["a", "b", "c"]
    assert np.array_equal(fitted.coef_, expected.coef_)


@pytest.mark.usefixtures("routing")
def test_fit_asks_for_groups(task):
    estimator = task.make()
    assert estimator.get_metadata_routing().fit.requests == {"groups": True}
    other = estimator.set_fit_request(groups="race")
    assert other.get_metadata_routing().fit.requests == {"groups": "race"}
    assert task.make().get_metadata_routing().fit.requests == {"groups": True}


@pytest.mark.usefixtures("routing")
def test_routed_through_a_pipeline(task):
    X, y, groups = task.data
    fitted = pipeline_of(task.make()).fit(X, y, groups=groups)
    assert_grouped(fitted[-1], task.fit())


@pytest.mark.usefixtures("routing")
def test_routed_through_a_search(task):
    X, y, groups = task.data
    found = search_of(task.make()).fit(X, y, groups=groups)
    best = found.best_estimator_[-1]
    assert_grouped(best, task.fit(epsilon=best.epsilon, solver=best.solver))


@pytest.mark.usefixtures("routing")
def test_routed_through_cross_validation(task):
    X, y, groups = task.data
    found = cross_validate(
        task.make(), X, y, params={"groups": groups}, return_estimator=True, error_score="raise"
    )
    assert all(fitted.group_sizes_.sum() == 72 for fitted in found["estimator"])
    assert all(len(fitted.group_labels_) == 3 for fitted in found["estimator"])


def test_named_in_a_pipeline(task):
    X, y, groups = task.data
    fitted = pipeline_of(task.make()).fit(X, y, est__groups=groups)
    assert_grouped(fitted[-1], task.fit())


def test_named_in_a_search(task):
    X, y, groups = task.data
    found = search_of(task.make()).fit(X, y, est__groups=groups)
    best = found.best_estimator_[-1]
    assert_grouped(best, task.fit(epsilon=best.epsilon, solver=best.solver))


def test_groups_that_stop_at_the_splitter_are_missed(task):
    X, y, groups = task.data
    search = GridSearchCV(task.make(), {"epsilon": [1.0]}, cv=GroupKFold(3))
    with pytest.warns(UngroupedWarning):
        assert search.fit(X, y, groups=groups).best_estimator_.group_labels_.tolist() == [0]
    search.set_params(estimator__group_labels=["a", "b", "c"], error_score="raise")
    with pytest.raises(ValueError, match=r"^groups must be given where group_labels is set"):
        search.fit(X, y, groups=groups)


def test_computed_in_a_search(task):
    X = pd.DataFrame(task.data.X, columns=["u", "v", "w"])
    X["w"] = (X["w"] > 0).astype(float)
    estimator = task.make(solver=MGR(n_steps=2), group_by="w")
    found = GridSearchCV(estimator, {"epsilon": [1.0, 2.0]}, cv=3).fit(X, task.data.y)
    assert found.best_estimator_.group_labels_.tolist() == [0.0, 1.0]
    columns = make_pipeline(FunctionTransformer(), task.make(group_by=2))
    assert columns.fit(X.to_numpy(), task.data.y)[-1].group_labels_.tolist() == [0.0, 1.0]
