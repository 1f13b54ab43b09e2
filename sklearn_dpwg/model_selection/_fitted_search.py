"""Answers of a fitted search, which are those of its best model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._lazy_data import refuse_lazy


def _has(name: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), name)

    return check


class FittedSearch(MetaEstimatorMixin, BaseEstimator):
    """A search that predicts with its best model, and shows no other."""

    estimator: Any
    best_estimator_: Any

    @property
    def cv_results_(self) -> NoReturn:
        """Not available: raises AttributeError, as only the winner is paid for."""
        raise AttributeError(
            "DPSearchCV has no cv_results_: the budget pays for the best run alone, best_params_, "
            "best_score_ and best_estimator_; not even the number of runs is released."
        )

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the model."""
        return np.asarray(self.best_estimator_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        check_is_fitted(self)
        return int(self.best_estimator_.n_features_in_)

    @available_if(_has("predict"))
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the best model.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records,)
            Predictions.
        """
        check_is_fitted(self)
        refuse_lazy(X=X)
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the best model's class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records, n_classes)
            Probabilities.
        """
        check_is_fitted(self)
        refuse_lazy(X=X)
        return np.asarray(self.best_estimator_.predict_proba(X))

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the best model's decision values.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records,) or (n_records, n_classes)
            Decision values.
        """
        check_is_fitted(self)
        refuse_lazy(X=X)
        return np.asarray(self.best_estimator_.decision_function(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the best model's own score, without noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            Targets.

        Returns
        -------
        float
            Accuracy of a classifier, R² of a regressor.
        """
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))
