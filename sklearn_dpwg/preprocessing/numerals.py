"""Numbers and dates as people write them, and what to write in a schema for those that differ."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import InputError

MARKS = (".", ",")


def renumbered(column: pd.Series) -> pd.Series:
    """Return a column with the places of its rows as index, its cells as they are.

    `Series.reset_index` of pandas before 2.1 makes the column anew, and guesses a type for cells of
    any, which one cell can decide for all.
    """
    found = column.copy(deep=False)
    found.index = pd.RangeIndex(len(found))
    return found


_NUMERAL = r"[-+]?(?:\d+(?:{0}\d*)?|{0}\d+)(?:[eE][-+]?\d+)?"
_SWAPPED = str.maketrans(".,", ",.")


GAP = 'missing = ["..."] under [cells] for a mark of a gap'
LOSE = 'unusable = "missing" under [cells]'


class Fault(NamedTuple):
    """What is wrong with some cells of a column."""

    what: str
    write: tuple[str, ...]  # what in a schema would read them
    where: pd.Series


# What is wrong with a cell, and what to write.
Reason = tuple[str, tuple[str, ...]]


# What is equal is read as the same, within each of these types; (True,) equals (1,).
_PLAIN = (str, int, float, bool, np.bool_, np.str_, np.int64, np.float64, datetime.date)


def distinct(values: pd.Series) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """Return the cells of a column that are to be read, each once, and which one each row has.

    Missing values have code -1. A column is never read whole: what libraries make of a cell may
    follow from the others, as a unit of time or a type, and one record would decide about all.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        at = np.asarray(values.cat.codes, dtype=np.intp)
        return at, _objects(list(values.cat.categories))
    every = values.to_numpy(dtype=object)
    if not pd.api.types.is_object_dtype(values.dtype):  # all are of one type
        found_at, cells = pd.factorize(every)
        return found_at.astype(np.intp), cells
    codes = np.full(len(every), -1, dtype=np.intp)
    types, parts, first = list(map(type, every)), [], 0
    for one in dict.fromkeys(types):  # True equals 1 and is another word
        at = np.flatnonzero(np.fromiter((each is one for each in types), bool, len(every)))
        if one in _PLAIN:
            which, found = pd.factorize(every[at])
        else:
            there = ~pd.isna(every[at])
            found, which = every[at[there]], np.where(there, np.cumsum(there) - 1, -1)
        codes[at] = np.where(which < 0, -1, which + first)
        parts.append(found)
        first += len(found)
    return codes, np.concatenate(parts) if parts else _objects([])


def _objects(cells: Sequence[Any]) -> NDArray[np.object_]:
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def each(values: pd.Series, read: Callable[[Any], Any]) -> pd.Series:
    """Return what each value is read as, each distinct one once; a missing one as None."""
    codes, cells = distinct(values)
    table = np.empty(len(cells) + 1, dtype=object)
    for place, value in enumerate(cells):
        table[place] = read(value)
    return pd.Series(table[codes], index=values.index, dtype=object)


# Places of what is not among levels.
MISSING, UNKNOWN = -1, -2


def places(values: pd.Series, levels: Sequence[Hashable]) -> NDArray[np.intp]:
    """Return the place of each value among levels, blanks around it or not."""
    known = {level: place for place, level in enumerate(levels)}

    def one(value: Any) -> int:
        try:
            if value in known:
                return known[value]
            return known.get(value.strip(), UNKNOWN) if isinstance(value, str) else UNKNOWN
        except TypeError:  # a list, which is no level
            return UNKNOWN

    codes, cells = distinct(values)
    return np.array([*map(one, cells), MISSING], dtype=np.intp)[codes]


def numeral(value: Any, kind: Any) -> Any:
    """Return a text without its unit and with a decimal point, and anything else as it is.

    A text that is no number by what is declared becomes none.
    """
    if not isinstance(value, str):
        return value
    text, units = value.strip(), getattr(kind, "units", ())
    for unit in sorted(units, key=len, reverse=True) if units else ():
        number = text.removesuffix(unit).rstrip()
        if number and number != text:
            text = number
            break
    # a point where a comma was declared stays no number: it may stand between thousands
    return text.translate(_SWAPPED) if getattr(kind, "decimal", ".") == "," else text


def _as_number(value: Any, kind: Any) -> float:
    """Return a cell as a number, NaN where it is none; one that is too large is infinite."""
    if isinstance(value, str):
        text = numeral(value, kind)
        # Python also reads 1_000, and digits of other scripts
        value = text if text.isascii() and "_" not in text else "none"
    elif not isinstance(value, Real | Decimal | np.bool_) or isinstance(value, np.timedelta64):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:
        return math.nan


def numbers(values: pd.Series, kind: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return a column as numbers, NaN for what is missing or none, and which cells are none."""
    if pd.api.types.is_numeric_dtype(values) and values.dtype.kind != "c":  # by its type
        found = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return found, np.zeros(len(found), dtype=bool)
    codes, cells = distinct(values)
    table = np.array([*(_as_number(one, kind) for one in cells), np.nan])
    is_wrong = np.isnan(table)
    gaps = [place for place, one in enumerate(cells) if isinstance(one, str) and not one]
    is_wrong[[-1, *gaps]] = False
    return table[codes], is_wrong[codes]


def number_faults(values: pd.Series, kind: Any) -> list[Fault]:
    """Return what a kind of numbers cannot read of cells that are there."""
    is_wrong = np.isnan(numbers(values, kind)[0]) & values.notna().to_numpy()
    return _by_reason(values, is_wrong, lambda value: _of_number(value, kind))


_NO_TIME = np.datetime64("NaT", "us")


def times(values: pd.Series, form: str) -> tuple[NDArray[np.datetime64], NDArray[np.bool_]]:
    """Return times in UTC, NaT for what is missing or none, and which cells are none."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):  # in the unit of its type
        found = pd.to_datetime(values, utc=True).dt.tz_localize(None).to_numpy()
        return found, np.zeros(len(found), dtype=bool)
    codes, cells = distinct(values)
    table = np.full(len(cells) + 1, _NO_TIME)
    is_wrong = np.zeros(len(table), dtype=bool)
    is_text = np.fromiter((isinstance(one, str) for one in cells), bool, len(cells))
    texts = _objects([one.strip() for one in cells[is_text]])
    found, holds_all = _together(texts, form)
    is_none = np.isnat(found)
    is_none &= np.fromiter((one not in _GAPS for one in texts), bool, len(texts))
    # Nanoseconds of one cell leave no room for the years of another: each is read again, alone.
    for place in np.flatnonzero(is_none) if not holds_all else ():
        found[place] = _alone(texts[place], form)
    table[:-1][is_text], is_wrong[:-1][is_text] = found, is_none & np.isnat(found)
    for place in np.flatnonzero(~is_text):
        table[place] = _time(cells[place])
        is_wrong[place] = np.isnat(table[place])
    return table[codes], is_wrong[codes]


# What pandas reads by the clock, and what is missing to it.
_CLOCK = ("now", "today")
_GAPS = frozenset(("", "NaT", "nat", "NAT", "nan", "NaN", "NAN"))


def _together(texts: Iterable[str], form: str) -> tuple[NDArray[np.datetime64], bool]:
    """Return the times of texts, NaT for none, and whether their common unit holds all years."""
    said = pd.Series([None if one in _CLOCK else one for one in texts], dtype=object)
    try:
        found = pd.to_datetime(said, errors="coerce", utc=True, format=form)
        times = found.dt.tz_localize(None).to_numpy()
    except (TypeError, ValueError, OverflowError):
        return np.full(len(said), _NO_TIME), False
    return times.astype("datetime64[us]"), np.datetime_data(times.dtype)[0] != "ns"


def _alone(text: str, form: str) -> np.datetime64:
    """Return the time of one text, NaT for none."""
    if text in _CLOCK:
        return _NO_TIME
    try:
        found = pd.to_datetime(pd.Series([text], dtype=object), utc=True, format=form)
        return found.dt.tz_localize(None).to_numpy().astype("datetime64[us]")[0]
    except pd.errors.OutOfBoundsDatetime:  # in nanoseconds, which are all of pandas 2, until 2262
        try:
            is_iso = form == "ISO8601"
            parse = datetime.datetime.fromisoformat
            return _time(parse(text) if is_iso else datetime.datetime.strptime(text, form))
        except ValueError:
            return _NO_TIME
    except (TypeError, ValueError, OverflowError):
        return _NO_TIME


def _time(value: Any) -> np.datetime64:
    """Return a date or timestamp in UTC, NaT for anything else."""
    if not isinstance(value, datetime.date | np.datetime64):
        return _NO_TIME
    try:
        if isinstance(value, pd.Timestamp):  # it may hold nanoseconds
            value = (value if value.tzinfo is None else value.tz_convert(None)).to_datetime64()
        if getattr(value, "tzinfo", None) is not None:
            value = value.replace(tzinfo=None) - value.utcoffset()
        return np.datetime64(value).astype("datetime64[us]")
    except (OverflowError, ValueError):
        return _NO_TIME


def date_faults(values: pd.Series, kind: Any) -> list[Fault]:
    """Return what a kind of dates cannot read of cells that are there."""
    is_wrong = np.isnat(times(values, kind.format)[0]) & values.notna().to_numpy()
    return _by_reason(values, is_wrong, lambda value: _of_date(value, kind))


def level_faults(values: pd.Series, levels: Sequence[Hashable], said: str) -> list[Fault]:
    """Return the words of a column that are none of its levels, which are called as it is said."""
    by_case = {str(level).casefold() for level in levels}
    word = levels[0] if isinstance(levels[0], str) else str(levels[0])

    def reason(value: Any) -> Reason:
        if str(value).strip().casefold() in by_case:
            return said, ("ignore_case = true under [cells]",)
        return said, (f'synonyms = {{ "..." = "{word}" }}', GAP)

    return _by_reason(values, places(values, levels) == UNKNOWN, reason)


def _by_reason(
    values: pd.Series, is_wrong: NDArray[np.bool_], reason: Callable[[Any], Reason]
) -> list[Fault]:
    """Return the faults of cells, those of a reason together, in the order of their first cell."""
    at_reason: dict[Reason, list[int]] = {}
    for place in np.flatnonzero(is_wrong):
        at_reason.setdefault(reason(values.iloc[place]), []).append(int(place))
    found = []
    for one, at in at_reason.items():
        where = np.zeros(len(values), dtype=bool)
        where[at] = True
        found.append(Fault(*one, pd.Series(where, index=values.index)))
    return found


def _of_number(value: Any, kind: Any) -> Reason:
    """Return what a cell is that is no number, and what a schema would say of it."""
    if not isinstance(value, str):
        return f"not a number but {type(value).__name__}", ("make numbers of them",)
    text = value.strip()
    if not text:
        return "not a number but blanks", (GAP,)
    if re.match(r"[<>≤≥~]", text):
        return "not a number but a limit such as < 1", (
            LOSE,
            "or write the number alone in the table",
        )
    for mark in MARKS:
        found = re.match(_NUMERAL.format(re.escape(mark)) + r"(?P<rest>.*)", text)
        rest = "?" if found is None else found["rest"].strip()
        if re.match(r"[\d.,' ]", rest) or found is None:
            continue
        needs = (
            [f'decimal = "{mark}"']
            if mark in text and mark != getattr(kind, "decimal", ".")
            else []
        )
        is_unit = bool(rest) and rest not in getattr(kind, "units", ())
        needs += ['unit = "..."'] if is_unit else []
        parts = [
            *([f"a decimal {'comma' if mark == ',' else 'point'}"] if len(needs) > is_unit else []),
            *(["something behind it"] if is_unit else []),
        ]
        if parts:
            return f"with {' and '.join(parts)}", tuple(needs)
    if re.fullmatch(r"[-+]?[\d.,' ]*\d[\d.,' ]*", text):
        write = f"write 1234{getattr(kind, 'decimal', '.')}5 for 1.234,5 in the table"
        return "with marks between its digits", (write,)
    return "not a number but text", (GAP, f"{LOSE} for what may be lost")


def _of_date(value: Any, kind: Any) -> Reason:
    said = f"not a date of the form {kind.format!r}"
    for pattern, form in (
        (r"\d{4}-\d\d?-\d\d?.*", '"ISO8601"'),
        (r"\d\d?\.\d\d?\.\d{4}", '"%d.%m.%Y"'),
        (r"\d\d?/\d\d?/\d{4}", '"%d/%m/%Y" or "%m/%d/%Y"'),
    ):
        if (
            isinstance(value, str)
            and re.fullmatch(pattern, value.strip())
            and kind.format not in form
        ):
            return said, (f"format = {form}",)
    return said, (GAP, 'format = "..."')


def not_a_number(values: pd.Series, kind: Any, name: str) -> InputError:
    """Say what the first value is that is no number, as far as that tells no value."""
    faults = number_faults(values, kind)
    if not faults:
        return InputError(f"column {name!r} must hold numbers, got {values.dtype}.")
    first = min(faults, key=lambda fault: int(np.argmax(fault.where.to_numpy())))
    what = first.what.removeprefix("not a number but ")
    what = f"a number {what}" if what.startswith("with ") else what
    return InputError(
        f"column {name!r} must hold numbers, and the first value that is none is "
        f"{what}: "
        f"{_in_python(first.write)}."
    )


def not_a_date(values: pd.Series, kind: Any, name: str) -> InputError:
    """Say that a column holds what is no date, and what would read it."""
    faults = date_faults(values, kind)
    advice = f": {_in_python(faults[0].write)}" if faults else ""
    return InputError(
        f"column {name!r} must hold dates of the form {kind.format!r}, and some are none{advice}."
    )


def _in_python(parts: Sequence[str]) -> str:
    """Return what to write in a file as a call has it."""
    write = re.sub(r"(\w+ = [^,]*?) under \[cells\]", r"Cells(\1)", ", ".join(parts))
    return write.replace(" = ", "=")
