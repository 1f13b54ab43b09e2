"""Scaling by stated bounds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.preprocessing._row_encoding import norm_bound
from sklearn_dpwg.preprocessing.bounds import (
    Bounds,
    check_dates,
    column_bounds,
    finite_rows,
    to_unit_interval,
)


class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale numeric columns to [-1, 1] by public bounds, and clip what lies beyond.

    Nothing is learned from the records, so it costs no privacy and needs no mention in a
    guarantee. A row of d columns has norm at most √d afterwards: that is a ``data_norm``. With
    ``unit_norm=True`` rows are divided by it, and ``data_norm=1.0`` holds.

    Parameters
    ----------
    bounds : (low, high), sequence of such pairs, or mapping from column name to pair
        What is known of each column without looking at the records: an age in (0, 120), a
        share in (0, 1). One pair serves all columns. A column of dates has timestamps as bounds,
        and one of numbers has numbers.
    unit_norm : bool, default=False
        Whether rows are divided by √n_features, and a part in 10¹² more for rounding, so that
        none has a norm above 1.

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_features,)
        Bounds of each column; dates are seconds since 1970, without zone in UTC.
    row_norm_ : float
        Largest norm of a transformed row: √n_features, or 1 with `unit_norm`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names.

    See Also
    --------
    PublicSchema : For raw tables, with strings and missing values.
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

    def __init__(self, bounds: Bounds = (-1.0, 1.0), *, unit_norm: bool = False) -> None:
        self.bounds = bounds
        self.unit_norm = unit_norm

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
            If a bound is missing or wrong, or a value is missing.
        """
        if not isinstance(self.unit_norm, bool):
            raise TypeError(f"unit_norm must be True or False, got {self.unit_norm!r}.")
        X, dated = finite_rows(self, X)
        names = getattr(self, "feature_names_in_", None)
        self.low_, self.high_, self._dated = column_bounds(
            self.bounds, X.shape[1], None if names is None else list(names)
        )
        check_dates(self, dated, self._dated)
        self._divisor = norm_bound(X.shape[1]) if self.unit_norm else 1.0
        self.row_norm_ = 1.0 if self.unit_norm else float(np.sqrt(X.shape[1]))
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
        X, _ = finite_rows(self, X, dated=self._dated)
        scaled = to_unit_interval(X, self.low_, self.high_)
        return np.divide(scaled, self._divisor, out=scaled)

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
        X = np.asarray(X, dtype=np.float64) * self._divisor
        return np.asarray(self.low_ + (X + 1.0) * (0.5 * self.high_ - 0.5 * self.low_))
