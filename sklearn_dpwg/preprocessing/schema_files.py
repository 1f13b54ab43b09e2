"""A table described in a TOML file: its schema, groups, target, and how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn_dpwg.preprocessing.public_schema import PublicSchema
from sklearn_dpwg.preprocessing.schema_entries import read_entries


@dataclass(frozen=True)
class TableSchema:
    """What a file says of a table; None where it says nothing."""

    schema: PublicSchema
    group_columns: tuple[str, ...]
    group_labels: tuple[Any, ...] | None  # of several columns tuples of values
    target: str | None
    classes: tuple[Any, ...] | None
    target_bounds: tuple[float, float] | None
    read_csv: dict[str, Any]  # keyword arguments for pandas.read_csv


def read_schema(path: str | Path) -> TableSchema:
    """Return what a TOML file says, or refuse what it may not say, as `PublicSchema.from_toml`."""
    parameters, task = read_entries(path)
    schema = PublicSchema(**parameters)
    schema.get_feature_names_out()  # refuses wrong bounds and levels
    return TableSchema(schema, **task)
