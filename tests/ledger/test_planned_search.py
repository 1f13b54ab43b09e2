"""Searches of scikit-learn are planned, and refused before their first fit where they cannot go."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import BudgetExceededError, UnsupportedMechanismError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import worst_group_scorer
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.preprocessing import BoundedScaler
from sklearn_dpwg.solvers import MGR

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")

DELTA = 1e-4
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(400, 2))
Y = X[:, 0]
FACTS = {"group_sizes": [220, 180], "n_features": 2}


def halves(rows):
    return np.asarray(rows)[:, 1] > 0.0


def model(kind=DPWorstGroupRegressor, **parameters):
    public = {"data_norm": 1.0, "delta": DELTA, "solver": MGR(n_steps=3), "group_by": halves}
    if kind is DPWorstGroupRegressor:
        public["target_bounds"] = (-1, 1)
    return kind(**public | parameters)


def grid(estimator=None, values=None, **parameters):
    parameters = {"cv": 3} | parameters
    return GridSearchCV(
        model() if estimator is None else estimator, values or {"radius": [1.0, 2.0]}, **parameters
    )


SEARCHES = {
    "grid": (lambda: grid(), 7, 1),
    "grid without a refit": (lambda: grid(refit=False), 6, 0),
    "folds by default": (lambda: grid(cv=None), 11, 1),
    "a splitter": (lambda: grid(cv=KFold(4)), 9, 1),
    "a pipeline": (
        lambda: grid(
            make_pipeline(BoundedScaler((-1, 1)), model()),
            {"dpworstgroupregressor__radius": [1.0, 2.0, 3.0]},
        ),
        10,
        1,
    ),
    "budgets of their own": (lambda: grid(values={"epsilon": [0.3, 0.9, 0.5]}), 10, 1),
    "random": (
        lambda: RandomizedSearchCV(model(), {"radius": uniform(1, 2)}, n_iter=4, cv=2),
        9,
        1,
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_plan_is_what_the_ledger_charges(name):
    make, n_fits, refits = SEARCHES[name]
    with PrivacyLedger(100.0, DELTA) as ledger:
        model().fit(X, Y)
        spent = ledger.epsilon_spent
        planned = ledger.plan_search(make(), **FACTS)
        assert ledger.epsilon_spent == spent
        make().fit(X, Y)
        charged = ledger.rows[1:]
    assert planned.n_fits == len(charged) == n_fits
    assert planned.refits == refits
    assert planned.epsilon_spent == spent
    dearest = max(row.guarantee.epsilon for row in charged)
    if name != "budgets of their own":
        assert planned.epsilon_after == pytest.approx(ledger.epsilon_spent, rel=1e-9)
    else:  # the refit may be a cheaper one
        assert planned.epsilon_after >= ledger.epsilon_spent
    assert max(fit.epsilon for fit in planned.fits) == pytest.approx(dearest, rel=1e-6)
    assert planned.is_affordable
    assert f"Search of {n_fits} fits, {refits} of them on all records." in str(planned)


def test_a_private_search_is_one_fit():
    search = DPSearchCV(model(group_by=None), {"radius": [1.0, 2.0]}, epsilon=2.0, delta=DELTA)
    planned = PrivacyLedger(1.0, DELTA).plan_search(search, **FACTS)
    assert planned.n_fits == 1
    assert planned.guarantee.epsilon == pytest.approx(search.planned_guarantee().epsilon)
    assert not planned.is_affordable
    assert "is above the budget of 1: fewer candidates or folds" in str(planned)


@pytest.mark.parametrize(
    ("search", "error", "message"),
    [
        (model(), TypeError, "^search must be a GridSearchCV, RandomizedSearchCV or DPSearchCV"),
        (grid(LinearRegression(), {"copy_X": [True]}), ValueError, "^search must hold a private"),
        (
            grid(BaggingRegressor(model()), {"n_estimators": [2]}),
            UnsupportedMechanismError,
            "^search must fit private estimators alone or at the end of pipelines",
        ),
    ],
)
def test_what_cannot_be_planned(search, error, message):
    with pytest.raises(error, match=message):
        PrivacyLedger(1.0, DELTA).plan_search(search, **FACTS)


# --- refused at the start -----------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_cannot_pay_for_all_its_fits_spends_nothing(name, n_jobs):
    make = SEARCHES[name][0]
    planned = PrivacyLedger(1.0, DELTA).plan_search(make(), **FACTS)
    needed = planned.epsilon_after
    with PrivacyLedger(0.999 * needed, DELTA) as ledger:
        with pytest.raises(BudgetExceededError, match=r"^this search makes \d+ fits, .* Nothing"):
            make().set_params(n_jobs=n_jobs).fit(X, Y)
        assert not ledger.rows
    if n_jobs is None:
        with PrivacyLedger(1.001 * needed, DELTA) as ledger:
            search = make().fit(X, Y)
            assert len(ledger.rows) == planned.n_fits
            search.set_params(refit=False)
            with pytest.raises(BudgetExceededError, match=r"^this search makes"):
                search.fit(X, Y)  # a second time
            assert len(ledger.rows) == planned.n_fits


def test_a_start_is_planned_for_too():
    start = model(epsilon=2.0).fit(X, Y)
    for search in (
        grid(model(start=start)),
        grid(values={"start": [None, FrozenEstimator(start)]}),
        grid(make_pipeline(model(start=start)), {"dpworstgroupregressor__radius": [1.0, 2.0]}),
    ):
        without = PrivacyLedger(9.0, DELTA).plan_search(grid(), **FACTS).epsilon_after
        needed = PrivacyLedger(9.0, DELTA).plan_search(search, **FACTS).epsilon_after
        assert needed > without
        with PrivacyLedger(0.999 * needed, DELTA) as ledger:
            with pytest.raises(BudgetExceededError, match="and those that they begin with would"):
                search.fit(X, Y)
            assert not ledger.rows
        with PrivacyLedger(1.001 * needed, DELTA) as ledger:
            search.fit(X, Y)
            assert ledger.epsilon_spent == pytest.approx(needed, rel=1e-9)
            # it is known now
            again = ledger.plan_search(search, **FACTS)
            assert (
                again.epsilon_after
                < PrivacyLedger(9.0, DELTA).plan_search(search, **FACTS).epsilon_after
                + ledger.epsilon_spent
            )


def test_groups_that_are_passed_are_those_of_the_plan():
    groups = np.where(halves(X), "a", "b")
    search = grid(make_pipeline(model(group_by=None)), {"dpworstgroupregressor__radius": [1, 2]})
    with PrivacyLedger(0.5, DELTA) as ledger:
        with pytest.raises(BudgetExceededError, match=r"^this search makes 7 fits"):
            search.fit(X, Y, dpworstgroupregressor__groups=groups)
        assert not ledger.rows


@pytest.mark.parametrize("in_ledger", [True, False])
@pytest.mark.parametrize(
    ("search", "message"),
    [
        (grid(values={"radius": [1.0, -2.0]}), "^radius must be a positive finite number, got -2"),
        (grid(model(target_bounds=None)), "^target_bounds must be said at a finite epsilon"),
        (grid(model(group_by=None), scoring=worst_group_scorer()), "^no groups reached the score"),
        (
            grid(model(group_by=None), scoring={"a": worst_group_scorer("r2")}, refit="a"),
            "^no groups reached the scorer",
        ),
    ],
)
def test_what_public_facts_tell_is_told_before_the_first_fit(
    search, message, in_ledger, monkeypatch
):
    if in_ledger:
        with PrivacyLedger(100.0, DELTA) as ledger:
            with pytest.raises(ValueError, match=message):
                search.fit(X, Y)
            assert not ledger.rows
        return
    fits = []
    monkeypatch.setattr(DPWorstGroupRegressor, "fit", lambda self, *args, **kw: fits.append(self))
    with pytest.raises(ValueError, match=message):
        search.fit(X, Y)
    assert not fits


def test_a_function_that_no_job_can_have_is_refused():
    lock = threading.Lock()

    def locked(rows):
        with lock:
            return halves(rows)

    search = grid(model(group_by=locked))
    with PrivacyLedger(100.0, DELTA) as ledger:
        with pytest.raises(ValueError, match=r"^group_by must be a function that can be pickled"):
            search.set_params(n_jobs=2).fit(X, Y)
        assert not ledger.rows
        search.set_params(n_jobs=None).fit(X, Y)  # without jobs it will do
        assert len(ledger.rows) == 7


def test_a_scorer_takes_the_groups_of_the_model():
    y = np.where(X[:, 0] > 0, "yes", "no")
    classifier = model(DPWorstGroupClassifier, epsilon=50.0)
    plain = cross_val_score(classifier, X, y, cv=2, scoring=worst_group_scorer())
    assert np.isfinite(plain).all()
    said = worst_group_scorer(group_by=halves)
    search = grid(classifier, {"radius": [5.0]}, cv=2, scoring=worst_group_scorer()).fit(X, y)
    assert worst_group_scorer()(search, X, y) == said(search, X, y)
