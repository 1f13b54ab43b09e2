"""A table described in a TOML file: its schema, groups, target, and how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn_dpwg.preprocessing.public_schema import PublicSchema
from sklearn_dpwg.preprocessing.schema_entries import read_entries


@dataclass(frozen=True)
class TableSchema:
    """What a file says of a table; None where it says nothing.

    Parameters
    ----------
    schema : PublicSchema
        The features, with whose row each is.
    group_columns : tuple of str
        Columns that say in which group a record is.
    group_labels : tuple, default=None
        All labels, tuples of values where there are several columns.
    target : str, default=None
        Column to predict.
    classes : tuple, default=None
        Its classes.
    target_bounds : (low, high), default=None
        Its bounds, where it is a number.
    read_csv : dict
        Keyword arguments for ``pandas.read_csv``.
    """

    schema: PublicSchema
    group_columns: tuple[str, ...]
    group_labels: tuple[Any, ...] | None
    target: str | None
    classes: tuple[Any, ...] | None
    target_bounds: tuple[float, float] | None
    read_csv: dict[str, Any]


def read_schema(path: str | Path) -> TableSchema:
    """Read a schema file, or say what is wrong with it.

    Parameters
    ----------
    path : str or Path
        A TOML file as in `PublicSchema.from_toml`.

    Returns
    -------
    TableSchema
        The schema and the task.
    """
    parameters, task = read_entries(path)
    schema = PublicSchema(**parameters)
    schema.get_feature_names_out()  # refuses wrong bounds and levels
    return TableSchema(schema, **task)
