"""Private audits of what a model does to groups, their pictures and their page."""

from sklearn_dpwg.inspection.audit_plan import AuditPlan, PlannedWidth
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.group_audit import GroupAudit
from sklearn_dpwg.inspection.group_rate import GroupRate
from sklearn_dpwg.inspection.loss_sums import LossSums
from sklearn_dpwg.inspection.verdict import Verdict
from sklearn_dpwg.inspection.worst_groups import WorstGroups

__all__ = [
    "AuditPlan",
    "AuditResult",
    "GroupAudit",
    "GroupRate",
    "LossSums",
    "PlannedWidth",
    "Verdict",
    "WorstGroups",
]
