"""Private estimators: validate, plan, run, keep what was released."""

from sklearn_dpwg.estimators.auc import DPAUCClassifier
from sklearn_dpwg.estimators.classifier import DPWorstGroupClassifier
from sklearn_dpwg.estimators.regressor import DPWorstGroupRegressor

__all__ = ["DPAUCClassifier", "DPWorstGroupClassifier", "DPWorstGroupRegressor"]
