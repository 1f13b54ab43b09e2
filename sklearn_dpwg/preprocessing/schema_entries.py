"""Read a schema file (TOML): the parameters of a `PublicSchema`, and facts beside features."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from sklearn_dpwg._checks import real_number
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing.columns import Boolean, Category, Column, Date, Number, Ordered

_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Number, Date, Ordered, Boolean, Category)
}
# The kind that an entry of a column implies, unless `kind` is stated.
_KIND_OF_ENTRY = dict.fromkeys(("low", "high"), "number") | {"levels": "category"}
_KIND_OF_ENTRY |= dict.fromkeys(("first", "last"), "date")
_KIND_OF_ENTRY |= dict.fromkeys(("true", "false"), "boolean")
_TABLES = {
    "groups": ("columns", "labels"),
    "target": ("column", "classes", "low", "high"),
    "person": ("column", "rows"),
    "read_csv": ("sep", "decimal", "thousands", "na_values", "encoding"),
}


def read_entries(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a `PublicSchema`, and the other fields of a `TableSchema`."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} must be a TOML file: {error}") from None
    _check_names(content, ("interactions", "columns", *_TABLES), str(path))
    for name in ("columns", *_TABLES):
        table = content.setdefault(name, {})
        if not isinstance(table, dict):
            raise InputError(f"{name} in {path} must be a table [{name}], got {table!r}.")
        _check_names(table, _TABLES.get(name, table), f"[{name}] in {path}")
    columns, person = content["columns"], content["person"]
    if "rows" in person and "column" not in person:
        raise InputError(f"[person] in {path} must have a column where it has rows.")
    parameters = {
        "columns": {name: _column(name, entries, path) for name, entries in columns.items()},
        "interactions": content.get("interactions", []),
        "person": person.get("column"),
        "rows_per_person": person.get("rows", 1),
    }
    task = {
        **_groups(content["groups"]),
        **_target(content["target"], columns, f"[target] in {path}"),
        "read_csv": content["read_csv"],
    }
    return parameters, task


def _check_names(table: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    for name in table:
        if name not in allowed:
            raise InputError(f"{where} must hold none but {', '.join(allowed)}, got {name!r}.")


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _column(name: str, entries: Any, path: str | Path) -> Column:
    """Return the declared column of a table of entries, such as ``{low = 0, high = 100}``."""
    where = f"column {name!r} in {path}"
    entries = dict(entries) if isinstance(entries, dict) else {}
    kind = entries.pop("kind", next(filter(None, map(_KIND_OF_ENTRY.get, entries)), None))
    if kind not in _KINDS:
        raise InputError(
            f"{where} must have low and high, first and last, or levels, or else a kind of "
            f"{', '.join(_KINDS)}, got {kind!r}."
        )
    parameters = fields(_KINDS[kind])
    _check_names(entries, [field.name for field in parameters], where)
    for field in parameters:
        if field.default is MISSING and field.name not in entries:
            raise InputError(f"{where} must have an entry {field.name!r}.")
    column: Column = _KINDS[kind](**entries)
    return column


def _groups(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group columns and the group labels: tuples if there are several columns."""
    columns, labels = table.get("columns", []), table.get("labels")
    labels = None if labels is None else tuple(map(_as_tuple, labels))
    columns = (columns,) if isinstance(columns, str) else tuple(columns)
    return {"group_columns": columns, "group_labels": labels}


def _target(table: Mapping[str, Any], features: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the target's column, and its classes or (low, high); None for what is not stated."""
    name, classes = table.get("column"), _as_tuple(table.get("classes"))
    if name in features:
        raise InputError(f"column of {where} must be a name outside of [columns], got {name!r}.")
    bounds = tuple(real_number(table[k], f"{k} of {where}") for k in ("low", "high") if k in table)
    if bounds and (classes is not None or len(bounds) == 1 or not bounds[0] < bounds[1]):
        raise InputError(f"{where} must have classes, or else low < high, got {dict(table)!r}.")
    return {"target": name, "classes": classes, "target_bounds": bounds or None}
