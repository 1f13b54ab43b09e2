"""Metrics of models as functions of the positions of some records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg.metrics.named_metric import Metric, metric_function

MetricOfRecords = Callable[[NDArray[np.intp]], float]


def metric_columns(
    y_true: NDArray[Any],
    predictions: ArrayLike | Mapping[str, ArrayLike],
    metrics: str | Metric | Sequence[str | Metric],
    *,
    classes: Sequence[Any] | None,
    pos_label: Any,
    min_count: int,
) -> dict[str, MetricOfRecords]:
    """Return a function a model and metric, by the name of its column.

    Each is NaN for fewer than `min_count` records.
    """
    if type(min_count) is not int or min_count < 1:
        raise ValueError(f"min_count must be a positive whole number, got {min_count!r}.")
    several_models = isinstance(predictions, Mapping)
    models = predictions if isinstance(predictions, Mapping) else {"": predictions}
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    columns: dict[str, MetricOfRecords] = {}
    for name, predicted in models.items():
        predicted = np.asarray(predicted)
        if len(predicted) != len(y_true):
            raise ValueError(
                f"predictions must have one entry a record: got {len(predicted)} for "
                f"{len(y_true)} records."
            )
        for metric in metrics:
            title = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
            column = f"{name} {title}" if several_models else title
            if column in (*columns, "size"):
                raise ValueError(f"metrics must have different names, got {column!r} twice.")
            function = metric_function(
                metric, y_true, predicted, classes=classes, pos_label=pos_label
            )
            columns[column] = _of_records(function, y_true, predicted, min_count)
    return columns


def _of_records(
    function: Metric, y_true: NDArray[Any], predicted: NDArray[Any], min_count: int
) -> MetricOfRecords:
    def value(positions: NDArray[np.intp]) -> float:
        if len(positions) < min_count:
            return np.nan
        return float(function(y_true[positions], predicted[positions]))

    return value
