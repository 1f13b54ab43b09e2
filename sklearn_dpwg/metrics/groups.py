"""Exact metrics in every group, as a table: one row per group, one column per metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics as of_sklearn
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg.data.frames import label_column, places, same_rows, spelled
from sklearn_dpwg.data.groups import members_of_groups
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.metrics.intervals import rate_interval

Metric = Callable[..., float]
Truths = NDArray[np.bool_]

# Metrics of scikit-learn, by the kind of predictions that they take.
_OF_CLASSES = (
    "accuracy_score", "balanced_accuracy_score", "cohen_kappa_score", "f1_score", "fbeta_score",
    "hamming_loss", "jaccard_score", "matthews_corrcoef", "negative_likelihood_ratio",
    "positive_likelihood_ratio", "precision_score", "recall_score", "zero_one_loss",
)  # fmt: skip
_OF_SCORES = (
    "average_precision_score", "brier_score_loss", "d2_brier_score", "d2_log_loss_score",
    "hinge_loss", "log_loss", "roc_auc_score", "top_k_accuracy_score",
)  # fmt: skip
_OF_NUMBERS = (
    "d2_absolute_error_score", "explained_variance_score", "r2_score",
    *(name for name in dir(of_sklearn) if name.endswith("_error") and name[0] in "mr"),
)  # fmt: skip
# Rates, as functions of (is positive, is predicted positive): (hits, records that are counted).
_RATES: dict[str, Callable[[Truths, Truths], tuple[Truths, Truths]]] = {
    "selection_rate": lambda true, chosen: (chosen, np.ones_like(chosen)),
    "true_positive_rate": lambda true, chosen: (chosen, true),
    "true_negative_rate": lambda true, chosen: (~chosen, ~true),
    "false_positive_rate": lambda true, chosen: (chosen, ~true),
    "false_negative_rate": lambda true, chosen: (~chosen, true),
    "precision_score": lambda true, chosen: (true, chosen),
    "recall_score": lambda true, chosen: (chosen, true),
}
_NAMES = {*_OF_CLASSES, *_OF_SCORES, *_OF_NUMBERS} & {*dir(of_sklearn)} | {*_RATES}

# Metrics that are undefined without a positive record, without a record of some class, or if all
# records are of one class.
_NEED_POSITIVE = ("average_precision_score", "f1_score", "fbeta_score", "jaccard_score",
                  "precision_score", "recall_score")  # fmt: skip
_NEED_ALL = ("average_precision_score", "balanced_accuracy_score", "hinge_loss", "roc_auc_score")
_NEED_TWO = ("cohen_kappa_score", "d2_brier_score", "d2_log_loss_score", "matthews_corrcoef",
             "negative_likelihood_ratio", "positive_likelihood_ratio")  # fmt: skip
_OF_ONE_CLASS = (*_RATES, *_NEED_POSITIVE, "brier_score_loss", "d2_brier_score", "hinge_loss",
                 "roc_auc_score")  # fmt: skip
# Names of parameters that mean scores in functions of scikit-learn and others.
_CALLED_SCORES = {"y_score", "y_prob", "y_proba", "probas_pred", "pred_decision"}


def _full_name(metric: str) -> str:
    """Return the full name of a metric, which may be given without "_score"."""
    for name in (metric, f"{metric}_score"):
        if name in _NAMES:
            return name
    names = sorted(name.removesuffix("_score") for name in _NAMES)
    raise InputError(f"metric must be a callable or one of {names}, got {metric!r}.")


def is_greater_better(metric: str | Metric) -> bool | None:
    """Return whether large values of a metric are good; None for "selection_rate" or a callable."""
    name = "selection_rate" if callable(metric) else _full_name(metric)
    if name == "selection_rate":
        return None
    return not name.endswith(("_error", "_loss")) and not name.startswith("false_")


def checked_array(values: Any, name: str, n_records: int | None = None) -> NDArray[Any]:
    """Return values as an array with one entry per record; raise an error if one is missing."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if n_records is not None and array.shape[:1] != (n_records,):
        raise InputError(
            f"{name} must have one entry a record: got shape {array.shape} for {n_records} records."
        )
    is_missing = pd.isna(array).any(axis=tuple(range(1, array.ndim)))
    if is_missing.any():
        raise InputError(f"{name} contains NaN or None in row {np.argmax(is_missing)}.")
    is_object = array.dtype == object and array.ndim == 1
    return pd.Series(array).infer_objects().to_numpy() if is_object else array


def value_or_nan(function: Metric, *values: Any, **keywords: Any) -> float:
    """Return the value of a metric, NaN if scikit-learn warns that it is undefined."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UndefinedMetricWarning)
        try:
            return float(function(*values, **keywords))
        except UndefinedMetricWarning:
            return np.nan


@dataclass(frozen=True)
class Measure:
    """A metric with its records, called with places of some of them; NaN where it is undefined."""

    function: Metric
    truth: NDArray[Any]
    predicted: NDArray[Any]
    per_record: Mapping[str, NDArray[Any]]  # further arguments, such as weights
    needs: frozenset[Any] = frozenset()  # classes without which the metric is undefined
    n_needed: int = 0  # smallest number of classes
    positive: Any = None  # the positive class, if the metric has one

    def __call__(self, members: NDArray[np.intp]) -> float:
        truth = self.truth[members]
        present = {*np.unique(truth).tolist()} if self.n_needed else set()
        if not self.needs <= present or len(present) < self.n_needed:
            return np.nan
        extra = {name: values[members] for name, values in self.per_record.items()}
        return value_or_nan(self.function, truth, self.predicted[members], **extra)

    def limits(self, members: NDArray[np.intp]) -> tuple[float, float]:
        """Return the limits of a rate at 95 % confidence, as if its records were a sample."""
        counted = self.predicted[members]
        interval = rate_interval(int(np.nansum(counted)), int(np.sum(~np.isnan(counted))))
        return interval.low, interval.high


def measure(
    metric: str | Metric,
    truth: NDArray[Any],
    y_pred: NDArray[Any] | None,
    y_score: NDArray[Any] | None,
    per_record: Mapping[str, NDArray[Any]],
    classes: Collection[Any] | None,
    pos_label: Any,
) -> Measure:
    """Return a metric to evaluate on subsets of records; its classes are those of all records."""
    name, function, keywords = _resolved(metric)
    of_scores = name in _OF_SCORES or (
        not name and not _CALLED_SCORES.isdisjoint(signature(function).parameters)
    )
    predicted = y_score if of_scores and y_score is not None else y_pred
    if predicted is None:
        raise InputError(f"y_pred must be given for the metric {_name_of(metric)!r}, got None.")
    parameters = signature(function).parameters if per_record else {}
    extra = {key: values for key, values in per_record.items() if key in parameters}
    if truth.ndim > 1 or name not in (*_OF_CLASSES, *_OF_SCORES, *_RATES):
        return Measure(partial(function, **keywords), truth, predicted, extra)
    if not of_scores:
        _check_classes(name, y_true=truth, y_pred=predicted)
    is_stated = classes is not None
    is_mixed = (truth.dtype.kind in "OU") != (predicted.dtype.kind in "OU")  # text and numbers
    if not of_scores and (is_stated or is_mixed):
        labels = np.asarray(list(classes or ())) if is_stated else pd.unique(truth)
        truth, predicted = spelled(truth, labels), spelled(predicted, labels)
    known = _known_classes([truth] if of_scores else [truth, predicted], classes)
    if name in ("accuracy_score", "zero_one_loss") and not keywords:
        counted = (truth == predicted) == (name == "accuracy_score")
        return Measure(_rate, truth, counted.astype(float), extra)
    in_truth = _known_classes([truth], classes)
    average, positive = keywords.get("average", "binary"), None
    is_binary = predicted.ndim == 1 or predicted.shape[1] == len(known) == 2
    if name in _OF_ONE_CLASS and (is_binary if of_scores else average == "binary"):
        positive = _positive(name, known, keywords.pop("pos_label", pos_label))
        true, in_truth = truth == positive, [0, 1]
        if predicted.ndim == 2:
            predicted = predicted[:, known.index(positive)]
        predicted = predicted if of_scores else (predicted == positive).astype(int)
        if name in _RATES:
            hits, among = _RATES[name](true, predicted == 1)
            function, keywords, predicted = _rate, {}, np.where(among, hits, np.nan)
        truth = true.astype(int)
    elif of_scores:
        if "labels" in signature(function).parameters:
            keywords.setdefault("labels", known)
    elif average != "binary":
        keywords["zero_division"] = 0.0  # for a class that is not predicted, or has no weight
    needs = in_truth if name in _NEED_ALL or (average == "macro" and not of_scores) else []
    needs = [1] if name in _NEED_POSITIVE and positive is not None else needs
    n_needed = 2 if name in _NEED_TWO else len(needs)
    function = partial(function, **keywords) if keywords else function
    return Measure(function, truth, predicted, extra, frozenset(needs), n_needed, positive)


def _resolved(metric: str | Metric) -> tuple[str, Metric, dict[str, Any]]:
    """Return the name of a metric, "" if it is not scikit-learn's, its function, and keywords."""
    if isinstance(metric, str):
        name = _full_name(metric)
        return name, getattr(of_sklearn, name, _rate), {}
    function, keywords = metric, {}
    if isinstance(metric, partial) and not metric.args:
        function, keywords = metric.func, dict(metric.keywords)
    is_known = str(getattr(function, "__module__", "")).startswith("sklearn.")
    # zero_division defines values that would be NaN here
    is_known = is_known and "zero_division" not in keywords
    return _name_of(metric) if is_known else "", function, keywords


def _name_of(metric: Any) -> str:
    """Return the name of a metric for columns and errors."""
    function = metric.func if isinstance(metric, partial) else metric
    return metric if isinstance(metric, str) else getattr(function, "__name__", "metric")


def _rate(_: Any, counted: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> float:
    """Return a rate: the mean of ``counted``, 1 for a hit, 0 for a miss, NaN for neither."""
    is_counted = ~np.isnan(counted)
    weights = is_counted.astype(float) if sample_weight is None else sample_weight * is_counted
    hits = np.where(is_counted, counted, 0.0)
    return float(np.average(hits, weights=weights)) if weights.any() else np.nan


def _check_classes(metric: str, **arrays: NDArray[Any]) -> None:
    """Raise an error if an array holds probabilities, for a metric that takes classes."""
    for name, array in arrays.items():
        if array.ndim != 1 or (array.dtype.kind == "f" and (array % 1.0 != 0.0).any()):
            raise InputError(
                f"{name} must hold one class a record for {metric!r}, got shape {array.shape} with "
                f"{array.ravel()[0].item()!r}: probabilities are given as y_score."
            )


def _known_classes(arrays: list[NDArray[Any]], classes: Collection[Any] | None) -> list[Any]:
    """Return all classes in sorted order: the stated ones, by default those in the arrays."""
    occur = {label for values in arrays for label in pd.unique(pd.Series(values)).tolist()}
    known = occur if classes is None else set(classes)
    if occur - known:
        raise InputError(
            f"classes must hold every class of y_true and y_pred, got {list(known)!r} and "
            f"{(occur - known).pop()!r} besides."
        )
    if len(known) == 1 and known < {-1, 0, 1}:
        return [-1, 1] if -1 in known else [0, 1]  # the other one does not occur
    try:
        return sorted(known)
    except TypeError:
        raise InputError(
            "y_true and y_pred must hold classes of one kind, all numbers or all strings, got some "
            "of both."
        ) from None


def _positive(metric: str, known: list[Any], pos_label: Any) -> Any:
    """Return the positive class: `pos_label`, by default the second of two classes."""
    if pos_label in known:
        return pos_label
    if pos_label is None and len(known) == 2:
        return known[1]
    raise InputError(
        f"pos_label must be one of the classes {known[:5]!r} for the metric {metric!r}, got "
        f"{pos_label!r}: state classes=[...] where one does not occur."
    )


def group_table(
    y_true: ArrayLike,
    y_pred: ArrayLike | Mapping[str, ArrayLike] | None = None,
    *,
    groups: Any,
    y_score: ArrayLike | None = None,
    metrics: str | Metric | Sequence[str | Metric] | Mapping[str, str | Metric] = "accuracy",
    sample_weight: ArrayLike | None = None,
    reference: Any = None,
    intervals: bool = False,
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    min_count: int = 1,
    overlap: str = "cells",
) -> pd.DataFrame:
    """Return metrics in every group.

    Computed from private records and without noise, so publishing it is outside every guarantee.

    Parameters
    ----------
    y_true : array-like of shape (n_records,)
        True targets.
    y_pred : array-like, or mapping from names of models to array-like, optional
        Predictions; or probabilities, where all metrics take these.
    groups : array-like of shape (n_records,) or (n_records, n_columns)
        Group of each record; cells of several columns are intersected.
    y_score : array-like of shape (n_records,) or (n_records, n_classes), optional
        Probabilities or decisions, of the positive class or of each; by default `y_pred`.
    metrics : str, callable, sequence of them or mapping from names, default="accuracy"
        Functions of scikit-learn or their names, as "recall_score" or "recall"; "selection_rate",
        "true_positive_rate", "false_positive_rate", "true_negative_rate", "false_negative_rate";
        or functions of ``(y_true, y_pred)``, which may call the second ``y_score``.
    sample_weight : array-like of shape (n_records,), optional
        Weights, for metrics that take them.
    reference : label of a group, optional
        Adds each metric's signed difference from that of this group, and the ratio to it.
    intervals : bool, default=False
        Adds Clopper and Pearson's limits of rates at 95 % confidence.
    classes : sequence, optional
        Every class, as in ``classes_`` of the model, where one does not occur in `y_true`.
    pos_label : class, optional
        The positive class, for metrics that have one. By default the second of two classes in
        sorted order, also of strings, as ``classes_[1]`` of scikit-learn's models.
    min_count : int, default=1
        Fewest records of a group for metrics to be shown, which are NaN for a smaller one.
    overlap : {"cells", "attributes", "both", "membership"}, default="cells"
        What several columns of groups mean, as for the estimators.

    Returns
    -------
    DataFrame
        Indexed by group, in the order of categories if there are any, with a column "size" and one
        a metric, followed by ``_low``, ``_high``, ``_difference`` and ``_ratio`` if asked for.
        Columns of several models begin with the model's name. A positive class is in the head.
        Undefined is NaN: recall, precision, F1, Jaccard and average precision without a positive
        record, ROC AUC and balanced accuracy without a record of each class, and whatever
        scikit-learn warns of.

    Examples
    --------
    >>> from sklearn_dpwg.metrics import group_table
    >>> group_table([1, 0, 1, 0], [1, 0, 0, 0], groups=["a", "a", "b", "b"])
           size  accuracy
    group
    a         2       1.0
    b         2       0.5
    """
    models = y_pred if isinstance(y_pred, Mapping) else {"": y_pred}
    inputs = {f"y_pred[{name!r}]" if name else "y_pred": pred for name, pred in models.items()}
    inputs |= {"y_score": y_score, "sample_weight": sample_weight}
    y_true, groups, *aligned = same_rows(y_true=y_true, groups=groups, **inputs)
    truth = checked_array(y_true, "y_true")
    labels, members = members_of_groups(groups, len(truth), overlap)
    whole_number(min_count, "min_count", least=1)
    if intervals and sample_weight is not None:
        raise InputError("intervals must be False with sample_weight, as they are of counts.")
    base_place = -1 if reference is None else int(places(label_column([reference]), labels)[0])
    if reference is not None and base_place < 0:
        raise InputError(f"reference must be one of {labels.tolist()!r}, got {reference!r}.")
    *predictions, scores, weights = (
        None if values is None else checked_array(values, name, len(truth))
        for name, values in zip(inputs, aligned, strict=True)
    )
    listed = [metrics] if isinstance(metrics, str) or callable(metrics) else metrics
    by_name = listed.items() if isinstance(listed, Mapping) else [(_name_of(m), m) for m in listed]
    per_record = {} if weights is None else {"sample_weight": weights}
    table = pd.DataFrame({"size": [len(each) for each in members]})
    positives: dict[str, None] = {}
    for model, predicted in zip(models, predictions, strict=True):
        for name, metric in by_name:
            column = f"{model} {name}" if model else name
            if column in table:
                raise InputError(f"metrics must have different names, got {column!r} twice.")
            value = measure(metric, truth, predicted, scores, per_record, classes, pos_label)
            positives |= {} if value.positive is None else {str(value.positive): None}
            table[column] = [value(each) if len(each) >= min_count else np.nan for each in members]
            if intervals and value.function is _rate:
                limits = np.array([value.limits(each) for each in members])
                limits[table[column].isna()] = np.nan
                table[[f"{column}_low", f"{column}_high"]] = limits
            if reference is not None:
                base = table[column].iloc[base_place]
                table[f"{column}_difference"] = table[column] - base
                table[f"{column}_ratio"] = table[column] / base
    table.index = _index(labels, groups, overlap)
    return table.rename_axis(columns=f"positive: {' '.join(positives)}" if positives else None)


def _index(labels: NDArray[np.object_], groups: Any, overlap: str) -> pd.Index[Any]:
    """Return the index of the table: labels, or one level for each column of the groups."""
    widths = {len(label) if isinstance(label, tuple) else 1 for label in labels}
    names = list(getattr(groups, "columns", ()))
    if len(widths) > 1 or widths == {1}:
        name = names[0] if len(names) == 1 else None if names else getattr(groups, "name", None)
        name = "group" if name is None or name == "" else name
        return pd.Index(labels, tupleize_cols=False, dtype=object, name=name)
    if overlap != "cells":
        names = ["attribute", "value"]
    elif len(names) != max(widths):  # an array, or a list of tuples
        names = [f"group_{level}" for level in range(max(widths))]
    return pd.MultiIndex.from_tuples(labels.tolist(), names=names)
