"""Folds and searches that know groups."""

from sklearn_dpwg.model_selection.dp_search_cv import DPSearchCV
from sklearn_dpwg.model_selection.group_label_stratified_k_fold import GroupLabelStratifiedKFold
from sklearn_dpwg.model_selection.search_plan import SearchPlan

__all__ = ["DPSearchCV", "GroupLabelStratifiedKFold", "SearchPlan"]
