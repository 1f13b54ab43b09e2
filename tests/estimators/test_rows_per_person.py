"""Budgets for persons with several rows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, OCO

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning"),
]
SIZES = [900, 300]


def model(**parameters):
    return DPWorstGroupClassifier(**{"epsilon": 1.0, "delta": 1e-6, "random_state": 0} | parameters)


def plan(**parameters):
    return model(**parameters).plan(group_sizes=SIZES, n_features=4)


@pytest.mark.parametrize("solver", ["auto", "mgr", "phased-erm", "oco", MGR(risk_noise="laplace")])
@pytest.mark.parametrize("k", [2, 7])
def test_the_releases_cost_a_person_what_was_asked_for(solver, k):
    found = plan(solver=solver, rows_per_person=k)
    assert found.budget == Budget(1.0, 1e-6)
    of_row = replace(found, records_per_person=1).guarantee
    assert of_row.for_records(k).epsilon == found.guarantee.epsilon
    assert 0.995 <= found.guarantee.epsilon <= 1.0
    assert found.guarantee.records_per_person == k
    assert found.guarantee.requested_epsilon == 1.0
    assert of_row.epsilon < 1.0 / k  # a row has less than its share: delta grows too


def test_gaussian_plans_have_k_times_the_noise():
    mu = [
        math.fsum(release.max_count / release.noise_multiplier**2 for release in found.releases)
        for found in (plan(solver="mgr"), plan(solver="mgr", rows_per_person=3))
    ]
    assert math.sqrt(mu[0] / mu[1]) == pytest.approx(3.0, rel=1e-5)


def test_the_statement_and_the_fit_are_about_the_person():
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-0.5, 0.5, (1200, 4)), np.repeat(["a", "b"], SIZES[::-1])
    fitted = model(rows_per_person=3, solver=MGR(n_steps=5)).fit(X, X[:, 0] > 0, groups=groups)
    assert fitted.privacy_.records_per_person == 3
    assert fitted.privacy_.epsilon <= 1.0
    assert "a person with up to 3 rows" in str(fitted.privacy_)
    assert "3 records are replaced" in str(fitted.plan_)
    before = model(solver=MGR(n_steps=5)).plan(
        group_sizes=SIZES[::-1], n_features=4, rows_per_person=3
    )
    assert before.releases == fitted.plan_.releases


def test_a_plan_that_costs_a_person_more_is_refused():
    found = plan(solver="mgr", rows_per_person=2)
    other = replace(found, records_per_person=3)
    with pytest.raises(PlanExceededError, match="a person with 3 rows epsilon"):
        str(other)


def test_batches_are_refused_with_what_would_do():
    with pytest.raises(UnsupportedMechanismError, match=r"^rows_per_person must be 1 where steps"):
        plan(solver=MGR(n_steps=20, sampling_rate=0.1), rows_per_person=2)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "2", None])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^rows_per_person must be a positive whole number"):
        plan(rows_per_person=wrong)


def test_without_privacy_nothing_is_promised_to_anyone():
    found = plan(epsilon=math.inf, rows_per_person=4)
    assert found.guarantee.epsilon == math.inf
    assert found.guarantee.records_per_person == 4


def test_a_regressor_plans_for_persons_too():
    regressor = DPWorstGroupRegressor(target_bounds=(-1.0, 1.0), rows_per_person=5)
    found = regressor.plan(group_sizes=SIZES, n_features=2)
    assert 0.995 <= found.guarantee.epsilon <= 1.0
    assert found.guarantee.records_per_person == 5


def test_more_rows_cost_more_noise_and_never_a_weaker_promise():
    excess = [
        plan(solver=OCO(), rows_per_person=k).predicted_excess for k in (1, 2, 4)
    ]  # fmt: skip
    assert excess == sorted(excess)
    assert excess[0] < excess[2]


def test_a_ledger_counts_persons_together_and_refuses_to_mix_them():
    X, groups = np.full((1200, 1), 0.5), np.repeat(["a", "b"], SIZES)
    y = np.arange(1200) % 2
    with PrivacyLedger(3.0, 1e-5) as ledger:
        for _ in range(2):
            model(rows_per_person=2, solver=MGR(n_steps=2)).fit(X, y, groups=groups)
        assert ledger.guarantee.records_per_person == 2
        assert 1.0 < ledger.guarantee.epsilon < 2.0
        with pytest.raises(ValueError, match="equally many records of a person"):
            model(solver=MGR(n_steps=2)).fit(X, y, groups=groups)


def test_a_private_search_refuses_candidates_for_persons():
    X, groups = np.full((1200, 1), 0.5), np.repeat(["a", "b"], SIZES)
    search = DPSearchCV(model(rows_per_person=2), {"radius": [1.0, 2.0]}, random_state=0)
    with pytest.raises(ValueError, match="rows_per_person"):
        search.fit(X, np.arange(1200) % 2, groups=groups)
