"""Does DPAUCClassifier rank, protect classes, and behave like its neighbours in the package?"""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPAUCClassifier
from sklearn_dpwg.estimators.auc import ClassMoments, class_moment_sensitivity
from sklearn_dpwg.exceptions import (
    BudgetExceededError,
    DataNormWarning,
    NoProtectionWarning,
    OutsideGuaranteeWarning,
    SeededNoiseWarning,
)
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.privacy import Budget


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(4000, 3))
    y = np.where(X @ [2.0, -1.0, 0.5] + 0.4 * rng.normal(size=4000) > 0.4, "yes", "no")
    return X, y


def make(epsilon=1.0, **others):
    return DPAUCClassifier(epsilon, data_norm=1.0, **others)


def auc(model, X, y):
    return roc_auc_score(y == model.classes_[1], model.decision_function(X))


# --- it ranks ----------------------------------------------------------------------------------


def test_it_ranks_nearly_as_well_as_without_noise(data):
    exact = make(math.inf).fit(*data)
    assert auc(exact, *data) > 0.85
    assert np.mean([auc(make().fit(*data), *data) for _ in range(5)]) > auc(exact, *data) - 0.02
    assert exact.plan_.releases == ()
    assert not exact.privacy_.is_private
    assert "without any privacy" in str(exact.plan_)


def test_without_noise_it_is_discriminant_analysis_where_classes_are_alike():
    X = 0.2 * np.random.default_rng(1).normal(size=(1000, 3))
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    X = np.concatenate([X * 0.5, X * 0.5 + [0.2, 0.0, -0.1]])  # the same rows, moved
    y = np.repeat([0, 1], 1000)
    model = make(math.inf).fit(X, y)
    other = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-3)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-3)


def test_neither_units_nor_forms_of_rows_matter(data):
    X, y = data
    scores = make(math.inf).fit(X, y).decision_function(X)
    other = DPAUCClassifier(math.inf, data_norm=1000.0).fit(1000.0 * X, y)
    np.testing.assert_allclose(other.decision_function(1000.0 * X), scores, 1e-6)
    for form in (csr_array(X), X.astype(np.float32), pd.DataFrame(X, columns=["a", "b", "c"])):
        found = make(math.inf).fit(form, y).decision_function(form)
        np.testing.assert_allclose(found, scores, atol=1e-3)


def test_outputs_agree_with_each_other_and_with_copies(data):
    X, y = data
    model = make().fit(X, y)
    scores, chances = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_allclose(scores, X @ model.coef_[0] + model.intercept_[0])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(chances), model.predict_log_proba(X))
    assert np.array_equal(model.predict(X), model.classes_[(chances[:, 1] > 0.5).astype(int)])
    assert model.class_counts_.sum() == pytest.approx(4000)
    assert abs(model.class_counts_[1] - (y == "yes").sum()) < 200
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert not hasattr(clone(model), "coef_")


def test_few_records_are_fitted():
    model = make(math.inf).fit([[0.1, 0.3], [0.2, 0.1], [0.2, 0.1]], ["a", "b", "b"])
    assert model.predict([[0.1, 0.3], [0.2, 0.1]]).tolist() == ["a", "b"]
    two = make(delta=0.1).fit([[0.1], [0.2]], [0, 1])
    one = make(delta=0.1, classes=[0, 1]).fit([[0.1]], [1])  # to noise
    assert one.class_counts_.tolist() == [0.5, 0.5]
    for each in (model, two, one):
        assert np.isfinite(each.coef_).all()
        assert np.isfinite(each.intercept_).all()


# --- its privacy -------------------------------------------------------------------------------


def test_neighbours_of_another_class_get_the_same_from_the_same_release(data, monkeypatch):
    """What is learned follows from the noisy moments alone; everything else is public."""
    X, y = data[0][:50].copy(), data[1][:50].copy()
    fits, moments = [], []
    for label in ("yes", "no"):
        y[7], X[7] = label, -X[7]
        true = ClassMoments.released

        def released(self, noise, release, true=true):
            moments.append(self.sums)
            same = ClassMoments(np.stack([9 * np.eye(4), 7 * np.eye(4)]), self.constant, 50)
            true(self, noise, release)
            return ClassMoments(same.sums, self.constant, self.n_records, 0.3)

        with monkeypatch.context() as patch:
            patch.setattr(ClassMoments, "released", released)
            fits.append(make(delta=1e-3).fit(X, y))
    assert not np.array_equal(*moments)
    for name in ("coef_", "intercept_", "class_counts_"):
        assert np.array_equal(getattr(fits[0], name), getattr(fits[1], name))
    assert fits[0].plan_ == fits[1].plan_
    assert fits[0].privacy_ == fits[1].privacy_
    assert set(vars(fits[0])) == set(vars(fits[1]))


def test_noise_has_the_planned_scale(monkeypatch):
    """Of what is learned from: every entry, of either class."""
    kept, true = [], ClassMoments.released

    def released(self, noise, release):
        kept.append((self, true(self, noise, release)))
        return kept[-1][1]

    monkeypatch.setattr(ClassMoments, "released", released)
    X = np.random.default_rng(0).normal(size=(200, 40))
    plan = make(delta=1e-3).fit(X, np.where(X[:, 0] > 0, "yes", "no")).plan_
    ((exact, noisy),) = kept
    rows, columns = np.triu_indices(41)
    times = np.where(rows == columns, 1.0, math.sqrt(2.0))
    units = (noisy.sums - exact.sums)[:, rows, columns] * times / plan.noise_std
    assert np.abs(units).min() > 0.0
    assert units.std(axis=1) == pytest.approx([1.0, 1.0], abs=0.12)  # five deviations
    sensitivity = class_moment_sensitivity(200, 40, 0.75)
    assert plan.noise_std == plan.releases[0].noise_multiplier * sensitivity
    assert sensitivity >= math.sqrt(2.0) * (1.0 + 0.75**2)


@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_the_plan_is_what_a_fit_does_and_costs_the_budget(data, rows_per_person):
    X, y = data
    model = make(0.7, rows_per_person=rows_per_person)
    plan = model.plan(n_records=4000, n_features=3)
    model.fit(X, y)
    assert plan == model.plan_
    assert 0.69 < model.privacy_.epsilon <= 0.7
    assert model.privacy_.records_per_person == rows_per_person
    assert model.planned_guarantee() == model.privacy_ == plan.guarantee
    text = str(plan)
    for words in ("class moments: 1 x gaussian", "not who is in which", "4,000 records"):
        assert words in text
    multiplier = plan.releases[0].noise_multiplier
    assert multiplier == pytest.approx(rows_per_person / Budget(0.7, 1e-6).mu, rel=1e-5)


def test_ledgers_count_it_and_searches_of_it(data):
    X, y = data
    with PrivacyLedger(epsilon=1.1, delta=1e-5) as ledger:
        make().fit(X, y)
        with pytest.raises(BudgetExceededError):
            make().fit(X, y)
    assert len(ledger.rows) == 1
    scaled = make_pipeline(DPStandardScaler(bounds=(-1, 1)), make())
    with pytest.warns(DataNormWarning):
        scaled.set_params(dpaucclassifier__data_norm=None).fit(X, y)
    assert privacy_of(scaled).epsilon > 1.2
    search = GridSearchCV(make(), {"ridge": [0.2, 1.0]}, cv=2).fit(X, y)
    with pytest.warns(OutsideGuaranteeWarning):
        total = privacy_of(search)
    assert total.epsilon > 2.0


# --- warnings and refusals ---------------------------------------------------------------------


def test_warnings(data):
    X, y = data
    for model, category in (
        (DPAUCClassifier(), DataNormWarning),
        (make(delta=0.01), NoProtectionWarning),
        (make(1000.0), NoProtectionWarning),
        (make(random_state=0), SeededNoiseWarning),
    ):
        with pytest.warns(category):
            model.fit(X, y)
    assert "void" in str(model.privacy_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit(X, y)


def test_refusals_spend_nothing_and_leave_a_fit_as_it_was(data):
    X, y = data
    fitted = make().fit(X, y)
    before = fitted.coef_.copy()
    for change, call, error, sentence in (
        ({"ridge": -1.0}, (X, y), ValueError, "ridge of DPAUCClassifier must be at least 0"),
        ({"ridge": 0.5, "data_norm": 0.0}, (X, y), ValueError, "data_norm must be a positive"),
        ({"data_norm": 1.0, "epsilon": -1}, (X, y), ValueError, "epsilon must"),
        ({"epsilon": 1.0, "rows_per_person": 0}, (X, y), ValueError, "rows_per_person must"),
        ({"rows_per_person": 1}, (X, X[:, 0] > 9), ValueError, "classes must be at least two"),
        ({}, (X, np.arange(4000) % 3), ValueError, "Only binary classification is supported"),
        ({"classes": ["no", "maybe"]}, (X, y), ValueError, "y must hold no class outside"),
        ({"classes": None}, (X[:, :0], y), ValueError, "feature"),
    ):
        fitted.set_params(**change)
        with PrivacyLedger(epsilon=9.0, delta=1e-5) as ledger, pytest.raises(error, match=sentence):
            fitted.fit(*call)
        assert len(ledger.rows) == 0
        assert np.array_equal(fitted.coef_, before)
    for name in ("sample_weight", "groups", "colour"):
        with pytest.raises(TypeError, match=name):
            make().fit(X, y, **{name: y})
    with pytest.raises(ValueError, match=r"^n_records must be a positive whole number"):
        make().plan(n_records=0, n_features=3)
