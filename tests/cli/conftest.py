"""Small tables, a schema, and a way to run a command in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from sklearn_dpwg.cli.main import main

SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 100

[columns.town]
kind = "category"
levels = ["A", "B"]
missing = true

[columns.grade]
kind = "ordered"
levels = [1, 2, 3]

[columns.member]
kind = "boolean"

[columns.since]
kind = "date"
first = 2000-01-01
last = 2020-12-31
unit = "year"

[groups]
columns = "race"
labels = ["x", "y"]

[target]
column = "hired"
classes = ["no", "yes"]
"""
# A marker that stands in cells alone: no sentence and no file that is shared may hold it.
SECRET = "s3cret"


def make_table(n_records: int = 1200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, n_records).round(1)
    return pd.DataFrame(
        {
            "id": np.arange(n_records),
            "age": age,
            "town": rng.choice(["A", "B", None], n_records),
            "grade": rng.integers(1, 4, n_records),
            "member": rng.choice([True, False], n_records),
            "since": pd.Timestamp("2000-01-01")
            + pd.to_timedelta(rng.integers(0, 7000, n_records), unit="D"),
            "race": rng.choice(["x", "y"], n_records, p=[0.7, 0.3]),
            "sex": rng.choice(["F", "M"], n_records),
            "hired": np.where(age + 10 * rng.normal(size=n_records) > 50, "yes", "no"),
            "wage": (100 * age).round(),
        }
    )


def run(*arguments: Any) -> Result:
    """Run a command; an error that is no answer fails the test."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with people.csv, people.parquet, schema.toml and model.skops."""
    path = tmp_path_factory.mktemp("cli")
    table = make_table()
    table.to_csv(path / "people.csv", index=False)
    table.to_parquet(path / "people.parquet", index=False)
    (path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    result = run(
        "fit", path / "people.csv", "--schema", path / "schema.toml", "-o", path / "model.skops"
    )
    assert result.exit_code == 0, result.stderr
    (path / "fit.txt").write_text(result.stdout, encoding="utf-8")
    return path
