"""Budgets for persons with several rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier
from sklearn_dpwg.exceptions import PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.privacy.statement import ROWS_OF_A_PERSON
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP

SIZES = [900, 300]
X, Y, GROUPS = np.full((1200, 1), 0.5), np.arange(1200) % 2, np.repeat(["a", "b"], SIZES)


def by_place(rows):
    return np.arange(len(rows)) % 2


def model(**parameters):
    given = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "random_state": 0} | WITHIN_GROUP
    return DPWorstGroupClassifier(**given | parameters)


def plan(**parameters):
    return model(**parameters).plan(group_sizes=SIZES, n_features=4)


@pytest.mark.parametrize("solver", ["auto", "mgr", "phased-erm", "oco", MGR(schedule="paper")])
@pytest.mark.parametrize("k", [2, 7])
def test_the_releases_cost_a_person_what_was_asked_for(solver, k):
    result = plan(solver=solver, rows_per_person=k)
    assert result.budget == Budget(1.0, 1e-6)
    of_row = replace(result, records_per_person=1).guarantee
    assert of_row.for_records(k).epsilon == result.guarantee.epsilon
    assert 0.995 <= result.guarantee.epsilon <= 1.0
    assert result.guarantee.records_per_person == k
    assert result.guarantee.requested_epsilon == 1.0
    assert of_row.epsilon < 1.0 / k  # a row has less than its fraction: delta grows too


def test_one_row_is_a_person_where_somebody_says_so_and_nowhere_else():
    stated, open_ = plan(solver="mgr", rows_per_person=1), plan(solver="mgr")
    assert stated.releases == open_.releases
    words = " ".join(str(stated.guarantee).split())
    assert "Promise: if one person is replaced (one record of one group by any other" in words
    assert "a person. That at most one row of each was used is the word of whoever" in words
    assert "Unit of privacy: one row." in str(open_.guarantee)
    assert ROWS_OF_A_PERSON in stated.guarantee.public
    assert not stated.guarantee.for_records(2).of_person
    assert not open_.guarantee.of_person
    of_row = replace(stated, of_person=False)  # as a solver cannot have it
    assert of_row.guarantee == open_.guarantee
    hidden = plan(solver="mgr", rows_per_person=1, neighbours="replace-one")
    assert hidden.guarantee.of_person
    scaler = DPStandardScaler(bounds=(-1, 1), rows_per_person=1).planned_guarantee()
    ranking = DPAUCClassifier(rows_per_person=1).plan(n_records=99, n_features=2).guarantee
    for one in (scaler, ranking):
        assert one.of_person
        assert PrivacyGuarantee.from_json(one.to_json()) == one
    assert not DPAUCClassifier().plan(n_records=99, n_features=2).guarantee.of_person
    for inside in (model(rows_per_person=1), model()):
        around = DPThresholdClassifier(inside, epsilon=2.0)
        result = around.plan(group_sizes=SIZES, n_features=3).guarantee
        assert result.of_person is (inside.rows_per_person == 1)


def test_plans_that_cost_a_person_more_and_batches_are_refused():
    other = replace(plan(solver="mgr", rows_per_person=2), records_per_person=3)
    with pytest.raises(PlanExceededError, match="a person with 3 rows epsilon"):
        str(other)
    with pytest.raises(UnsupportedMechanismError, match=r"^rows_per_person must be 1 where steps"):
        plan(solver=MGR(n_steps=20, sampling_rate=0.1), rows_per_person=2)


def test_what_is_fitted_together_is_stated_for_one_person():
    """A scaler for persons, one for rows, and rows that a bootstrap repeats."""
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (1200, 1))
    scaler = DPStandardScaler(epsilon=0.5, rows_per_person=2, random_state=0)
    learned = model(rows_per_person=2, solver=MGR(n_steps=2), data_norm=10.0)
    with PrivacyLedger(3.0, 1e-5) as ledger:
        learned.fit(scaler.fit(rows).transform(rows), Y, groups=GROUPS)
        assert ledger.guarantee.records_per_person == 2
    assert scaler.privacy_.epsilon == pytest.approx(0.5, rel=1e-4)
    assert scaler.privacy_.epsilon <= 0.5
    of_row = DPStandardScaler(epsilon=0.5, random_state=0).fit(rows)
    of_one = DPStandardScaler(epsilon=0.5, rows_per_person=1, random_state=0).fit(rows)
    # that of a row costs a person of two twice, and so does one that was told of one row
    for first, times, is_person in ((scaler, 1, True), (of_row, 2, False), (of_one, 2, True)):
        alone = first.privacy_.for_records(times)
        result = privacy_of(make_pipeline(first, learned), warn=False)
        assert (result.records_per_person, result.of_person) == (2, is_person)
        mu = math.hypot(*(gdp_mu(one.epsilon, one.delta) for one in (alone, learned.privacy_)))
        assert gdp_mu(result.epsilon, result.delta) == pytest.approx(mu, rel=1e-4)
    everything = clone(learned).set_params(group_by=by_place, data_norm=1.0)
    bagged = BaggingClassifier(everything, n_estimators=1, random_state=0).fit(rows, Y)
    times = int(np.bincount(bagged.estimators_samples_[0]).max())
    result = privacy_of(bagged, warn=False)
    assert result.records_per_person == 2
    assert result.epsilon == bagged.estimators_[0].privacy_.for_records(times).epsilon
