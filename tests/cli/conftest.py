"""A table of people, its schema, a fitted model, and a way to run a command in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from sklearn_dpwg.cli.main import main

SCHEMA = """
[columns]
age = { low = 0, high = 100 }
zip = { levels = ["A1067", "1e5"] }
pain = { kind = "ordered", levels = ["None", "Mild", "NA"] }
member = { true = "yes", false = "no", missing = true }
since = { first = "2000-01-01", last = "2020-12-31", unit = "year" }

[groups]
columns = "race"
labels = ["x", "y"]

[target]
column = "hired"
classes = ["rejected", "hired"]
"""


def make_table(n_records: int = 1200) -> pd.DataFrame:
    """Return records, some of whose words a reader that guesses takes for numbers or gaps."""
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, n_records).round(1)
    race = np.where(rng.random(n_records) < 0.7, "x", "y")
    days = pd.to_timedelta(rng.integers(0, 7000, n_records), unit="D")
    return pd.DataFrame(
        {
            "id": np.arange(n_records),
            "age": age,
            "zip": rng.choice(["A1067", "1e5"], n_records),
            "pain": rng.choice(["None", "Mild", "NA"], n_records),
            "member": rng.choice(["yes", "no", None], n_records),
            "since": pd.Timestamp("2000-01-01") + days,
            "race": race,
            "sex": rng.choice(["0", "1"], n_records),
            "hired": np.where(age + 10 * rng.normal(size=n_records) > 50, "hired", "rejected"),
            "decided": (rng.random(n_records) < np.where(race == "x", 0.7, 0.2)).astype(int),
            "score": np.where(race == "x", 0.9, 0.1),
            "wage": (100 * age).round(),
        }
    )


def run(*arguments: Any) -> Result:
    """Run a command; an error that is no answer fails the test."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments: Any) -> Result:
    """Run a command that has to exit with 0."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with people.csv, people.parquet, schema.toml and model.skops."""
    path = tmp_path_factory.mktemp("cli")
    table = make_table()
    table.to_csv(path / "people.csv", index=False)
    table.to_parquet(path / "people.parquet", index=False)
    (path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    names = (path / "people.csv", "--schema", path / "schema.toml", "-o", path / "model.skops")
    done("fit", *names, "--epsilon", 8)
    return path


def schema_of(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the schema with changes, and return its path."""
    text = SCHEMA
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "changed.toml"
    path.write_text(text, encoding="utf-8")
    return path
