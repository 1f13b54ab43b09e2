"""Folds and searches that know groups."""

from sklearn_dpwg.model_selection.search import DPSearchCV
from sklearn_dpwg.model_selection.search_plan import SearchPlan
from sklearn_dpwg.model_selection.splitters import GroupLabelStratifiedKFold, PublicKFold

__all__ = ["DPSearchCV", "GroupLabelStratifiedKFold", "PublicKFold", "SearchPlan"]
