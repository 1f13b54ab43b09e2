"""Dates in tables of numbers: found by column, and counted in seconds since 1970."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray

_DATES = (datetime.date, np.datetime64)  # timestamps are dates
_OTHER_TIMES = (datetime.timedelta, np.timedelta64, datetime.time, pd.Period)


def seconds(date: datetime.date | np.datetime64) -> float:
    """Return the seconds from 1970 to a date; one without zone is UTC."""
    return float(_seconds(pd.Series([date], dtype=object))[0])


def is_date(value: object) -> bool:
    """Return whether a value is a date or a timestamp."""
    return isinstance(value, _DATES)


def dates_as_seconds(X: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return a table with seconds for dates, and which columns have them; as it is without any.

    Durations, times of a day and periods are refused by the name of their column.
    """
    if isinstance(X, pd.DataFrame):
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
    elif hasattr(X, "get_column"):
        columns = [_plain(X.get_column(name)) for name in X.columns]
    else:
        array = _array(X)
        if array is None:
            return X, None
        columns = [pd.Series(column) for column in array.T]
    names = getattr(X, "columns", range(len(columns)))
    dated = np.array(
        [_has_dates(column, name) for column, name in zip(columns, names, strict=True)], dtype=bool
    )
    if not dated.any():
        return X, dated
    counted = [
        pd.Series(_seconds(column, name)) if has_dates else column.reset_index(drop=True)
        for column, name, has_dates in zip(columns, names, dated, strict=True)
    ]
    table = pd.concat(counted, axis=1)
    if not hasattr(X, "columns"):
        return table.to_numpy(), dated
    table.columns = pd.Index(X.columns)
    return table, dated


def times_in_utc(values: pd.Series, form: str) -> NDArray[np.datetime64]:
    """Return times in UTC, in a unit that holds them."""
    try:
        times = pd.to_datetime(values, utc=True, format=form).dt.tz_localize(None)
    except pd.errors.OutOfBoundsDatetime:  # pandas 2 has nanoseconds alone, until 2262
        return np.array([_time(value, form) for value in values], dtype="datetime64[s]")
    # in the unit that pandas chose: the year 9999 would wrap around in nanoseconds
    return times.to_numpy()


def _time(value: Any, form: str) -> np.datetime64:
    """Return a time in UTC, to the second."""
    if pd.isna(value):
        return np.datetime64("NaT", "s")
    if isinstance(value, str):
        is_iso = form == "ISO8601"
        parse = datetime.datetime.fromisoformat
        value = parse(value) if is_iso else datetime.datetime.strptime(value, form)
    if getattr(value, "tzinfo", None) is not None:
        value = value.replace(tzinfo=None) - value.utcoffset()
    return np.datetime64(value, "s")


def _array(X: Any) -> NDArray[Any] | None:
    """Return rows that may hold dates, or None where they cannot."""
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths, which scikit-learn refuses
        return None
    return array if array.ndim == 2 and array.dtype.kind in "OMm" else None


def _plain(column: Any) -> pd.Series:
    """Return a column of polars as one of pandas, without pyarrow."""
    dtype = column.dtype
    is_time = dtype.is_temporal() and str(dtype) == "Time"
    plain = dtype.is_numeric() or (dtype.is_temporal() and not is_time)
    return pd.Series(column.to_numpy() if plain else column.to_list())


def _has_dates(column: pd.Series, name: object) -> bool:
    dtype = column.dtype
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return True
    values = column.dropna() if pd.api.types.is_object_dtype(dtype) else ()
    if (
        pd.api.types.is_timedelta64_dtype(dtype)
        or isinstance(dtype, pd.PeriodDtype)
        or any(isinstance(value, _OTHER_TIMES) for value in values)
    ):
        raise ValueError(
            f"column {name!r} of X must hold numbers or dates, got durations, times or periods."
        )
    return any(isinstance(value, _DATES) for value in values)


def _seconds(column: pd.Series, name: object = None) -> FloatArray:
    try:
        times = times_in_utc(column, "ISO8601")
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} of X must hold dates alone, as some are.") from None
    return np.asarray((times - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
