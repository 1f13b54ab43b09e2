"""Numbers and dates as people write them, and what to write in a schema for those that differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sklearn_dpwg.exceptions import InputError, shown

MARKS = (".", ",")
_NUMERAL = r"[-+]?(?:\d+(?:{0}\d*)?|{0}\d+)(?:[eE][-+]?\d+)?"
_SWAPPED = str.maketrans(".,", ",.")


GAP = 'missing = ["..."] under [cells] for a mark of a gap'


class Fault(NamedTuple):
    """What is wrong with some cells of a column."""

    what: str
    write: tuple[str, ...]  # what in a schema would read them
    where: pd.Series


# What is wrong with a cell, and what to write.
Reason = tuple[str, tuple[str, ...]]


def each(values: pd.Series, read: Callable[[Any], Any]) -> pd.Series:
    """Return what each value is read as, each distinct one once.

    True equals 1 and is another word: else the first of both in a table would be read for all.
    """
    every, found = values.to_numpy(dtype=object), np.empty(len(values), dtype=object)
    flags = np.fromiter((isinstance(one, bool | np.bool_) for one in every), bool, len(every))
    for part in (flags, ~flags):
        codes, distinct = pd.factorize(every[part])
        table = np.empty(len(distinct) + 1, dtype=object)  # of code -1, a missing value: None
        for place, value in enumerate(distinct):
            table[place] = read(value)
        found[part] = table[codes]
    return pd.Series(found, index=values.index, dtype=object)


def numeral(value: Any, kind: Any) -> Any:
    """Return a text without its unit and with a decimal point, and anything else as it is.

    A text that is no number by what is declared becomes none.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    for unit in sorted(getattr(kind, "units", ()), key=len, reverse=True):
        number = text.removesuffix(unit).rstrip()
        if number and number != text:
            text = number
            break
    # a point where a comma was declared stays no number: it may stand between thousands
    return text.translate(_SWAPPED) if getattr(kind, "decimal", ".") == "," else text


def numerals(values: pd.Series, kind: Any) -> pd.Series:
    """Return a column of which each text is written as Python writes numbers."""
    is_plain = getattr(kind, "decimal", ".") == "." and not getattr(kind, "units", ())
    if is_plain or pd.api.types.is_numeric_dtype(values):
        return values
    return each(values, lambda value: numeral(value, kind))


def number_faults(values: pd.Series, kind: Any) -> list[Fault]:
    """Return what a kind of numbers cannot read of cells that are there."""
    is_wrong = pd.to_numeric(numerals(values, kind), errors="coerce").isna() & values.notna()
    return _by_reason(values, is_wrong, lambda value: _of_number(value, kind))


def date_faults(values: pd.Series, kind: Any) -> list[Fault]:
    """Return what a kind of dates cannot read of cells that are there."""
    dates = pd.to_datetime(values, errors="coerce", utc=True, format=kind.format)
    return _by_reason(values, dates.isna() & values.notna(), lambda value: _of_date(value, kind))


def level_faults(values: pd.Series, levels: Sequence[Hashable], said: str) -> list[Fault]:
    """Return the words of a column that are none of its levels, which are called as it is said."""
    by_case = {str(level).casefold() for level in levels}
    word = levels[0] if isinstance(levels[0], str) else str(levels[0])

    def reason(value: Any) -> Reason:
        if str(value).strip().casefold() in by_case:
            return said, ("ignore_case = true under [cells]",)
        return said, (f'synonyms = {{ "..." = "{word}" }}', GAP)

    return _by_reason(values, ~values.isin(levels) & values.notna(), reason)


def _by_reason(
    values: pd.Series, is_wrong: pd.Series, reason: Callable[[Any], Reason]
) -> list[Fault]:
    """Return the faults of cells, those of a reason together, in the order of their first cell."""
    places: dict[Reason, list[int]] = {}
    for place in np.flatnonzero(is_wrong.to_numpy()):
        places.setdefault(reason(values.iloc[place]), []).append(int(place))
    found = []
    for one, at in places.items():
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
            'unusable = "missing" under [cells]',
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
    return "not a number but text", (GAP,)


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
    told = shown(values[first.where].iloc[0], "")
    what = first.what.removeprefix("not a number but ")
    what = f"a number {what}" if what.startswith("with ") else what
    return InputError(
        f"column {name!r} must hold numbers, and the first value that is none is "
        f"{what}{told and f', {told}'}: "
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
