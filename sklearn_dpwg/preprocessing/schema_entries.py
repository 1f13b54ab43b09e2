"""What a TOML file says of a table: the parameters of a schema, and what is not a feature."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sklearn_dpwg._checks import real_number
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing.columns import Boolean, Category, Column, Date, Number, Ordered

KINDS: Mapping[str, type[Any]] = MappingProxyType(
    {"number": Number, "date": Date, "ordered": Ordered, "boolean": Boolean, "category": Category}
)
# The kind of a column by its entries, where no kind is stated.
KIND_OF_ENTRY = MappingProxyType(
    {
        **dict.fromkeys(("low", "high"), "number"),
        **dict.fromkeys(("first", "last"), "date"),
        **dict.fromkeys(("true", "false"), "boolean"),
        "levels": "category",
    }
)
TABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "groups": ("columns", "labels"),
        "target": ("column", "classes", "low", "high"),
        "person": ("column", "rows"),
        "read_csv": ("sep", "decimal", "thousands", "na_values", "encoding"),
    }
)


def read_entries(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a `PublicSchema`, and the other fields of a `TableSchema`."""
    content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    _check_names(content, ("interactions", "columns", *TABLES), str(path))
    columns = _table(content, "columns", path)
    tables = {name: _table(content, name, path) for name in TABLES}
    for name, table in tables.items():
        _check_names(table, TABLES[name], f"[{name}] in {path}")
    pairs = content.get("interactions", [])
    person = tables["person"]
    if "rows" in person and "column" not in person:
        raise InputError(f"[person] in {path} must have a column where it has rows.")
    parameters = {
        "columns": {name: _column(name, entries, path) for name, entries in columns.items()},
        "interactions": tuple(tuple(p) if isinstance(p, list) else p for p in pairs),
        "person": person.get("column"),
        "rows_per_person": person.get("rows", 1),
    }
    task = {
        **_groups(tables["groups"], path),
        **_target(tables["target"], columns, path),
        "read_csv": tables["read_csv"],
    }
    return parameters, task


def _table(content: Mapping[str, Any], name: str, path: str | Path) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise InputError(f"{name} in {path} must be a table [{name}], got {table!r}.")
    return table


def _check_names(table: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for name in table:
        if name not in allowed:
            raise InputError(f"{where} may hold {', '.join(allowed)}, got {name!r}.")


def _column(name: str, entries: Any, path: str | Path) -> Column:
    """Return a column by its entries."""
    entries = dict(entries) if isinstance(entries, dict) else {}
    kind = entries.pop(
        "kind", next((KIND_OF_ENTRY[e] for e in KIND_OF_ENTRY if e in entries), None)
    )
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"column {name!r} in {path} must have low and high, first and last, or levels, or else "
            f"a kind of {', '.join(KINDS)}, got {kind!r}."
        )
    parameters = fields(KINDS[kind])
    _check_names(entries, [one.name for one in parameters], f"column {name!r} in {path}")
    for one in parameters:
        if one.default is MISSING and one.name not in entries:
            raise InputError(f"column {name!r} in {path} must have an entry {one.name!r}.")
    column: Column = KINDS[kind](**entries)
    return column


def _groups(table: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """Return the columns of the groups and the labels, tuples of values of several columns."""
    columns, labels = table.get("columns", []), table.get("labels")
    columns = [columns] if isinstance(columns, str) else columns
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise InputError(f"columns of [groups] in {path} must be names, got {columns!r}.")
    if labels is None:
        return {"group_columns": tuple(columns), "group_labels": None}
    if not isinstance(labels, list) or not labels:
        raise InputError(f"labels of [groups] in {path} must be a list, got {labels!r}.")
    for label in labels:
        n_values = len(label) if isinstance(label, list) else 1
        if n_values != max(len(columns), 1) or (n_values == 1 and isinstance(label, list)):
            raise InputError(
                f"a label of [groups] in {path} must have a value for each of its {len(columns)} "
                f"columns, as a list of several, got {label!r}."
            )
    labels = tuple(tuple(label) if isinstance(label, list) else label for label in labels)
    return {"group_columns": tuple(columns), "group_labels": labels}


def _target(table: Mapping[str, Any], features: Any, path: str | Path) -> dict[str, Any]:
    """Return the name of the target, and its classes or its bounds."""
    name, classes = table.get("column"), table.get("classes")
    if name is not None and (not isinstance(name, str) or name in features):
        raise InputError(
            f"column of [target] in {path} must be a name that [columns] does not have, got "
            f"{name!r}."
        )
    if classes is not None and (not isinstance(classes, list) or not classes):
        raise InputError(f"classes of [target] in {path} must be a list, got {classes!r}.")
    ends = [table[end] for end in ("low", "high") if end in table]
    if len(ends) == 1 or (ends and classes is not None):
        raise InputError(f"[target] in {path} must have classes, or else both low and high.")
    bounds = tuple(real_number(end, f"low and high of [target] in {path}") for end in ends)
    if bounds and not bounds[0] < bounds[1]:
        raise InputError(f"[target] in {path} must have low < high, got {bounds!r}.")
    return {
        "target": name,
        "classes": None if classes is None else tuple(classes),
        "target_bounds": bounds or None,
    }
