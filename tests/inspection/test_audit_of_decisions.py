"""Pages and pictures of decisions without outcomes, and of groups that are judged or not."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_dpwg.inspection import (
    AuditReport,
    GroupAudit,
)
from tests.helpers.audit_cases import MODEL_GUARANTEE, audit_result

COUNTS = (((600, 400),), ((750, 250),), ((70, 30),), ((900, 600),))
LABELS = ("White", "Black", "Asian", "Unknown")


@pytest.fixture(scope="module")
def decisions():
    return audit_result(LABELS, counts=COUNTS, model_privacy_=MODEL_GUARANTEE)


def test_a_page_of_decisions_is_about_selection_alone(decisions):
    page = AuditReport(decisions).html()
    assert "selection rate" in page
    assert "these 8 counts" in page
    for word in ("truly", "error rate", "true positive", "base rate", "four-fifths"):
        assert word not in page.lower(), word
    with pytest.raises(ValueError, match="metric must be selection_rate, all that decisions"):
        AuditReport(decisions, metric="error_rate")
    with pytest.raises(ValueError, match="metric must be selection_rate"):
        decisions.verdict("equalized_odds")


def test_records_of_a_group_of_whom_surely_nobody_is_selected_have_a_ratio_of_0():
    """Noise takes the count below what there may be, or there is none."""
    counts = (((200, 200),), ((400, -9),))
    for found in (audit_result(("a", "b"), counts=counts), exactly_nobody()):
        assert found.rates("selection_rate", of="records")[1].high == 0.0
        assert found.verdict(of="records").answer == "fails"
        assert found.verdict(of="records").groups[1].contrasts[0].high == 0.0


def exactly_nobody():
    groups = np.repeat(["a", "b"], 40)
    return GroupAudit(np.inf, group_labels=["a", "b"]).run(
        None, groups == "a", groups, kind="decisions"
    )
