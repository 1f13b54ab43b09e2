"""One row a group, one column a model and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg.groups import encode_groups
from sklearn_dpwg.metrics._metric_columns import metric_columns
from sklearn_dpwg.metrics.named_metric import Metric


def group_table(
    y_true: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: Any,
    metrics: str | Metric | Sequence[str | Metric] = "accuracy",
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    min_count: int = 1,
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
        Group of each record; cells of several columns are intersected. An index is ignored.
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

    Returns
    -------
    DataFrame
        Indexed by group, with a column "size" and one a metric, or one a model and metric. Several
        columns of groups are the levels of a MultiIndex and keep their names.

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
    refuse_lazy(y_true=y_true, predictions=predictions, groups=groups)
    y_true = np.asarray(y_true)
    codes, labels = encode_groups(groups, len(y_true), None)
    columns = metric_columns(
        y_true, predictions, metrics, classes=classes, pos_label=pos_label, min_count=min_count
    )
    sizes = np.bincount(codes)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    values = {name: [value(index) for index in members] for name, value in columns.items()}
    return pd.DataFrame({"size": sizes, **values}, index=_index(labels, groups))


def _index(labels: NDArray[np.object_], groups: Any) -> pd.Index[Any]:
    """Return the labels as an index, of a level a column of the groups."""
    widths = {len(label) if isinstance(label, tuple) else 1 for label in labels}
    n_levels = widths.pop()
    if widths or n_levels < 2:
        return pd.Index(labels, tupleize_cols=False, dtype=object, name="group")
    names = list(getattr(groups, "columns", ()))
    if len(names) != n_levels:  # an array, or a list of tuples
        names = [f"group_{level}" for level in range(n_levels)]
    return pd.MultiIndex.from_tuples(labels.tolist(), names=names)
