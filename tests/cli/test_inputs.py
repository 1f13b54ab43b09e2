"""What the command reads as it was declared, and what it refuses, by whose words, at what cost."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skops import io

from sklearn_dpwg.cli.files import read_facts, read_table
from sklearn_dpwg.ledger import PrivacyLedger
from tests.cli.conftest import SCHEMA, done, make_table, run, schema_of

TARGET = 'column = "hired"\nclasses = ["rejected", "hired"]'


# --- types are declared ---------------------------------------------------------------------------


def read(path: Path, schema: Path) -> pd.DataFrame:
    facts = read_facts(schema)
    return read_table(path, facts.schema.columns, facts.schema.columns, facts.read_csv)


def test_no_type_is_guessed_from_a_cell(folder):
    table, expected = read(folder / "people.csv", folder / "schema.toml"), make_table()
    assert [*table.columns] == ["age", "zip", "pain", "member", "since"]
    for name in ("age", "zip", "pain"):  # in which "1e5" is no number, "None" and "NA" no gaps
        assert (table[name] == expected[name]).all()
    assert (table["member"].isna() == expected["member"].isna()).all()
    assert (table["since"].dt.tz_localize(None) == expected["since"]).all()


def test_a_text_file_is_read_as_its_schema_says(folder, tmp_path):
    table = make_table().rename(columns={"zip": "Straße"})
    numbers = 1000 + table["age"]
    table["age"] = [f"1.{number % 1000:05.1f}".replace(".", " ", 1) for number in numbers]
    table["age"] = table["age"].str.replace(".", ",").str.replace(" ", ".")  # as 1.045,3
    table.loc[:2, "age"] = ["?", "-9", ""]
    path, model = tmp_path / "people.txt", tmp_path / "m.skops"
    table.to_csv(path, index=False, sep=";", encoding="latin-1")
    written = '[read_csv]\nsep = ";"\ndecimal = ","\nthousands = "."\nencoding = "latin-1"\n'
    schema = schema_of(
        tmp_path,
        ("age = { low = 0, high = 100 }", "age = { low = 1000, high = 1100, missing = true }"),
        ("zip", '"Straße"'),
        ("[groups]", f'{written}na_values = ["?", -9]\n\n[groups]'),
    )
    cells = read(path, schema)["age"]
    assert cells[:3].isna().all()
    np.testing.assert_allclose(cells[3:], numbers[3:])
    done("fit", path, "--schema", schema, "-o", model)
    names = ("predict", model, path, "-o", tmp_path / "p.csv")
    assert run(*names).exit_code == 2
    done(*names, "--schema", schema)
    assert len(pd.read_csv(tmp_path / "p.csv")) == len(table)


# --- what is refused, before anything is spent ----------------------------------------------------


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("age", "2b", "'2b'"),
        ("since", "31.12.2001", "31.12.2001"),
        ("age", "", "'age'"),
        ("pain", "severe", "'pain'"),
        ("race", "z", "group"),
        ("race", "", "'race'"),
        ("hired", "maybe", "y "),
        ("hired", "", "'hired'"),
    ],
)
def test_a_wrong_cell_is_refused_and_nothing_is_spent(tmp_path, column, cell, words):
    table = make_table(60).astype(object)
    table.loc[7, column] = cell
    table.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    ledger = PrivacyLedger(1.0, 1e-6, path=tmp_path / "spent.db")
    names = (tmp_path / "people.csv", "--schema", tmp_path / "schema.toml")
    options = ("--ledger", ledger.path, "--ledger-epsilon", 1)
    result = run("fit", *names, "-o", tmp_path / "m.skops", *options)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert not (tmp_path / "m.skops").exists()
    with ledger:
        assert ledger.epsilon_spent == 0.0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('labels = ["x", "y"]', "", "labels"),
        ('columns = "race"\nlabels = ["x", "y"]', "", "groups"),
        ('classes = ["rejected", "hired"]', "", "target"),
        ("high = 100", "high = -1", "age"),
        ("age =", "age ==", "line 3"),
        ('"race"', '"rase"', "rase"),
    ],
)
def test_a_wrong_schema_is_refused(folder, tmp_path, old, new, words):
    names = ("--schema", schema_of(tmp_path, (old, new)), "-o", tmp_path / "m.skops")
    result = run("fit", folder / "people.csv", *names)
    assert (result.exit_code, words in result.stderr) == (2, True), result.output
    assert not (tmp_path / "m.skops").exists()


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("epsilon", "fit TABLE SCHEMA -o NEW --epsilon -1"),
        ("--ledger-epsilon", "fit TABLE SCHEMA -o NEW --ledger NEW.db"),
        ("--schema", "fit TABLE -o NEW"),
        ("absent", "fit absent.csv SCHEMA -o NEW"),
        ("'z'", "plan SCHEMA --group-sizes x=1,z=2"),
        (".parquet", "predict MODEL TABLE -o NEW.xls"),
        ("--scores", "audit TABLE SCHEMA"),
        ("--held-out", "audit TABLE SCHEMA --model MODEL"),
        ("--threshold", "audit TABLE SCHEMA --predictions hired --threshold 0.3"),
        ("'q'", "audit TABLE SCHEMA --scores score --reference q"),
        ("decisions", "audit TABLE SCHEMA --predictions decided"),
    ],
)
def test_a_wrong_option_is_refused(folder, tmp_path, words, command):
    paths = {
        "TABLE": str(folder / "people.csv"),
        "SCHEMA": f"--schema {folder / 'schema.toml'}",
        "MODEL": str(folder / "model.skops"),
        "NEW": str(tmp_path / "new"),
    }
    for name, path in paths.items():
        command = command.replace(name, path)
    result = run(*command.split())
    assert (result.exit_code, words in result.stderr) == (2, True), result.output
    assert not [*tmp_path.iterdir()]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"age\n", b"age,race\n1,2\n3,4,5\n", b"\xff\xfe\x00a"])
def test_a_broken_table_is_refused(folder, tmp_path, content):
    for end in ("csv", "parquet"):
        path = tmp_path / f"broken.{end}"
        path.write_bytes(content)
        names = (path, "--schema", folder / "schema.toml", "-o", tmp_path / "m.skops")
        result = run("fit", *names)
        assert (result.exit_code, "Traceback" in result.stderr) == (2, False), result.output


@pytest.mark.parametrize("kind", ["pickle", "pipeline", "other types"])
def test_what_is_no_model_of_this_command_is_not_loaded(folder, tmp_path, kind):
    path = tmp_path / "m.skops"
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit([[0.0], [1.0]], [0, 1])
    if kind == "pickle":
        path.write_bytes(pickle.dumps(model))
    else:
        io.dump(model if kind == "pipeline" else make_pipeline(zipfile.Path), path)
    result = run("predict", path, folder / "people.csv", "-o", tmp_path / "p.csv")
    assert (result.exit_code, "m.skops" in result.stderr) == (2, True), result.output
    assert not (tmp_path / "p.csv").exists()


def test_files_are_written_over_where_that_is_asked_for(folder, tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("mine", encoding="utf-8")
    mode = path.stat().st_mode
    names = ("predict", folder / "model.skops", folder / "people.csv", "-o", path)
    result = run(*names)
    assert (result.exit_code, "--overwrite" in result.stderr) == (2, True)
    assert path.read_text(encoding="utf-8") == "mine"
    done(*names, "--overwrite")
    assert len(pd.read_csv(path)) == 1200
    assert [*tmp_path.iterdir()] == [path]  # nothing is left beside it
    assert path.stat().st_mode == mode
