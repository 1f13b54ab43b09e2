"""Budgets for persons with several rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.privacy import Budget, gdp_mu
from sklearn_dpwg.solvers import MGR, OCO

SIZES = [900, 300]


def model(**parameters):
    given = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "random_state": 0} | parameters
    return DPWorstGroupClassifier(**given)


def plan(**parameters):
    return model(**parameters).plan(group_sizes=SIZES, n_features=4)


@pytest.mark.parametrize("solver", ["auto", "mgr", "phased-erm", "oco", MGR(schedule="paper")])
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
    assert "knows all records but these 3" in " ".join(str(fitted.privacy_).split())
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


@pytest.mark.parametrize("solver", ["auto", "mgr", MGR(max_seconds=3600.0)])
def test_no_batches_are_planned_for_persons_where_nobody_asked_for_them(solver):
    sizes = [3_000_000, 100_000]
    of_row = model(solver=solver).plan(group_sizes=sizes, n_features=10)
    assert any(release.sampling_rate < 1.0 for release in of_row.releases)
    found = model(solver=solver, rows_per_person=3).plan(group_sizes=sizes, n_features=10)
    assert all(release.sampling_rate == 1.0 for release in found.releases)
    assert 0.995 <= found.guarantee.epsilon <= 1.0


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


def test_what_a_ledger_says_of_a_pipeline_of_two_units_is_true():
    X, y = np.full((1200, 1), 0.5), np.arange(1200) % 2
    scaler = DPStandardScaler(epsilon=0.5, bounds=(-1, 1), random_state=0)
    steps = make_pipeline(
        scaler, model(rows_per_person=3, group_by=lambda X: np.arange(len(X)) % 2)
    )
    said = (
        r"got \[1, 3\]: set rows_per_person=3 everywhere\. This fit spent nothing; the ledger "
        r"holds 1 fit\(s\), epsilon=0\.5 at delta=1e-06, which stay charged\.$"
    )
    with PrivacyLedger(3.0, 1e-6) as ledger:
        with pytest.raises(ValueError, match=said):
            steps.fit(X, y)
        assert [row.what for row in ledger.rows] == ["DPStandardScaler"]


def test_what_is_fitted_together_is_stated_for_one_person():
    """A scaler for persons, one for rows, and rows that a bootstrap repeats."""
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-0.5, 0.5, (1200, 1)), np.repeat(["a", "b"], SIZES)
    y = np.arange(1200) % 2
    scaler = DPStandardScaler(epsilon=0.5, rows_per_person=2, random_state=0)
    learned = model(rows_per_person=2, solver=MGR(n_steps=2), data_norm=10.0)
    with PrivacyLedger(3.0, 1e-5) as ledger:
        scaled = scaler.fit(X)
        learned.fit(scaled.transform(X), y, groups=groups)
        assert ledger.guarantee.records_per_person == 2
    assert scaler.privacy_.epsilon == pytest.approx(0.5, rel=1e-4)
    assert scaler.privacy_.epsilon <= 0.5
    of_row = DPStandardScaler(epsilon=0.5, random_state=0).fit(X)
    together = [privacy_of(make_pipeline(first, learned), warn=False) for first in (scaler, of_row)]
    assert [each.records_per_person for each in together] == [2, 2]
    # that of a row costs a person of two twice
    mu = [math.fsum(gdp_mu(one.epsilon, one.delta) ** 2 for one in both) ** 0.5 for both in (
        (scaler.privacy_, learned.privacy_), (of_row.privacy_.for_records(2), learned.privacy_)
    )]  # fmt: skip
    for found, expected in zip(together, mu, strict=True):
        assert gdp_mu(found.epsilon, found.delta) == pytest.approx(expected, rel=1e-4)
    everything = model(group_by=lambda X: np.arange(len(X)) % 2, solver=MGR(n_steps=2),
                       rows_per_person=2)  # fmt: skip
    with config_context(enable_metadata_routing=False):
        bagged = BaggingClassifier(everything, n_estimators=1, random_state=0).fit(X, y)
    times = int(np.bincount(bagged.estimators_samples_[0]).max())
    found = privacy_of(bagged, warn=False)
    assert found.records_per_person == 2
    assert found.epsilon == bagged.estimators_[0].privacy_.for_records(times).epsilon


def test_a_search_is_planned_and_charged_for_persons():
    X = np.full((1200, 1), 0.5)
    y = np.arange(1200) % 2
    by_place = lambda X: np.arange(len(X)) % 2  # noqa: E731
    inside = model(rows_per_person=3, solver=MGR(n_steps=2), group_by=by_place)
    search = GridSearchCV(inside, {"radius": [1.0, 2.0]}, cv=2, scoring="accuracy")
    with PrivacyLedger(6.0, 1e-6) as ledger:
        planned = ledger.plan_search(search, group_sizes=[600, 600], n_features=1)
        assert planned.guarantee.records_per_person == 3
        search.fit(X, y)
        assert ledger.epsilon_spent == pytest.approx(planned.epsilon_after, rel=1e-6)
        assert ledger.guarantee.records_per_person == 3
        with pytest.raises(ValueError, match=r"set rows_per_person=3 everywhere"):
            clone(inside).set_params(rows_per_person=1).fit(X, y)
        grid = {"rows_per_person": [1, 3]}
        mixed = GridSearchCV(inside, grid, cv=2, scoring="accuracy", error_score="raise")
        with pytest.raises(ValueError, match=r"set rows_per_person=3 everywhere"):
            mixed.fit(X, y)
        assert len(ledger.rows) == planned.n_fits


def test_a_private_search_refuses_candidates_for_persons():
    X, groups = np.full((1200, 1), 0.5), np.repeat(["a", "b"], SIZES)
    search = DPSearchCV(model(rows_per_person=2), {"radius": [1.0, 2.0]}, random_state=0)
    with pytest.raises(ValueError, match="rows_per_person"):
        search.fit(X, np.arange(1200) % 2, groups=groups)


@pytest.mark.parametrize("is_pipeline", [False, True])
def test_a_private_search_for_persons_is_refused_by_its_plan(is_pipeline):
    several, one = model(rows_per_person=3), model()
    name = "rows_per_person"
    if is_pipeline:
        several, one = make_pipeline(several), make_pipeline(one)
        name = f"dpworstgroupclassifier__{name}"
    radius = name.replace("rows_per_person", "radius")
    said = (
        r"^rows_per_person must be 1 in a private search.*got 3: .*bound_rows_per_person\(.*k=1\)"
    )
    facts = {"group_sizes": SIZES, "n_features": 1, "classes": [0, 1]}
    X, groups = np.full((1200, 1), 0.5), np.repeat(["a", "b"], SIZES)
    searches = [
        DPSearchCV(several, {radius: [1.0]}),
        DPSearchCV(one, [{radius: [1.0]}, {name: [1, 3]}]),
    ]
    for search in searches:
        with pytest.raises(UnsupportedMechanismError, match=said):
            search.plan()
        with pytest.raises(UnsupportedMechanismError, match=said):
            PrivacyLedger(3.0, 1e-6).plan_search(search, **facts)
        with pytest.raises(UnsupportedMechanismError, match=said):
            search.fit(X, np.arange(1200) % 2, groups)
    assert DPSearchCV(several, {name: [1]}).plan().guarantee.epsilon <= 1.0
