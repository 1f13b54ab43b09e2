"""Kinds of columns: what is public of a column, and the block of numbers that it becomes.

The squares of a block's numbers add up to at most 1 in every row, whatever the values are. One
record can change the type of its whole column: a gap makes floats of whole numbers, a word makes
text of them. So what a cell means follows from that cell alone, and a column that would mean
something else in another container is refused by its type.
"""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, as_text, real_number, shown, text_key
from sklearn_dpwg.data.frames import plain_list
from sklearn_dpwg.exceptions import InputError, InputTypeError

# Rounding of the entries and of a sum of their squares stays far below this fraction of a norm.
ROUNDING = 2.0**-40
DATE_UNITS = MappingProxyType(
    {"year": "Y", "month": "M", "week": "W", "day": "D", "hour": "h", "minute": "m", "second": "s"}
)


def norm_bound(n_blocks: float) -> float:
    """Return what no row of blocks of norm at most 1 is longer than, also by rounding."""
    return math.sqrt(n_blocks) * (1.0 + ROUNDING)


def to_unit_interval(
    values: FloatArray, low: float | FloatArray, high: float | FloatArray
) -> FloatArray:
    """Clip values to bounds and map these to -1 and 1, also by rounding."""
    scaled = (np.clip(values, low, high) - low) / (0.5 * high - 0.5 * low) - 1.0
    return np.asarray(np.clip(scaled, -1.0, 1.0, out=scaled))


def feature_name(name: Hashable) -> str:
    """Return the name of a column as text; that of the column at a position is "x" before it."""
    return f"x{name}" if isinstance(name, int) else str(name)


# What a column becomes, two arrays of shape (n_records, k): different places from 0 for each row,
# and the values there, whose squares add up to at most 1.
Block = tuple[NDArray[np.intp], FloatArray]


class _Range:
    """A number or a date between public bounds, to which it is clipped."""

    missing: bool
    fill: Any

    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        return to_unit_interval(self._read(values, name), *self._ends())

    def _scaled_fill(self) -> float:
        """Return what stands for a missing value, NaN for the middle of the scale."""
        if self.fill is None:
            return math.nan
        return float(to_unit_interval(np.array([self._public(self.fill)]), *self._ends())[0])

    def _place(self, u: float) -> float:
        low, high = self._ends()
        return low + (high - low) * (u + 1.0) / 2.0

    def _check_fill(self, name: str) -> None:
        if self.fill is not None and not self.missing:
            raise InputError(f"fill of column {name!r} is for missing=True, got {self.fill!r}.")
        if self.fill is not None and not abs(self._scaled_fill()) < 1.0:
            raise InputError(
                f"fill of column {name!r} must lie strictly between its bounds, got {self.fill!r}."
            )

    @abstractmethod
    def _read(self, values: pd.Series, name: str) -> FloatArray:
        """Return where values are on the line that bounds are on, NaN for a missing one."""

    @abstractmethod
    def _public(self, value: Any) -> float:
        """Return where a bound or a fill is, NaN for what is none."""

    @abstractmethod
    def _ends(self) -> tuple[float, float]: ...


@dataclass(frozen=True)
class Number(_Range):
    """A number between public bounds, to which it is clipped.

    Parameters
    ----------
    low, high : float
        The bounds, mapped to -1 and 1.
    log : bool, default=False
        Whether log(1 + value) is mapped instead, for amounts from 0.
    missing : bool, default=False
        Whether values may be missing: an indicator column says so, and the fill stands for them.
    fill : float, default=None
        What stands for a missing value, strictly between the bounds; None for the middle of the
        scale.
    shape : {"auto", "ramps", "linear"}, default=None
        How a model may bend in it, as in `PublicShapes`; None for what the schema says.
    """

    low: float
    high: float
    log: bool = False
    missing: bool = False
    fill: float | None = None
    shape: str | None = None

    def _check(self, name: str) -> None:
        low = real_number(self.low, f"low of column {name!r}")
        high = real_number(self.high, f"high of column {name!r}")
        if not (low < high and math.isfinite(high - low)):
            raise InputError(
                f"column {name!r} must have finite bounds with low < high, got {(low, high)!r}."
            )
        if self.log and low < 0:
            raise InputError(f"column {name!r} must have low >= 0 for log=True, got {low!r}.")
        if self.fill is not None:
            real_number(self.fill, f"fill of column {name!r}")
        self._check_fill(name)

    def _read(self, values: pd.Series, name: str) -> FloatArray:
        return self._on_line(to_numbers(values, name))

    def _public(self, value: Any) -> float:
        return float(self._on_line(np.array([value], dtype=np.float64))[0])

    def _ends(self) -> tuple[float, float]:
        low, high = float(self.low), float(self.high)
        return (math.log1p(low), math.log1p(high)) if self.log else (low, high)

    def _on_line(self, values: FloatArray) -> FloatArray:
        return np.log1p(np.clip(values, self.low, self.high)) if self.log else values

    def _at(self, u: float) -> str:
        """Write the number that is mapped to u."""
        value = self._place(u)
        return f"{math.expm1(value) if self.log else value:.6g}"


@dataclass(frozen=True)
class Date(_Range):
    """A date or time between public ones, to which it is clipped; dates without zone are UTC.

    Parameters
    ----------
    first, last : str or date
        The first and the last date, in ISO form where they are strings, mapped to -1 and 1.
    unit : {"year", "month", "week", "day", "hour", "minute", "second"}, default="day"
        What dates are rounded down to.
    missing : bool, default=False
        Whether dates may be missing: an indicator column says so, and the fill stands for them.
    fill : str or date, default=None
        What stands for a missing date, strictly between the first and the last; None for the
        middle.
    shape : {"auto", "ramps", "linear"}, default=None
        How a model may bend in it, as in `PublicShapes`; None for what the schema says.
    """

    first: str | datetime.date
    last: str | datetime.date
    unit: str = "day"
    missing: bool = False
    fill: str | datetime.date | None = None
    shape: str | None = None

    def _check(self, name: str) -> None:
        if self.unit not in DATE_UNITS:
            raise InputError(
                f"unit of column {name!r} must be one of {', '.join(DATE_UNITS)}, "
                f"got {self.unit!r}."
            )
        low, high = self._ends()
        if not low < high:  # one is NaN where it is no date
            raise InputError(
                f"column {name!r} must have dates with first < last in its unit {self.unit!r}, got "
                f"{(self.first, self.last)!r}."
            )
        self._check_fill(name)

    def _read(self, values: pd.Series, name: str) -> FloatArray:
        return self._counts(to_times(values, name))

    def _public(self, value: Any) -> float:
        try:
            date = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
            return float(self._counts(np.array([_to_time(date)]))[0])
        except ValueError:
            return math.nan

    def _ends(self) -> tuple[float, float]:
        return self._public(self.first), self._public(self.last)

    def _counts(self, times: NDArray[np.datetime64]) -> FloatArray:
        """Return units since 1970, NaN for what is missing."""
        counts = times.astype(f"datetime64[{DATE_UNITS[self.unit]}]").astype(np.float64)
        counts[np.isnat(times)] = np.nan
        return counts

    def _at(self, u: float) -> str:
        """Write the date that is mapped to u."""
        unit: Any = DATE_UNITS[self.unit]
        return str(np.datetime64(round(self._place(u)), unit))


class _Steps:
    """Levels in a public order, as evenly spaced numbers from -1 to 1."""

    @abstractmethod
    def _all_levels(self) -> tuple[Hashable, ...]: ...

    def _check(self, name: str) -> None:
        _check_levels(self._all_levels(), name, least=2)

    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        levels = self._all_levels()
        codes = known_places(values, levels, name)
        return np.where(codes < 0, np.nan, 2.0 * codes / (len(levels) - 1.0) - 1.0)

    def _scaled_fill(self) -> float:
        return math.nan


@dataclass(frozen=True)
class Ordered(_Steps):
    """Levels in a public order, mapped to evenly spaced numbers from -1 to 1.

    Parameters
    ----------
    levels : sequence
        At least two levels, lowest first. Values outside of them are refused.
    missing : bool, default=False
        Whether values may be missing: an indicator column says so, and the middle stands for them.
    """

    levels: tuple[Hashable, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        _keep_as_tuple(self)

    def _all_levels(self) -> tuple[Hashable, ...]:
        return self.levels


@dataclass(frozen=True)
class Boolean(_Steps):
    """Yes or no, mapped to 1 and -1.

    Parameters
    ----------
    true, false : str, bool or number, default=True, False
        What stands for yes and no, compared as text.
    missing : bool, default=False
        Whether values may be missing: an indicator column says so, and 0 stands for them.
    """

    true: Hashable = True
    false: Hashable = False
    missing: bool = False

    def _all_levels(self) -> tuple[Hashable, ...]:
        return self.false, self.true


@dataclass(frozen=True)
class Category:
    """One of a public list of levels, as a row of zeros and one 1.

    Parameters
    ----------
    levels : sequence
        The levels, each with a column.
    other : bool, default=True
        Whether unknown values belong to the level "other", which is added to the list unless it is
        there; otherwise they are refused.
    missing : bool, default=False
        Whether values may be missing: they have a column of their own.
    """

    levels: tuple[Hashable, ...]
    other: bool = True
    missing: bool = False
    _n_stored: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _keep_as_tuple(self)

    @property
    def _width(self) -> int:
        return len(self._all_levels()) + self.missing

    def _check(self, name: str) -> None:
        _check_levels(self.levels, name, least=1)

    def _names(self, name: str) -> tuple[str, ...]:
        last = ("missing",) if self.missing else ()
        return tuple(f"{name}={level}" for level in (*self._all_levels(), *last))

    def _encode(self, values: pd.Series, name: str) -> Block:
        levels = self._all_levels()
        if self.other:
            codes = places(values, levels, name)
            codes[codes == UNKNOWN] = [*map(text_key, levels)].index("other")
        else:
            codes = known_places(values, levels, name)
        if not self.missing:
            check_none_missing(codes == MISSING, name)
        codes[codes == MISSING] = len(levels)
        return codes[:, None], np.ones((len(codes), 1))

    def _all_levels(self) -> tuple[Hashable, ...]:
        added = self.other and "other" not in map(text_key, self.levels)
        return (*self.levels, "other") if added else self.levels


# A kind of column; a `Category`, or a `Shaped` of another one, has `_width` encoded columns, of
# which `_n_stored` of a row can differ from 0.
Column = Number | Date | Ordered | Boolean | Category


def check_column(column: Column, name: str) -> None:
    """Refuse what is declared wrongly."""
    for flag in ("log", "other", "missing"):
        value = getattr(column, flag, False)
        if not isinstance(value, bool):
            raise InputTypeError(f"{flag} of column {name!r} must be True or False, got {value!r}.")
    column._check(name)


def _keep_as_tuple(column: Ordered | Category) -> None:
    """Keep a row of levels of any library as a tuple of plain values."""
    levels: Any = column.levels
    if np.iterable(levels) and not isinstance(levels, str):
        object.__setattr__(column, "levels", tuple(plain_list(levels)))


def _check_levels(levels: object, name: str, *, least: int) -> None:
    """Refuse levels that are too few, missing values or twice in the list."""
    if not isinstance(levels, tuple) or len(levels) < least:
        raise InputError(
            f"levels of column {name!r} must be a tuple of at least {least}, got {levels!r}."
        )
    if not all(map(_is_level, levels)) or any(map(pd.isna, levels)):
        raise InputError(
            f"levels of column {name!r} must be texts, numbers or booleans, got {levels!r}."
        )
    if len(set(map(text_key, levels))) != len(levels):
        raise InputError(f"levels of column {name!r} must differ as text, got {levels!r}.")


def check_none_missing(absent: NDArray[np.bool_], name: str) -> None:
    """Refuse a column with a missing value that is not declared to have any."""
    if absent.any():
        raise InputError(
            f"column {name!r} must have no missing values unless it is declared with missing=True, "
            f"got one in row {int(np.argmax(absent))}."
        )


# Columns of pandas and polars as numbers, dates and levels, whatever container holds them.

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
    return np.array([*map(_to_time, cells), np.datetime64("NaT", "us")])[codes]


def _to_time(date: datetime.date | np.datetime64) -> np.datetime64:
    """Return a date or timestamp in microseconds of UTC; one without zone is UTC."""
    if isinstance(date, pd.Timestamp):  # it may lie where datetime has no years
        date = (date if date.tzinfo is None else date.tz_convert(None)).to_datetime64()
    if isinstance(date, datetime.datetime) and date.tzinfo is not None:
        local = np.datetime64(date.replace(tzinfo=None), "us")
        return local - np.timedelta64(date.utcoffset(), "us")
    return np.datetime64(date).astype("datetime64[us]")


def _is_level(cell: object) -> bool:
    """Return whether a cell may be a level: a text, a number or a boolean."""
    return isinstance(cell, str) or _is_number(cell)


def places(values: pd.Series, levels: Sequence[Hashable], name: object) -> NDArray[np.intp]:
    """Return the place of each cell among levels, or `MISSING`, or `UNKNOWN`."""
    known = {text_key(level): place for place, level in enumerate(levels)}
    codes, cells = _distinct(values)
    is_right = [*map(_is_level, cells)]
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
