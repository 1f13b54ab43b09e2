"""The total of what was fitted inside something."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import OutsideGuaranteeWarning, UnsupportedMechanismError
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    Release,
    gdp_epsilon,
    gdp_mu,
    privacy_of,
)
from sklearn_dpwg.solvers import MGR

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.DeltaWarning"),
]

DELTA = 1e-6
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(400, 2))
Y = X[:, 0]
LABELS = np.where(X[:, 0] + 0.2 * RNG.normal(size=400) > 0, "yes", "no")


def ones(rows):
    return np.ones(len(rows))


def model(kind=DPWorstGroupRegressor, **parameters):
    return kind(**{"solver": MGR(n_steps=3), "delta": DELTA, "group_by": ones} | parameters)


def epsilon_of_fits(*epsilons):
    return gdp_epsilon(DELTA, math.hypot(*(gdp_mu(epsilon, DELTA) for epsilon in epsilons)))


def silently(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutsideGuaranteeWarning)
        return privacy_of(fitted)


def test_one_model():
    fitted = model().fit(X, Y)
    assert silently(fitted) == fitted.privacy_


def test_pipeline():
    pipe = make_pipeline(
        FunctionTransformer(), BoundedScaler(), DPStandardScaler(0.5, DELTA), model()
    ).fit(X, Y)
    found = silently(pipe)
    assert found.epsilon == pytest.approx(epsilon_of_fits(0.5, 1.0), rel=1e-5)
    assert set(found.public) >= {*pipe[-1].privacy_.public, *pipe[-2].privacy_.public}
    assert PrivacyGuarantee.from_json(found.to_json()) == found


def test_what_learns_is_named():
    pipe = make_pipeline(StandardScaler(), model()).fit(X, Y)
    with pytest.warns(OutsideGuaranteeWarning, match="StandardScaler: all that it learned"):
        found = privacy_of(pipe)
    assert found.outside == ("StandardScaler: all that it learned",)
    assert found.epsilon == pipe[-1].privacy_.epsilon
    assert "Not covered here: StandardScaler: all that it learned." in str(found)
    assert PrivacyGuarantee.from_json(found.to_json()) == found


def test_columns():
    table = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "w": LABELS})

    def fitted(encoder):
        parts = [("n", BoundedScaler(), ["u", "v"]), ("c", encoder, ["w"])]
        return make_pipeline(ColumnTransformer(parts), model()).fit(table, Y)

    stated = OneHotEncoder(categories=[["no", "yes"]])
    assert silently(fitted(stated)).outside == ()
    for encoder in (OneHotEncoder(), OneHotEncoder(categories=[["no", "yes"]], max_categories=2)):
        found = privacy_of(fitted(encoder), warn=False)
        assert found.outside == ("OneHotEncoder: all that it learned",)


@pytest.mark.parametrize(
    "search",
    [
        GridSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=3),
        RandomizedSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=3, n_iter=2),
        GridSearchCV(make_pipeline(BoundedScaler(), model()),
                     {"dpworstgroupregressor__epsilon": [0.5, 1.0]}, cv=3),
    ],
)  # fmt: skip
def test_a_search_costs_what_a_ledger_counts(search):
    with PrivacyLedger(100.0, DELTA) as book:
        search.fit(X, Y)
    with pytest.warns(OutsideGuaranteeWarning, match="SearchCV: the choice by scores of held-out"):
        found = privacy_of(search)
    best = privacy_of(search.best_estimator_).requested_epsilon
    expected = epsilon_of_fits(*[0.5, 1.0] * 3, best)
    assert found.epsilon == pytest.approx(expected, rel=1e-4)
    assert found.epsilon == pytest.approx(book.epsilon_spent, rel=1e-6)


@pytest.mark.parametrize(
    ("wrap", "n_fits", "name"),
    [
        (lambda m: CalibratedClassifierCV(m, cv=2), 2, "CalibratedClassifierCV: the calibration"),
        (lambda m: TunedThresholdClassifierCV(m, cv=2), 3, "the choice of the threshold"),
        (lambda m: TunedThresholdClassifierCV(m, cv=0.5), 2, "the choice of the threshold"),
    ],
)
def test_what_is_learned_around(wrap, n_fits, name):
    with PrivacyLedger(100.0, DELTA) as book:
        fitted = wrap(model(DPWorstGroupClassifier)).fit(X, LABELS)
    found = privacy_of(fitted, warn=False)
    assert name in found.outside[0]
    assert found.epsilon == pytest.approx(book.epsilon_spent, rel=1e-6)
    assert found.epsilon == pytest.approx(epsilon_of_fits(*[1.0] * n_fits), rel=1e-4)


def test_several_models():
    bag = BaggingRegressor(model(), n_estimators=3, bootstrap=False).fit(X, Y)
    assert silently(bag).epsilon == pytest.approx(epsilon_of_fits(1.0, 1.0, 1.0), rel=1e-4)
    assert silently(bag).seeded  # bagging seeds its estimators
    twice = BaggingRegressor(model(), n_estimators=2, bootstrap=True, random_state=0).fit(X, Y)
    times = [np.bincount(samples).max() for samples in twice.estimators_samples_]
    assert min(times) > 1
    mu = gdp_mu(1.0, DELTA) * math.hypot(*times)
    assert silently(twice).epsilon == pytest.approx(gdp_epsilon(DELTA, mu), rel=1e-4)
    folds = cross_validate(model(), X, Y, cv=3, return_estimator=True)["estimator"]
    assert silently(folds).epsilon == pytest.approx(epsilon_of_fits(1.0, 1.0, 1.0), rel=1e-4)


def test_noise_of_other_kinds_adds_up_too():
    fitted, other = model().fit(X, Y), model()
    other.privacy_ = PrivacyGuarantee.from_releases(
        [Release("a", "laplace", 2.0, max_count=3), Release("b", "gaussian", 5.0, 2, None, 0.1)],
        DELTA,
    )
    found = silently([fitted, other])
    releases = [*fitted.plan_.releases, Release("a", "laplace", 2.0, max_count=3),
                Release("b", "gaussian", 5.0, 2, None, 0.1)]  # fmt: skip
    expected = PrivacyGuarantee.from_releases(releases, DELTA)
    assert found.epsilon == pytest.approx(expected.epsilon, rel=1e-3)
    assert found.epsilon_at(1e-5) == pytest.approx(expected.epsilon_at(1e-5), rel=1e-3)


def test_non_private():
    found = privacy_of([model().fit(X, Y), model(epsilon=math.inf).fit(X, Y)], warn=False)
    assert not found.is_private


def test_fits_that_cannot_be_known(monkeypatch):
    search = GridSearchCV(model(), {"epsilon": [1.0]}, cv=2).fit(X, Y)
    sampled = PrivacyGuarantee.from_releases([Release("r", "laplace", 2.0, max_count=3)], DELTA)

    class Plan:
        guarantee = sampled

    monkeypatch.setattr(DPWorstGroupRegressor, "plan", lambda self, **facts: Plan)
    with pytest.raises(UnsupportedMechanismError, match="run the search inside a PrivacyLedger"):
        privacy_of(search, warn=False)


@pytest.mark.parametrize("other", [LinearRegression().fit(X, Y), 5, [], None, "model"])
def test_nothing_private_inside(other):
    with pytest.raises(ValueError, match=r"^fitted holds no private fit, got "):
        privacy_of(other)


def test_search_without_refit():
    search = GridSearchCV(model(), {"epsilon": [1.0]}, cv=2, refit=False).fit(X, Y)
    with pytest.raises(ValueError, match="refit=False"):
        privacy_of(search)
