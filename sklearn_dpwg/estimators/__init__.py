"""The estimators: thin shells that validate, plan, run and keep what was released."""

from sklearn_dpwg.estimators.classifier import DPWorstGroupClassifier
from sklearn_dpwg.estimators.regressor import DPWorstGroupRegressor

__all__ = ["DPWorstGroupClassifier", "DPWorstGroupRegressor"]
