"""Files of the commands: schemas, tables and models to read, tables to write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from skops import io

from sklearn_dpwg._checks import as_text
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing import Date, Number, PublicSchema
from sklearn_dpwg.preprocessing.schema_entries import read_entries
from sklearn_dpwg.serving import trusted_types

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = ".parquet"


@dataclass(frozen=True)
class TableSchema:
    """The content of a schema file; None for what it does not state."""

    schema: PublicSchema
    group_columns: tuple[str, ...]
    group_labels: tuple[Any, ...] | None  # of several columns tuples of values
    target: str | None
    classes: tuple[Any, ...] | None
    target_bounds: tuple[float, float] | None
    read_csv: dict[str, Any]  # keyword arguments for pandas.read_csv


def read_schema(path: str | Path) -> TableSchema:
    """Read and check a schema file (TOML, as of `PublicSchema.from_toml`)."""
    parameters, task = read_entries(path)
    schema = PublicSchema(**parameters)
    schema.get_feature_names_out()  # refuses wrong bounds and levels
    return TableSchema(schema, **task)


def read_facts(path: Path) -> TableSchema:
    """Read a schema file that must declare groups; group labels and classes become text."""
    facts = read_schema(path)
    if not facts.group_columns or facts.group_labels is None:
        raise InputError(
            f"{path} must declare columns and labels under [groups]: labels that are found in a "
            "table tell who is in it."
        )
    labels = [
        tuple(map(as_text, label)) if isinstance(label, tuple) else as_text(label)
        for label in facts.group_labels
    ]
    classes = None if facts.classes is None else tuple(map(as_text, facts.classes))
    return replace(facts, group_labels=tuple(labels), classes=classes)


def read_table(
    path: Path, names: Iterable[str], kinds: Mapping[str, Any], read_csv: Mapping[str, Any]
) -> pd.DataFrame:
    """Read the named columns of a table; `kinds` has the kinds of columns, by name.

    Cells of a text file are text except in columns of kind Number or Date. Only empty cells and
    those that ``na_values`` lists are missing: "None" is a word.
    """
    names = list(dict.fromkeys(names))
    if path.suffix.lower() == PARQUET:
        return pd.read_parquet(path, columns=names)
    missing = read_csv.get("na_values", [])
    options = {"sep": separator_of(path), **read_csv, "keep_default_na": False}
    options["na_values"] = ["", *(missing if isinstance(missing, list) else [missing])]
    dtype: dict[str, Any] = {
        name: float if isinstance(kinds.get(name), Number) else str for name in names
    }
    try:
        table: pd.DataFrame = pd.read_csv(path, usecols=names, dtype=dtype, **options)[names]
    except ValueError as error:
        error.add_note(
            f"{path} was read with sep={options['sep']!r}; where cells are written otherwise, "
            "[read_csv] in the schema says sep, decimal, thousands, na_values and encoding."
        )
        raise
    for name in names:
        if isinstance(kinds.get(name), Date):
            table[name] = pd.to_datetime(table[name], format="ISO8601", utc=True)
    return table


def separator_of(path: Path) -> str:
    """Return the separator of cells in a text file, by the suffix of its name."""
    if path.suffix.lower() not in SEPARATORS:
        allowed = ", ".join((*SEPARATORS, PARQUET))
        raise InputError(f"{path} must have a name that ends in one of {allowed}.")
    return SEPARATORS[path.suffix.lower()]


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as Parquet or as text, by the suffix of the name."""
    if path.suffix.lower() == PARQUET:
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep=separator_of(path))


def check_complete(table: pd.DataFrame, names: Iterable[Any]) -> None:
    """Refuse a table with a missing cell in one of the named columns."""
    for name in names:
        for row in np.flatnonzero(table[name].isna()):
            raise InputError(f"column {name!r} must have no missing cells, got one in row {row}.")


def load_model(path: Path) -> Pipeline:
    """Load a pipeline that the command `fit` wrote; no code of the file is run."""
    try:
        model = io.load(path, trusted=list(trusted_types()))
    except (BadZipFile, KeyError, TypeError) as error:
        raise InputError(f"{path} must be a model that `fit` wrote: {error}") from error
    if not (isinstance(model, Pipeline) and isinstance(model[0], PublicSchema)):
        raise InputError(f"{path} must be a model that `fit` wrote, got {type(model).__name__}.")
    return model
