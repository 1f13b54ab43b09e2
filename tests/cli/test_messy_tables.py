"""A table as it comes, from the command line: cells, and whose rows they are, by the schema."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.cli.models import load_model
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import AuditResult
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered
from sklearn_dpwg.preprocessing.schema_files import read_schema_file
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
        assert "People: one row of each, 300, chosen by coins." in done.stdout
    own = ["--same-records", "--target", "ill", "-o", "page.html", "--schema", "schema.toml"]
    done = run("audit", "messy.csv", "--model", "m.skops", *own)
    assert done.exit_code == 0, done.stderr  # of the model two rows of each, of the audit one
    assert 8.0 < float(re.search(r"epsilon = ([\d.]+)", done.stdout)[1]) < 9.2
    page = (messy / "page.html").read_text()
    assert "one row of each, 300, chosen by coins" in page
    assert "A person with up to 2 rows" in page


def test_one_row_a_person_is_said_of_a_person(messy):
    (messy / "schema.toml").write_text(SCHEMA.replace("rows = 2", "rows = 1"))
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    assert "Unit of privacy: a person, by the word" in run(*fit, "-o", "m.skops").stdout
    audit = ["audit", "messy.csv", "--schema", "schema.toml", "--predictions", "ill"]
    assert run(*audit, "--no-outcomes", "--json", "a.json").exit_code == 0
    assert AuditResult.from_json((messy / "a.json").read_text()).privacy_.of_person
    nobody = SCHEMA.replace('[person]\ncolumn = "patient"\nrows = 2', "")
    (messy / "schema.toml").write_text(nobody)
    sizes = ["--group-sizes", "f=300,m=300", "--solver", "mgr"]
    told = run(*fit, "-o", "n.skops").stdout + run("plan", "--schema", "schema.toml", *sizes).stdout
    assert "Unit of privacy: one row." in told
    assert "a person, by the word" not in told
    told = run(*fit, "-o", "p.skops", "--person", "patient").stdout
    assert "Unit of privacy: a person, by the word" in told


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


# --- a data dictionary ---------------------------------------------------------------------------

DICTIONARY = """Variable,Type,Min,Max,Values,Note
age,INTEGER,0,100,,in years
weight,decimal(5),0.5,,,
visited,date,2020-01-01,2024-12-31,,
town,varchar(20),,,Aachen | Bonn,
pain,ordinal,,,none;mild;severe,
smoker,bool,,,,
insured,boolean,,,yes|no,
sex,text,,,f|m,
ill,text,,,no|yes,
"""


def test_a_data_dictionary_fills_in_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.csv").write_text(DICTIONARY)
    write = ["schema", "book.csv", "-o", "s.toml", "--dictionary"]
    done = run(*write, "--groups", "sex", "--target", "ill")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "s.toml: 7 column(s) to describe; no value was read into it.\n"
    with pytest.raises(InputError, match=r"to be filled in: high of 'weight'\.$"):
        read_schema_file("s.toml")
    text = (tmp_path / "s.toml").read_text().replace('high = "FILL IN"', "high = 300")
    (tmp_path / "s.toml").write_text(text)
    said = read_schema_file("s.toml")
    assert said.columns == {
        "age": Number(0, 100, missing=True),
        "weight": Number(0.5, 300, missing=True),
        "visited": Date("2020-01-01", "2024-12-31", missing=True),
        "town": Category(("Aachen", "Bonn"), missing=True),
        "pain": Ordered(("none", "mild", "severe"), missing=True),
        "smoker": Boolean(missing=True),
        "insured": Category(("yes", "no"), missing=True),
    }
    assert (said.group_labels, said.classes) == (("f", "m"), ("no", "yes"))


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        ("a,b\n1,2\n", [], "a data dictionary must have a column name or column or"),
        ("name,b\n1,2\n", [], "a data dictionary must have a column type or kind"),
        ("name,type\na,int\na,int\n", [], "must name each column once, got 'a'"),
        ("name,type\na,int\n", ["--target", "b"], "book.csv has no row of 'b'"),
        ("name,type\na,int\n", ["--guess-kinds"], "guess_kinds must be left out with --dict"),
    ],
)
def test_what_is_no_dictionary_is_refused(text, more, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.csv").write_text(text)
    done = run("schema", "book.csv", "-o", "s.toml", "--dictionary", *more)
    assert done.exit_code == 2
    assert says in done.stderr
    assert not (tmp_path / "s.toml").exists()
