"""Folds and searches that know groups."""

from sklearn_dpwg.model_selection.search import DPSearchCV
from sklearn_dpwg.model_selection.splitters import PublicKFold

__all__ = ["DPSearchCV", "PublicKFold"]
