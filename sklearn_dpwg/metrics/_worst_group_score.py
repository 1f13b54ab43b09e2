"""Score of the worst-off group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.metrics._group_table import group_table
from sklearn_dpwg.metrics.named_metric import Metric, is_greater_better


def worst_group_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    groups: Any,
    metric: str | Metric = "accuracy",
    greater_is_better: bool | None = None,
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
) -> float:
    """Return a metric in the group where it is worst.

    Computed from private records and without noise, so publishing it is outside every guarantee.

    Parameters
    ----------
    y_true : array-like of shape (n_records,)
        True targets.
    y_pred : array-like of shape (n_records,) or (n_records, n_classes)
        Predictions, in the form that the metric expects (probabilities for log loss).
    groups : array-like of shape (n_records,) or (n_records, n_columns)
        Group of each record; cells of several columns are intersected.
    metric : str or callable, default="accuracy"
        Name of a metric, or a function of ``(y_true, y_pred)``, as for `group_table`.
    greater_is_better : bool, optional
        Direction of the metric; known for names but "selection_rate", required for a callable.
    classes : sequence, optional
        Every class, as for `group_table`.
    pos_label : class, optional
        The positive class, as for `group_table`: by default the second in sorted order.

    Returns
    -------
    float
        The metric of the worst-off group: the smallest where greater is better, else the
        largest.

    Raises
    ------
    ValueError
        If lengths differ, a group is missing, or the direction of a callable is not given.
    ImportError
        If a metric of fairlearn is asked for and fairlearn is not installed.

    Examples
    --------
    >>> from sklearn_dpwg.metrics import worst_group_score
    >>> worst_group_score([1, 0, 1, 0], [1, 0, 0, 0], groups=["a", "a", "b", "b"])
    0.5
    """
    direction = is_greater_better(metric)
    if greater_is_better is None:
        greater_is_better = direction
    if greater_is_better is None:
        what = "a callable metric" if callable(metric) else f"the metric {metric!r}"
        raise ValueError(f"greater_is_better must be given for {what}.")
    table = group_table(
        y_true, y_pred, groups=groups, metrics=[metric], classes=classes, pos_label=pos_label
    )
    values = table.iloc[:, -1].to_numpy(dtype=float)
    return float(np.min(values) if greater_is_better else np.max(values))
