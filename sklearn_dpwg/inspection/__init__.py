"""Private audits of what a model does to groups, their pictures and their page."""

from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.displays import GroupMetricDisplay
from sklearn_dpwg.inspection.group_audit import GroupAudit
from sklearn_dpwg.inspection.report import AuditReport, model_card
from sklearn_dpwg.inspection.shape_display import ShapeDisplay, shape_functions
from sklearn_dpwg.inspection.verdicts import Verdict

__all__ = [
    "AuditReport",
    "AuditResult",
    "GroupAudit",
    "GroupMetricDisplay",
    "ShapeDisplay",
    "Verdict",
    "model_card",
    "shape_functions",
]
