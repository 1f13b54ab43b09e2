"""Private audits of what a model does to groups, their pictures and their page."""

from sklearn_dpwg.inspection.audit_plan import AuditPlan, PlannedWidth
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.changes import Change
from sklearn_dpwg.inspection.group_audit import GroupAudit
from sklearn_dpwg.inspection.group_displays import GroupMetricDisplay, GroupWeightsDisplay
from sklearn_dpwg.inspection.power import PlannedVerdict
from sklearn_dpwg.inspection.privacy_displays import (
    PrivacyProfileDisplay,
    PrivacyUtilityDisplay,
    UtilityPoint,
)
from sklearn_dpwg.inspection.report import AuditReport, model_card
from sklearn_dpwg.inspection.shape_display import Effect, ShapeDisplay, shape_functions
from sklearn_dpwg.inspection.verdicts import GroupRate, LossSums, Verdict, WorstGroups

__all__ = [
    "AuditPlan",
    "AuditReport",
    "AuditResult",
    "Change",
    "Effect",
    "GroupAudit",
    "GroupMetricDisplay",
    "GroupRate",
    "GroupWeightsDisplay",
    "LossSums",
    "PlannedVerdict",
    "PlannedWidth",
    "PrivacyProfileDisplay",
    "PrivacyUtilityDisplay",
    "ShapeDisplay",
    "UtilityPoint",
    "Verdict",
    "WorstGroups",
    "model_card",
    "shape_functions",
]
