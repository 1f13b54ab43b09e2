"""Audits from parameters to result: plans, inputs, refusals, ledgers, models."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy import (
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    joint_guarantee,
)
from tests.helpers.relations import WITHIN_GROUP

LABELS = ("a", "b", "c")
N = 600


@pytest.fixture(scope="module")
def table():
    """Return classes, scores and groups of some records."""
    rng = np.random.default_rng(5)
    groups = rng.choice(LABELS, N, p=(0.6, 0.3, 0.1))
    y = (rng.random(N) < np.where(groups == "a", 0.5, 0.3)).astype(int)
    scores = np.clip(0.25 + 0.5 * y + 0.25 * rng.normal(size=N), 0.0, 1.0)
    return y, scores, groups


def audit(**changes) -> GroupAudit:
    return GroupAudit(**({"group_labels": LABELS} | changes))


def test_plan_needs_no_records_and_tells_widths():
    plan = audit().plan(group_sizes={"a": 300, "b": 1000, "c": 0})
    assert plan.count_std == pytest.approx(2.80, abs=0.005)
    assert [size for _, size, _ in plan.widths] == [300, 1000, 0]
    for metric, (width, sampling) in plan.widths[0][2].items():
        assert sampling < width < 1.6 * sampling, metric
    assert "standard deviation 2.80" in str(plan)
    with pytest.raises(ValueError, match="base_rate must be strictly between 0 and 1, got"):
        audit().plan(base_rate=1.5)


def test_bins_are_the_default_where_they_widen_a_rate_by_a_tenth_at_most():
    """In a group of a quarter of the mean size, which is public: no record tells it."""
    few, many = (audit().plan(group_sizes=dict.fromkeys(LABELS, n)) for n in (3000, 9000))
    assert few.n_bins == 2
    assert many.n_bins == 20
    assert few.price > 0.1 >= many.price
    asked = audit(score_edges=(0.2, 0.5)).plan(group_sizes=dict.fromkeys(LABELS, 300))
    assert (asked.n_bins, asked.price) == (3, None)
    assert audit().plan(kind="decisions").n_bins == 2
    assert audit(epsilon=math.inf).plan().n_bins == 20
    y, groups = np.tile([0, 1], 4500), np.resize(LABELS, 9000)
    assert len(audit(epsilon=8.0, threshold=0.33).run(y, y * 0.9, groups).counts[0][0]) == 21
    assert len(audit().run(y, y * 0.9, groups).counts[0][0]) == 2


@pytest.mark.parametrize("form", ["two columns", "words", "booleans", "no outcomes"])
def test_exact_counts_in_every_form(table, form):
    y, scores, groups = table
    predicted = (scores >= 0.5).astype(int)
    words = np.array(["no", "yes"])
    classes, truth, given = {
        "two columns": ((0, 1), y, np.column_stack([1.0 - scores, scores])),
        "no outcomes": ((0, 1), None, scores),
        "words": (("no", "yes"), words[y], pd.Series(words[predicted])),
        "booleans": ((False, True), y == 1, predicted == 1),
    }[form]
    kind = "decisions" if form in ("words", "booleans") else "scores"
    result = audit(epsilon=math.inf, classes=classes).run(truth, given, groups, kind=kind)
    for label, cells in zip(LABELS, result.cells(), strict=True):
        inside = groups == label
        expected = np.bincount(2 * y[inside] + predicted[inside], minlength=4).reshape(2, 2)
        if form == "no outcomes":
            expected = expected.sum(axis=0, keepdims=True)
        assert cells.tolist() == expected.tolist()
    assert result.privacy_.epsilon == math.inf
    assert not result.is_private


def test_hidden_and_public_sizes(table):
    hidden, public = audit().run(*table), audit(sizes="public").run(*table)
    assert hidden.sizes is None
    assert hidden.privacy_.relation == Relation.REPLACE_ONE
    assert hidden.privacy_.epsilon <= 1.0
    assert public.sizes == tuple(int((table[2] == one).sum()) for one in LABELS)
    assert public.privacy_.relation == Relation.REPLACE_ONE_WITHIN_GROUP
    assert {*public.privacy_.public} - {*hidden.privacy_.public} == {"the size of every group"}


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_an_empty_group_is_one_of_which_nobody_can_tell(table):
    result = audit(group_labels=[*LABELS, "nobody"], random_state=0).run(*table)
    size = result.group_sizes()[3]
    assert size.low == 0.0 < size.high
    assert result.verdict().groups[3].answer == "not judged"
    exact = audit(epsilon=math.inf, group_labels=[*LABELS, "nobody"]).run(*table)
    assert np.isnan(exact.rates()[3].estimate)
    assert exact.verdict().groups[3].answer == "not judged"


def test_an_audit_of_the_records_of_a_fit_costs_both(table):
    y, scores, groups = table
    X = np.column_stack([scores, np.ones(N)])
    known = {"data_norm": 2.0, "radius": 1.0, "solver": "phased-erm"} | WITHIN_GROUP
    model = DPWorstGroupClassifier(epsilon=1.0, **known).fit(X, y, groups=groups)
    own = audit().run(y, scores, groups)
    both = audit().run(y, scores, groups, same_records_as=model)
    assert own.model_privacy_ is None
    assert both.model_privacy_ == model.privacy_
    assert 1.5 < both.privacy_.epsilon < 2.0
    assert both.privacy_.relation == Relation.REPLACE_ONE_WITHIN_GROUP
    later = clone(model).fit(X, y, groups=groups, start=model)
    total = audit().run(y, scores, groups, same_records_as=later).privacy_
    parts = [one.privacy_ for one in (model, later, own)]
    assert total.epsilon == pytest.approx(joint_guarantee(parts, 1e-6).epsilon, rel=1e-9)


def test_a_ledger_counts_audits(table):
    with PrivacyLedger(epsilon=1.5, delta=1e-6) as book:
        audit().run(*table)
        with pytest.raises(BudgetExceededError, match="Nothing was spent"):
            audit().run(*table)
        with pytest.raises(ValueError, match="y_true must hold the classes"):
            audit(epsilon=0.1).run(np.full(N, 7), *table[1:])
    assert [row.what for row in book.rows] == ["GroupAudit"]
    assert book.epsilon_spent == pytest.approx(1.0, rel=1e-3)
    with (
        PrivacyLedger(epsilon=2.0, delta=1e-6, neighbours="replace-one"),
        pytest.raises(ValueError, match="says nothing of the neighbours 'replace-one'"),
    ):
        audit(sizes="public").run(*table)
    with PrivacyLedger(epsilon=9.0, delta=1e-6), pytest.raises(BudgetExceededError):
        audit(epsilon=math.inf).run(*table)


WRONG = {
    "epsilon": ({"epsilon": 0.0}, {}),
    "group_labels": ({"group_labels": None}, {}),
    "groups": ({}, {"groups": ["z"] * N}),
    "y_true": ({}, {"y_true": np.full(N, 2)}),
    "y_true must have": ({}, {"y_true": [], "scores": [], "groups": []}),
    "scores": ({}, {"scores": np.full(N, np.nan)}),
    "scores must have": ({}, {"scores": np.zeros(5)}),
    "scores must be .* kind='decisions'": ({}, {"scores": np.repeat(["no", "yes"], N // 2)}),
    "decisions must hold .* kind='scores'": ({}, {"kind": "decisions"}),
    "threshold": ({"threshold": "median"}, {}),
    "score_edges": ({"score_edges": (0.8, 0.5)}, {}),
    "score_edges must be None": ({"score_edges": [0.5]}, {"kind": "decisions"}),
    "sizes": ({"sizes": "secret"}, {}),
    "classes": ({"classes": (1, 1)}, {}),
    "kind": ({}, {"kind": "words"}),
    "same_records_as": ({}, {"same_records_as": PrivacyLedger(1.0, 1e-6)}),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_sentence_before_anything_is_spent(what, table, monkeypatch):
    changes, inputs = WRONG[what]
    drawn = []
    monkeypatch.setattr(NoiseSource, "integers", lambda *args, **kwargs: drawn.append(args))
    given = dict(zip(("y_true", "scores", "groups"), table, strict=True)) | inputs
    with (
        PrivacyLedger(epsilon=2.0, delta=1e-6) as book,
        pytest.raises((TypeError, ValueError), match=f"^{what}") as caught,
    ):
        audit(**changes).run(**given)
    assert drawn == []
    assert book.rows == []
    assert re.fullmatch(r"[^\n]+\.", str(caught.value))


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_a_ledger_knows_that_noise_came_from_a_seed(table):
    release = Release("weights", "gaussian", 5.0, max_count=1)
    of_persons = PrivacyGuarantee.from_releases([release], 1e-6).for_records(2)
    with PrivacyLedger(9.0, 1e-6) as book:
        # what cannot be stated together is refused before it is spent
        with pytest.raises(ValueError, match="equally many records of a person"):
            audit().run(*table, same_records_as=of_persons)
        assert book.rows == []
        result = audit(random_state=0).run(*table)
    assert result.privacy_.seeded
    assert book.guarantee.seeded
    assert book.report()["seeded"].tolist() == [True]
