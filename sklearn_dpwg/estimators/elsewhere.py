"""What a model says of rows: in memory, of a source, or of collections of dask."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.frames import is_dask, is_elsewhere, same_rows, spelled
from sklearn_dpwg.data.groups import without_groups
from sklearn_dpwg.estimators.partitions import checked_targets, partitions_of, refuse_tables
from sklearn_dpwg.exceptions import InputError

Method = TypeVar("Method", bound=Callable[..., Any])


class LinearClassifier(ClassifierMixin):
    """What a classifier with linear scores says of rows."""

    classes_: NDArray[Any]
    coef_: FloatArray
    intercept_: FloatArray
    predict_proba: Any
    _linear: Any

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores ``X @ coef_.T + intercept_``; no row is shortened.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows; also a Source where ``fit`` takes one, or a collection of dask, and then the
            answer is one, computed when asked for.

        Returns
        -------
        ndarray of shape (n_records,) or (n_records, n_classes)
            Scores; positive for the second of two classes.
        """
        check_is_fitted(self, "plan_")
        scores = self._linear(X, self.coef_) + self.intercept_
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows, as `decision_function` takes them.

        Returns
        -------
        ndarray of shape (n_records,)
            Classes.
        """
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):  # a probability that underflows is log 0 = -inf
            return np.log(self.predict_proba(X))


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
        refuse_tables(X=X)
        if is_dask(X):
            return _lazily(estimator, method.__name__, X)
        tables = (partition.read() for partition in X.partitions())
        parts = [method(estimator, table.X) for table in tables if table.X.shape[0]]
        if not parts:
            raise InputError("X must have at least one record, got none.")
        return np.concatenate(parts)

    return of_any  # type: ignore[return-value]


def _lazily(estimator: Any, name: str, X: Any) -> Any:
    """Return a collection of what a method returns of each partition."""
    from sklearn_dpwg.data.distributed import map_rows

    # other columns than the model's are refused now, and not when a worker computes
    example: Any = np.zeros((1, X.shape[1]))
    if hasattr(X, "columns"):
        example = pd.DataFrame(example, columns=list(X.columns))
    example = without_groups(example, estimator.group_by, estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there or not
        validate_data(estimator, example, reset=False)
    classes = getattr(estimator, "classes_", None)
    columns, dtype = None, np.dtype(float)
    if name == "predict":
        dtype = dtype if classes is None else classes.dtype
    elif classes is not None and (name != "decision_function" or len(classes) > 2):
        columns = classes.tolist()
    return map_rows(X, partial(_answer, _to_predict(estimator), name), dtype=dtype, columns=columns)


def _answer(model: Any, name: str, rows: Any) -> Any:
    return getattr(model, name)(rows)


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
        parts = partitions_of(X, y, None).of_each(partial(_scored, _to_predict(self)))
        parts = [part for part in parts if len(part[0])]
        if not parts:
            raise InputError("X must have at least one record to score, got none.")
        targets, predicted = map(np.concatenate, zip(*parts, strict=True))
        score = accuracy_score if is_classifier(self) else r2_score
        return float(score(_as_predicted(self, targets), predicted))


def _scored(model: Any, partition: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the targets of a partition, and what a model predicts."""
    table = partition.read()
    targets = checked_targets(table.y, is_classifier=is_classifier(model))
    return targets, model.predict(table.X) if len(targets) else targets


def _as_predicted(model: Any, y: Any) -> Any:
    """Return a column of targets with classes written as the model writes them."""
    is_column = is_classifier(model) and np.ndim(y) == 1
    return spelled(np.asarray(y), model.classes_) if is_column else y


def _to_predict(estimator: Any) -> Any:
    """Return a model that can predict, and holds nothing else."""
    model = object.__new__(type(estimator))
    known = vars(estimator)
    model.__dict__.update({each: known[each] for each in _NEEDED if each in known})
    return model
