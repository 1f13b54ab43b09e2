"""Cells of a table as labels, numbers and features, and one refusal of all that cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from sklearn_dpwg._checks import as_text, shown

if TYPE_CHECKING:
    import pandas as pd

    from sklearn_dpwg.preprocessing import Cells, PublicSchema

MISSING = "missing"
# What a schema says of missing labels and classes.
GAPS = {
    "labels": ('missing_label = "...", or --missing-label LABEL, for a group of them',),
    "classes": ("leave rows without a class out of the table",),
}
# Bad values of a column that are shown on request, and how much of each.
_N_EXAMPLES, _EXAMPLE_WIDTH = 5, 40


class WrongTable(click.ClickException):
    """All that is wrong with a file, in a line a column; nothing was spent."""

    exit_code = 2


class Faults:
    """Cells that cannot be used: of each column what is wrong with how many."""

    def __init__(self, path: object, *, show_examples: bool = False) -> None:
        self._path, self._show_examples = path, show_examples
        self._counts: dict[str, dict[str, int]] = {}
        self._advice: dict[str, dict[str, None]] = {}
        self._examples: dict[str, dict[str, None]] = {}

    def add(
        self, column: str, fault: str, cells: Collection[Any], write: Sequence[str] = ()
    ) -> None:
        """Note cells with a fault, and what a schema would say of them.

        Those of an earlier part of the file count too.
        """
        if len(cells) == 0:
            return
        for one in write:
            self._advice.setdefault(column, {})[one] = None
        counts = self._counts.setdefault(column, {})
        counts[fault] = counts.get(fault, 0) + len(cells)
        if self._show_examples and not fault.startswith(MISSING):
            seen = self._examples.setdefault(column, {})
            for cell in cells:
                if len(seen) == _N_EXAMPLES:
                    break
                seen[_cut(repr(cell))] = None

    def refuse(self) -> None:
        """Refuse the file where there is a fault, with all of them."""
        if not self._counts:
            return
        lines = [f"{self._path} has cells that cannot be used:"]
        for column, counts in self._counts.items():
            said = "; ".join(f"{count:,} {fault}" for fault, count in counts.items())
            lines.append(f"  column {column}: {said}")
            if column in self._advice:
                lines.append(f"    in the schema: {'; '.join(self._advice[column])}")
        if self._examples:
            lines.append("NOT PRIVATE, values of records, for those who may see them:")
            lines += [
                f"  column {name}: {', '.join(seen)}" for name, seen in self._examples.items()
            ]
        elif any(not one.startswith(MISSING) for each in self._counts.values() for one in each):
            lines.append("--show-examples shows a few of the values, which are not private.")
        raise WrongTable("\n".join(lines))


def _cut(text: str) -> str:
    return text if len(text) <= _EXAMPLE_WIDTH else f"{text[:_EXAMPLE_WIDTH]}..."


def words(
    column: Any,
    name: str,
    faults: Faults,
    allowed: Sequence[str] | None,
    what: str = "classes",
    fill: str | None = None,
    read: Callable[[Any], Any] = as_text,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as text without blanks at its ends, and which cells are declared words.

    A cell is read as text, or as None where it stands for a missing value.
    """
    import pandas as pd
    import pyarrow as pa

    from sklearn_dpwg.preprocessing.numerals import level_faults

    if not pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.string())
        except pa.ArrowException:
            faults.add(name, f"of type {column.type}, not text, a number or yes and no", column)
            return np.full(len(column), ""), np.zeros(len(column), dtype=bool)
    codes, distinct = pd.factorize(column.to_pandas())
    every = (read(each) for each in distinct)
    table = np.array([*(fill if one in (None, "") else one for one in every), fill], dtype=object)
    found = table[codes]  # code -1 is a missing value
    missing = pd.isna(found)
    faults.add(name, MISSING, found[missing], GAPS[what] if allowed else ())
    if allowed is None:
        return found, ~missing
    cells = pd.Series(found)
    said = f"not one of the declared {what} {shown(allowed)}"
    for fault in level_faults(cells, allowed, said):
        faults.add(name, fault.what, cells[fault.where], fault.write)
    return found, cells.isin(allowed).to_numpy()


def people(column: Any, name: str, cells: Cells | None, faults: Faults) -> np.ndarray:
    """Return whose row each is, as text by the rules of a schema."""
    from sklearn_dpwg.preprocessing import Cells

    read = (cells or Cells()).person(name)
    return words(column, f"{name!r} (person)", faults, None, read=read)[0]


def numbers(
    column: Any,
    name: str,
    faults: Faults,
    bounds: tuple[float, float] | None = None,
    kind: Any = None,
    read: Callable[[Any], Any] | None = None,
) -> np.ndarray:
    """Return a column as finite numbers, between bounds where there are some."""
    import pyarrow as pa

    from sklearn_dpwg.preprocessing import numerals

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        try:
            column = column.cast(pa.float64(), safe=False)
        except pa.ArrowException:
            faults.add(name, f"of type {column.type}, not a number", column)
            return np.zeros(len(column))
    cells = column.to_pandas()
    if read is not None:
        cells = numerals.each(cells, read)
    missing = cells.isna().to_numpy()
    found, _ = numerals.numbers(cells, kind)
    faults.add(name, MISSING, cells[missing])
    for fault in numerals.number_faults(cells, kind):
        # scores are read by no schema
        write = fault.write if kind is not None else ()
        faults.add(name, fault.what, cells[fault.where], write)
    if bounds is None:
        faults.add(name, "not finite", cells[np.isinf(found)])
    else:
        low, high = bounds
        faults.add(name, f"outside {low:g} to {high:g}", cells[(found < low) | (found > high)])
    return found


def features(
    columns: Mapping[str, Any], schema: PublicSchema, rules: Cells | None = None
) -> pd.DataFrame:
    """Return the columns of a schema, levels that a file has in another type as the schema says."""
    import pandas as pd

    from sklearn_dpwg.preprocessing.cells import levels_of

    frame, rules = {}, schema.cells if rules is None else rules
    kinds: Mapping[str, Any] = schema.columns
    for name, kind in kinds.items():
        if name not in columns:
            continue
        # floats of NumPy, where a whole number is missing, would round the others
        values = columns[name].to_pandas(integer_object_nulls=True)
        levels = levels_of(kind)
        if rules is not None:
            values = rules.read(values, name, kind)
        if levels is not None:
            values = _in_type_of(values, levels)
        frame[name] = values
    return pd.DataFrame(frame)


def checked_features(
    columns: Mapping[str, Any], schema: PublicSchema, faults: Faults, *, may_lose: bool = False
) -> pd.DataFrame:
    """Return the columns of a schema, and note the cells that it refuses.

    Those of a column that `unusable` would lose as a whole are too, unless it may.
    """
    frame = features(columns, schema)
    _note(frame, schema, faults)
    lost = [] if may_lose else lost_columns([frame], schema)
    note_lost({name: columns[name] for name in lost}, schema, faults)
    return frame


def lost_columns(parts: Iterable[pd.DataFrame], schema: PublicSchema) -> list[str]:
    """Return columns of which `unusable` may have taken every cell for a missing one."""
    if schema.cells is None or schema.cells.unusable != "missing":
        return []
    kinds: Mapping[str, Any] = schema.columns
    empty = [name for name, kind in kinds.items() if kind.missing]
    for frame in parts:
        empty = [name for name in empty if frame[name].isna().all()]
        if not empty:
            break
    return empty


def note_lost(columns: Mapping[str, Any], schema: PublicSchema, faults: Faults) -> None:
    """Note the cells that a schema would refuse without `unusable`; marks of gaps are none.

    A form or a unit is wrong where no cell of a column can be used, and not one cell.
    """
    if columns:
        assert schema.cells is not None
        strict = replace(schema.cells, unusable="refuse")
        _note(features(columns, schema, strict), schema, faults, is_lost=True)


def _note(
    frame: pd.DataFrame, schema: PublicSchema, faults: Faults, *, is_lost: bool = False
) -> None:
    from sklearn_dpwg.exceptions import InputError
    from sklearn_dpwg.preprocessing.cells import faults_of
    from sklearn_dpwg.preprocessing.numerals import LOSE

    kinds: Mapping[str, Any] = schema.columns
    for name, values in frame.items():
        kind, missing = kinds[str(name)], values.isna()
        wrong = faults_of(values, kind)
        absent = missing if not kind.missing else missing & False
        if not (wrong or absent.any()):
            continue
        try:
            kind.encode(values, name)  # which alone decides
        except InputError:
            said = f"{name!r} (features)"
            faults.add(said, MISSING, values[absent], ("missing = true",))
            for one in wrong:
                others = [each for each in one.write if not each.startswith(LOSE)]
                write = [*others, "unusable is not for all cells"] if is_lost else one.write
                faults.add(said, one.what, values[one.where], write)


def at_a_terminal() -> bool:
    """Return whether somebody sees stderr, which is not kept."""
    return sys.stderr.isatty()


def say_to_those_who_see(text: str) -> None:
    """Say an exact number about the records where nothing keeps it: at a terminal, or nowhere."""
    if at_a_terminal():
        click.echo(f"NOT PRIVATE, for those who may see the records: {text}", err=True)


def say_what_is_other(frame: pd.DataFrame, schema: PublicSchema) -> None:
    """Say how many cells of a category with the level "other" are no level."""
    from sklearn_dpwg.preprocessing import Category
    from sklearn_dpwg.preprocessing.numerals import UNKNOWN, places

    counts = {
        name: int((places(frame[name], (*kind.levels, "other")) == UNKNOWN).sum())
        for name, kind in schema.columns.items()
        if isinstance(kind, Category) and kind.other
    }
    found = [f"{count:,} of {name!r}" for name, count in counts.items() if count]
    if found:
        say_to_those_who_see(
            f"cells that are no level became 'other', {', '.join(found)}. Where these are words "
            f"for a level, synonyms of the column, or ignore_case under [cells], say so in the "
            f"schema."
        )


def _in_type_of(values: pd.Series, levels: tuple[Any, ...]) -> pd.Series:
    """Return the level for each text of one, and other values as text where levels are text."""
    from sklearn_dpwg.preprocessing.numerals import each

    by_text: dict[str, Any] = {as_text(level): level for level in levels}
    if all(isinstance(level, bool) for level in levels):
        by_text |= dict.fromkeys(("True", "TRUE", "1"), True)
        by_text |= dict.fromkeys(("False", "FALSE", "0"), False)
    by_text |= {level: level for level in levels if isinstance(level, str)}  # "1.0" before "1"

    def one(value: Any) -> Any:
        return by_text[value] if value in by_text else by_text.get(as_text(value), as_text(value))

    return each(values, one)
