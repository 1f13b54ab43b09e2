"""Kinds of columns: what is public of a column, and the block of numbers that it becomes.

The squares of a block's numbers add up to at most 1 in every row, whatever the values are.
"""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, real_number, text_key
from sklearn_dpwg.data.frames import plain_list
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.preprocessing.reading import (
    MISSING,
    UNKNOWN,
    is_level,
    known_places,
    places,
    to_numbers,
    to_time,
    to_times,
)

# Rounding of the entries and of a sum of their squares stays far below this share of a norm.
ROUNDING = 2.0**-40


def norm_bound(n_blocks: float) -> float:
    """Return what no row of blocks of norm at most 1 is longer than, also by rounding."""
    return math.sqrt(n_blocks) * (1.0 + ROUNDING)


DATE_UNITS = MappingProxyType(
    {"year": "Y", "month": "M", "week": "W", "day": "D", "hour": "h", "minute": "m", "second": "s"}
)


@dataclass(frozen=True)
class Block:
    """What a column becomes: for each row some values, at different places from 0."""

    places: NDArray[np.intp]
    values: FloatArray  # of shape (n_records, k); the squares of a row add up to at most 1


# A map of numbers in [-1, 1] to blocks of norm at most 1, in rows; NaN may become anything.
Shape = Callable[[FloatArray], FloatArray]


def line(u: FloatArray) -> FloatArray:
    """Return each number as a block of its own."""
    return u[:, None]


class _Scaled:
    """A column with one number in [-1, 1], and an indicator where values may be missing."""

    missing: bool

    @property
    def _width(self) -> int:
        return 1 + self.missing

    @property
    def _n_stored(self) -> int:
        return self._width

    def _names(self, name: str) -> tuple[str, ...]:
        return (name, f"{name}=missing") if self.missing else (name,)

    def _encode(self, values: pd.Series, name: str) -> Block:
        return self._filled(self._scaled(values, name), name, self._scaled_fill())

    @abstractmethod
    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        """Return numbers in [-1, 1], NaN where one is missing."""

    def _scaled_fill(self) -> float:
        return 0.0

    def _filled(self, scaled: FloatArray, name: str, fill: float, shape: Shape = line) -> Block:
        """Return the blocks of numbers, and what stands for a missing one where one is NaN."""
        absent, block = np.isnan(scaled), shape(scaled)
        if self.missing:
            block = np.column_stack([block, np.zeros(len(block))])
            block[absent] = of_missing(fill, shape)
        elif absent.any():
            raise missing_error(name, absent)
        return Block(np.tile(np.arange(block.shape[1], dtype=np.intp), (len(block), 1)), block)


def of_missing(fill: float, shape: Shape = line) -> FloatArray:
    """Return the block of a fill, zeros of NaN, and an indicator with the rest of a norm of 1."""
    block = np.nan_to_num(shape(np.array([fill]))[0], nan=0.0)
    return np.append(block, math.sqrt(max(0.0, 1.0 - float(block @ block))))


@dataclass(frozen=True)
class Number(_Scaled):
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
        _check_fill(self, name)

    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        return self._to_scale(to_numbers(values, name))

    def _at(self, u: float) -> str:
        """Write the number that is mapped to u."""
        low, high = map(math.log1p, self._bounds()) if self.log else self._bounds()
        value = low + (high - low) * (u + 1.0) / 2.0
        return f"{math.expm1(value) if self.log else value:.6g}"

    def _bounds(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def _scaled_fill(self) -> float:
        return 0.0 if self.fill is None else float(self._to_scale(np.array([self.fill]))[0])

    def _to_scale(self, values: FloatArray) -> FloatArray:
        """Clip to the bounds and map these to -1 and 1."""
        low, high = self._bounds()
        if self.log:
            values, low, high = np.log1p(np.clip(values, low, high)), *map(math.log1p, (low, high))
        return to_unit_interval(values, low, high)


@dataclass(frozen=True)
class Date(_Scaled):
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
        low, high = self._bounds()
        if not low < high:  # one is NaN where it is no date
            raise InputError(
                f"column {name!r} must have dates with first < last in its unit {self.unit!r}, got "
                f"{(self.first, self.last)!r}."
            )
        _check_fill(self, name)

    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        return to_unit_interval(self._counts(to_times(values, name)), *self._bounds())

    def _at(self, u: float) -> str:
        """Write the date that is mapped to u."""
        low, high = self._bounds()
        count = round(low + (high - low) * (u + 1.0) / 2.0)
        unit: Any = DATE_UNITS[self.unit]
        return str(np.datetime64(count, unit))

    def _bounds(self) -> tuple[float, float]:
        return self._public_count(self.first), self._public_count(self.last)

    def _scaled_fill(self) -> float:
        if self.fill is None:
            return 0.0
        count = np.array([self._public_count(self.fill)])
        return float(to_unit_interval(count, *self._bounds())[0])

    def _public_count(self, date: str | datetime.date) -> float:
        try:
            time = to_time(datetime.datetime.fromisoformat(date) if isinstance(date, str) else date)
        except ValueError:  # no date
            return math.nan
        return float(self._counts(np.array([time]))[0])

    def _counts(self, times: NDArray[np.datetime64]) -> FloatArray:
        """Return units since 1970, NaN for what is missing."""
        counts = times.astype(f"datetime64[{DATE_UNITS[self.unit]}]").astype(np.float64)
        counts[np.isnat(times)] = np.nan
        return counts


@dataclass(frozen=True)
class Ordered(_Scaled):
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

    def _check(self, name: str) -> None:
        _check_levels(self.levels, name, least=2)

    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        codes = known_places(values, self.levels, name)
        return np.where(codes < 0, np.nan, 2.0 * codes / (len(self.levels) - 1.0) - 1.0)


@dataclass(frozen=True)
class Boolean(_Scaled):
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

    def _check(self, name: str) -> None:
        _check_levels((self.false, self.true), name, least=2)

    def _scaled(self, values: pd.Series, name: str) -> FloatArray:
        return Ordered((self.false, self.true))._scaled(values, name)


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

    def __post_init__(self) -> None:
        _keep_as_tuple(self)

    @property
    def _width(self) -> int:
        return len(self._all_levels()) + self.missing

    @property
    def _n_stored(self) -> int:
        return 1

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
        absent = codes == MISSING
        if absent.any() and not self.missing:
            raise missing_error(name, absent)
        codes[absent] = len(levels)
        return Block(codes[:, None], np.ones((len(codes), 1)))

    def _all_levels(self) -> tuple[Hashable, ...]:
        added = self.other and "other" not in map(text_key, self.levels)
        return (*self.levels, "other") if added else self.levels


# A kind of column: `_width` encoded columns, of which `_n_stored` of a row can differ from 0.
Column = Number | Date | Ordered | Boolean | Category


def feature_name(name: Hashable) -> str:
    """Return the name of a column as text; that of the column at a position is "x" before it."""
    return f"x{name}" if isinstance(name, int) else str(name)


def to_unit_interval(
    values: FloatArray, low: float | FloatArray, high: float | FloatArray
) -> FloatArray:
    """Clip values to bounds and map these to -1 and 1, also by rounding."""
    scaled = (np.clip(values, low, high) - low) / (0.5 * high - 0.5 * low) - 1.0
    return np.asarray(np.clip(scaled, -1.0, 1.0, out=scaled))


def _keep_as_tuple(column: Ordered | Category) -> None:
    """Keep a row of levels of any library as a tuple of plain values."""
    levels: Any = column.levels
    if np.iterable(levels) and not isinstance(levels, str):
        object.__setattr__(column, "levels", tuple(plain_list(levels)))


def missing_error(name: str, absent: NDArray[np.bool_]) -> InputError:
    """Say where a value is missing that may not be."""
    return InputError(
        f"column {name!r} must have no missing values unless it is declared with missing=True, got "
        f"one in row {int(np.argmax(absent))}."
    )


def check_flags(column: Column, name: str) -> None:
    """Refuse anything but True and False where a kind has a yes or no."""
    for flag in ("log", "other", "missing"):
        value = getattr(column, flag, False)
        if not isinstance(value, bool):
            raise InputTypeError(f"{flag} of column {name!r} must be True or False, got {value!r}.")


def _check_fill(column: Number | Date, name: str) -> None:
    if column.fill is not None and not column.missing:
        raise InputError(f"fill of column {name!r} is for missing=True, got {column.fill!r}.")
    if column.fill is not None and not abs(column._scaled_fill()) < 1.0:
        raise InputError(
            f"fill of column {name!r} must lie strictly between its bounds, got {column.fill!r}."
        )


def _check_levels(levels: object, name: str, *, least: int) -> None:
    """Refuse levels that are too few, missing values or twice in the list."""
    if not isinstance(levels, tuple) or len(levels) < least:
        raise InputError(
            f"levels of column {name!r} must be a tuple of at least {least}, got {levels!r}."
        )
    if not all(map(is_level, levels)) or any(map(pd.isna, levels)):
        raise InputError(
            f"levels of column {name!r} must be texts, numbers or booleans, got {levels!r}."
        )
    if len(set(map(text_key, levels))) != len(levels):
        raise InputError(f"levels of column {name!r} must differ as text, got {levels!r}.")
