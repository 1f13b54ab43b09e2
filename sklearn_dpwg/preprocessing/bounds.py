"""Public bounds of columns, in every form that a user may state them in."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from sklearn_dpwg._lazy_data import refuse_lazy_rows
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.preprocessing._dates import dates_as_seconds, is_date, seconds

Bound = float | datetime.date | np.datetime64
Bounds = tuple[Bound, Bound] | Sequence[tuple[Bound, Bound]] | Mapping[Hashable, Any]


def column_bounds(
    bounds: Bounds, n_columns: int, names: Sequence[Hashable] | None
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return the lower and the upper bound of each column, and which of them are dates.

    Dates are counted in seconds since 1970. Bounds of another form are refused.
    """
    if isinstance(bounds, Mapping):
        bounds = _in_order(bounds, names)
    pairs: NDArray[Any] = np.zeros(0)
    dated: NDArray[Any] = np.zeros(0, dtype=bool)
    try:
        stated: NDArray[Any] = np.array(bounds, dtype=object)
        numbers = [seconds(bound) if is_date(bound) else float(bound) for bound in stated.flat]
        pairs = np.reshape(np.array(numbers, dtype=np.float64), stated.shape)
        dated = np.reshape(np.array([is_date(bound) for bound in stated.flat]), stated.shape)
    except (TypeError, ValueError):
        pass
    if pairs.shape == (2,):
        pairs, dated = np.tile(pairs, (n_columns, 1)), np.tile(dated, (n_columns, 1))
    if pairs.shape != (n_columns, 2):
        raise ValueError(
            f"bounds must be a pair (low, high) or one pair for each of the {n_columns} columns, "
            f"got {bounds!r}."
        )
    low, high = pairs[:, 0], pairs[:, 1]
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    wrong = np.flatnonzero(~((width > 0) & np.isfinite(width)) | (dated[:, 0] != dated[:, 1]))
    if wrong.size:
        column = int(wrong[0])
        raise ValueError(
            f"bounds must be finite with low < high, got {tuple(map(float, pairs[column]))!r} for "
            f"column {names[column] if names is not None else column!r}."
        )
    return low, high, dated[:, 0]


def _in_order(
    bounds: Mapping[Hashable, Any], names: Sequence[Hashable] | None
) -> Sequence[tuple[Bound, Bound]]:
    """Return the pairs of a mapping in the order of the columns."""
    if names is None:
        raise ValueError(
            "bounds must be a pair or a sequence of pairs, as X has no column names, got a mapping."
        )
    without = [name for name in names if name not in bounds]
    unknown = [name for name in bounds if name not in names]
    if without or unknown:
        raise ValueError(
            f"bounds must name the columns of X, {list(names)!r}: "
            + (f"{without[0]!r} has none." if without else f"it has no {unknown[0]!r}.")
        )
    return [bounds[name] for name in names]


def finite_rows(
    scaler: Any, X: Any, *, dated: NDArray[np.bool_] | None = None
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return rows that have to be finite, dates in seconds, and which columns have dates.

    After a fit, `dated` says which columns had them.
    """
    refuse_lazy_rows(X)
    X, found = dates_as_seconds(X)
    rows: FloatArray = validate_data(
        scaler, X, dtype=np.float64, ensure_all_finite=False, reset=dated is None
    )
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(rows.sum(axis=0)))
    for column in map(int, suspects):
        for kind, has in (("NaN", np.isnan), ("infinity", np.isinf)):
            if has(rows[:, column]).any():
                raise ValueError(
                    f"X must be finite, got {kind} in column {name_of(scaler, column)!r}: "
                    "PublicSchema takes a fill that is said beforehand, while an imputer would "
                    "learn from the records what no guarantee covers."
                )
    has_dates = np.zeros(rows.shape[1], dtype=bool) if found is None else found
    if dated is not None:
        check_dates(scaler, has_dates, dated)
    return rows, has_dates


def check_dates(scaler: Any, found: NDArray[np.bool_], stated: NDArray[np.bool_]) -> None:
    """Refuse dates between numbers, and numbers between dates."""
    for column in map(int, np.flatnonzero(found != stated)):
        kinds = ("dates", "numbers") if found[column] else ("numbers", "timestamps")
        raise ValueError(
            f"bounds of column {name_of(scaler, column)!r} must be timestamps if it holds dates, "
            f"and numbers otherwise, got {kinds[0]} between bounds that are {kinds[1]}."
        )


def name_of(scaler: Any, column: int) -> Any:
    """Return the name of a column, or its position where X has no names."""
    names = getattr(scaler, "feature_names_in_", None)
    return column if names is None else names[column]


def to_unit_interval(X: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Clip columns to their bounds and map these to -1 and 1, also by rounding."""
    half = 0.5 * high - 0.5 * low
    scaled = (np.clip(X, low, high) - low) / half - 1.0
    return np.asarray(np.clip(scaled, -1.0, 1.0, out=scaled))
