"""Private estimators: validate, plan, run, keep what was released."""

from sklearn_dpwg.estimators.auc import DPAUCClassifier
from sklearn_dpwg.estimators.worst_group import DPWorstGroupClassifier, DPWorstGroupRegressor

__all__ = ["DPAUCClassifier", "DPWorstGroupClassifier", "DPWorstGroupRegressor"]
