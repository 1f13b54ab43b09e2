"""Records that are not in memory: partitions that an engine holds, and what a model says of them.

Rows stay where they are.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.frames import (
    is_dask,
    is_elsewhere,
    is_source,
    lazy_table,
    same_rows,
    spelled,
)
from sklearn_dpwg.data.groups import without_groups
from sklearn_dpwg.data.risks.record_block import Engine, LocalEngine, Sums
from sklearn_dpwg.estimators.encode import check_targets
from sklearn_dpwg.exceptions import InputError, InputTypeError

Method = TypeVar("Method", bound=Callable[..., Any])

NO_TARGETS = (
    "target must be the column of y in a source that is passed to fit or score, got None: of "
    "records without targets a fitted model makes predictions alone."
)


@dataclass(frozen=True, eq=False)
class Held:
    """Partitions that an engine holds."""

    engine: Engine  # where they are
    # handles of objects with `read` and `read_labels`, in the order of the records
    handles: list[Any]
    # stand-ins for targets and groups: their names, and that one is the other, without a value
    y: Any
    groups: Any
    spool: Any = None  # directory for encoded rows
    # refuses files that rows are read from pass by pass and that are not what they were
    check: Callable[[], None] = lambda: None
    # removes what the source has written for its partitions
    close: Callable[[], None] = lambda: None

    def of_each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every partition, or raise what is wrong with one."""
        return self.engine.collect(self.handles, function)


@contextmanager
def hold(X: Any, y: Any, groups: Any) -> Iterator[Held]:
    """Hold partitions while something is done with them, and refuse what is none."""
    held = _held(X, y, groups)
    try:
        yield held
    finally:
        try:
            held.engine.release(held.handles)
        finally:
            held.close()


def _held(X: Any, y: Any, groups: Any) -> Held:
    given = {"X": X, "y": y, "groups": groups}
    for name, value in given.items():
        table = lazy_table(value)
        if name == "X" and isinstance(value, str | os.PathLike):
            table = f"path ({type(value).__name__})"
        if table is not None:
            raise InputTypeError(
                f"{name} must be arrays, frames, collections of dask or a source, got a {table}: "
                f"pass ParquetSource(..., features=[...], target=...) of it in place of X, y and "
                f"groups."
            )
    if is_source(X):
        return _held_source(X, y, groups)
    for name, value in given.items():
        if not is_dask(value) and not (name == "groups" and value is None):
            raise InputTypeError(
                f"{name} must be a collection of dask as the others are, got "
                f"{type(value).__name__}: X, y and groups lie in partitions together, or all in "
                f"memory; a step in front, such as a scaler of a Pipeline, may have made it an "
                f"array."
            )
    from sklearn_dpwg.data.distributed import collections, dask_engine

    engine = dask_engine.engine()
    handles = collections.hold_collections(X, y, groups)
    targets, named = _named_collection(y), _named_collection(groups)
    # by their tokens dask knows the contents of collections
    if groups is not None and y.__dask_tokenize__() == groups.__dask_tokenize__():
        named = targets
    return Held(engine, handles, targets, named)


def _held_source(source: Any, y: Any, groups: Any) -> Held:
    for name, value in (("y", y), ("groups", groups)):
        if value is not None:
            raise InputError(
                f"{name} must be None with a {type(source).__name__}, which says them itself, got "
                f"{type(value).__name__}."
            )
    if getattr(source, "target", "") is None:
        raise InputError(NO_TARGETS)
    y, groups = (_stand_in(getattr(source, part, None)) for part in ("target", "groups"))
    partitions = list(source.partitions())
    rest = {"check": source.check} if hasattr(source, "check") else {}
    if hasattr(source, "release"):
        rest["close"] = partial(source.release, partitions)
    dask_engine = sys.modules.get("sklearn_dpwg.data.distributed.dask_engine")
    if dask_engine is None or dask_engine.current_options().client is None:
        return Held(LocalEngine(), partitions, y, groups, source.spool, **rest)
    if source.spool is not None:
        raise InputError(
            f"spool must be None inside distributed.options, where workers hold the blocks in "
            f"memory and spill by themselves, got {source.spool!r}."
        )
    engine = dask_engine.engine()
    return Held(engine, list(engine.hold(partitions)), y, groups, **rest)


def _stand_in(named: Any) -> Any:
    """Return something empty with the names of columns; arrays stand for themselves."""
    if isinstance(named, str):
        return pd.Series([], name=named, dtype=object)
    if isinstance(named, list | tuple):
        return pd.DataFrame(columns=list(named), dtype=object)
    return named


def _named_collection(values: Any) -> Any:
    if values is None:
        return None
    if hasattr(values, "columns"):
        return _stand_in(list(values.columns))
    # an array of dask has a name too, which nobody gave it
    is_series = hasattr(values, "divisions")
    return pd.Series([], name=values.name if is_series else None, dtype=object)


class Lease:
    """An engine that knows what was derived by it, and releases all of that in the end.

    The traceback of a failed fit may live on, and with it the risks that would release their blocks
    when they are forgotten. `check` refuses records that are not what they were, behind every pass,
    before what the pass gave can be released: factors and sensitivities are of the rows as they
    were.
    """

    def __init__(self, engine: Engine, check: Callable[[], None]) -> None:
        self._engine = engine
        self._check = check
        self._derived: list[weakref.ref[Any]] = []

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        collected = self._engine.collect(handles, function)
        self._check()
        return collected

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        sums = self._engine.reduce(handles, function)
        self._check()
        return sums

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        derived = self._engine.derive(handles, function, arguments)
        self._derived = [each for each in self._derived if each() is not None]
        self._derived += map(weakref.ref, derived)
        return derived

    def release(self, handles: Sequence[Any]) -> None:
        self._engine.release(handles)

    def end(self) -> None:
        """Forget everything that was derived."""
        left = [each for each in (reference() for reference in self._derived) if each is not None]
        self._derived.clear()
        self._engine.release(left)


def targets_of(table: Any) -> Any:
    """Return the targets of a partition, or refuse one of a source that has none."""
    if table.y is None:
        raise InputError(NO_TARGETS)
    return table.y


def checked_targets(y: Any, *, is_classifier: bool) -> NDArray[Any]:
    """Return targets as a vector, checked as they are in memory."""
    values = np.asarray(check_targets(y, is_classifier=is_classifier))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not len(values):
        return values.ravel()
    _, checked = check_X_y(np.zeros((len(values), 1)), values, y_numeric=not is_classifier)
    return np.asarray(checked)


# Predictions and scores: lazy ones of dask, arrays of a source.

# What a fitted model needs to predict; its other attributes, a seed among them, stay here.
_NEEDED = (
    *("coef_", "intercept_", "classes_", "plan_", "n_features_in_", "feature_names_in_"),
    *("loss", "epsilon"),  # scikit-learn asks what kind of model it is, which these decide
    "group_by",  # names columns that are none of the features
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
            raise InputTypeError(
                f"X must be an array, a frame, a collection of dask or a source, got a "
                f"{lazy_table(X) or 'path'}: collect it, or pass ParquetSource(..., "
                f"features=[...], target=None) of it."
            )
        return _of_source(estimator, method, X)

    return of_any  # type: ignore[return-value]


class ScoredByBlock:
    """Estimators that score what lies in partitions too; ahead of scikit-learn's mixins."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return accuracy, or R² of a regressor, exactly: on private records it is no release.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features), or Source
            Rows.
        y : array-like of shape (n_records,)
            Targets; a collection of dask where X is one, None with a source.
        sample_weight : array-like of shape (n_records,), optional
            Weights of the records, in memory alone.

        Returns
        -------
        float
            Accuracy or R² of ``predict(X)``.
        """
        if not is_elsewhere(X, y, sample_weight):
            _, y, sample_weight = same_rows(X=X, y=y, sample_weight=sample_weight)
            in_memory: Any = super()
            return float(in_memory.score(X, _as_predicted(self, y), sample_weight))
        if sample_weight is not None:
            raise InputError("sample_weight must be None with records that are not in memory.")
        check_is_fitted(self, "plan_")
        with hold(X, y, None) as held:
            sums = held.of_each(partial(_sums, kind=type(self), state=_state(self)))
        numbers = np.array([each for each in sums if each[0] > 0])
        if not len(numbers):
            raise InputError("X must have at least one record to score, got none.")
        if is_classifier(self):
            return float(numbers[:, 1].sum() / numbers[:, 0].sum())
        return _r2(numbers)


def _lazily(estimator: Any, name: str, X: Any) -> Any:
    """Return a collection of what a method returns of each partition."""
    from sklearn_dpwg.data.distributed.collections import map_rows

    function = partial(_of_rows, kind=type(estimator), state=_state(estimator), name=name)
    _check_columns(estimator, X)
    dtype = estimator.classes_.dtype if hasattr(estimator, "classes_") else np.float64
    columns = None
    if name != "predict":
        dtype = np.float64
        n_classes = len(estimator.classes_)
        if name != "decision_function" or n_classes > 2:
            columns = estimator.classes_.tolist()
    return map_rows(X, function, dtype=dtype, columns=columns)


def _check_columns(estimator: Any, X: Any) -> None:
    """Refuse other columns than the model's now, and not when a worker computes."""
    example: Any = np.zeros((1, X.shape[1]))
    if hasattr(X, "columns"):
        example = pd.DataFrame(example, columns=list(X.columns))
    example = without_groups(example, estimator.group_by, estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there or not
        validate_data(estimator, example, reset=False)


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


def _sums(partition: Any, *, kind: type[Any], state: dict[str, Any]) -> tuple[float, ...]:
    """Return the number of records, and sums that accuracy or R² follow from."""
    model, table = _model(kind, state), partition.read()
    targets = targets_of(table)
    n_records = len(targets)
    if not n_records:
        return 0.0, 0.0, 0.0, 0.0
    predicted = model.predict(table.X)
    y = checked_targets(targets, is_classifier=is_classifier(model))
    if is_classifier(model):
        y = _as_predicted(model, y)
        return float(n_records), float(np.sum(predicted == y)), 0.0, 0.0
    numbers = y.astype(np.float64)
    mean = float(numbers.mean())
    off = float(np.sum((numbers - predicted) ** 2))
    return float(n_records), off, mean, float(np.sum((numbers - mean) ** 2))


def _as_predicted(model: Any, y: Any) -> Any:
    """Return a column of targets with classes written as the model writes them."""
    is_column = is_classifier(model) and np.ndim(y) == 1
    return spelled(np.asarray(y), model.classes_) if is_column else y


def _r2(numbers: FloatArray) -> float:
    """Return R² of numbers, squared errors, means and squared distances from the means."""
    counts, errors, means, within = numbers.T
    mean = float(counts @ means / counts.sum())
    total = float(within.sum() + counts @ (means - mean) ** 2)
    if total == 0.0:  # as scikit-learn has it
        return 1.0 if errors.sum() == 0.0 else 0.0
    return float(1.0 - errors.sum() / total)
