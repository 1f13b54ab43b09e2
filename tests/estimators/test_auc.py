"""Does DPAUCClassifier rank, and are the moments of its classes paid for? docs/theory/auc.md."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from sklearn_dpwg import DPAUCClassifier
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.estimators.auc import (
    ClassMoments,
    auc_weights,
    class_moment_sensitivity,
)
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy import Budget, Release
from tests.helpers.replay import distances, fixed_transcript


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


# --- warnings and refusals ---------------------------------------------------------------------


def test_refusals_spend_nothing_and_leave_a_fit_as_it_was(data):
    X, y = data
    fitted = make().fit(X, y)
    before = fitted.coef_.copy()
    for change, call, error, sentence in (
        ({"ridge": -1.0}, (X, y), ValueError, "ridge of DPAUCClassifier must be at least 0"),
        ({"ridge": 0.5, "data_norm": 0.0}, (X, y), ValueError, "data_norm must be a number"),
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
    with pytest.raises(ValueError, match=r"^n_records must be at least 1"):
        make().plan(n_records=0, n_features=3)


# --- moments of two classes: sensitivities, neighbours, solutions --------------------------------

RELEASE = Release("class moments", "gaussian", 1.0, max_count=1)


def encode(rows, *, data_norm=1.0):
    n_records = rows.shape[0]
    return RecordEncoder(1, data_norm).encode(rows, np.zeros(n_records), np.zeros(n_records, int))


def moments_of(rows, is_second, constant=0.5):
    return ClassMoments.of(encode(rows), is_second, constant=constant)


def some_rows(n_records=60, n_features=3, seed=0, shift=0.4):
    rng = np.random.default_rng(seed)
    is_second = rng.uniform(size=n_records) < 0.3
    is_second[:2] = (True, False)
    rows = 0.3 * rng.normal(size=(n_records, n_features)) + shift * is_second[:, None]
    return rows, is_second


# --- moments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, csr_array, lambda rows: rows.astype(np.float32)])
def test_moments_are_those_of_the_rows(form):
    rows, is_second = some_rows()
    moments = moments_of(form(rows), is_second)
    clipped = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    for of_class, chosen in enumerate((~is_second, is_second)):
        own = clipped[chosen]
        assert moments.counts[of_class] == chosen.sum()
        np.testing.assert_allclose(moments.means[of_class], own.mean(axis=0), atol=3e-5)
        covariance = np.cov(own.T, bias=True)
        np.testing.assert_allclose(moments.covariances[of_class], covariance, atol=3e-5)


def vectors_apart(n_features, constant, rng):
    """Return two records with their classes: bad ones, some of them at right angles."""
    along, across = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0][:2]
    angle = rng.choice([0.0, math.pi, math.acos(-min(1.0, constant**2)), rng.uniform(0, 3)])
    first = rng.choice([0.0, 0.3, 1.0, 30.0], p=[0.1, 0.1, 0.6, 0.2]) * along
    second = math.cos(angle) * along + math.sin(angle) * across
    return first, second, rng.choice([False, True], size=2)


def attack(n_trials, *, released=None, keep_classes=False):
    """Return the largest distance of neighbours, in units of the sensitivity that is stated."""
    worst, rng = 0.0, np.random.default_rng(0)
    for trial in range(n_trials):
        n_features = int(rng.integers(2, 6))
        constant = float(rng.choice([0.25, 0.5, 0.75, 1.0]))
        rows, is_second = some_rows(int(rng.choice([2, 3, 20])), n_features, seed=trial)
        one, other, classes = vectors_apart(n_features, constant, rng)
        asked = []
        for record, of_class in ((one, classes[0]), (other, classes[0 if keep_classes else 1])):
            rows[-1], is_second[-1] = record, of_class
            source = fixed_transcript(trial, {"class moments": 10.0 ** rng.uniform(-2, 2)})
            moments = moments_of(rows, is_second, constant)
            (released or ClassMoments.released)(moments, source, RELEASE)
            asked.append(source.asked)
        worst = max(worst, *(distance for _, distance in distances(*asked)))
    return worst


def test_no_neighbour_moves_the_moments_by_more_whatever_its_class():
    assert 0.999 < attack(1200) <= 1.0
    assert 0.99 < attack(400, keep_classes=True) <= 1.0


def counts_for_nothing(moments, noise, release):
    """Release all entries for the price of rows without a constant, as if counts were public."""
    rows, columns = np.triu_indices(moments.sums.shape[1])
    times = np.where(rows == columns, 1.0, math.sqrt(2.0))
    value = moments.sums[:, rows, columns] * times
    return noise.gaussian(value, sensitivity=math.sqrt(2.0), release=release)


def entries_off_the_diagonal_once(moments, noise, release):
    """Double-count: full matrices for the price of triangles that count √2 off the diagonal."""
    sensitivity = class_moment_sensitivity(
        moments.n_records, moments.sums.shape[1] - 1, moments.constant
    )
    return noise.gaussian(2.0**0.5 * moments.sums.ravel(), sensitivity=sensitivity, release=release)


def means_by_exact_counts(moments, noise, release):
    """Divide by counts that are private before the noise."""
    means = moments.sums / np.maximum(moments.sums[:, -1:, -1:], 1e-3)
    sensitivity = math.sqrt(2.0) / moments.n_records
    return noise.gaussian(means.ravel(), sensitivity=sensitivity, release=release)


@pytest.mark.parametrize(
    "fault", [counts_for_nothing, entries_off_the_diagonal_once, means_by_exact_counts]
)
def test_planted_faults_are_caught(fault):
    assert attack(300, released=fault) > 1.0


# --- solutions ---------------------------------------------------------------------------------


def test_weights_minimise_the_square_surrogate():
    rows, is_second = some_rows(80)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    pairs = (rows[is_second][:, None] - rows[~is_second][None]).reshape(-1, 3)
    best = minimize(lambda w: ((1.0 - pairs @ w) ** 2).mean(), np.zeros(3)).x
    result = auc_weights(moments_of(rows, is_second))
    cosine = result @ best / np.linalg.norm(result) / np.linalg.norm(best)
    assert cosine == pytest.approx(1.0, abs=1e-6)
