"""Private searches, and what a ledger counts of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.preprocessing import BoundedScaler
from sklearn_dpwg.solvers import MGR
from tests.helpers.search_cases import GROUPS, X, Y, model, search

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}")
    for name in ("SeededNoiseWarning", "WeakPlanWarning", "NoProtectionWarning")
]


def test_search():
    result = search(random_state=0).fit(X, Y, GROUPS)
    assert result.best_params_ in [{"radius": 0.5}, {"radius": 5.0}]
    assert result.best_estimator_.radius == result.best_params_["radius"]
    assert result.best_estimator_.epsilon == result.plan_.run_epsilon
    assert result.privacy_.seeded
    assert result.privacy_.epsilon == result.plan_.guarantee.epsilon <= 2.0
    assert result.classes_.tolist() == ["no", "yes"]
    assert result.n_features_in_ == 2
    assert np.array_equal(result.predict(X), result.best_estimator_.predict(X))
    assert result.predict_proba(X).shape == (600, 2)
    assert result.decision_function(X).shape == (600,)
    assert result.score(X, Y) == np.mean(result.predict(X) == Y)
    again = search(random_state=0).fit(X.tolist(), Y.tolist(), GROUPS.tolist())
    assert again.best_score_ == result.best_score_
    np.testing.assert_array_equal(again.best_estimator_.coef_, result.best_estimator_.coef_)
    assert privacy_of(result) == privacy_of(result.best_estimator_) == result.privacy_
    assert pickle.loads(pickle.dumps(result)).best_score_ == result.best_score_


def test_regression_and_a_scoring_of_ones_own():
    y = X[:, 0]
    estimator = DPWorstGroupRegressor(solver=MGR(n_steps=2), data_norm=1.0, target_bounds=(-1, 1))
    result = search(estimator, random_state=0).fit(X, y, GROUPS)
    assert 0.5 < result.best_score_ < 1.5
    assert not hasattr(result, "predict_proba")
    mine = search(estimator, scoring=lambda m, X, y: np.full(len(y), 0.25), epsilon=50.0)
    assert mine.fit(X, y, GROUPS).best_score_ == pytest.approx(0.25, abs=0.2)


def test_pipelines_groups_by_column_and_routing():
    pipe = make_pipeline(BoundedScaler((-0.5, 0.5)), model())
    grid = {"dpworstgroupclassifier__radius": [0.5, 5.0]}
    by_column = search(pipe, grid, group_by=lambda X: np.where(X[:, 1] > 0.2, "a", "b"))
    assert by_column.fit(X, Y).best_estimator_[-1].group_labels_.tolist() == ["a", "b"]
    with config_context(enable_metadata_routing=True):
        outer = make_pipeline(BoundedScaler((-0.5, 0.5)), search(pipe, grid))
        fitted = outer.fit(X, Y, groups=GROUPS)
    assert fitted[-1].best_estimator_[-1].group_labels_.tolist() == ["a", "b"]


def test_a_ledger_counts_the_search_once():
    with PrivacyLedger(3.0, 1e-6) as ledger:
        search(n_iter=6).fit(X, Y, GROUPS)
        assert [row.what for row in ledger.rows] == ["DPSearchCV"]
        assert ledger.epsilon_spent == pytest.approx(2.0, rel=1e-4)
        with pytest.raises(BudgetExceededError):
            search().fit(X, Y, GROUPS)
        model(epsilon=0.5).fit(X, Y, GROUPS)  # and fits outside are counted again
    assert len(ledger.rows) == 2


def test_what_a_scoring_fits_is_charged():
    def scoring(fitted, X, y):
        model(epsilon=50.0, group_by=lambda X: np.ones(len(X)), classes=["no", "yes"]).fit(X, y)
        return fitted.predict(X) == y

    with PrivacyLedger(3.0, 1e-6) as ledger:
        with pytest.raises(BudgetExceededError):
            search(scoring=scoring).fit(X, Y, GROUPS)
        assert not ledger.rows  # it is tried before the first run
    with PrivacyLedger(1000.0, 1e-6) as ledger:
        search(scoring=scoring, n_iter=1.0).fit(X, Y, GROUPS)
        assert {row.what for row in ledger.rows} == {"DPSearchCV", "DPWorstGroupClassifier"}


def test_what_a_step_of_a_candidate_fits_is_charged():
    """What is paid for is the model's own fit, not the first that comes."""
    fitted = []

    def fits_inside(rows):
        again = model(epsilon=50.0, group_by=lambda X: np.ones(len(X)))
        fitted.append(again.fit(rows, (rows[:, 0] > 0).astype(int)))
        return rows

    estimator = make_pipeline(FunctionTransformer(fits_inside), model())
    chosen = search(estimator, {"dpworstgroupclassifier__radius": [1.0, 2.0]}, n_iter=1.0)
    with PrivacyLedger(3.0, 1e-6) as ledger:
        with pytest.raises(BudgetExceededError):
            chosen.fit(X, Y, GROUPS)
        assert fitted == []
        assert {row.what for row in ledger.rows} <= {"DPSearchCV"}


@pytest.mark.parametrize("seed", range(3))
def test_classes_are_those_of_all_records_not_of_the_part_fitted_on(seed):
    rare = Y.astype(object)
    rare[0] = "rare"  # held out, or fitted on: a coin decides
    result = search(random_state=seed, n_iter=1).fit(X, rare, GROUPS)
    assert result.classes_.tolist() == ["no", "rare", "yes"]
    lonely = np.where(np.arange(600) == 5, "yes", "no")
    assert search(random_state=seed, n_iter=1).fit(X, lonely, GROUPS).classes_.size == 2
