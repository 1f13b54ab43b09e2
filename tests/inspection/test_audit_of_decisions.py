"""Pages and pictures of decisions without outcomes, and of groups that are judged or not."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.inspection import (
    AuditReport,
    GroupAudit,
)
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
    assert [one["key"] for one in facts["groups"]["columns"]] == ["selection_rate"]
    assert (facts["worst"]["metric"], facts["verdict"]) == ("selection_rate", None)
    assert "these 8 counts" in facts["sentences"][1]
    counts = facts["record"]["counts"]
    assert [len(row["counts"]) for row in counts["rows"]] == [len(counts["header"])] * 4 == [2] * 4
    terms = {one["term"] for one in facts["glossary"]}
    assert not {"Error rate", "True positive rate", "False positive rate", "Base rate"} & terms
    assert "Selection rate" in terms
    shown = [facts["groups"], facts["worst"], facts["record"]["facts"], counts]
    assert not [word for word in OF_ERRORS if word in str(shown).lower()]
    for page in (report.html(), report.markdown()):
        assert "selection rate" in page
        assert "truly" not in page
        assert "err more often" not in page
    with pytest.raises(ValueError, match="metric must be selection_rate, all that decisions"):
        AuditReport(decisions, metric="error_rate")
    with pytest.raises(ValueError, match="got 'equalized_odds'"):
        decisions.verdict("equalized_odds")


def test_records_of_a_group_of_whom_surely_nobody_is_selected_have_a_ratio_of_0():
    """Noise takes the count below what there may be, or there is none."""
    counts = (((200, 200),), ((400, -9),))
    for found in (audit_result(("a", "b"), counts=counts), exactly_nobody()):
        assert found.rates("selection_rate", of="records")[1].high == 0.0
        assert found.verdict(of="records").answer == "fails"
        assert found.impact_ratios(of="records")[1].high == 0.0


def exactly_nobody():
    groups = np.repeat(["a", "b"], 40)
    return GroupAudit(np.inf, group_labels=["a", "b"]).run(
        None, groups == "a", groups, kind="decisions"
    )
