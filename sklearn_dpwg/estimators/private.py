"""Base classes of private estimators: checks, spending, and prediction in memory or by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._checks import FloatArray, real_number
from sklearn_dpwg.data.frames import (
    PlainlyStored,
    in_memory,
    is_dask,
    is_elsewhere,
    same_rows,
    spelled,
)
from sklearn_dpwg.data.groups import without_groups
from sklearn_dpwg.data.rows import canonical_rows, linear_scores
from sklearn_dpwg.estimators import encode
from sklearn_dpwg.estimators.partitions import checked_targets, partitions_of, refuse_tables
from sklearn_dpwg.exceptions import DataNormWarning, InputError, NoProtectionWarning, warn
from sklearn_dpwg.ledger.costs import StartCost, describe
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee
from sklearn_dpwg.privacy.release import check_delta

Method = TypeVar("Method", bound=Callable[..., Any])
# scikit-learn's decorator has no types, and what it is put on would lose its own
only_if: Callable[[Callable[[Any], bool]], Callable[[Method], Method]] = available_if

# From about this epsilon on e^epsilon overflows, and a fit warns that it does not protect.
NO_PROTECTION = 700.0


@contextmanager
def unchanged_on_failure(estimator: object) -> Iterator[None]:
    """Restore all attributes of an estimator if the block inside raises an error."""
    attributes = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__ = attributes
        raise


def warn_of_row_norm() -> None:
    """Warn that `data_norm` was left open; a public parameter, so the warning tells no record."""
    warn(
        "data_norm was left open and is taken as 1: rows longer than that are shortened to it, and "
        "none of them is told of. Say data_norm=1.0 where rows are scaled to norm 1, or another "
        "public bound on the norm of a row, as row_norm_ of a BoundedScaler.",
        DataNormWarning,
    )


class PrivateEstimator(PlainlyStored, BaseEstimator):
    """What every private estimator checks, warns of, spends and stores alike."""

    epsilon: float
    delta: float
    data_norm: float | None
    random_state: Any
    rows_per_person: int | None
    # of the last fit: the private fits that it began with, and the key that ledgers know it by
    _start_costs: tuple[StartCost, ...] = ()
    _fit_key: str
    _grouping_names: tuple[str, ...] = ()  # names of what the groups of the last fit are made of

    @property
    def _row_norm(self) -> float:
        """Bound on the norm of a row: `data_norm`, or 1 where that is None."""
        return 1.0 if self.data_norm is None else float(self.data_norm)

    def _check_common(self, **sizes: Any) -> Budget:
        """Check `data_norm`, `rows_per_person` and further `sizes` by name; return the budget."""
        for name, value in {"data_norm": self.data_norm, **sizes}.items():
            if value is not None and not 1e-50 <= real_number(value, name) <= 1e50:
                raise InputError(f"{name} must be a number from 1e-50 to 1e50, got {value!r}.")
        encode.stated_rows(self.rows_per_person)
        return Budget(self.epsilon, self.delta)

    def _warn_of_budget(self, budget: Budget, n_records: int) -> None:
        """Warn of an ε, or of a δ for `n_records` records, that protects nobody."""
        if budget.epsilon > NO_PROTECTION:
            warn(
                f"epsilon={budget.epsilon!r} is no protection: whoever knows all records but one "
                f"can tell that one from any other; values from 0.1 to 10 are usual.",
                NoProtectionWarning,
            )
        check_delta(budget.delta, n_records)

    @contextmanager
    def _spending(
        self, noise: Any, budget: Budget, planned: PrivacyGuarantee, key: str | None = None
    ) -> Iterator[PrivacyGuarantee]:
        """Charge a fit to the open ledgers, once for a key, and yield its ``privacy_``."""
        # local until the fit succeeds, as another thread may fit the same object
        key = uuid4().hex if key is None else key
        costs = self._start_costs
        # without the fits that this one starts from, which ledgers are charged for separately
        own = replace(planned, seeded=noise.seeded, groupings=self._grouping_names)
        name, is_paid = type(self).__name__, self.__dict__.pop("_is_paid", False)
        with (
            np.errstate(all="ignore"),  # over- and underflows depend on the records
            spending(own, noise, name, budget, key=key, is_paid=is_paid, before=costs),
        ):
            yield replace(own, outside=(*own.outside, *describe(costs))) if costs else own
        self._fit_key = key

    def _linear(self, X: Any, weights: FloatArray) -> FloatArray:
        """Return ``X @ weights.T``, without warnings that would tell more about private rows."""
        (X,) = in_memory(X=X)
        X = without_groups(X, getattr(self, "group_by", None), self)
        with encode.errors_by_column(X):
            X = validate_data(self, X, dtype=encode.PRECISIONS, accept_sparse="csr", reset=False)
        if issparse(X):
            X = canonical_rows(X)
        # no warning of overflow: the scores show it
        with np.errstate(all="ignore"):
            return linear_scores(X, weights)

    def to_sklearn(self) -> LogisticRegression | LinearSVC | LinearRegression:
        """Return a linear model of scikit-learn itself that predicts the same.

        Converters (ONNX, PMML), explainers and servers take it. It holds the released weights, so
        it costs no privacy; the guarantee stays in ``privacy_`` of this estimator, and a fit of a
        clone is not private.

        Returns
        -------
        LogisticRegression, LinearSVC or LinearRegression
            Fitted: a `LogisticRegression` where the model has probabilities, a `LinearSVC` for a
            classifier without, a `LinearRegression` for a regressor.
        """
        check_is_fitted(self, "plan_")
        kind = LinearRegression
        if hasattr(self, "classes_"):
            kind = LogisticRegression if hasattr(self, "predict_proba") else LinearSVC
        linear = kind()
        linear.n_features_in_ = self.n_features_in_
        for name in ("coef_", "intercept_", "classes_", "feature_names_in_"):
            if hasattr(self, name):  # a number of NumPy, as scikit-learn has it, stays one
                setattr(linear, name, np.array(getattr(self, name))[()])
        return linear

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearClassifier(ClassifierMixin):
    """What a classifier with linear scores says of rows."""

    classes_: NDArray[Any]
    coef_: FloatArray
    intercept_: FloatArray
    epsilon: float
    predict_proba: Any
    _linear: Any

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores ``X @ coef_.T + intercept_``, of two classes those of the second.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows, of which none is shortened; also a Source where ``fit`` takes one, or a collection
            of dask, and then the answer is one, computed when asked for.

        Returns
        -------
        ndarray of shape (n_records,) or (n_records, n_classes)
            Scores.
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
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows, as `decision_function` takes them.

        Returns
        -------
        ndarray of shape (n_records, n_classes)
            Logarithms, in the order of ``classes_``.
        """
        with np.errstate(divide="ignore"):  # a probability that underflows is log 0 = -inf
            return np.log(self.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        # with the few records of a common test, noise drowns the signal
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags


# Rows that are not in memory: of a source, or collections of dask.

# Attributes that prediction needs; others, such as a secret seed, are not sent to workers.
_PREDICTION_ATTRIBUTES = (
    *("coef_", "intercept_", "classes_", "plan_", "n_features_in_", "feature_names_in_"),
    *("loss", "epsilon"),  # scikit-learn asks what kind of model it is, which these decide
    "group_by",  # names columns that are none of the features
)


def by_block(method: Method) -> Method:
    """Decorate a method of X, such as ``predict``, to take a source or collection of dask too."""

    @wraps(method)
    def method_by_block(estimator: Any, X: Any) -> Any:
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

    return method_by_block  # type: ignore[return-value]


def _lazily(estimator: Any, name: str, X: Any) -> Any:
    """Return a collection of dask: the results of the method `name` for each partition of X."""
    from sklearn_dpwg.data.distributed import map_rows

    classes = getattr(estimator, "classes_", None)
    columns, dtype = None, np.dtype(float)
    if name == "predict":
        dtype = dtype if classes is None else classes.dtype
    elif classes is not None and (name != "decision_function" or len(classes) > 2):
        columns = classes.tolist()
    return map_rows(X, getattr(_to_predict(estimator), name), dtype=dtype, columns=columns)


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
            own: Any = super()
            return float(own.score(X, _as_predicted(self, y), sample_weight))
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
    """Return the targets of a partition and the model's predictions for its rows."""
    table = partition.read()
    targets = checked_targets(table.y, is_classifier=is_classifier(model))
    return targets, model.predict(table.X) if len(targets) else targets


def _as_predicted(model: Any, y: Any) -> Any:
    """Return y with classes of the type of ``classes_``, such as 1 for "1"; else y as it is."""
    is_column = is_classifier(model) and np.ndim(y) == 1
    return spelled(np.asarray(y), model.classes_) if is_column else y


def _to_predict(estimator: Any) -> Any:
    """Return a copy of a fitted estimator with the attributes that prediction needs alone."""
    model = object.__new__(type(estimator))
    values = vars(estimator)
    model.__dict__.update({name: values[name] for name in _PREDICTION_ATTRIBUTES if name in values})
    return model
