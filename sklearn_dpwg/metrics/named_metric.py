"""Metrics by name, with the direction in which each is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import metrics

Metric = Callable[..., float]

# Largest is best for the first, smallest for the second. Not among them: hinge_loss, which takes
# the only class of a group for the negative one.
_GAINS = ("accuracy", "balanced_accuracy", "f1", "jaccard", "precision", "r2", "recall", "roc_auc")
_COSTS = (
    "brier_score_loss",
    "log_loss",
    "max_error",
    "mean_absolute_error",
    "mean_squared_error",
    "median_absolute_error",
    "root_mean_squared_error",
    "zero_one_loss",
)
# fairlearn's, with whether greater is better and the truth of the records that each is a share of
_RATES: dict[str, tuple[bool | None, bool | None]] = {
    "selection_rate": (None, None),
    "true_positive_rate": (True, True),
    "true_negative_rate": (True, False),
    "false_positive_rate": (False, False),
    "false_negative_rate": (False, True),
}
_ABOUT_ONE_CLASS = ("f1", "jaccard", "precision", "recall", *_RATES)


def is_greater_better(metric: str | Metric) -> bool | None:
    """Return the direction of a metric, or None where its name, or a callable, has none."""
    if callable(metric):
        return None
    if metric in _RATES:
        return _RATES[metric][0]
    if metric not in (*_GAINS, *_COSTS):
        names = sorted((*_GAINS, *_COSTS, *_RATES))
        raise ValueError(f"metric must be a callable or one of {names}, got {metric!r}.")
    return metric in _GAINS


def metric_function(
    metric: str | Metric,
    y_true: NDArray[Any],
    y_pred: NDArray[Any],
    *,
    classes: Sequence[Any] | None,
    pos_label: Any,
) -> Metric:
    """Return a function of (y_true, y_pred) of a group, given those of all records.

    A group may lack a class, so which classes there are and which is positive follows from all.
    """
    if callable(metric):
        return metric
    is_greater_better(metric)  # refuses a name that there is not
    if metric in _ABOUT_ONE_CLASS:
        _check_are_classes(metric, y_pred)
        known = _known_classes([y_true, y_pred], classes)
        positive = _positive(metric, known, pos_label)
        function = _rate(metric) if metric in _RATES else getattr(metrics, f"{metric}_score")
        return partial(_of_one_class, function, positive)
    if metric == "log_loss":
        return partial(metrics.log_loss, labels=_classes_of_columns(y_true, y_pred, classes))
    if metric == "brier_score_loss" and y_pred.ndim == 1:
        positive = _positive(metric, _known_classes([y_true], classes), pos_label)
        return partial(_brier_score_loss, positive)
    return getattr(metrics, f"{metric}_score" if metric in _GAINS else metric)


def _of_one_class(
    function: Metric, positive: Any, y_true: NDArray[Any], y_pred: NDArray[Any]
) -> float:
    return function((y_true == positive).astype(int), (y_pred == positive).astype(int))


def _brier_score_loss(positive: Any, y_true: NDArray[Any], y_pred: NDArray[Any]) -> float:
    return float(metrics.brier_score_loss((y_true == positive).astype(int), y_pred))


def _rate(name: str) -> Metric:
    """Return a rate of fairlearn that is NaN, not 0, where there are no records to take it of."""
    try:
        from fairlearn import metrics as fairness
    except ImportError:
        raise ImportError(
            f"the metric {name!r} needs fairlearn: pip install 'sklearn-dpwg[audit]'."
        ) from None
    function, truth = getattr(fairness, name), _RATES[name][1]

    def rate(y_true: NDArray[Any], y_pred: NDArray[Any]) -> float:
        if truth is not None and not (y_true == int(truth)).any():
            return np.nan
        return float(function(y_true, y_pred, pos_label=1))

    return rate


def _check_are_classes(metric: str, y_pred: NDArray[Any]) -> None:
    if y_pred.ndim != 1 or (y_pred.dtype.kind == "f" and (y_pred % 1.0 != 0.0).any()):
        raise ValueError(
            f"predictions must hold one class a record for {metric!r}, got shape {y_pred.shape} "
            f"with values such as {y_pred.ravel()[0].item()!r}."
        )


def _known_classes(found_in: list[NDArray[Any]], classes: Sequence[Any] | None) -> list[Any]:
    """Return all classes in sorted order, those that were stated or else those found."""
    found = {label for values in found_in for label in pd.unique(pd.Series(values)).tolist()}
    known = found if classes is None else set(classes)
    unknown = found - known
    if unknown:
        raise ValueError(
            f"classes must hold every class of y_true and predictions, got {list(known)!r} and "
            f"{unknown.pop()!r} besides."
        )
    if classes is None and len(known) == 1 and known < {-1, 0, 1}:
        return [-1, 1] if -1 in known else [0, 1]  # the other one does not occur
    try:
        return sorted(known)
    except TypeError:
        raise ValueError(
            "y_true and predictions must hold classes of one kind, all numbers or all strings, "
            "got some of both."
        ) from None


def _positive(metric: str, known: list[Any], pos_label: Any) -> Any:
    if pos_label is not None:
        if pos_label not in known:
            raise ValueError(
                f"pos_label must be one of the classes {known!r}, got {pos_label!r}: state "
                f"classes=[...] where one does not occur."
            )
        return pos_label
    if len(known) != 2:
        raise ValueError(
            f"the metric {metric!r} needs two classes, got {len(known)}, {known[:5]!r}: state "
            f"pos_label, or classes=[...] where one does not occur."
        )
    return known[1]


def _classes_of_columns(
    y_true: NDArray[Any], y_pred: NDArray[Any], classes: Sequence[Any] | None
) -> list[Any]:
    known = _known_classes([y_true], classes)
    n_columns = y_pred.shape[1] if y_pred.ndim == 2 and y_pred.shape[1] > 1 else 2
    if len(known) != n_columns:
        raise ValueError(
            f"the metric 'log_loss' needs the probability of each class, got those of {n_columns} "
            f"for the {len(known)} classes {known[:5]!r}: state classes=[...], as in classes_ of "
            f"the model, where one does not occur."
        )
    return known
