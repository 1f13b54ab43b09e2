"""Scaling by stated bounds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.preprocessing.bounds import Bounds, column_bounds, to_unit_interval


class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale numeric columns to [-1, 1] by public bounds, and clip what lies beyond.

    Nothing is learned from the records, so it costs no privacy and needs no mention in a
    guarantee. A row of d columns has norm at most √d afterwards: that is a ``data_norm``.

    Parameters
    ----------
    bounds : (low, high), sequence of such pairs, or mapping from column name to pair
        What is known of each column without looking at the records: an age in (0, 120), a
        share in (0, 1). One pair serves all columns.

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_features,)
        Bounds of each column.
    row_norm_ : float
        Largest norm of a transformed row, √n_features.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names.

    See Also
    --------
    DPStandardScaler : Centres and scales by private means and variances.

    Notes
    -----
    scikit-learn's ``MinMaxScaler`` learns the bounds from the records, which leaks them.

    Examples
    --------
    >>> from sklearn_dpwg.preprocessing import BoundedScaler
    >>> scaler = BoundedScaler(bounds=[(0, 100), (-1, 1)])
    >>> scaler.fit_transform([[25, 0.5], [130, -1.0]])
    array([[-0.5,  0.5],
           [ 1. , -1. ]])
    """

    _learns_from_records = False

    def __init__(self, bounds: Bounds = (-1.0, 1.0)) -> None:
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the bounds against the columns of X.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows; only their number of columns and names are used.
        y : object, optional
            Not used.

        Returns
        -------
        self : object
            The scaler.

        Raises
        ------
        ValueError
            If a bound is missing or wrong.
        """
        X = validate_data(self, X, dtype=np.float64)
        names = getattr(self, "feature_names_in_", None)
        self.low_, self.high_ = column_bounds(
            self.bounds, X.shape[1], None if names is None else list(names)
        )
        self.row_norm_ = float(np.sqrt(X.shape[1]))
        return self

    def transform(self, X: Any) -> FloatArray:
        """Clip to the bounds and scale to [-1, 1].

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records, n_features)
            Scaled rows.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return to_unit_interval(X, self.low_, self.high_)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return scaled rows to the units of the bounds; what was clipped stays clipped.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Scaled rows.

        Returns
        -------
        ndarray of shape (n_records, n_features)
            Rows in the caller's units.
        """
        check_is_fitted(self)
        X = np.asarray(X, dtype=np.float64)
        return np.asarray(self.low_ + (X + 1.0) * (0.5 * self.high_ - 0.5 * self.low_))
