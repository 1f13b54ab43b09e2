"""Predictions of a saved model for a table, and tables that are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn_dpwg.cli._answers import WrongInput
from sklearn_dpwg.cli._models import schema_of
from sklearn_dpwg.cli._outputs import write
from sklearn_dpwg.cli._tables import PARQUET, TableFile, features

if TYPE_CHECKING:
    import pandas as pd


def predictions(model: Any, table: TableFile, name: str, keep: Sequence[str] = ()) -> pd.DataFrame:
    """Return a prediction a row, probabilities where the model has them, and columns to keep."""
    import pandas as pd

    kinds = schema_of(model).columns
    table.require(kinds, name)
    columns = table.read([*kinds, *keep])
    X = features(columns, kinds)
    found: dict[str, Any] = {each: columns[each].to_pandas() for each in keep}
    made: dict[str, Any] = {"prediction": model.predict(X)}
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        made |= {f"probability of {one}": shares[:, i] for i, one in enumerate(model.classes_)}
    twice = [each for each in made if each in found]
    if twice:
        raise WrongInput(f"keep must not name {twice[0]!r}, which is a column of the output.")
    return pd.DataFrame(found | made)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as its name says."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        write(path, lambda part: frame.to_parquet(part, index=False))
    elif suffix in (".csv", ".tsv"):
        delimiter = "," if suffix == ".csv" else "\t"
        write(path, lambda part: frame.to_csv(part, index=False, sep=delimiter))


def check_suffix(path: Path) -> None:
    """Refuse a name that says nothing about the form of a table."""
    if path.suffix.lower() not in (*PARQUET, ".csv", ".tsv"):
        raise WrongInput(f"{path} must have a name that ends in .csv, .tsv or .parquet.")
