"""Schemas in TOML: a template that a person fills in, and what is read from it."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from sklearn_dpwg._checks import real_number
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.preprocessing.cells import Cells
from sklearn_dpwg.preprocessing.columns import Boolean, Category, Column, Date, Number, Ordered
from sklearn_dpwg.preprocessing.interactions import products

KINDS: Mapping[str, type[Any]] = MappingProxyType(
    {"number": Number, "date": Date, "ordered": Ordered, "boolean": Boolean, "category": Category}
)

TO_FILL = "FILL IN"
# What an entry says of the kind of its column, where no kind is said.
_TELLS = MappingProxyType(
    {
        **dict.fromkeys(("low", "high"), "number"),
        **dict.fromkeys(("first", "last"), "date"),
        **dict.fromkeys(("true", "false"), "boolean"),
        "levels": "category",
    }
)
# Entries that say how cells are written.
WRITTEN = ("format", "decimal", "unit")

HEADER = """\
# What is public of the columns of a table, for sklearn_dpwg.preprocessing.PublicSchema.
#
"""
ENTRIES = """\
# A line a column; what it says is its kind:
# number    { low = 0, high = 120 }; log = true for amounts from 0; fill, for missing values;
#           decimal = "," and unit = "kg" where cells are written so
# date      { first = 2020-01-01, last = 2024-12-31 }; unit = "year", "month", "week", "day",
#           "hour", "minute", "second"; format of dates that are strings, as "%d.%m.%Y"; fill
# category  { levels = ["A", "B"] }; other = false refuses unknown values, which are "other"
#           otherwise
# ordered   { kind = "ordered", levels = ["mild", "severe"] }, lowest first
# boolean   { kind = "boolean" }; true and false: the values that stand for yes and no
# missing = false refuses missing values, which have an indicator column otherwise.
# synonyms = { "Aix" = "Aachen" } gives other words for a level.
# shape = "linear" keeps a number or date a straight line, where the model may bend otherwise.
# [columns.NAME] may be a table too, with a line an entry, after these lines.
# Columns to treat together, before the first table: interactions = [["one", "other"]]
"""
DEFAULTS = """
# Of each column that does not say otherwise: missing, other, shape, and how cells are written, by
# decimal and format.
[defaults]
missing = true

[columns]
"""

UNREAD = """\
# Written from the names and types of the columns: no value was read. Replace each "FILL IN" by
# what you know without the records (a code book, a form, a law), never by a minimum or a list
# that was read from them. Correct the kinds. Delete the columns that the model is not to use:
# the target, the groups, whatever tells one person from all others.
#
"""

# What a file may say beside its columns, and the entries of each table.
TASK = MappingProxyType(
    {
        "defaults": ("missing", "other", "shape", "decimal", "format"),
        "groups": ("columns", "labels", "synonyms", "missing_label"),
        "target": ("column", "classes", "synonyms", "low", "high", "decimal", "unit"),
        "person": ("column", "rows"),
        "cells": ("missing", "ignore_case", "unusable"),
        "file": ("delimiter", "encoding", "sheet"),
    }
)

TASK_HEADER = """
# What the model does not see.
# [groups]: the columns that say in which group a record is, and all labels; of several columns a
#           label is a list of as many values. synonyms = { "W" = "white" } gives other words for a
#           label, missing_label = "unknown" is the group of those who have none.
# [target]: the column to predict, with its classes (of two the one looked for last) and
#           synonyms, or with low and high where it is a number, and decimal and unit.
"""

CELLS_HEADER = """
# How all cells are read; take the marks "# " away where it holds.
# [cells]
# missing = ["?", -9]      # marks of missing values, beside empty cells
# ignore_case = true       # "YES", "Yes" and "yes" are one word
# unusable = "missing"     # takes cells that a kind cannot use for missing ones; how many is not
#                          # said, as that is about the records and costs budget
"""
PERSON_HEADER = """
# Whose row each is, and the most rows of one person to learn from. Left out, a row is protected,
# and a person with several rows less.
"""


@dataclass(frozen=True)
class SchemaFile:
    """A schema file: its columns, and what it says of groups and target, None where nothing."""

    columns: dict[str, Column]
    group_columns: tuple[str, ...] | None = None
    group_labels: tuple[Any, ...] | None = None
    target: str | None = None
    classes: tuple[Any, ...] | None = None
    target_bounds: tuple[float, float] | None = None
    interactions: tuple[Any, ...] = ()
    cells: Cells | None = None
    person: str | None = None
    rows_per_person: int = 1
    missing_label: Any = None
    file: Mapping[str, str] = field(default_factory=dict)  # how a table is written
    path: str = ""
    unseen: Mapping[str, Column] = field(default_factory=dict)  # of groups and target

    @property
    def of_schema(self) -> dict[str, Any]:
        """What a `PublicSchema` takes beside columns."""
        names = ("interactions", "cells", "person", "rows_per_person", "unseen", "missing_label")
        return {name: getattr(self, name) for name in (*names, "file")}


def template(
    kinds: Mapping[str, str],
    facts: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    *,
    groups: Sequence[str] = (),
    group_labels: Sequence[str | tuple[str, ...]] | None = None,
    target: str | None = None,
    person: str | None = None,
    cells: Mapping[str, Any] = MappingProxyType({}),
    opening: str = UNREAD,
    file: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return a schema to fill in, from the names and kinds of columns and what is known of them.

    Columns of groups and the target, where they are named, have tables of their own.
    """
    parts = [HEADER, opening, ENTRIES]
    if file:
        written = "\n".join(_entry(name, value) for name, value in file.items())
        parts.append(f"\n# How a table is written.\n[file]\n{written}\n")
    parts.append(DEFAULTS)
    for name, kind in kinds.items():
        if name not in (*groups, target, person):
            key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
            parts.append(f"{key} = {{ {_entries(kind, facts.get(name, {}))} }}\n")
    if groups or target is not None:
        parts.append(TASK_HEADER)
    if groups:
        known = facts.get(groups[0], {}).get("levels") if len(groups) == 1 else None
        group_labels = known if group_labels is None else group_labels
        labels = f'"{TO_FILL}"' if group_labels is None else _list(group_labels)
        parts.append(f"\n[groups]\ncolumns = {_list(groups)}\nlabels = {labels}\n")
    if target is not None:
        entries = ("low", "high") if kinds[target] == "number" else ("classes",)
        known_of = {"classes": facts.get(target, {}).get("levels"), **facts.get(target, {})}
        lines = [_entry(entry, known_of.get(entry)) for entry in entries]
        parts.append(f"\n[target]\ncolumn = {_text(target)}\n" + "\n".join(lines) + "\n")
    whose = '# [person]\n# column = "patient"\n# rows = 1\n'
    if person is not None:
        whose = f"[person]\ncolumn = {_text(person)}\nrows = 1\n"
    rules = "".join(f"{_entry(name, value)}\n" for name, value in cells.items())
    if rules:
        parts.append(f"\n# How all cells are read.\n[cells]\n{rules}")
    return "".join([*parts, *([] if rules else [CELLS_HEADER]), PERSON_HEADER, whose])


def check_file(said: Any) -> None:
    """Refuse what does not say how a file is written, as a stored schema may hold anything."""
    for name, value in said.items() if isinstance(said, Mapping) else [("file", said)]:
        right = isinstance(value, str) and name in TASK["file"]
        if name == "missing_values":
            right = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
        if right and name == "delimiter":
            right = len(value.replace("\\t", "\t")) == 1  # a tab as it is typed in a shell
        if right and name == "encoding":
            right = _is_encoding(value)
        if not right:
            raise InputError(
                "file must hold a delimiter of one character, an encoding that Python knows, a "
                "sheet by its name, missing_values as a list of texts, or some of these, got "
                f"{name}={value!r}."
            )


def _is_encoding(name: str) -> bool:
    try:
        "".encode(name)
    except (LookupError, ValueError):
        return False
    return True


def _list(words: Sequence[str | tuple[str, ...]]) -> str:
    return f"[{', '.join(_text(w) if isinstance(w, str) else _list(w) for w in words)}]"


def _text(name: str) -> str:
    """Return a name as TOML writes a string."""
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _entry(name: str, value: Any) -> str:
    """Return a line, marked where nobody has said a value."""
    value = TO_FILL if value is None else value
    if isinstance(value, list):
        return f"{name} = {_list(value)}"
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    return f"{name} = {_text(value) if isinstance(value, str) else value}"


def _entries(kind: str, facts: Mapping[str, Any]) -> str:
    """Return what is to be said of a column, marked where nobody has said it yet."""
    needed = [part.name for part in fields(KINDS[kind]) if part.default is MISSING]
    said = [] if kind in map(_TELLS.get, needed) else [f'kind = "{kind}"']
    said += [_entry(name, facts.get(name)) for name in needed]
    return ", ".join([*said, *(_entry(name, facts[name]) for name in WRITTEN if name in facts)])


# What a data dictionary may call the name of a column, its type, and what it says of its values.
_HEADS = MappingProxyType(
    {
        "name": ("name", "column", "variable", "field"),
        "type": ("type", "kind"),
        "low": ("low", "min", "minimum"),
        "high": ("high", "max", "maximum"),
        "levels": ("levels", "values", "categories"),
    }
)
_TYPES = MappingProxyType(
    {
        **dict.fromkeys(("int", "integer", "bigint", "smallint", "number", "numeric"), "number"),
        **dict.fromkeys(("float", "double", "decimal", "real"), "number"),
        **dict.fromkeys(("date", "datetime", "timestamp"), "date"),
        **dict.fromkeys(("bool", "boolean", "logical"), "boolean"),
        **dict.fromkeys(("ordered", "ordinal"), "ordered"),
    }
)


def read_dictionary(table: pd.DataFrame) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the kind of each column that a data dictionary has a row of, and what else it says.

    Bounds are taken for a number or a date, levels with ``|`` or ``;`` between them. Other types
    than those that are known are categories.
    """
    heads = {str(head).strip().lower(): head for head in table.columns}
    places = {
        key: next((heads[word] for word in words if word in heads), None)
        for key, words in _HEADS.items()
    }
    for key in ("name", "type"):
        if places[key] is None:
            raise InputError(
                f"a data dictionary must have a column {' or '.join(_HEADS[key])} in its header, "
                f"and a row for each column that it describes, got {list(table.columns)!r}."
            )
    kinds: dict[str, str] = {}
    facts: dict[str, dict[str, Any]] = {}
    for row in table.to_dict("records"):
        said = {
            key: str(row[head]).strip()
            for key, head in places.items()
            if head is not None and not pd.isna(row[head])
        }
        name = said.get("name", "")
        if not name or name in kinds:
            raise InputError(f"a data dictionary must name each column once, got {name!r}.")
        kinds[name], facts[name] = _facts(said)
    return kinds, facts


def _facts(said: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the kind of a column and the entries that a data dictionary knows."""
    kind = _TYPES.get(re.split(r"[\s(\d]", said.get("type", "").lower())[0], "category")
    bounds = [said.get(end) for end in ("low", "high")]
    if kind == "date":
        return kind, {"first": bounds[0], "last": bounds[1]}
    if kind == "number":
        return kind, {end: _number(text) for end, text in zip(("low", "high"), bounds, strict=True)}
    levels = [level.strip() for level in re.split(r"[|;]", said.get("levels", "")) if level.strip()]
    if not levels:
        return kind, {}
    return "category" if kind == "boolean" else kind, {"levels": levels}


def _number(text: str | None) -> float | None:
    try:
        value = math.nan if text is None else float(text)
    except ValueError:
        return None
    return (int(value) if value.is_integer() else value) if math.isfinite(value) else None


def declared_kinds(table: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of each column and the kind that its type suggests."""
    if isinstance(table, pd.DataFrame):
        columns = list(zip(table.columns, table.dtypes, strict=True))
    elif hasattr(table, "get_column"):
        columns = list(table.schema.items())
    else:
        raise InputTypeError(
            f"X must be a frame of pandas or polars, as it needs names, got {type(table).__name__}."
        )
    for name, dtype in columns:
        if not isinstance(name, str):
            raise InputTypeError(f"X must have strings as names of columns, got {name!r}.")
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


def read_schema_file(path: str | Path) -> SchemaFile:
    """Read a schema file, or say what is wrong with it."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a TOML file: {error}") from None
    if content.pop("draft", False):
        raise InputError(
            f"{path} is a draft, whose ranges and levels were read from the records and are not "
            f"public: replace each by what is known without them, and delete the line draft = true."
        )
    tables = content.get("columns")
    pairs = content.pop("interactions", [])
    if not set(content) <= {"columns", *TASK} or not isinstance(tables, dict):
        raise InputError(
            f"{path} must hold tables [columns.NAME], may hold interactions, "
            f"[{'], ['.join(TASK)}], and nothing else, got {sorted(content)!r}."
        )
    task = {name: _task_table(name, content.get(name, {}), path) for name in TASK}
    of_task = {f"[{name}]": table for name, table in task.items()}
    of_columns = {repr(name): table for name, table in tables.items() if isinstance(table, dict)}
    open_entries = [
        f"{entry} of {name}"
        for name, table in (of_columns | of_task).items()
        for entry, value in table.items()
        if value == TO_FILL
    ]
    if open_entries:
        raise InputError(f"{path} has entries that are to be filled in: {'; '.join(open_entries)}.")
    synonyms = {
        name: table.pop("synonyms")
        for name, table in tables.items()
        if isinstance(table, dict) and "synonyms" in table
    }
    defaults = task["defaults"]
    columns = {name: _column(name, table, defaults, path) for name, table in tables.items()}
    of_groups, labels = _groups(task["groups"], path)
    target, classes, bounds = _target(task["target"], columns, path)
    unseen = _unseen(task, (of_groups, labels), (target, classes, bounds))
    for name, words in _synonyms_of_task(task, of_groups, target, path).items():
        synonyms[name] = {**synonyms.get(name, {}), **words}
    products(columns, pairs)
    try:
        check_file(task["file"])
    except InputError as error:
        raise InputError(f"[file] in {path}: {error}") from None
    if "rows" in task["person"] and "column" not in task["person"]:
        raise InputError(f"[person] in {path} must have a column where it has rows, got none.")
    cells = Cells(synonyms=synonyms, **task["cells"]) if synonyms or task["cells"] else None
    others = {
        "person": task["person"].get("column"),
        "rows_per_person": task["person"].get("rows", 1),
        "missing_label": task["groups"].get("missing_label"),
        "unseen": unseen,
        "file": task["file"],
        "path": str(path),
    }
    pairs = tuple(map(tuple, pairs))
    return SchemaFile(columns, of_groups, labels, target, classes, bounds, pairs, cells, **others)


def _unseen(
    task: Mapping[str, Mapping[str, Any]],
    groups: tuple[tuple[str, ...] | None, tuple[Any, ...] | None],
    target: tuple[str | None, tuple[Any, ...] | None, tuple[float, float] | None],
) -> dict[str, Column]:
    """Return the kinds of the columns of groups and of the target, as far as they are declared."""
    found: dict[str, Column] = {}
    names, labels = groups
    has_gaps = "missing_label" in task["groups"]
    if names is not None and labels is not None:
        parts = [label if isinstance(label, tuple) else (label,) for label in labels]
        for name, levels in zip(names, zip(*parts, strict=True), strict=False):
            found[name] = Category(tuple(dict.fromkeys(levels)), other=False, missing=has_gaps)
    column, classes, bounds = target
    if column is not None and classes is not None:
        found[column] = Category(classes, other=False)
    elif column is not None and bounds is not None:
        said = {**task["defaults"], **task["target"]}
        written = {key: said[key] for key in ("decimal", "unit") if key in said}
        found[column] = Number(*bounds, **written)
    return found


def _synonyms_of_task(
    task: Mapping[str, Mapping[str, Any]],
    groups: tuple[str, ...] | None,
    target: str | None,
    path: str | Path,
) -> dict[str, Any]:
    """Return other words for labels and classes, by the names of their columns."""
    found: dict[str, Any] = {}
    of_groups, of_target = (task[name].get("synonyms") for name in ("groups", "target"))
    names = groups or ()
    if of_groups is not None:
        of_each = of_groups if len(names) > 1 else dict.fromkeys(names[:1], of_groups)
        if not isinstance(of_groups, dict) or not names or not set(of_each) <= set(names):
            raise InputError(
                f"synonyms of [groups] in {path} must map words to labels, and of several columns "
                f"be tables [groups.synonyms.NAME] of {', '.join(names) or 'its columns'}, got "
                f"{of_groups!r}."
            )
        found |= of_each
    if of_target is not None:
        if target is None or not isinstance(of_target, dict):
            raise InputError(
                f"synonyms of [target] in {path} must map words to the classes of its column, got "
                f"{of_target!r}."
            )
        found[target] = of_target
    return found


def _task_table(name: str, table: Any, path: str | Path) -> dict[str, Any]:
    """Return a table of what is not about a column, its entries known."""
    if not isinstance(table, dict):
        raise InputError(f"{name} in {path} must be a table [{name}], got {table!r}.")
    _check_entries(table, TASK[name], f"[{name}] in {path}")
    return table


def _check_entries(table: Mapping[str, Any], allowed: Sequence[str], what: str) -> None:
    """Refuse an entry that nothing reads."""
    for entry in table:
        if entry not in allowed:
            raise InputError(f"{what} must have entries of {', '.join(allowed)}, got {entry!r}.")


def _groups(
    table: Mapping[str, Any], path: str | Path
) -> tuple[tuple[str, ...] | None, tuple[Any, ...] | None]:
    """Return the columns of the groups and the labels, a tuple each of several columns."""
    columns, labels = table.get("columns"), table.get("labels")
    if isinstance(columns, str):
        columns = [columns]
    if columns is not None and not (_is_list(columns) and all(isinstance(c, str) for c in columns)):
        raise InputError(f"columns of [groups] in {path} must be names, got {columns!r}.")
    if labels is not None and not _is_list(labels):
        raise InputError(f"labels of [groups] in {path} must be a list, got {labels!r}.")
    if labels is not None:
        labels = tuple(tuple(label) if isinstance(label, list) else label for label in labels)
        n_columns = len(columns or ())
        for label in labels if n_columns > 1 else ():
            if not isinstance(label, tuple) or len(label) != n_columns:
                raise InputError(
                    f"labels of [groups] in {path} must each be a list of {n_columns} values, one "
                    f'a column, as [["A", "x"], ["A", "y"]] of two, got {label!r}.'
                )
    return None if columns is None else tuple(columns), labels


def _target(
    table: Mapping[str, Any], columns: Mapping[str, Column], path: str | Path
) -> tuple[str | None, tuple[Any, ...] | None, tuple[float, float] | None]:
    """Return the name of the target, and either its classes or its bounds, or neither."""
    name, classes = table.get("column"), table.get("classes")
    if name is not None and not isinstance(name, str):
        raise InputError(f"column of [target] in {path} must be a name, got {name!r}.")
    if name in columns:
        raise InputError(
            f"column of [target] in {path} must not be one of [columns], which the model may see, "
            f"got {name!r}."
        )
    if classes is not None and not _is_list(classes):
        raise InputError(f"classes of [target] in {path} must be a list, got {classes!r}.")
    bounds = tuple(table[entry] for entry in ("low", "high") if entry in table)
    if len(bounds) == 1 or (bounds and classes is not None):
        raise InputError(
            f"[target] in {path} must have classes, or else both low and high, got "
            f"{sorted(table)!r}."
        )
    if bounds:
        low, high = (real_number(bound, f"a bound of [target] in {path}") for bound in bounds)
        return name, None, (low, high)
    return name, None if classes is None else tuple(classes), None


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _column(name: str, table: Any, defaults: Mapping[str, Any], path: str | Path) -> Column:
    """Return a column by its entries, and by defaults that its kind has."""
    entries = dict(table) if isinstance(table, dict) else {}
    kind = entries.pop("kind", next((_TELLS[one] for one in _TELLS if one in entries), None))
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"column {name!r} in {path} must say low and high, first and last, or levels, or else "
            f"its kind, one of {', '.join(KINDS)}, got {kind!r}."
        )
    parts = fields(KINDS[kind])
    _check_entries(entries, [part.name for part in parts], f"column {name!r} in {path}")
    for part in parts:
        if part.default is MISSING and part.name not in entries:
            raise InputError(f"column {name!r} in {path} must have an entry {part.name!r}.")
    known = {part.name for part in parts}
    of_all = {entry: value for entry, value in defaults.items() if entry in known}
    column: Column = KINDS[kind](**of_all | entries)
    return column
