"""Reports that several files look at, and pictures without a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sklearn_dpwg.inspection import AuditReport
from tests.helpers.audit_cases import GUARANTEE, HOSTILE, MODEL_GUARANTEE, audit_result


@pytest.fixture(autouse=True)
def no_windows():
    """Draw into memory, and close what a test has drawn."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="session")
def forty_groups() -> AuditReport:
    """Return a report on many groups, most of which are small."""
    return AuditReport(audit_result(40, size=50_000))


@pytest.fixture(scope="session")
def hostile() -> AuditReport:
    """Return a report in which everything that anybody may write means harm."""
    harm = "<script>alert(9)</script>\x00|\n{{ 1 }}"
    result = audit_result(
        HOSTILE,
        noise=None,  # exact limits take less time, and labels are the same
        group_name=harm,
        classes=("no", harm),
        versions={harm: harm},
        created=harm,
        privacy_=replace(GUARANTEE, public=(harm,), outside=(harm,), groupings=(harm,)),
        model_privacy_=MODEL_GUARANTEE,
    )
    return AuditReport(result, title=harm, notes=[harm])
