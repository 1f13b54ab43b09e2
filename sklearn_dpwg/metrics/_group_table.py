"""One row a group, one column a model and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sklearn_dpwg.groups import encode_groups
from sklearn_dpwg.metrics.named_metric import Metric, named_metric


def group_table(
    y_true: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: Any,
    metrics: str | Metric | Sequence[str | Metric] = "accuracy",
) -> pd.DataFrame:
    """Return metrics of one or several models in every group.

    Computed from private records and without noise, so publishing it is outside every guarantee.

    Parameters
    ----------
    y_true : array-like of shape (n_records,)
        True targets.
    predictions : array-like, or mapping from a model's name to array-like
        Predictions, in the form that the metrics expect.
    groups : array-like of shape (n_records,) or (n_records, n_columns)
        Group of each record; cells of several columns are intersected. An index is ignored.
    metrics : str, callable or sequence of them, default="accuracy"
        Names of metrics of scikit-learn, or functions of ``(y_true, y_pred)`` with a
        ``__name__`` each.

    Returns
    -------
    DataFrame
        Indexed by group, with a column "size" and one a metric, or one a model and metric.

    Raises
    ------
    ValueError
        If lengths differ, a group is missing or two columns would have one name.

    Examples
    --------
    >>> from sklearn_dpwg.metrics import group_table
    >>> group_table([1, 0, 1, 0], [1, 0, 0, 0], groups=["a", "a", "b", "b"])
           size  accuracy
    group
    a         2       1.0
    b         2       0.5
    """
    y_true = np.asarray(y_true)
    codes, labels = encode_groups(groups, len(y_true), None)
    members = [np.flatnonzero(codes == code) for code in range(len(labels))]
    several_models = isinstance(predictions, Mapping)
    models = predictions if isinstance(predictions, Mapping) else {"": predictions}
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    columns: dict[str, list[Any]] = {"size": [len(index) for index in members]}
    for name, predicted in models.items():
        predicted = np.asarray(predicted)
        if len(predicted) != len(y_true):
            raise ValueError(
                f"predictions must have one entry a record: got {len(predicted)} for "
                f"{len(y_true)} records."
            )
        for metric in metrics:
            function = named_metric(metric, y_true)[0]
            title = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
            column = f"{name} {title}" if several_models else title
            if column in columns:
                raise ValueError(f"metrics must have different names, got {column!r} twice.")
            columns[column] = [float(function(y_true[i], predicted[i])) for i in members]
    return pd.DataFrame(
        columns, index=pd.Index(labels, tupleize_cols=False, dtype=object, name="group")
    )
