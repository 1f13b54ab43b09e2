"""Models that thresholds and calibration are put around: one to be fitted, or one that is."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.estimators import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.ledger.learning_steps import learning_steps
from sklearn_dpwg.model_selection._search_steps import final_step
from sklearn_dpwg.privacy import PrivacyGuarantee, joint_guarantee

# What a guarantee says of a model that the caller says saw none of these records.
OTHER_RECORDS = "the frozen model, which by the caller's word learned from none of these records"

EACH_IN_ONE = (
    "which records the frozen model learned from and which were counted; by the caller's word none "
    "is among both"
)


def is_frozen(estimator: Any) -> bool:
    """Return whether an estimator is fitted already and stays as it is."""
    return isinstance(estimator, FrozenEstimator)


def private_step(estimator: Any) -> Any:
    """Return the private classifier to be fitted, or refuse what is none."""
    try:
        final = final_step(estimator)
    except TypeError:
        final = None
    if not isinstance(final, DPWorstGroupClassifier):
        raise TypeError(
            f"estimator must be a DPWorstGroupClassifier, a pipeline that ends in one, or a "
            f"fitted classifier in a FrozenEstimator, got {type(estimator).__name__}."
        )
    if final.neighbours == "replace-any":
        raise ValueError(
            "estimator must have neighbours='replace-in-group', got 'replace-any': thresholds and "
            "calibration of a model that they fit are for public groups."
        )
    if final.group_by is not None:
        raise ValueError(
            "group_by of the estimator must be None, as thresholds and calibration need the "
            "groups too: set their own group_by."
        )
    return final


def form_of_fit(model: Any, X: Any, y: Any, groups: Any) -> Any:
    """Return a private step that took its form, without reading a value or spending."""
    final = clone(model.steps[-1][1] if hasattr(model, "steps") else model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit says it again
        if hasattr(model, "steps") and len(model.steps) > 1:
            X = clone(model[:-1]).fit_transform(X, y)
        final._learn_nothing(X, y, groups)
    return final


def fit_private(model: Any, X: Any, y: Any, groups: Any) -> Any:
    """Fit a private classifier, or a pipeline that ends in one, and return that step."""
    if not hasattr(model, "steps"):
        return model.fit(X, y, groups=groups)
    with config_context(enable_metadata_routing=False):
        model.fit(X, y, **{f"{model.steps[-1][0]}__groups": groups})
    return model.steps[-1][1]


def positive_scores(model: Any, X: Any) -> FloatArray:
    """Return scores in [0, 1] of the second class: probabilities, or the logistic of decisions."""
    refuse_lazy(X=X)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    if not hasattr(model, "decision_function"):
        raise TypeError(
            f"estimator must have predict_proba or decision_function, got {type(model).__name__}."
        )
    return np.asarray(expit(np.asarray(model.decision_function(X), dtype=np.float64)))


def two_classes(model: Any) -> NDArray[Any]:
    """Return the classes of a fitted model, of which there must be two."""
    classes = np.asarray(model.classes_)
    if classes.ndim != 1 or len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported. The classes must be two, got {len(classes)}."
        )
    return classes


def positives(y: Any, classes: NDArray[Any], n_records: int) -> NDArray[np.bool_]:
    """Return which targets are the second class; others than the two are refused, not shown."""
    values = column_or_1d(y)
    if len(values) != n_records:
        raise ValueError(f"y must hold one class a record, {n_records}, got {len(values)}.")
    is_positive = values == classes[1]
    if not np.all(is_positive | (values == classes[0])):
        raise ValueError(f"y must hold the classes {classes.tolist()!r} alone, got another.")
    return np.asarray(is_positive, dtype=bool)


def guarantee_of_frozen(model: Any) -> PrivacyGuarantee | None:
    """Return what a frozen model cost, None where nothing in it is private."""
    check_is_fitted(model)
    try:
        return privacy_of(model.estimator, warn=False)
    except UnsupportedMechanismError:
        raise
    except ValueError:
        return None


def rows_of_person(estimator: Any) -> int:
    """Return how many rows of a person the estimator is for."""
    if is_frozen(estimator):
        cost = guarantee_of_frozen(estimator)
        return 1 if cost is None else cost.records_per_person
    return int(private_step(estimator).rows_per_person)


def with_frozen(of_histogram: PrivacyGuarantee, model: Any, *, held_out: bool) -> PrivacyGuarantee:
    """Return what a frozen model and the histogram of its scores promise together.

    On the same records both are paid for; where the caller says that the records are others, each
    record is in one of two disjoint parts and pays for one.
    """
    of_model = guarantee_of_frozen(model)
    if of_model is None:
        if held_out:
            return replace(of_histogram, public=(*of_histogram.public, OTHER_RECORDS))
        learned = learning_steps(model.estimator) or [type(model.estimator).__name__]
        outside = tuple(f"{name}: all that it learned" for name in learned)
        return replace(of_histogram, outside=(*of_histogram.outside, *outside))
    together = joint_guarantee([of_model, of_histogram], of_histogram.delta)
    if not held_out or not together.is_private:
        return together
    each = (one.under(together.relation) for one in (of_model, of_histogram))
    events = tuple(event for one in each for event in one.events)
    apart = PrivacyGuarantee.from_events(events, together.delta, relation=together.relation)
    public = (*together.public, EACH_IN_ONE)
    return replace(together, epsilon=apart.epsilon, events=apart.events, public=public)


def check_held_out(held_out: Any, estimator: Any) -> None:
    """Refuse records called others where the model is fitted to them, or persons have several."""
    if not isinstance(held_out, bool | np.bool_):
        raise ValueError(f"held_out must be True or False, got {held_out!r}.")
    if held_out and not is_frozen(estimator):
        raise ValueError(
            "held_out must be False where the model is fitted to the same records; fit it to "
            "others first and pass it in a FrozenEstimator, got True."
        )
    if held_out and rows_of_person(estimator) > 1:
        raise ValueError(
            "held_out must be False where a person has several rows, which may be in both parts, "
            "got True."
        )
