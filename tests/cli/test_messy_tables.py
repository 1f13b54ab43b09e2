"""A table as it comes, from the command line: cells, and whose rows they are, by the schema."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.cli.models import load_model
from tests.cli.conftest import run

SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 100
missing = true

[columns.town]
kind = "category"
levels = ["Aachen", "Bonn"]
missing = true
synonyms = { Aix = "Aachen" }

[cells]
missing = ["?"]
ignore_case = true
unusable = "missing"

[person]
column = "patient"
rows = 2

[groups]
columns = "sex"
labels = ["f", "m"]

[target]
column = "ill"
classes = ["no", "yes"]
"""
N = 900


@pytest.fixture
def messy(tmp_path, monkeypatch):
    """Write a table of 300 patients with three rows each, and its schema."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, N)
    table = pd.DataFrame({"age": age.astype(str), "town": rng.choice(["AIX", "bonn", "?"], N)})
    table.loc[:9, "age"] = "unknown"
    table["patient"] = np.arange(N) % 300
    table["sex"], table["ill"] = np.where(table["patient"] % 2, "f", "m"), "no"
    table.loc[age > 50, "ill"] = "yes"
    table.to_csv("messy.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def test_what_the_schema_says_holds_for_all_commands(messy):
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    done = run(*fit, "-o", "m.skops")
    assert done.exit_code == 0, done.stderr
    assert "Rows: 600 of 900 kept. No person has more than 2" in done.stdout
    model = load_model(messy / "m.skops")
    assert model[-1].privacy_.records_per_person == 2
    assert model[0].cells.missing == ("?",)
    done = run("predict", "m.skops", "messy.csv", "-o", "p.csv")
    assert done.exit_code == 0, done.stderr
    assert len(pd.read_csv("p.csv")) == N
    for whose in (["--schema", "schema.toml"], ["--groups", "sex", "--group-labels", "f,m"]):
        audit = ["audit", "messy.csv", "--model", "m.skops", "--held-out", "--target", "ill"]
        done = run(*audit, *whose)
        assert done.exit_code == 0, done.stderr
        assert "People: one row of each, 300 of 900, chosen by coins." in done.stdout


def test_rows_that_are_said_to_the_command_count(messy):
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    done = run(*fit, "-o", "m.skops", "--rows-per-person", 1)
    assert "Rows: 300 of 900 kept." in done.stdout
    sizes = ["--group-sizes", "f=300,m=300", "--solver", "mgr"]
    two = run("plan", "--schema", "schema.toml", *sizes)
    one = run("plan", "--schema", "schema.toml", *sizes, "--rows-per-person", 1)
    assert two.stdout != one.stdout


def test_a_table_without_the_person_is_refused_and_cells_without_a_rule_too(messy):
    table = pd.read_csv("messy.csv")
    table.drop(columns="patient").to_csv("nobody.csv", index=False)
    fit = ["--schema", "schema.toml", "-o", "m.skops"]
    audit = ["audit", "nobody.csv", "--schema", "schema.toml", "--predictions", "ill"]
    audit.append("--no-outcomes")
    for command in (["fit", "nobody.csv", *fit], audit):
        assert "has no 'patient'" in run(*command).stderr
    strict = SCHEMA.replace('unusable = "missing"', "")
    (messy / "schema.toml").write_text(strict)
    told = run("fit", "messy.csv", *fit).stderr
    assert "column 'age' (features): 10 not a number" in told
    assert "unknown" not in told
