"""How far a metric of the groups is apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg.groups import encode_groups
from sklearn_dpwg.metrics._metric_columns import MetricOfRecords, metric_columns
from sklearn_dpwg.metrics.named_metric import Metric


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
        Group of each record; cells of several columns are intersected. An index is ignored.
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
                    overall  smallest  largest  difference  ratio
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
        raise ValueError(f'method must be "between_groups" or "to_overall", got {method!r}.')
    refuse_lazy(y_true=y_true, predictions=predictions, groups=groups)
    y_true = np.asarray(y_true)
    codes, _ = encode_groups(groups, len(y_true), None)
    columns = metric_columns(
        y_true, predictions, metrics, classes=classes, pos_label=pos_label, min_count=min_count
    )
    # handed positions, the frame needs no form for probabilities of several classes
    positions = np.arange(len(y_true))
    frame = MetricFrame(
        metrics={name: _of_second(value) for name, value in columns.items()},
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
    return pd.DataFrame(found, dtype=float).rename_axis("metric")


def _of_second(value: MetricOfRecords) -> Metric:
    def metric(_: Any, positions: Any) -> float:
        return value(np.asarray(positions, dtype=np.intp))

    return metric
