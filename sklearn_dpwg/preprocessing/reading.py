"""Columns of pandas and polars as numbers, dates and levels, whatever type of container holds them.

One record can change the type of its whole column: a gap makes floats of whole numbers, a word
makes text of them. So what a cell means follows from that cell alone, and a column that would mean
something else in another container is refused by its type.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, as_text, shown, text_key
from sklearn_dpwg.exceptions import InputError

# Places of what is not among levels.
MISSING, UNKNOWN = -1, -2

_NUMBERS = (int, float, Decimal, np.integer, np.floating, np.bool_)
_DATES = (datetime.date, np.datetime64)  # timestamps are dates
_READ_NUMBERS = "decimal=, thousands= and na_values= of pandas.read_csv read numbers from text"
_READ_DATES = "pandas.to_datetime(..., format=) and parse_dates= of pandas.read_csv read dates"
_READ_CODES = "floats do not tell its levels apart, so read them with dtype=str or dtype='Int64'"
# From here on floats have no room for every whole number.
_EXACT = 2.0**53


def _distinct(values: pd.Series) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """Return which distinct cell each row holds, -1 for a missing one, and these cells."""
    codes, cells = pd.factorize(values.to_numpy(dtype=object))
    return codes.astype(np.intp), cells


def _is_number(cell: object) -> bool:
    return isinstance(cell, _NUMBERS) and not isinstance(cell, np.timedelta64)


def _check_types(
    values: pd.Series, name: object, kind: str, is_right: Sequence[bool], advice: str
) -> None:
    """Refuse a column of which a distinct cell is of a wrong type, by the first one's row."""
    if all(is_right):
        return
    codes, cells = _distinct(values)
    place = is_right.index(False)
    held = "text" if isinstance(cells[place], str) else type(cells[place]).__name__
    if not isinstance(cells[place], str | float):
        advice = "declare the column as of another kind"
    row = int(np.argmax(codes == place))
    raise InputError(f"column {name!r} must hold {kind}, got {held} in row {row}: {advice}.")


def to_numbers(values: pd.Series, name: object) -> FloatArray:
    """Return a column as numbers, NaN for a missing one; other types are refused."""
    if pd.api.types.is_numeric_dtype(values.dtype) and values.dtype.kind != "c":
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, cells = _distinct(values)
    _check_types(values, name, "numbers", [*map(_is_number, cells)], _READ_NUMBERS)
    return np.array([*map(_as_float, cells), np.nan])[codes]


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def to_times(values: pd.Series, name: object) -> NDArray[np.datetime64]:
    """Return a column of dates as times in UTC, NaT for a missing one; other types are refused."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        times: NDArray[np.datetime64] = (
            pd.to_datetime(values, utc=True).dt.tz_localize(None).to_numpy()
        )
        return times
    codes, cells = _distinct(values)
    _check_types(values, name, "dates", [isinstance(cell, _DATES) for cell in cells], _READ_DATES)
    return np.array([*map(to_time, cells), np.datetime64("NaT", "us")])[codes]


def to_time(date: datetime.date | np.datetime64) -> np.datetime64:
    """Return a date or timestamp in microseconds of UTC; one without zone is UTC."""
    if isinstance(date, pd.Timestamp):  # it may lie where datetime has no years
        date = (date if date.tzinfo is None else date.tz_convert(None)).to_datetime64()
    if isinstance(date, datetime.datetime) and date.tzinfo is not None:
        local = np.datetime64(date.replace(tzinfo=None), "us")
        return local - np.timedelta64(date.utcoffset(), "us")
    return np.datetime64(date).astype("datetime64[us]")


def is_level(cell: object) -> bool:
    """Return whether a cell may be a level: a text, a number or a boolean."""
    return isinstance(cell, str) or _is_number(cell)


def places(values: pd.Series, levels: Sequence[Hashable], name: object) -> NDArray[np.intp]:
    """Return the place of each cell among levels, or `MISSING`, or `UNKNOWN`."""
    known = {text_key(level): place for place, level in enumerate(levels)}
    codes, cells = _distinct(values)
    is_right = [*map(is_level, cells)]
    _check_types(values, name, "texts, numbers or booleans", is_right, "")
    if any(map(_is_beyond_floats, known)):  # a gap would round all whole numbers of its column
        is_right = [not isinstance(cell, float | np.floating) for cell in cells]
        _check_types(values, name, "text or whole numbers", is_right, _READ_CODES)
    at = [known.get(text_key(cell), UNKNOWN) for cell in cells]
    return np.array([*at, MISSING], dtype=np.intp)[codes]


def _is_beyond_floats(key: str) -> bool:
    try:
        return abs(float(key)) >= _EXACT
    except ValueError:
        return False


def known_places(values: pd.Series, levels: Sequence[Hashable], name: object) -> NDArray[np.intp]:
    """Return the place of each cell among levels, or `MISSING`; any other one is refused."""
    at = places(values, levels, name)
    if (at == UNKNOWN).any():
        row = int(np.argmax(at == UNKNOWN))
        raise InputError(
            f"column {name!r} must hold its levels {shown(levels)}, got "
            f"{as_text(values.iloc[row])!r} in row {row}."
        )
    return at


def person_codes(person: Any) -> NDArray[np.intp]:
    """Return whose row each is as a whole number, the same for what is the same as text."""
    codes, cells = pd.factorize(np.asarray(person, dtype=object).ravel())
    texts = np.array([*(as_text(cell) or None for cell in cells), None], dtype=object)[codes]
    people, _ = pd.factorize(texts)
    if (people < 0).any():
        row = int(np.argmax(people < 0))
        raise InputError(f"person must say whose row each row is, got a missing one in row {row}.")
    return people.astype(np.intp)
