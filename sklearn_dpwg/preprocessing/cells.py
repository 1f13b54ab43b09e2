"""Cells of a table as it comes: marks of missing values, other words for a level, faults."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from sklearn_dpwg._checks import as_text, shown
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.preprocessing.numerals import (
    Fault,
    date_faults,
    each,
    level_faults,
    number_faults,
    numeral,
)

UNUSABLE = ("refuse", "missing")


@dataclass(frozen=True)
class Cells:
    """How the cells of a table as it comes are read, for a `PublicSchema`.

    Each cell is read by itself, by what is said here: nothing is learned from the others. Marks,
    words and levels are compared as text without blanks at its ends, so that ``-9``, ``"-9"`` and
    ``-9.0`` are one; in columns without levels marks that are numbers are compared as numbers too.
    A reader that guesses types looks at all cells: read levels that look like numbers as text.

    Parameters
    ----------
    missing : tuple or list, default=()
        What stands for a missing value beside None and NaN, as "?" or -9, in every column.
    synonyms : mapping from name to mapping, default={}
        Of columns with levels other words, and the level that each stands for.
    ignore_case : bool, default=False
        Whether "YES", "Yes" and "yes" are one word.
    unusable : {"refuse", "missing"}, default="refuse"
        What becomes of a cell that its kind cannot use, as "abc" for a number: "missing" takes it
        for a missing value, in columns that are declared with ``missing=True``. A category with
        the level "other" can use every cell. How many there were is never said: such a number is
        about the records, so it is paid for like any release or not known at all. So first read a
        table without it: a wrong form of dates, or unit, would take a whole column for missing,
        which the command's `fit` and `audit` refuse.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_dpwg.preprocessing import Category, Cells, Number, PublicSchema
    >>> cells = Cells(("?", -9), synonyms={"town": {"Aix": "Aachen"}}, ignore_case=True)
    >>> columns = {"age": Number(0, 100, missing=True), "town": Category(("Aachen", "Bonn"))}
    >>> schema = PublicSchema(columns, shapes="linear", cells=cells)
    >>> table = pd.DataFrame({"age": ["50", " -9"], "town": ["AIX", "bonn "]})
    >>> schema.set_output(transform="pandas").fit_transform(table).round(1)
       age  age=missing  town=Aachen  town=Bonn  town=other
    0  0.0          0.0          0.7        0.0         0.0
    1  0.0          0.7          0.0        0.7         0.0
    """

    missing: tuple[Hashable, ...] = ()
    synonyms: Mapping[Hashable, Mapping[Any, Hashable]] = field(default_factory=dict)
    ignore_case: bool = False
    unusable: str = "refuse"

    def __post_init__(self) -> None:
        if isinstance(self.missing, list):
            object.__setattr__(self, "missing", tuple(self.missing))

    def check(
        self,
        columns: Mapping[Any, Any],
        unseen: Mapping[Any, Any] = MappingProxyType({}),
        missing_label: Any = None,
    ) -> None:
        """Refuse rules that are none, or that say two things of one word.

        Parameters
        ----------
        columns, unseen : mapping from name to kind
            The columns of the schema; a name may be in both.
        missing_label : str, default=None
            Label of missing cells of categories of `unseen`. It may be a mark too: a cell that says
            it is missing and gets that very label, so that both are one group.
        """
        if not isinstance(self.missing, tuple):
            raise InputTypeError(f"missing of Cells must be a list of marks, got {self.missing!r}.")
        if not isinstance(self.ignore_case, bool):
            raise InputTypeError(
                f"ignore_case of Cells must be True or False, got {self.ignore_case!r}."
            )
        if self.unusable not in UNUSABLE:
            raise InputError(
                f"unusable of Cells must be one of {', '.join(UNUSABLE)}, got {self.unusable!r}."
            )
        if not isinstance(self.synonyms, Mapping):
            raise InputTypeError(
                f"synonyms of Cells must map columns to words, got {self.synonyms!r}."
            )
        known: dict[Any, list[Any]] = {}
        for name, kind in (*columns.items(), *unseen.items()):
            known.setdefault(name, []).extend(levels_of(kind) or ())
        self._check_synonyms(known)
        for name, every in known.items():
            is_filled = missing_label is not None and _is_filled(unseen.get(name))
            levels = tuple(dict.fromkeys([*every, *([missing_label] if is_filled else [])]))
            keys = [self._key(level) for level in levels]
            if len(set(keys)) < len(keys) and self.ignore_case:
                raise InputError(
                    f"levels of column {name!r} must differ by more than case for ignore_case, got "
                    f"{levels!r}."
                )
            twice = {*keys, *map(self._key, self.synonyms.get(name, ()))} & self._marks
            if is_filled and name not in columns:
                twice.discard(self._key(missing_label))
            if twice:
                raise InputError(
                    f"missing of Cells must hold no word of column {name!r}, got {min(twice)!r}: "
                    f"of groups it may be the missing_label."
                )

    def _check_synonyms(self, known: Mapping[Any, Sequence[Any]]) -> None:
        for name, words in self.synonyms.items():
            levels = tuple(known.get(name, ()))
            if not levels or not isinstance(words, Mapping):
                raise InputError(
                    f"synonyms of Cells must map a column with levels to its words, got {name!r}."
                )
            for word, level in words.items():
                if level not in levels:
                    raise InputError(
                        f"synonyms of column {name!r} must stand for its levels {levels!r}, got "
                        f"{level!r}."
                    )
                if self._key(word) in map(self._key, levels) and word not in levels:
                    raise InputError(
                        f"synonyms of column {name!r} must be no levels themselves, got {word!r}."
                    )

    @property
    def _marks(self) -> set[str]:
        return {self._key(mark) for mark in self.missing}

    @property
    def _numbers(self) -> set[float]:
        return {found for mark in self.missing if (found := _number(mark)) is not None}

    def _key(self, value: Any) -> str:
        text = as_text(value)
        return text.casefold() if self.ignore_case else text

    def read(self, values: pd.Series, name: Hashable, kind: Any) -> pd.Series:
        """Return a column with levels for their words, and None where a value is missing.

        Parameters
        ----------
        values : Series
            One value a record.
        name : str or int
            Name of the column.
        kind : Number, Date, Ordered, Boolean or Category
            What is public of it.

        Returns
        -------
        Series
            The same column, read; what is read already stays.
        """
        levels, numbers = levels_of(kind) or (), self._numbers
        if not levels and values.dtype.kind in "iuf":  # of many numbers each is looked at by NumPy
            return values.mask(values.isin(list(numbers)))
        read = self.reader(name, levels, kind)
        if not levels and values.dtype.kind == "M":  # dates by their type, which stays
            if not self.missing:
                return values
            return values.mask(each(values, lambda value: read(value) is None).eq(True))
        found = each(values, read)
        if self.unusable == "missing" and getattr(kind, "missing", False):
            for fault in faults_of(found, kind):
                found = found.mask(fault.where, None)
        return found

    def reader(
        self, name: Hashable, levels: Collection[Any] = (), kind: Any = None
    ) -> Callable[[Any], Any]:
        """Return what reads a cell of a column: a level for its words, None for a mark.

        Parameters
        ----------
        name : str or int
            Name of the column.
        levels : collection
            Its levels; none of numbers and dates.
        kind : Number or Date, optional
            What is public of a column without levels.

        Returns
        -------
        callable
            It takes a value that is there; what is no word of a level stays, without blanks.
        """
        marks, numbers = self._marks, self._numbers
        words = {self._key(level): level for level in levels}
        words |= {
            self._key(word): words[self._key(level)]
            for word, level in self.synonyms.get(name, {}).items()
            if self._key(level) in words
        }

        def one(value: Any) -> Any:
            key = self._key(value)
            if key in marks or (not levels and _number(numeral(value, kind)) in numbers):
                return None
            return words.get(key, value.strip() if isinstance(value, str) else value)

        return one

    def person(self, name: Hashable) -> Callable[[Any], str | None]:
        """Return what reads whose row it is, as text that is the same for the same person.

        Parameters
        ----------
        name : str or int
            Name of the column.

        Returns
        -------
        callable
            It takes a value that is there, and returns None for a mark and for blanks.
        """
        read = self.reader(name)

        def one(value: Any) -> str | None:
            found = read(value)
            return None if found is None else self._key(found) or None

        return one


def _is_filled(kind: Any) -> bool:
    """Return whether a kind has levels and may be missing."""
    return levels_of(kind) is not None and bool(getattr(kind, "missing", False))


def _number(value: Any) -> float | None:
    """Return a cell as a number, or None where it is none, or is no value."""
    try:
        found = float("nan") if isinstance(value, bool | np.bool_) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def faults_of(values: pd.Series, kind: Any) -> list[Fault]:
    """Return what a kind cannot use of cells that are there."""
    levels = levels_of(kind)
    if levels is not None:
        if getattr(kind, "other", False):
            return []
        return level_faults(values, levels, f"not one of the levels {shown(levels)}")
    if hasattr(kind, "first"):
        return date_faults(values, kind)
    return number_faults(values, kind) if hasattr(kind, "low") else []


def levels_of(kind: Any) -> tuple[Any, ...] | None:
    """Return the levels of a kind, if it has some."""
    if hasattr(kind, "levels"):
        return tuple(kind.levels)
    return (kind.true, kind.false) if hasattr(kind, "true") else None
