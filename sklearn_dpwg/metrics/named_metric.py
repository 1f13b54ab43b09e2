"""Metrics by name, with the direction in which each is better."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
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


def named_metric(metric: str | Metric, y_true: ArrayLike) -> tuple[Metric, bool | None]:
    """Return a function of (y_true, y_pred), and whether greater is better (None for a callable).

    Log loss needs every class, also in a group that lacks one, so the targets are those of all.
    """
    if callable(metric):
        return metric, None
    if metric in _GAINS:
        return getattr(metrics, f"{metric}_score"), True
    if metric == "log_loss":
        return partial(metrics.log_loss, labels=np.unique(np.asarray(y_true))), False
    if metric in _COSTS:
        return getattr(metrics, metric), False
    raise ValueError(
        f"metric must be a callable or one of {sorted((*_GAINS, *_COSTS))}, got {metric!r}."
    )
