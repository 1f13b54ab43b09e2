"""Schemas in TOML: a template that a person fills in, and what is read from it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from sklearn_dpwg.preprocessing._column_kinds import (
    Boolean,
    Category,
    Column,
    Date,
    Number,
    Ordered,
)

KINDS: Mapping[str, type[Any]] = MappingProxyType(
    {"number": Number, "date": Date, "ordered": Ordered, "boolean": Boolean, "category": Category}
)

TO_FILL = "FILL IN"

HEADER = """\
# What is public of the columns of a table, for sklearn_dpwg.preprocessing.PublicSchema.
#
# Written from the names and types of the columns: no value was read. Replace each "FILL IN" by
# what you know without the records (a code book, a form, a law), never by a minimum or a list
# that was read from them. Correct the kinds. Delete the columns that the model is not to use:
# the target, the groups, whatever tells one person from all others.
#
# kind        entries
# "number"    low, high; log = true for amounts from 0; fill, for missing values
# "date"      first, last; unit = "year", "month", "week", "day", "hour", "minute", "second";
#             format of dates that are strings, as "%d.%m.%Y"; fill
# "ordered"   levels, lowest first
# "boolean"   true and false: the values that stand for yes and no
# "category"  levels; other = false refuses unknown values, which are "other" otherwise
# missing = false refuses missing values, which have an indicator column otherwise.
"""


def template(table: Any) -> str:
    """Return a schema to fill in, from the names and types of a table's columns."""
    parts = [HEADER]
    for name, kind in _declared_kinds(table):
        key = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
        parts.append(f"\n[columns.{key}]\n" + "\n".join(_entries(kind)) + "\nmissing = true\n")
    return "".join(parts)


def _entries(kind: str) -> list[str]:
    """Return the lines of a kind, those that nobody has chosen yet marked."""
    lines = [f'kind = "{kind}"']
    if kind == "category":
        lines[0] += '  # or "ordered", "boolean", "date", "number"'
    needed = [part.name for part in fields(KINDS[kind]) if part.default is MISSING]
    lines += [f'{name} = "{TO_FILL}"' for name in needed]
    if kind == "date":
        lines.append('unit = "day"')
    return lines


def _declared_kinds(table: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of each column and the kind that its type suggests."""
    if isinstance(table, pd.DataFrame):
        columns = list(zip(table.columns, table.dtypes, strict=True))
    elif hasattr(table, "get_column"):
        columns = list(table.schema.items())
    else:
        raise TypeError(
            f"X must be a frame of pandas or polars, as it needs names, got {type(table).__name__}."
        )
    for name, dtype in columns:
        if not isinstance(name, str):
            raise TypeError(f"X must have strings as names of columns, got {name!r}.")
        yield name, _kind_of_pandas(dtype) if hasattr(dtype, "kind") else _kind_of_polars(dtype)


def _kind_of_pandas(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date"
    if pd.api.types.is_bool_dtype(dtype):
        return "boolean"
    return "number" if pd.api.types.is_numeric_dtype(dtype) else "category"


def _kind_of_polars(dtype: Any) -> str:
    if dtype.is_temporal():
        return "date"
    if dtype.is_numeric():
        return "number"
    return "boolean" if str(dtype) == "Boolean" else "category"


def read_columns(path: str | Path) -> dict[str, Column]:
    """Read the columns of a schema file, or say what is wrong with it."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} must be a TOML file: {error}") from None
    tables = content.get("columns")
    if set(content) != {"columns"} or not isinstance(tables, dict):
        raise ValueError(
            f"{path} must hold tables [columns.NAME] and nothing else, got {sorted(content)!r}."
        )
    open_entries = [
        f"{entry} of {name!r}"
        for name, table in tables.items()
        for entry, value in (table.items() if isinstance(table, dict) else ())
        if value == TO_FILL
    ]
    if open_entries:
        raise ValueError(f"{path} has entries that are to be filled in: {'; '.join(open_entries)}.")
    return {name: _column(name, table, path) for name, table in tables.items()}


def _column(name: str, table: Any, path: str | Path) -> Column:
    """Return a column by its entries."""
    entries = dict(table) if isinstance(table, dict) else {}
    kind = entries.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(
            f"kind of column {name!r} in {path} must be one of {', '.join(KINDS)}, got {kind!r}."
        )
    parts = fields(KINDS[kind])
    allowed = [part.name for part in parts]
    for entry in entries:
        if entry not in allowed:
            raise ValueError(
                f"column {name!r} in {path} must have entries of {', '.join(allowed)}, "
                f"got {entry!r}."
            )
    for part in parts:
        if part.default is MISSING and part.name not in entries:
            raise ValueError(f"column {name!r} in {path} must have an entry {part.name!r}.")
    column: Column = KINDS[kind](**entries)
    return column
