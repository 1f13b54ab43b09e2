"""Kinds of columns: public facts about a column, and the block of numbers that encodes it.

The squares of a block's numbers add up to at most 1 in every row, whatever the values are. One
record can change the type of a whole column: a gap turns whole numbers into floats, a word turns
them into text. So each cell is encoded by its own value alone, and a column whose cells would mean
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

# A reserve for rounding, as a fraction of a norm: far above the rounding of entries and squares.
ROUNDING = 2.0**-40
DATE_UNITS = MappingProxyType(
    {"year": "Y", "month": "M", "week": "W", "day": "D", "hour": "h", "minute": "m", "second": "s"}
)


def norm_bound(n_blocks: float) -> float:
    """Return a bound on the norm of a row of `n_blocks` blocks of norm at most 1, with rounding."""
    return math.sqrt(n_blocks) * (1.0 + ROUNDING)


def scale_to_bounds(
    values: FloatArray, low: float | FloatArray, high: float | FloatArray
) -> FloatArray:
    """Clip values to [low, high] and map that linearly to [-1, 1]; rounding cannot leave it."""
    half_width = 0.5 * high - 0.5 * low
    scaled = (np.clip(values, low, high) - low) / half_width - 1.0
    return np.asarray(np.clip(scaled, -1.0, 1.0, out=scaled))


def feature_name(name: Hashable) -> str:
    """Return the name of a column as text: "x3" for the position 3, else the name itself."""
    return f"x{name}" if isinstance(name, int) else str(name)


# An encoded column: two arrays of shape (n_records, k), distinct positions within the block for
# each row, and the values there, whose squares add up to at most 1. Other positions hold 0.
Block = tuple[NDArray[np.intp], FloatArray]


class _BoundedColumn:
    """Base of numbers and dates, which are clipped to public bounds and scaled to [-1, 1]."""

    missing: bool
    fill: Any

    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        """Return values scaled to [-1, 1], NaN for a missing one."""
        return scale_to_bounds(self._read(values, name), *self._ends())

    def _scaled_fill(self) -> float:
        """Return the fill of missing values, scaled to [-1, 1]; NaN if none is declared."""
        if self.fill is None:
            return math.nan
        return float(scale_to_bounds(np.array([self._public(self.fill)]), *self._ends())[0])

    def _unscaled(self, u: float) -> float:
        """Return the point on the line of the bounds that is scaled to u."""
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
        """Return values as numbers on the line of the bounds, NaN for a missing one."""

    @abstractmethod
    def _public(self, value: Any) -> float:
        """Return a declared bound or fill as a number on that line, NaN if it cannot be read."""

    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """Return the lower and upper bound as numbers on that line."""


@dataclass(frozen=True)
class Number(_BoundedColumn):
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
        """Return log(1 + value) of clipped values if ``log``, else the values."""
        return np.log1p(np.clip(values, self.low, self.high)) if self.log else values

    def _at(self, u: float) -> str:
        """Return the number that is scaled to u, as text."""
        value = self._unscaled(u)
        return f"{math.expm1(value) if self.log else value:.6g}"


@dataclass(frozen=True)
class Date(_BoundedColumn):
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
        if not low < high:  # also if one is NaN, as it is no date
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
        """Return times as whole units since 1970, NaN for a missing one."""
        counts = times.astype(f"datetime64[{DATE_UNITS[self.unit]}]").astype(np.float64)
        counts[np.isnat(times)] = np.nan
        return counts

    def _at(self, u: float) -> str:
        """Return the date that is scaled to u, as text."""
        unit: Any = DATE_UNITS[self.unit]
        return str(np.datetime64(round(self._unscaled(u)), unit))


class _OrderedLevels:
    """Base of columns of levels in a public order, as evenly spaced numbers from -1 to 1."""

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
class Ordered(_OrderedLevels):
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
class Boolean(_OrderedLevels):
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
        missing = ("missing",) if self.missing else ()
        return tuple(f"{name}={level}" for level in (*self._all_levels(), *missing))

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
        adds_other = self.other and "other" not in map(text_key, self.levels)
        return (*self.levels, "other") if adds_other else self.levels


# Kinds of columns. A `Category` encodes itself, any other kind within a `Shaped`. Both have
# `_width` encoded columns, of which at most `_n_stored` are not 0 in a row.
Column = Number | Date | Ordered | Boolean | Category


def check_column(column: Column, name: str) -> None:
    """Refuse a declaration with a wrong flag, bound, level or fill."""
    for flag in ("log", "other", "missing"):
        value = getattr(column, flag, False)
        if not isinstance(value, bool):
            raise InputTypeError(f"{flag} of column {name!r} must be True or False, got {value!r}.")
    column._check(name)


def _keep_as_tuple(column: Ordered | Category) -> None:
    """Replace levels in a list, array or series by a tuple of plain Python values."""
    levels: Any = column.levels
    if np.iterable(levels) and not isinstance(levels, str):
        object.__setattr__(column, "levels", tuple(plain_list(levels)))


def _check_levels(levels: object, name: str, *, least: int) -> None:
    """Refuse fewer than `least` levels, missing values among them, and duplicates."""
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
    """Refuse missing values in a column that is not declared with missing=True."""
    if absent.any():
        raise InputError(
            f"column {name!r} must have no missing values unless it is declared with missing=True, "
            f"got one in row {int(np.argmax(absent))}."
        )


# Cells of pandas columns as numbers, dates and levels, by value and not by the type of the column.

# Codes of cells that are no level.
MISSING, UNKNOWN = -1, -2

_NUMBERS = (int, float, Decimal, np.integer, np.floating, np.bool_)
_DATES = (datetime.date, np.datetime64)  # timestamps are dates
_READ_NUMBERS = "decimal=, thousands= and na_values= of pandas.read_csv read numbers from text"
_READ_DATES = "pandas.to_datetime(..., format=) and parse_dates= of pandas.read_csv read dates"
_READ_CODES = "floats do not tell its levels apart, so read them with dtype=str or dtype='Int64'"
# Above this floats cannot represent every whole number.
_EXACT = 2.0**53


def _distinct(values: pd.Series) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """Return each row's index into the distinct cells, -1 if missing, and the distinct cells."""
    codes, cells = pd.factorize(values.to_numpy(dtype=object))
    return codes.astype(np.intp), cells


def _is_number(cell: object) -> bool:
    return isinstance(cell, _NUMBERS) and not isinstance(cell, np.timedelta64)


def _check_types(
    values: pd.Series, name: object, kind: str, is_right: Sequence[bool], advice: str
) -> None:
    """Refuse a column if `is_right` is False for one of its distinct cells; name its first row."""
    if all(is_right):
        return
    codes, cells = _distinct(values)
    wrong = is_right.index(False)
    held = "text" if isinstance(cells[wrong], str) else type(cells[wrong]).__name__
    if not isinstance(cells[wrong], str | float):
        advice = "declare the column as of another kind"
    row = int(np.argmax(codes == wrong))
    raise InputError(f"column {name!r} must hold {kind}, got {held} in row {row}: {advice}.")


def to_numbers(values: pd.Series, name: object) -> FloatArray:
    """Return a column as floats, NaN for a missing cell; cells of other types are refused."""
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
    """Return a column of dates as UTC times, NaT for a missing one; other types are refused."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        times: NDArray[np.datetime64] = (
            pd.to_datetime(values, utc=True).dt.tz_localize(None).to_numpy()
        )
        return times
    codes, cells = _distinct(values)
    _check_types(values, name, "dates", [isinstance(cell, _DATES) for cell in cells], _READ_DATES)
    return np.array([*map(_to_time, cells), np.datetime64("NaT", "us")])[codes]


def _to_time(date: datetime.date | np.datetime64) -> np.datetime64:
    """Return a date or timestamp as UTC in microseconds; without a zone it is taken as UTC."""
    if isinstance(date, pd.Timestamp):  # its year may be outside of datetime's range
        date = (date if date.tzinfo is None else date.tz_convert(None)).to_datetime64()
    if isinstance(date, datetime.datetime) and date.tzinfo is not None:
        local = np.datetime64(date.replace(tzinfo=None), "us")
        return local - np.timedelta64(date.utcoffset(), "us")
    return np.datetime64(date).astype("datetime64[us]")


def _is_level(cell: object) -> bool:
    """Return whether a cell may be a level: a text, a number or a boolean."""
    return isinstance(cell, str) or _is_number(cell)


def places(values: pd.Series, levels: Sequence[Hashable], name: object) -> NDArray[np.intp]:
    """Return each cell's index among the levels, or `MISSING`, or `UNKNOWN`; texts are compared."""
    index_of = {text_key(level): index for index, level in enumerate(levels)}
    codes, cells = _distinct(values)
    is_right = [*map(_is_level, cells)]
    _check_types(values, name, "texts, numbers or booleans", is_right, "")
    if any(map(_is_beyond_floats, index_of)):  # read as floats such levels would be rounded
        is_right = [not isinstance(cell, float | np.floating) for cell in cells]
        _check_types(values, name, "text or whole numbers", is_right, _READ_CODES)
    indices = [index_of.get(text_key(cell), UNKNOWN) for cell in cells]
    return np.array([*indices, MISSING], dtype=np.intp)[codes]


def _is_beyond_floats(key: str) -> bool:
    """Return whether a level is a number too large to be exact as a float."""
    try:
        return abs(float(key)) >= _EXACT
    except ValueError:
        return False


def known_places(values: pd.Series, levels: Sequence[Hashable], name: object) -> NDArray[np.intp]:
    """Return each cell's index among the levels, or `MISSING`; unknown cells are refused."""
    indices = places(values, levels, name)
    if (indices == UNKNOWN).any():
        row = int(np.argmax(indices == UNKNOWN))
        raise InputError(
            f"column {name!r} must hold its levels {shown(levels)}, got "
            f"{as_text(values.iloc[row])!r} in row {row}."
        )
    return indices
