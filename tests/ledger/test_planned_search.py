"""What a search of scikit-learn will cost is planned, and is what the ledger charges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import worst_group_scorer
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.preprocessing import BoundedScaler
from sklearn_dpwg.solvers import MGR
from tests.helpers.ledger_cases import X, Y

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")

DELTA = 1e-4
FACTS = {"group_sizes": [220, 180], "n_features": 2}
RADIUS = "dpworstgroupregressor__radius"


def halves(rows):
    return np.asarray(rows)[:, 1] > 0.0


def model(kind=DPWorstGroupRegressor, **parameters):
    bounds = {"target_bounds": (-1, 1)} if kind is DPWorstGroupRegressor else {}
    public = {"data_norm": 1.0, "delta": DELTA, "solver": MGR(n_steps=3), "group_by": halves}
    return kind(**public | bounds | parameters)


def grid(estimator=None, values=None, cv=3, **parameters):
    estimator = model() if estimator is None else estimator
    return GridSearchCV(estimator, values or {"radius": [1.0, 2.0]}, cv=cv, **parameters)


SEARCHES = {
    "grid": (lambda: grid(), 7, 1),
    "grid without a refit": (lambda: grid(refit=False), 6, 0),
    "folds by default": (lambda: grid(cv=None), 11, 1),
    "a splitter": (lambda: grid(cv=KFold(4)), 9, 1),
    "a pipeline": (
        lambda: grid(make_pipeline(BoundedScaler((-1, 1)), model()), {RADIUS: [1.0, 2.0, 3.0]}),
        *(10, 1),
    ),
    "budgets of their own": (lambda: grid(values={"epsilon": [0.3, 0.9, 0.5]}), 10, 1),
    "random": (
        lambda: RandomizedSearchCV(model(), {"radius": uniform(1, 2)}, n_iter=4, cv=2),
        *(9, 1),
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
        (model(), TypeError, "be a GridSearchCV, RandomizedSearchCV or DPSearchCV"),
        (grid(LinearRegression(), {"copy_X": [True]}), ValueError, "hold a private"),
        (
            grid(BaggingRegressor(model()), {"n_estimators": [2]}),
            *(UnsupportedMechanismError, "fit private estimators alone or at the end of pipelines"),
        ),
    ],
)
def test_what_cannot_be_planned(search, error, message):
    with pytest.raises(error, match=f"^search must {message}"):
        PrivacyLedger(1.0, DELTA).plan_search(search, **FACTS)


def test_a_start_is_planned_for_too():
    def after(search, budget=9.0):
        return PrivacyLedger(budget, DELTA).plan_search(search, **FACTS)

    start = model(epsilon=2.0).fit(X, Y)
    for search in (
        grid(model(start=start)),
        grid(values={"start": [None, FrozenEstimator(start)]}),
        grid(make_pipeline(model(start=start)), {RADIUS: [1.0, 2.0]}),
    ):
        needed = after(search).epsilon_after
        assert needed > after(grid()).epsilon_after
        assert not after(search, 0.999 * needed).is_affordable
        with PrivacyLedger(1.001 * needed, DELTA) as ledger:
            search.fit(X, Y)
            assert ledger.epsilon_spent == pytest.approx(needed, rel=1e-9)
            # it is known now
            again = ledger.plan_search(search, **FACTS).epsilon_after
            assert again < needed + ledger.epsilon_spent


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_a_scorer_takes_the_groups_of_the_model():
    y = np.where(X[:, 0] > 0, "yes", "no")
    classifier = model(DPWorstGroupClassifier, epsilon=50.0)
    plain = cross_val_score(classifier, X, y, cv=2, scoring=worst_group_scorer())
    assert np.isfinite(plain).all()
    said = worst_group_scorer(group_by=halves)
    search = grid(classifier, {"radius": [5.0]}, cv=2, scoring=worst_group_scorer()).fit(X, y)
    assert worst_group_scorer()(search, X, y) == said(search, X, y)
