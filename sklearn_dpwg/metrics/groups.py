"""One row a group, one column a model and metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics

from sklearn_dpwg.data.groups import members_of_groups, same_rows
from sklearn_dpwg.exceptions import InputError

# Metrics by name, with the direction in which each is better.

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
        raise InputError(f"metric must be a callable or one of {names}, got {metric!r}.")
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
    for name, values in (("y_true", y_true), ("predictions", y_pred)):
        is_missing = pd.isna(values).reshape(len(values), -1).any(axis=1)
        if is_missing.any():
            raise InputError(f"{name} contains NaN or None in row {np.argmax(is_missing)}.")
    if metric in _ABOUT_ONE_CLASS:
        _check_are_classes(metric, y_pred)
        known = _known_classes([y_true, y_pred], classes)
        positive = _positive(metric, known, pos_label)
        function = _rate(metric) if metric in _RATES else getattr(metrics, f"{metric}_score")
        return OneClass(function, positive)
    if metric == "log_loss":
        return partial(metrics.log_loss, labels=_classes_of_columns(y_true, y_pred, classes))
    if metric == "brier_score_loss" and y_pred.ndim == 1:
        positive = _positive(metric, _known_classes([y_true], classes), pos_label)
        return OneClass(metrics.brier_score_loss, positive, of_scores=True)
    return getattr(metrics, f"{metric}_score" if metric in _GAINS else metric)


@dataclass(frozen=True)
class OneClass:
    """A metric of a positive class: of classes that are predicted, or of scores for it."""

    function: Metric
    positive: Any
    of_scores: bool = False

    def __call__(self, y_true: NDArray[Any], y_pred: NDArray[Any]) -> float:
        predicted = y_pred if self.of_scores else (y_pred == self.positive).astype(int)
        return float(self.function((y_true == self.positive).astype(int), predicted))


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
        raise InputError(
            f"predictions must hold one class a record for {metric!r}, got shape {y_pred.shape} "
            f"with {y_pred.ravel()[0].item()!r}."
        )


def _known_classes(found_in: list[NDArray[Any]], classes: Sequence[Any] | None) -> list[Any]:
    """Return all classes in sorted order, those that were stated or else those found."""
    found = {label for values in found_in for label in pd.unique(pd.Series(values)).tolist()}
    known = found if classes is None else set(classes)
    unknown = found - known
    if unknown:
        raise InputError(
            f"classes must hold every class of y_true and predictions, got {list(known)!r} and "
            f"{unknown.pop()!r} besides."
        )
    if classes is None and len(known) == 1 and known < {-1, 0, 1}:
        return [-1, 1] if -1 in known else [0, 1]  # the other one does not occur
    try:
        return sorted(known)
    except TypeError:
        raise InputError(
            "y_true and predictions must hold classes of one kind, all numbers or all strings, "
            "got some of both."
        ) from None


def _positive(metric: str, known: list[Any], pos_label: Any) -> Any:
    if pos_label is not None:
        if pos_label not in known:
            raise InputError(
                f"pos_label must be one of the classes {known!r}, got {pos_label!r}: state "
                f"classes=[...] where one does not occur."
            )
        return pos_label
    if len(known) != 2:
        raise InputError(
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
        raise InputError(
            f"the metric 'log_loss' needs the probability of each class, got those of {n_columns} "
            f"for the {len(known)} classes {known[:5]!r}: state classes=[...], as in "
            f"classes_ of the model, where one does not occur."
        )
    return known


# Metrics of models as functions of the positions of some records.

MetricOfRecords = Callable[[NDArray[np.intp]], float]


def _of_groups(
    y_true: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    groups: Any,
    metrics: str | Metric | Sequence[str | Metric],
    min_count: int,
    overlap: str = "cells",
    **positive: Any,
) -> tuple[list[NDArray[np.intp]], NDArray[np.object_], dict[str, MetricOfRecords]]:
    """Return the records of each group, their labels, and a function a column of a table.

    Each function takes positions of records, and is NaN for fewer than `min_count` of them.
    """
    same_rows(y_true=y_true, predictions=predictions, groups=groups)
    if isinstance(predictions, Mapping):
        same_rows(y_true=y_true, **{f"predictions[{k!r}]": v for k, v in predictions.items()})
    truth = np.asarray(y_true)
    labels, members = members_of_groups(groups, len(truth), overlap)
    if type(min_count) is not int or min_count < 1:
        raise InputError(f"min_count must be a positive whole number, got {min_count!r}.")
    models = predictions if isinstance(predictions, Mapping) else {"": predictions}
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    columns: dict[str, MetricOfRecords] = {}
    for name, predicted in models.items():
        predicted = np.asarray(predicted)
        if len(predicted) != len(truth):
            raise InputError(
                f"predictions must have one entry a record: got {len(predicted)} for "
                f"{len(truth)} records."
            )
        for metric in metrics:
            column = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
            if isinstance(predictions, Mapping):
                column = f"{name} {column}"
            if column in (*columns, "size"):
                raise InputError(f"metrics must have different names, got {column!r} twice.")
            function = metric_function(metric, truth, predicted, **positive)
            columns[column] = partial(_of_records, function, truth, predicted, min_count)
    return members, labels, columns


def _of_records(
    function: Metric,
    y_true: NDArray[Any],
    predicted: NDArray[Any],
    min_count: int,
    positions: NDArray[np.intp],
) -> float:
    if len(positions) < min_count:
        return np.nan
    return float(function(y_true[positions], predicted[positions]))


def group_table(
    y_true: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: Any,
    metrics: str | Metric | Sequence[str | Metric] = "accuracy",
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    min_count: int = 1,
    overlap: str = "cells",
) -> pd.DataFrame:
    """Return metrics of one or several models in every group.

    Computed from private records and without noise, so publishing it is outside every guarantee.

    Parameters
    ----------
    y_true : array-like of shape (n_records,)
        True targets.
    predictions : array-like, or mapping from a model's name to array-like
        Predictions, in the form that the metrics expect: numbers, classes, or probabilities, of
        the second class or of each.
    groups : array-like of shape (n_records,) or (n_records, n_columns)
        Group of each record; cells of several columns are intersected.
    metrics : str, callable or sequence of them, default="accuracy"
        Names of metrics of scikit-learn; "selection_rate", "true_positive_rate",
        "false_positive_rate", "true_negative_rate" or "false_negative_rate" of fairlearn, which
        has to be installed for them; or functions of ``(y_true, y_pred)`` with a ``__name__``
        each.
    classes : sequence, optional
        Every class, as in ``classes_`` of the model; needed where one does not occur in `y_true`.
        By default those that occur.
    pos_label : class, optional
        The positive class, for metrics that have one. By default the second of two classes in
        sorted order, also of strings, as ``classes_[1]`` of scikit-learn's models.
    min_count : int, default=1
        Fewest records of a group for metrics to be shown: a smaller group keeps its row and size,
        and its metrics are NaN.
    overlap : {"cells", "attributes", "both", "membership"}, default="cells"
        What several columns of groups mean, as for the estimators: a record may be in several rows
        then, and pairs of a column and a value are the levels of the index.

    Returns
    -------
    DataFrame
        Indexed by group, with a column "size" and one a metric, or one a model and metric. Several
        columns of groups are the levels of a MultiIndex and keep their names. Where a metric has a
        positive class, the columns are named by it, which is printed at the head.

    Raises
    ------
    ValueError
        If lengths differ, a group is missing, two columns would have one name, or which class is
        positive does not follow.
    ImportError
        If a metric of fairlearn is asked for and fairlearn is not installed.

    See Also
    --------
    group_disparities : How far the groups are apart.

    Notes
    -----
    A rate of records that a group does not have, such as the true positive rate where no record is
    positive, is NaN; fairlearn has 0 there.

    Examples
    --------
    >>> from sklearn_dpwg.metrics import group_table
    >>> group_table([1, 0, 1, 0], [1, 0, 0, 0], groups=["a", "a", "b", "b"])
           size  accuracy
    group
    a         2       1.0
    b         2       0.5
    """
    members, labels, columns = _of_groups(
        y_true,
        predictions,
        groups,
        metrics,
        min_count,
        overlap,
        classes=classes,
        pos_label=pos_label,
    )
    sizes = np.array([len(index) for index in members])
    values = {name: [value(index) for index in members] for name, value in columns.items()}
    names = getattr(groups, "columns", ()) if overlap == "cells" else ("attribute", "value")
    table = pd.DataFrame({"size": sizes, **values}, index=_index(labels, names))
    return table.rename_axis(columns=_named_positive(columns))


def _named_positive(columns: Mapping[str, Any]) -> str | None:
    """Return the class that rates are of, as the head of a table of them."""
    functions = [column.args[0] for column in columns.values()]
    found = {one.positive: None for one in functions if isinstance(one, OneClass)}
    return f"positive: {' '.join(map(str, found))}" if found else None


def _index(labels: NDArray[np.object_], columns: Iterable[Any]) -> pd.Index[Any]:
    """Return the labels as an index, of a level a column of the groups, or of pairs."""
    widths = {len(label) if isinstance(label, tuple) else 1 for label in labels}
    n_levels = widths.pop()
    if widths or n_levels < 2:
        return pd.Index(labels, tupleize_cols=False, dtype=object, name="group")
    names = list(columns)
    if len(names) != n_levels:  # an array, or a list of tuples
        names = [f"group_{level}" for level in range(n_levels)]
    return pd.MultiIndex.from_tuples(labels.tolist(), names=names)


# How far a metric of the groups is apart.


def group_disparities(
    y_true: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: Any,
    metrics: str | Metric | Sequence[str | Metric] = "selection_rate",
    method: Literal["between_groups", "to_overall"] = "between_groups",
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    min_count: int = 1,
) -> pd.DataFrame:
    """Return differences and ratios of metrics between groups, by fairlearn's ``MetricFrame``.

    Computed from private records and without noise, so publishing it is outside every guarantee.

    Parameters
    ----------
    y_true : array-like of shape (n_records,)
        True targets.
    predictions : array-like, or mapping from a model's name to array-like
        Predictions, in the form that the metrics expect.
    groups : array-like of shape (n_records,) or (n_records, n_columns)
        Group of each record; cells of several columns are intersected.
    metrics : str, callable or sequence of them, default="selection_rate"
        Metrics as for `group_table`.
    method : {"between_groups", "to_overall"}, default="between_groups"
        Whether differences and ratios are those of the largest and the smallest group, or of the
        group that is farthest from all records.
    classes : sequence, optional
        Every class, as for `group_table`.
    pos_label : class, optional
        The positive class, as for `group_table`: by default the second in sorted order.
    min_count : int, default=1
        Fewest records of a group for it to count; "overall" is of all records.

    Returns
    -------
    DataFrame
        Indexed by metric, or model and metric, with columns "overall", "smallest", "largest",
        "difference" and "ratio". A metric that is NaN in a group is that of the other groups.

    Raises
    ------
    ValueError
        If lengths differ, a group is missing, two rows would have one name, or which class is
        positive does not follow.
    ImportError
        If fairlearn is not installed.

    See Also
    --------
    group_table : The metrics in every group.

    Examples
    --------
    >>> from sklearn_dpwg.metrics import group_disparities
    >>> groups = ["a", "a", "b", "b"]
    >>> group_disparities(["no", "yes", "no", "yes"], ["no", "yes", "yes", "yes"], groups=groups)
    positive: yes   overall  smallest  largest  difference  ratio
    metric
    selection_rate     0.75       0.5      1.0         0.5    0.5
    """
    try:
        from fairlearn.metrics import MetricFrame
    except ImportError:
        raise ImportError(
            "group_disparities needs fairlearn: pip install 'sklearn-dpwg[audit]'."
        ) from None
    if method not in ("between_groups", "to_overall"):
        raise InputError(f'method must be "between_groups" or "to_overall", got {method!r}.')
    members, _, columns = _of_groups(
        y_true, predictions, groups, metrics, min_count, classes=classes, pos_label=pos_label
    )
    codes = np.repeat(np.arange(len(members)), [len(index) for index in members])
    codes[np.concatenate(members)] = codes.copy()
    # handed positions, the frame needs no form for probabilities of several classes
    positions = np.arange(len(codes))
    frame = MetricFrame(
        metrics={name: partial(_of_second, value) for name, value in columns.items()},
        y_true=positions,
        y_pred=positions,
        sensitive_features=pd.Series(codes, name="group"),
    )
    found = {
        "overall": frame.overall,
        "smallest": frame.group_min(),
        "largest": frame.group_max(),
        "difference": frame.difference(method=method),
        "ratio": frame.ratio(method=method),
    }
    table = pd.DataFrame(found, dtype=float).rename_axis("metric")
    return table.rename_axis(columns=_named_positive(columns))


def _of_second(value: MetricOfRecords, _: Any, positions: Any) -> float:
    return value(np.asarray(positions, dtype=np.intp))
