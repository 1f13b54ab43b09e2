"""Pages and pictures of decisions without outcomes, and of groups that are judged or not."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.inspection import (
    AuditReport,
    GroupAudit,
    GroupMetricDisplay,
    model_card,
)
from sklearn_dpwg.inspection.shape_display import OwnThresholds
from sklearn_dpwg.inspection.words import texts_of
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.solvers import MGR
from tests.helpers.audit_cases import MODEL_GUARANTEE, audit_result

COUNTS = (((600, 400),), ((750, 250),), ((70, 30),), ((900, 600),))
LABELS = ("White", "Black", "Asian", "Unknown")
OF_ERRORS = ("error", "true positive", "false positive", "truly", "2 classes")

SCORES = np.linspace(-0.7, 0.7, 400)
X, GROUPS = np.column_stack([SCORES, SCORES[::-1] ** 2]), np.where(np.arange(400) % 2, "a", "b")
Y = np.where(SCORES > 0, "yes", "no")


def classifier():
    return DPWorstGroupClassifier(4.0, solver=MGR(n_steps=2), data_norm=1.0, random_state=0)


@pytest.fixture(scope="module")
def decisions():
    return audit_result(LABELS, counts=COUNTS, model_privacy_=MODEL_GUARANTEE)


def test_a_page_of_decisions_is_about_selection_alone(decisions):
    report = AuditReport(decisions)
    facts = report.dict()
    assert [one["key"] for one in facts["groups"]["columns"]] == ["selection_rate", "impact_ratio"]
    assert facts["verdict"]["metric"] == facts["verdict"]["judged"] == "selection_rate"
    assert facts["verdict"]["answer"] == decisions.verdict().answer
    assert facts["record"]["facts"]["Released"] == "8 counts: 4 groups × 2 predictions"
    counts = facts["record"]["counts"]
    assert [len(row["counts"]) for row in counts["rows"]] == [len(counts["header"])] * 4 == [2] * 4
    terms = {one["term"] for one in facts["glossary"]}
    assert not {"Error rate", "True positive rate", "False positive rate"} & terms
    assert "Selection rate" in terms
    shown = [facts["groups"], facts["verdict"], facts["record"]["facts"], counts]
    assert not [word for word in OF_ERRORS if word in str(shown).lower()]
    for page in (report.html(), report.markdown()):
        assert "selection rate" in page
        assert "truly" not in page
        assert "err more often" not in page
    alone = AuditReport(audit_result(LABELS, counts=COUNTS)).html()
    assert "errs more often" not in alone
    assert "rates of others may differ from those on this page" in alone
    with pytest.raises(ValueError, match="metric must be selection_rate, all that decisions"):
        AuditReport(decisions, metric="error_rate").dict()
    with pytest.raises(ValueError, match="got 'equalized_odds'"):
        decisions.verdict("equalized_odds")


def test_beside_an_audit_with_outcomes_both_are_shown_by_selection(decisions):
    whole = audit_result(LABELS, model_privacy_=MODEL_GUARANTEE)
    for results in ({"one": decisions, "two": whole}, {"two": whole, "one": decisions}):
        report = AuditReport(results)
        assert report.dict()["verdict"]["metric"] == "selection_rate"
    assert AuditReport(whole).metric == "error_rate"


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")  # few records
@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_displays_and_cards_show_what_is_there(decisions):
    assert GroupMetricDisplay.from_audit(decisions).rates == decisions.rates("selection_rate")
    with pytest.raises(ValueError, match="metric must be selection_rate"):
        GroupMetricDisplay.from_audit(decisions, "accuracy")
    card = model_card(classifier().fit(X, Y, GROUPS), decisions)
    assert "selection rate" in card
    assert "error rate" not in card


WHICH = [
    ({}, []),
    ({"leave_out": ["Unknown"]}, ["Unknown"]),
    ({"leave_out": ["Unknown"], "min_share": 0.05}, ["Unknown", "Asian"]),
    ({"leave_out": ["Black"], "reference": "White"}, ["Black"]),
]


@pytest.mark.parametrize("outcomes", [True, False])
@pytest.mark.parametrize(("which", "names"), WHICH)
def test_a_page_judges_whom_it_is_told_to_and_names_the_others(which, names, outcomes):
    counts = COUNTS if outcomes is False else tuple((one[0], (0, 0)) for one in COUNTS)
    result = audit_result(LABELS, counts=counts)
    report = AuditReport(result, which=which, at_least=0.7)
    facts, verdict = report.dict(), result.verdict(at_least=0.7, **which)
    assert facts["verdict"]["answer"] == facts["models"][0]["answer"] == verdict.answer
    assert verdict.sentence.startswith(facts["verdict"]["sentence"])
    assert facts["models"][0]["sentence"] == facts["verdict"]["sentence"]
    for name in names:
        assert name in verdict.sentence.partition("Not judged")[2]
    rows = {row["group"]: row for row in facts["groups"]["rows"]}
    assert [name for name in LABELS if rows[name]["answer"] == "not judged"] == [
        name for name in LABELS if name in names
    ]
    ratios = {one.group: one for one in result.impact_ratios(at_least=0.7, **which)}
    for name, row in rows.items():
        assert row["rates"]["impact_ratio"]["high"] == ratios[name].high
    page = report.html()
    n_pictures = 3 if result.has_outcomes else 2  # of ratios, and of a rate or two
    assert page.count("not judged</text>") == n_pictures * len(names)
    assert verdict.sentence.partition("Not judged")[2] in page.replace("&#39;", "'")


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")  # few records
@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize("epsilon", [2.0, np.inf])
def test_thresholds_that_the_model_decides_by_are_told_with_what_covers_them(epsilon):
    model = DPThresholdClassifier(classifier(), epsilon=epsilon, random_state=0)
    model.fit(X, Y, GROUPS)
    labels = tuple(model.group_labels_.tolist())
    audit = GroupAudit(1.0, group_labels=labels, classes=("no", "yes"), random_state=0)
    chosen = model.predict(X, GROUPS)
    result = audit.run(Y, chosen, GROUPS)
    report = AuditReport(result, decided_by=model)
    numbers = ", ".join(
        f"from {one:.4g} on in {at}"
        for one, at in zip(model.thresholds_, texts_of(labels), strict=True)
    ).replace("from inf on in", "never in")
    facts = pickle.loads(pickle.dumps(report)).dict()
    told = f"the model's own: ‘yes’ by its probability, {numbers}"
    assert facts["record"]["facts"]["Threshold"] == told
    assert facts["verdict"]["selected"].endswith(
        ": by the model's own thresholds, one a group, on its probability of ‘yes’."
    )
    (told,) = [one["text"] for one in facts["outside"] if one["title"] == "Threshold"]
    assert numbers in told
    assert ("paid for inside the model's guarantee" in told) == (epsilon < np.inf)
    assert ("the model has no guarantee" in told) == (epsilon == np.inf)
    with pytest.raises(ValueError, match="result must be an audit of decisions"):
        AuditReport(audit.run(Y, (chosen == "yes") * 1.0, GROUPS), decided_by=model)
    with pytest.raises(TypeError, match="decided_by must be a fitted DPThresholdClassifier"):
        AuditReport(result, decided_by=classifier())


def test_records_of_a_group_of_whom_surely_nobody_is_selected_have_a_ratio_of_0():
    """Noise takes the count below what there may be, or there is none."""
    counts = (((200, 200),), ((400, -9),))
    for found in (audit_result(("a", "b"), counts=counts), exactly_nobody()):
        assert found.rates("selection_rate", of="records")[1].high == 0.0
        assert found.verdict(of="records").answer == "fails"
        assert found.impact_ratios(of="records")[1].high == 0.0


def exactly_nobody():
    groups = np.repeat(["a", "b"], 40)
    return GroupAudit(np.inf, group_labels=["a", "b"]).run(None, groups == "a", groups)


def test_a_turned_threshold_that_nobody_reaches_chooses_everybody():
    own = OwnThresholds((math.inf, 0.25), ("a", "b"), "yes", "no", True)
    assert own.numbers("no") == "‘no’ by its score, always in a, above 0.75 in b"
    assert own.numbers("yes") == "‘yes’ by its score, never in a, from 0.25 on in b"
