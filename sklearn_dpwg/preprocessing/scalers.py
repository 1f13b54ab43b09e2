"""Scaling of columns: by public bounds alone, and by private means and variances."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self
from uuid import uuid4

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._checks import FloatArray, whole_number, without_weights
from sklearn_dpwg.data.frames import PlainlyStored, in_memory
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.preprocessing.columns import scale_to_bounds
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Relation, Release, calibrate
from sklearn_dpwg.privacy.release import check_delta
from sklearn_dpwg.privacy.sensitivity import grid_step

Bounds = tuple[float, float] | Sequence[tuple[float, float]] | Mapping[Hashable, Any]


def _column_bounds(
    bounds: Bounds, names: Sequence[Hashable], *, of_all: bool
) -> tuple[FloatArray, FloatArray]:
    """Return each column's lower and upper bound; with `of_all` a mapping must name every one."""
    if isinstance(bounds, Mapping):
        missing = [name for name in names if of_all and name not in bounds]
        unknown = [*missing, *(name for name in bounds if name not in names)]
        if unknown:
            raise InputError(
                f"bounds must name the columns of X, {names!r}, and not {unknown[0]!r}."
            )
        bounds = [bounds.get(name, (-1.0, 1.0)) for name in names]
    try:
        pairs = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.empty(0)
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (len(names), 1))
    if pairs.shape != (len(names), 2):
        raise InputError(
            f"bounds must be a pair (low, high) or one pair for each of the {len(names)} columns, "
            f"got {bounds!r}."
        )
    low, high = pairs.T
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    is_wrong = ~((width > 0) & np.isfinite(width))
    if is_wrong.any():
        column = int(np.argmax(is_wrong))
        raise InputError(
            f"bounds must be finite with low < high, got {tuple(pairs[column].tolist())!r} for "
            f"column {names[column]!r}."
        )
    return low, high


class ByBounds(PlainlyStored, TransformerMixin, BaseEstimator):
    """Base of transformers that clip columns to public bounds."""

    bounds: Bounds

    def _bounded(self, X: Any, *, of_all: bool = True) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return checked rows, and the lower and upper bounds of their columns."""
        rows = validate_data(self, *in_memory(X=X), dtype=np.float64)
        names = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        return rows, *_column_bounds(self.bounds, names, of_all=of_all)

    def transform(self, X: Any) -> FloatArray:
        """Clip values to the bounds and scale them.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records, n_features_out)
            Mapped rows.
        """
        check_is_fitted(self)
        return self._scaled(validate_data(self, *in_memory(X=X), dtype=np.float64, reset=False))

    @abstractmethod
    def _scaled(self, X: FloatArray) -> FloatArray: ...


class FreeByBounds(ByBounds):
    """Base of transformers that learn nothing from records: bounds decide all, at no cost."""

    _learns_from_records = False

    @without_weights
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the bounds against the columns of X; nothing is learned or released.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows; only their number of columns and names are used.
        y : object, optional
            Not used.

        Returns
        -------
        self : object
            The transformer.
        """
        self._check(X)
        return self

    @abstractmethod
    def _check(self, X: Any) -> None:
        """Check the bounds and set the fitted attributes that follow from them."""


class BoundedScaler(OneToOneFeatureMixin, FreeByBounds):
    """Scale numeric columns to [-1, 1] by public bounds, and clip what lies beyond.

    Nothing is learned from the records, so it costs no privacy and needs no mention in a
    guarantee. A row of d columns has norm at most √d afterwards: that is a ``data_norm``.

    Parameters
    ----------
    bounds : (low, high), sequence of such pairs, or mapping from column name to pair
        What is known of each column without looking at the records: an age in (0, 120), a
        fraction in (0, 1). One pair serves all columns.

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_features,)
        Bounds of each column.
    row_norm_ : float
        Largest norm of a transformed row: √n_features.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names.

    See Also
    --------
    PublicSchema : For raw tables, with strings, dates and missing values.
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

    def __init__(self, bounds: Bounds = (-1.0, 1.0)) -> None:
        self.bounds = bounds

    def _check(self, X: Any) -> None:
        rows, self.low_, self.high_ = self._bounded(X)
        self.row_norm_ = math.sqrt(rows.shape[1])

    def _scaled(self, X: FloatArray) -> FloatArray:
        return scale_to_bounds(X, self.low_, self.high_)


# (v, SQUARE_WEIGHT·v²) moves no more than v alone on [-1, 1]: see the notes of the class. Rounded
# down in the last digits.
SQUARE_WEIGHT = 1.66509

PUBLIC_FACTS = (
    "the number of records and columns",
    "the bounds of every column",
    "every parameter of the scaler",
)


class DPStandardScaler(OneToOneFeatureMixin, ByBounds):
    """Centre and scale columns by means and variances released with differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        ε of the release; ``inf`` for exact moments without privacy.
    delta : float, default=1e-6
        δ of the release.
    bounds : (low, high), sequence of such pairs, or mapping from column name to pair
        Public bounds of each column; values beyond are clipped.
    random_state : int, RandomState or Generator, optional
        A seed makes the noise repeatable and voids the guarantee for whoever knows it.
    rows_per_person : int, optional
        Largest number of rows of one person, whom ε and δ are for; of one row by default.
        Say the number of the model.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Private means, in the caller's units.
    scale_ : ndarray of shape (n_features,)
        Private standard deviations, in the caller's units; at least what the noise of the
        release could have feigned.
    row_norm_ : float
        Largest norm that a transformed row can have: a ``data_norm``, following from the
        releases and the bounds.
    privacy_ : PrivacyGuarantee
        What the release costs.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names.

    See Also
    --------
    BoundedScaler : Scales by the bounds alone, for free.

    Notes
    -----
    With each column mapped to v in [-1, 1], one Gaussian release of the sums of v and of a·v²
    gives both moments. Its sensitivity to the replacement of one record is 2√d for d columns: two
    values whose sum is s and whose difference is t have abs(s) + abs(t) ≤ 2, so that
    (v − v')² + a²(v² − v'²)² = t²(1 + a²s²) is, for s ≥ 0, at most (2 − s)²(1 + a²s²), which is at
    most 4 for a² ≤ min over s of (4 − s)/(s(2 − s)²) = (1 + √5)/(28 − 12√5) = 2.77254…, at
    s = 3 − √5; s < 0 is the same by symmetry. The
    second moments are therefore released for nothing beyond the first.

    Both numbers of every record are rounded to multiples of a public power of two, so that all sums
    are exact and no record decides how others are rounded; the step, at most 4·n·2⁻⁵² for n
    records, adds √(2d) steps to the sensitivity.

    The guarantee adds up with that of a model fitted behind the scaler.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.preprocessing import DPStandardScaler
    >>> ages = np.random.default_rng(0).normal(40.0, 10.0, size=(5000, 1))
    >>> scaler = DPStandardScaler(epsilon=1.0, bounds=(0, 120)).fit(ages)
    >>> bool(abs(scaler.mean_[0] - 40.0) < 1.0 and abs(scaler.scale_[0] - 10.0) < 2.0)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Bounds = (-1.0, 1.0),
        random_state: Any = None,
        rows_per_person: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.random_state = random_state
        self.rows_per_person = rows_per_person

    @without_weights
    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the moments of the columns.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        y : object, optional
            Not used.

        Returns
        -------
        self : object
            The scaler.

        Raises
        ------
        ValueError
            If a parameter or bound is wrong; no budget is spent then.

        Warns
        -----
        NoProtectionWarning
            If δ is not below one over the number of records.
        SeededNoiseWarning
            If `random_state` is set.
        """
        budget = Budget(self.epsilon, self.delta)
        X, low, high = self._bounded(X)
        n_records, n_columns = X.shape
        step, key = grid_step(2.0, n_records), uuid4().hex
        sums = _exact_sums(scale_to_bounds(X, low, high), step)
        guarantee, noise_std = self.planned_guarantee(), 0.0
        noise: Any = SimpleNamespace(draws=("exact moments",))  # count as a release
        if guarantee.is_private:
            check_delta(budget.delta, n_records)
            release = _release(budget, self.rows_per_person)
            noise = NoiseSource(self.random_state, [release])
            guarantee = replace(guarantee, seeded=noise.seeded)
        with spending(guarantee, noise, type(self).__name__, budget, key=key):
            if guarantee.is_private:
                sensitivity = _sensitivity(n_columns, step)
                sums = noise.gaussian(sums, sensitivity=sensitivity, release=release)
                noise_std = release.noise_multiplier * sensitivity / n_records
        # from here on only released sums and public facts are used
        mean = np.clip(sums[:n_columns] / n_records, -1.0, 1.0)
        square = np.clip(sums[n_columns:] / (n_records * SQUARE_WEIGHT), 0.0, 1.0)
        # three standard deviations of the noise on a variance: a smaller one would be mostly noise
        least_variance = min(3.0 * noise_std * (1.0 / SQUARE_WEIGHT + 2.0), 1.0)
        variance = np.clip(square - mean**2, least_variance, 1.0)
        deviation = np.sqrt(np.where(variance > 1e-12, variance, 1.0))  # 1 for a constant column
        half_width = 0.5 * high - 0.5 * low
        self.low_, self.high_ = low, high
        self.mean_ = low + (mean + 1.0) * half_width
        self.scale_ = deviation * half_width
        self.row_norm_ = float(np.linalg.norm((1.0 + np.abs(mean)) / deviation))
        self.privacy_, self._fit_key = guarantee, key
        return self

    def planned_guarantee(self) -> PrivacyGuarantee:
        """Return what a fit will cost.

        Returns
        -------
        PrivacyGuarantee
            The ``privacy_`` of a fit, whatever the records.
        """
        budget = Budget(self.epsilon, self.delta)
        rows = self.rows_per_person
        if rows is not None:
            rows = whole_number(rows, "rows_per_person", least=1)
        facts: dict[str, Any] = {"public": PUBLIC_FACTS, "relation": Relation.REPLACE_ONE}
        if budget.epsilon == math.inf:
            return PrivacyGuarantee.from_releases((), budget, **facts).for_person(rows)
        per_row = PrivacyGuarantee.from_releases([_release(budget, rows)], budget.delta, **facts)
        return replace(per_row.for_person(rows), requested_epsilon=budget.epsilon)

    def _scaled(self, X: FloatArray) -> FloatArray:
        return np.asarray((np.clip(X, self.low_, self.high_) - self.mean_) / self.scale_)


def _exact_sums(unit: FloatArray, step: float) -> FloatArray:
    """Return the sums of v and of a·v², (2 n_columns,), with records rounded to steps."""
    value_sums = np.rint(unit / step).sum(axis=0)
    np.square(unit, out=unit)
    square_sums = np.rint(unit * (SQUARE_WEIGHT / step)).sum(axis=0)
    return np.asarray(np.concatenate([value_sums, square_sums]) * step)


def _sensitivity(n_columns: int, step: float) -> float:
    """Return the sensitivity of the sums, 2√d for d columns, plus a bound on their rounding."""
    rounding = math.sqrt(2.0 * n_columns) * (step + 2.0**-50)
    return (2.0 * math.sqrt(n_columns) + rounding) * (1.0 + 2.0**-50)


def _release(budget: Budget, rows_per_person: int | None) -> Release:
    """Return the release that spends the budget on a person: k rows move the sums by kΔ."""
    (release,) = calibrate([Release("moments", "gaussian", 1.0, max_count=1)], budget)
    return release.scaled(float(rows_per_person or 1))
