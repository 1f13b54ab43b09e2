"""Scores of single records, each in [0, 1], so that one record can move a mean only so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray

Scoring = Literal["accuracy", "absolute_error"] | Callable[[Any, Any, Any], Any]


def record_scores(scoring: Scoring, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Return one score a record, of which more is better.

    Parameters
    ----------
    scoring : {"accuracy", "absolute_error"} or callable
        What is scored; a callable ``scoring(estimator, X, y)`` returns a number a record.
    estimator : estimator
        A fitted model.
    X : array-like of shape (n_records, n_features)
        Rows.
    y : ndarray of shape (n_records,)
        Targets.

    Returns
    -------
    ndarray of shape (n_records,)
        Scores in [0, 1]; what is not a number counts 0.

    Raises
    ------
    ValueError
        If a callable does not return one number a record.
    """
    if scoring == "accuracy":
        return np.asarray(estimator.predict(X) == y, dtype=np.float64)
    if scoring == "absolute_error":
        model = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        low, high = (float(bound) for bound in model.target_bounds)
        errors = np.abs(np.clip(estimator.predict(X), low, high) - np.clip(y, low, high))
        scores = np.asarray(1.0 - errors / (high - low))
    else:
        assert callable(scoring)
        scores = np.asarray(scoring(estimator, X, y), dtype=np.float64)
    if scores.shape != (len(y),):
        raise ValueError(
            f"scoring must return one number a record, shape ({len(y)},), got shape {scores.shape}."
        )
    return np.clip(np.nan_to_num(scores, nan=0.0), 0.0, 1.0)
