"""Private audits of what a model does to groups, their pictures and their page."""

from sklearn_dpwg.inspection._model_card import model_card
from sklearn_dpwg.inspection.audit_plan import AuditPlan, PlannedWidth
from sklearn_dpwg.inspection.audit_report import AuditReport
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.group_audit import GroupAudit
from sklearn_dpwg.inspection.group_metric_display import GroupMetricDisplay
from sklearn_dpwg.inspection.group_rate import GroupRate
from sklearn_dpwg.inspection.group_weights_display import GroupWeightsDisplay
from sklearn_dpwg.inspection.loss_sums import LossSums
from sklearn_dpwg.inspection.privacy_profile_display import PrivacyProfileDisplay
from sklearn_dpwg.inspection.privacy_utility_display import PrivacyUtilityDisplay
from sklearn_dpwg.inspection.utility_point import UtilityPoint
from sklearn_dpwg.inspection.verdict import Verdict
from sklearn_dpwg.inspection.worst_groups import WorstGroups

__all__ = [
    "AuditPlan",
    "AuditReport",
    "AuditResult",
    "GroupAudit",
    "GroupMetricDisplay",
    "GroupRate",
    "GroupWeightsDisplay",
    "LossSums",
    "PlannedWidth",
    "PrivacyProfileDisplay",
    "PrivacyUtilityDisplay",
    "UtilityPoint",
    "Verdict",
    "WorstGroups",
    "model_card",
]
