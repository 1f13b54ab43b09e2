"""Folds and searches that know groups."""

from sklearn_dpwg.model_selection.group_label_stratified_k_fold import GroupLabelStratifiedKFold

__all__ = ["GroupLabelStratifiedKFold"]
