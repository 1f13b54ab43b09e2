"""What the fitted model inside pipelines and meta-estimators knows of groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from sklearn_dpwg.groups import find_groups


def groups_of_model(estimator: Any, X: Any) -> Any:
    """Return the groups that the model inside finds by itself, or None."""
    for each in _inwards(estimator):
        if getattr(each, "group_by", None) is not None:
            return find_groups(X, None, each.group_by)
        if len(getattr(each, "steps", [])) > 1:  # the model finds its groups in the rows it gets
            X = each[:-1].transform(X)
    return None


def group_by_of_model(estimator: Any) -> Any:
    """Return what the model inside finds its groups by, or None."""
    found = (getattr(each, "group_by", None) for each in _inwards(estimator))
    return next((each for each in found if each is not None), None)


def labels_of_model(estimator: Any) -> list[Hashable]:
    """Return the groups that the model inside was fitted with; none if there were none."""
    for each in _inwards(estimator):
        if hasattr(each, "group_labels_"):
            labels = list(each.group_labels_)
            return [] if labels == [0] else labels  # the one group of a fit without groups
    return []


def has_grouping(estimator: Any) -> bool:
    """Return whether any part of an estimator, fitted or not, finds groups by itself."""
    parameters = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    return any(
        value is not None and name.rpartition("__")[2] == "group_by"
        for name, value in parameters.items()
    )


def _inwards(estimator: Any) -> Iterator[Any]:
    """Yield an estimator, the fitted one inside it, and so on."""
    while estimator is not None:
        yield estimator
        estimator = _inside(estimator)


def _inside(estimator: Any) -> Any:
    if hasattr(estimator, "steps"):
        return estimator.steps[-1][1]
    # a bagging classifier has `estimator_` too, which is not fitted
    for name in ("calibrated_classifiers_", "estimators_"):
        if len(getattr(estimator, name, ())):
            first = getattr(estimator, name)[0]
            return first.estimator if name == "calibrated_classifiers_" else first
    for name in ("best_estimator_", "estimator_", "regressor_"):
        if hasattr(estimator, name):
            return getattr(estimator, name)
    return None
