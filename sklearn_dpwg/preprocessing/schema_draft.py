"""A schema drafted from the records themselves, which nobody may use before it is reviewed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sklearn_dpwg._checks import as_text
from sklearn_dpwg.preprocessing.numerals import numeral

# What people write where nothing is known, in small letters.
GAPS = frozenset(
    {"?", "-", "--", ".", "na", "n/a", "n.a.", "nan", "null", "unknown", "missing", "refused"}
)
NUMBERS_FOR_GAPS = frozenset({"-9", "-99", "-999", "-9999"})
FORMS = ("ISO8601", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
# A column is of a kind if so many of its cells are.
_SHARE, _MOST_LEVELS = 0.95, 30
_WRITTEN = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*(?P<unit>\D*)")

HEADER = """\
# A DRAFT, AND NOT PUBLIC. Kinds, ranges, levels, units and marks in this file were READ FROM THE
# RECORDS. What they tell of a person, as the largest age or a word that one person has, is covered
# by no guarantee. Replace each by what is known without the records (a code book, a form, a law),
# delete the columns that the model is not to use, and then the line "draft = true": nothing takes
# this file before.
draft = true
#
"""


class Drafted(NamedTuple):
    """What was read from a table."""

    kinds: dict[str, str]
    facts: dict[str, dict[str, Any]]
    cells: dict[str, Any]  # entries of [cells]


class _Written(NamedTuple):
    decimal: str
    unit: str


def draft(table: pd.DataFrame) -> Drafted:
    """Return kinds, facts and rules that fit most cells of a table, read from its values.

    Ranges are wider than the numbers that are there, and dates begin and end with years.
    """
    kinds: dict[str, str] = {}
    facts: dict[str, dict[str, Any]] = {}
    gaps: set[str] = set()
    has_cases = False
    for name in map(str, table.columns):
        if pd.api.types.is_bool_dtype(table[name]):
            kinds[name], facts[name] = "boolean", {}
            continue
        words: Counter[str] = Counter()
        for value, times in table[name].value_counts().items():
            words[as_text(value)] += int(times)
        words.pop("", None)
        found = {word for word in words if word.casefold() in GAPS}
        for word in found:
            del words[word]
        gaps |= found
        marks = NUMBERS_FOR_GAPS & set(words)
        number = _number({word: n for word, n in words.items() if word not in marks})
        if number is not None:
            kinds[name], facts[name] = "number", number
            gaps |= marks if number["low"] >= 0 else set()
            continue
        is_typed = pd.api.types.is_datetime64_any_dtype(table[name])
        date = _date(words, fewest=1 if is_typed else 3)
        if date is not None:
            kinds[name], facts[name] = "date", date
            continue
        levels = _levels(words)
        kinds[name] = "category"
        facts[name] = {"levels": levels} if 0 < len(levels) <= _MOST_LEVELS else {}
        has_cases |= bool(facts[name]) and len(levels) < len(words)
    cells: dict[str, Any] = {"missing": sorted(gaps)} if gaps else {}
    return Drafted(kinds, facts, cells | ({"ignore_case": True} if has_cases else {}))


def _number(words: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the range of a column of numbers and how they are written, or None."""
    units: Counter[str] = Counter()
    for word, times in words.items():
        written = _WRITTEN.fullmatch(word)
        if written is not None and written["unit"]:
            units[written["unit"]] += times
    unit = units.most_common(1)[0][0] if units else ""
    best: tuple[int, _Written, list[float]] = (0, _Written(".", ""), [])
    for how in (_Written(".", ""), _Written(",", ""), _Written(".", unit), _Written(",", unit)):
        read = {word: _as_number(word, how) for word in words}
        share = sum(words[word] for word, one in read.items() if one is not None)
        if share > best[0]:
            best = share, how, [one for one in read.values() if one is not None]
    share, how, values = best
    if not values or share < _SHARE * sum(words.values()) or len(values) < 3:
        return None
    low, high = _around(min(values), max(values))
    said = {"decimal": how.decimal if how.decimal != "." else None, "unit": how.unit or None}
    return {"low": low, "high": high, **{key: one for key, one in said.items() if one}}


class _Kind(NamedTuple):
    decimal: str
    units: tuple[str, ...]


def _as_number(word: str, how: _Written) -> float | None:
    text = numeral(word, _Kind(how.decimal, (how.unit,) if how.unit else ()))
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _around(low: float, high: float) -> tuple[float, float]:
    """Return bounds outside of two numbers, at whole steps of a tenth of their range or more."""
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    ends = (step * math.floor(low / step), step * (math.floor(high / step) + 1.0))
    first, last = (round(float(end), 9) for end in ends)
    is_whole = first.is_integer() and last.is_integer()
    return (int(first), int(last)) if is_whole else (first, last)


def _date(words: Mapping[str, int], fewest: int) -> dict[str, Any] | None:
    """Return the range of a column of dates and their form, or None."""
    series = pd.Series(list(words), dtype=object)
    for form in FORMS if len(words) >= fewest else ():
        dates = pd.to_datetime(series, errors="coerce", utc=True, format=form)
        share = sum(words[word] for word in series[dates.notna()])
        if share >= _SHARE * sum(words.values()):
            said = {} if form == FORMS[0] else {"format": form}
            return {
                "first": f"{dates.min().year}-01-01",
                "last": f"{dates.max().year}-12-31",
                **said,
            }
    return None


def _levels(words: Mapping[str, int]) -> list[str]:
    """Return the words of a column, of spellings that differ by case the most frequent one."""
    spellings: dict[str, Counter[str]] = {}
    for word, times in words.items():
        spellings.setdefault(word.casefold(), Counter())[word] += times
    return sorted(each.most_common(1)[0][0] for each in spellings.values())


def levels_of_cells(drafted: Drafted, names: Sequence[str]) -> list[Any] | None:
    """Return the labels of groups, of several columns every combination; None if one has none."""
    parts = [drafted.facts.get(name, {}).get("levels") for name in names]
    if not parts or not all(parts):
        return None
    labels: list[tuple[str, ...]] = [()]
    for levels in parts:
        labels = [(*label, level) for label in labels for level in levels or ()]
    return [label[0] for label in labels] if len(parts) == 1 else labels
