"""Predictions and scores of rows in partitions: lazy ones of dask, arrays of a source."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.lazy import is_dask, is_source, lazy_table
from sklearn_dpwg.estimators.partitions.survey import (
    Refusal,
    checked_targets,
    hold,
    is_elsewhere,
    raise_first,
    targets_of,
    told,
)
from sklearn_dpwg.exceptions import InputError

Method = TypeVar("Method", bound=Callable[..., Any])

# What a fitted model needs to predict; its other attributes, a seed among them, stay here.
_NEEDED = (
    *("coef_", "intercept_", "classes_", "plan_", "n_features_in_", "feature_names_in_"),
    *("loss", "epsilon"),  # scikit-learn asks what kind of model it is, which these decide
)


def by_block(method: Method) -> Method:
    """Return a method of rows that takes a source and collections of dask too."""

    @wraps(method)
    def of_any(estimator: Any, X: Any) -> Any:
        if not is_elsewhere(X):
            return method(estimator, X)
        check_is_fitted(estimator, "plan_")
        if is_dask(X):
            return _lazily(estimator, method.__name__, X)
        if not is_source(X):
            raise TypeError(
                f"X must be an array, a frame, a collection of dask or a source, got a "
                f"{lazy_table(X) or 'path'}: collect it, or pass ParquetSource(..., "
                f"features=[...], target=None) of it."
            )
        return _of_source(estimator, method, X)

    return of_any  # type: ignore[return-value]


def score_by_block(estimator: Any, X: Any, y: Any) -> float:
    """Return accuracy or R² of rows in partitions, of sums that partitions return."""
    check_is_fitted(estimator, "plan_")
    ask = partial(_sums_of_partition, kind=type(estimator), state=_state(estimator))
    with hold(X, y, None) as held:
        sums = held.of_each(ask)
    raise_first(sums)
    numbers = np.array([each for each in sums if each[0] > 0])
    if not len(numbers):
        raise InputError("X must have at least one record to score, got none.")
    return _accuracy(numbers) if is_classifier(estimator) else _r2(numbers)


def _lazily(estimator: Any, name: str, X: Any) -> Any:
    """Return a collection of what a method returns of each partition."""
    from sklearn_dpwg.data import distributed

    function = partial(_of_rows, kind=type(estimator), state=_state(estimator), name=name)
    _check_columns(estimator, X)
    dtype = estimator.classes_.dtype if hasattr(estimator, "classes_") else np.float64
    columns = None
    if name != "predict":
        dtype = np.float64
        n_classes = len(estimator.classes_)
        if name != "decision_function" or n_classes > 2:
            columns = estimator.classes_.tolist()
    return distributed.map_rows(X, function, dtype=dtype, columns=columns)


def _check_columns(estimator: Any, X: Any) -> None:
    """Refuse other columns than the model's now, and not when a worker computes."""
    example = np.zeros((1, X.shape[1]))
    names = list(X.columns) if hasattr(X, "columns") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there or not, which is told below
        validate_data(
            estimator,
            example if names is None else pd.DataFrame(example, columns=names),
            reset=False,
        )


def _of_source(estimator: Any, method: Callable[..., Any], source: Any) -> NDArray[Any]:
    from sklearn_dpwg.data.sources.table import reading

    parts = []
    with reading(source) as partitions:
        for partition in partitions:
            rows = partition.read().X
            if rows.shape[0]:
                parts.append(method(estimator, rows))
    if not parts:
        raise InputError("X must have at least one record, got none.")
    return np.concatenate(parts)


def _state(estimator: Any) -> dict[str, Any]:
    return {name: vars(estimator)[name] for name in _NEEDED if name in vars(estimator)}


def _model(kind: type[Any], state: dict[str, Any]) -> Any:
    """Return a model that can predict, and nothing else."""
    model = object.__new__(kind)
    model.__dict__.update(state)
    return model


def _of_rows(X: Any, *, kind: type[Any], state: dict[str, Any], name: str) -> NDArray[Any]:
    """Return what a method of a fitted model returns of some rows."""
    return np.asarray(getattr(_model(kind, state), name)(X))


@told
def _sums(partition: Any, kind: type[Any], state: dict[str, Any]) -> tuple[float, ...]:
    """Return the number of records, and sums that accuracy or R² follow from."""
    model, table = _model(kind, state), partition.read()
    targets = targets_of(table)
    n_records = len(targets)
    if not n_records:
        return 0.0, 0.0, 0.0, 0.0
    predicted = model.predict(table.X)
    y = checked_targets(targets, is_classifier=is_classifier(model))
    if is_classifier(model):
        return float(n_records), float(np.sum(predicted == y)), 0.0, 0.0
    numbers = y.astype(np.float64)
    mean = float(numbers.mean())
    off = float(np.sum((numbers - predicted) ** 2))
    return float(n_records), off, mean, float(np.sum((numbers - mean) ** 2))


def _sums_of_partition(
    partition: Any, *, kind: type[Any], state: dict[str, Any]
) -> tuple[float, ...] | Refusal:
    return _sums(partition, kind, state)


def _accuracy(numbers: FloatArray) -> float:
    return float(numbers[:, 1].sum() / numbers[:, 0].sum())


def _r2(numbers: FloatArray) -> float:
    """Return R² of numbers, squared errors, means and squared distances from the means."""
    counts, errors, means, within = numbers.T
    mean = float(counts @ means / counts.sum())
    total = float(within.sum() + counts @ (means - mean) ** 2)
    if total == 0.0:  # as scikit-learn has it
        return 1.0 if errors.sum() == 0.0 else 0.0
    return float(1.0 - errors.sum() / total)
