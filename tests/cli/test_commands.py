"""What each command writes and prints when all is well."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.cli.models import load_model, of_command
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.preprocessing import Number, PublicSchema
from tests.cli.conftest import SCHEMA, run

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_help_names_the_commands_in_their_order_and_is_quick():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sklearn_dpwg", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    names = ["schema", "plan", "fit", "show", "predict", "audit", "verdict", "change"]
    assert all(f"`{name}`" in done.stdout for name in names)
    places = [done.stdout.find(f"\n  {name} ") for name in names]
    assert -1 not in places
    assert places == sorted(places)
    # seconds depend on the machine; what takes them is libraries
    heavy = {"sklearn", "pandas", "numba", "scipy", "pyarrow", "skops", "dp_accounting", "opendp"}
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not heavy & loaded


@pytest.mark.parametrize("name", ["schema", "plan", "fit", "predict", "audit", "change"])
def test_help_of_each_command_says_what_options_are_for(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "Usage: " in result.stdout
    assert "--" in result.stdout


# --- schema ------------------------------------------------------------------------------------


def test_a_schema_of_a_csv_file_depends_on_its_header_alone(folder, tmp_path):
    header = (folder / "people.csv").read_text().splitlines()[0]
    (tmp_path / "empty.csv").write_text(header)
    texts = []
    for table in (folder / "people.csv", tmp_path / "empty.csv"):
        output = tmp_path / f"{table.stem}.toml"
        result = run("schema", table, "-o", output, "--groups", "race", "--target", "hired")
        assert result.exit_code == 0
        assert "8 column(s)" in result.stdout
        texts.append(output.read_text())
    assert texts[0] == texts[1]
    found = tomllib.loads(texts[0])
    assert all(each == {"levels": "FILL IN"} for each in found["columns"].values())
    assert found["groups"] == {"columns": ["race"], "labels": "FILL IN"}
    assert found["target"] == {"column": "hired", "classes": "FILL IN"}


def test_a_schema_of_a_parquet_file_has_the_declared_kinds(folder, tmp_path):
    output = tmp_path / "new.toml"
    run("schema", folder / "people.parquet", "-o", output, "--target", "wage", "--groups", "race",
        "--groups", "sex", "--group-labels", "x/F,x/M,y/F,y/M")  # fmt: skip
    found = tomllib.loads(output.read_text())
    assert {name: " ".join(each) for name, each in found["columns"].items()} == {
        "id": "low high", "age": "low high", "town": "levels", "grade": "low high",
        "member": "kind", "since": "first last", "hired": "levels",
    }  # fmt: skip
    assert found["columns"]["member"] == {"kind": "boolean"}
    assert found["groups"]["labels"] == [["x", "F"], ["x", "M"], ["y", "F"], ["y", "M"]]
    assert found["target"] == {"column": "wage", "low": "FILL IN", "high": "FILL IN"}


# --- plan --------------------------------------------------------------------------------------


def test_a_plan_needs_no_records_and_is_that_of_the_fit(folder, tmp_path):
    sizes = pd.read_csv(folder / "people.csv")["race"].value_counts()
    named = f"x={sizes['x']},y={sizes['y']}"
    result = run("plan", "--schema", folder / "schema.toml", "--group-sizes", named)
    assert result.exit_code == 0
    planned = str(load_model(folder / "model.skops")[-1].plan_)
    assert result.stdout.strip() == of_command(planned).strip()
    in_order = run(
        *("plan", "--schema", folder / "schema.toml"),
        *("--group-sizes", f"{sizes['x']},{sizes['y']}"),
    )
    assert in_order.stdout == result.stdout
    line = run(
        *("plan", "--schema", folder / "schema.toml", "--group-sizes", named),
        *("--shapes", "linear"),
    )
    schema = PublicSchema.from_toml(folder / "schema.toml", shapes="linear")
    n_weights = len(schema.get_feature_names_out()) + 1
    assert f"{n_weights} weight" in line.stdout
    assert line.stdout != result.stdout
    pairs = 'interactions = [["age", "town"]]\n' + (folder / "schema.toml").read_text()
    (tmp_path / "pairs.toml").write_text(pairs)
    paired = run(
        *("plan", "--schema", tmp_path / "pairs.toml", "--group-sizes", named),
        *("--shapes", "linear"),
    )
    assert f"{n_weights + 4 * 4} weight" in paired.stdout


def test_a_plan_without_schema(folder):
    result = run(
        *("plan", "--n-features", 8, "--group-sizes", "a=3_000,b=4000", "--epsilon", 2),
        *("--target-bounds", 0, 10, "--solver", "moments", "--prior", "uniform"),
    )
    assert result.exit_code == 0
    assert "Plan of solver 'moments': 7,000 records in 2 group(s)" in result.stdout
    assert "epsilon = 2 " in result.stdout


# --- fit ---------------------------------------------------------------------------------------


def test_a_fit_prints_the_statement_and_saves_a_pipeline(folder):
    model = load_model(folder / "model.skops")
    printed = (folder / "fit.txt").read_text(encoding="utf-8")
    assert of_command(str(model[-1].privacy_)) in printed
    assert "Groups: column 'race'." in printed
    assert model[-1].group_labels_.tolist() == ["x", "y"]
    assert model[-1].classes_.tolist() == ["no", "yes"]
    assert model[0].feature_names_in_.tolist() == ["age", "town", "grade", "member", "since"]
    assert model[0].columns["age"] == Number(0, 100)
    assert model[-1].random_state is None


def test_csv_and_parquet_give_the_same_rows(folder, tmp_path):
    for name in ("people.csv", "people.parquet"):
        output = tmp_path / f"{name}.csv"
        result = run("predict", folder / "model.skops", folder / name, "-o", output, "--keep", "id")
        assert result.exit_code == 0, result.stderr
    one, two = (pd.read_csv(tmp_path / f"people.{end}.csv") for end in ("csv", "parquet"))
    pd.testing.assert_frame_equal(one, two)
    assert list(one) == ["id", "prediction", "probability of no", "probability of yes"]
    # the schema says what 1, True and 2001-02-03 are, so Python sees the same rows
    table = pd.read_parquet(folder / "people.parquet")
    model = load_model(folder / "model.skops")
    assert (model.predict(table) == one["prediction"]).all()
    assert (table["hired"] == one["prediction"]).mean() > 0.6


def test_a_threshold_chooses(folder, tmp_path):
    shares = []
    for threshold in (None, 0.3, 0.9):
        output = tmp_path / f"{threshold}.csv"
        told = [] if threshold is None else ["--threshold", threshold]
        result = run("predict", folder / "model.skops", folder / "people.csv", "-o", output, *told)
        found = pd.read_csv(output)
        is_yes = found["prediction"] == "yes"
        assert (is_yes == (found["probability of yes"] >= (threshold or 0.5))).all()
        shares.append(is_yes.mean())
        by = "above a probability of 0.5"
        if threshold is not None:
            by = f"from a probability of {threshold:g} on"
        assert (result.stdout, result.stderr) == (f"{output}: predictions, 'yes' {by}.\n", "")
    assert shares[1] > shares[0] > shares[2]
    printed = (folder / "fit.txt").read_text(encoding="utf-8")
    assert "`predict` says 'yes' above a probability of 0.5." in printed


def test_a_regressor_of_two_columns_of_groups_with_a_seed_and_a_ledger(folder, tmp_path):
    (tmp_path / "wages.toml").write_text(SCHEMA.partition("[groups]")[0])
    arguments = [
        *("fit", folder / "people.parquet", "--schema", tmp_path / "wages.toml"),
        *("--target", "wage", "--target-bounds", 0, 10_000, "--groups", "race", "--groups", "sex"),
        *("--group-labels", "x/F,x/M,y/F,y/M", "--ledger", tmp_path / "l.db"),
        *("--random-state", 0, "--rows-per-person", 2, "--solver", "moments"),
    ]
    result = run(*arguments, "-o", tmp_path / "a.skops", *("--ledger-epsilon", 1.2),
                 *("--ledger-delta", 1e-6))  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "The noise is drawn from a seed" in result.stderr
    assert "has spent epsilon = 1 of 1.2" in result.stdout
    model = load_model(tmp_path / "a.skops")
    assert model[-1].group_labels_.tolist() == [("x", "F"), ("x", "M"), ("y", "F"), ("y", "M")]
    assert model[-1].privacy_.records_per_person == 2
    assert model[-1].privacy_.seeded
    with zipfile.ZipFile(tmp_path / "a.skops") as archive:
        assert str(tmp_path) not in archive.read("schema.json").decode()
    # the ledger has no room for another
    refused = run(*arguments, "-o", tmp_path / "b.skops")
    assert refused.exit_code == 3
    assert refused.stderr.splitlines()[-1].startswith("Error: this fit (epsilon=1 at delta=1e-06)")
    assert "Nothing was spent" in refused.stderr
    assert not (tmp_path / "b.skops").exists()
    assert len(PrivacyLedger(1.2, 1e-6, path=tmp_path / "l.db").rows) == 1
    # and predictions are numbers
    run("predict", tmp_path / "a.skops", folder / "people.csv", "-o", tmp_path / "p.parquet")
    assert pd.read_parquet(tmp_path / "p.parquet")["prediction"].dtype == np.float64


def test_groups_may_be_the_values_of_each_column(folder, tmp_path):
    (tmp_path / "hired.toml").write_text(SCHEMA.partition("[groups]")[0])
    task = [
        *("--schema", tmp_path / "hired.toml", "--groups", "race", "--groups", "sex"),
        *("--group-labels", "sex/M,sex/F,race/y,race/x", "--overlap", "attributes"),
    ]
    of_fit = ["--target", "hired", "--classes", "no,yes"]
    table = folder / "people.csv"
    result = run("fit", table, *task, *of_fit, "-o", tmp_path / "a.skops")
    assert result.exit_code == 0, result.stderr
    model = load_model(tmp_path / "a.skops")[-1]
    assert model.group_labels_.tolist() == [
        ("race", "y"),
        ("race", "x"),
        ("sex", "M"),
        ("sex", "F"),
    ]
    cells = pd.read_csv(table)[["race", "sex"]].value_counts()
    named = ",".join(f"{race}/{sex}={size}" for (race, sex), size in cells.items())
    planned = run("plan", *task, "--group-sizes", named)
    assert planned.stdout.strip() == of_command(str(model.plan_)).strip()
    refused = run("plan", *task, "--group-sizes", named, "--overlap", "membership")
    assert "overlap must be cells, attributes or both, got 'membership'." in refused.stderr
    # a schema declares cells, of which the values are the groups
    labels = [["x", "F"], ["x", "M"], ["y", "F"], ["y", "M"]]
    said = SCHEMA.replace('["x", "y"]', json.dumps(labels)).replace('"race"', '["race", "sex"]')
    (tmp_path / "cells.toml").write_text(said)
    of_schema = ("--schema", tmp_path / "cells.toml", "--overlap", "attributes")
    in_order = ",".join(str(size) for size in cells.sort_index())
    by_place = run("plan", *of_schema, "--group-sizes", in_order)
    assert by_place.stdout.splitlines()[0] == planned.stdout.splitlines()[0]
    pd.read_csv(table).assign(sex="M").to_csv(tmp_path / "men.csv", index=False)
    lacking = run("fit", tmp_path / "men.csv", *task, *of_fit, "-o", tmp_path / "b.skops")
    assert "--group-labels contains ('sex', 'F'), a group without records" in lacking.stderr


@pytest.mark.parametrize(
    ("labels", "sizes", "message"),
    [
        ("race/x,race/y,sex/F", "x/F=9,y/F=9,x/M=9", "got 'x/M'."),
        ("race/x,race/y,sex/F,sex/M", "9,9,9,9", "--group-sizes that name cells, as A/x=100"),
        (
            "race/x,race/y,sex/F",
            "race/x=9,race/y=9,sex/F=9",
            "--group-sizes must be those of cells",
        ),
        (None, "race/x=9,race/y=9,sex/F=9", "--group-sizes must be those of cells where groups"),
        (
            None,
            "x=9,y=9,F=9,M=9",
            "--group-sizes must be those of cells where groups overlap, with",
        ),
        (
            "x/F,x/M,y/F,y/M",
            "x/F=9",
            "--group-labels must be values of the columns where groups ov",
        ),
        ("race/x,race/y,race/x", "x/F=9", "--group-labels must be values of the columns where gro"),
        (
            "race/x,race/y",
            "x/F=9",
            "--group-labels must have values of 'sex' too, as sex/A, got none",
        ),
    ],
)
def test_sizes_and_labels_of_overlapping_groups_have_one_form(labels, sizes, message):
    words = ["--groups", "race", "--groups", "sex", "--overlap", "both", "--group-sizes", sizes]
    stated = [] if labels is None else ["--group-labels", labels]
    refused = run("plan", *words, *stated, "--n-features", 3)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_groups_that_nobody_may_learn_are_planned_fitted_and_counted_with_noise(folder, tmp_path):
    asked = ["--schema", folder / "schema.toml", "--epsilon", 2, "--neighbours", "replace-any"]
    asked += ["--solver", "mgr", "--rows-per-person", 1]
    planned = run("plan", *asked, "--group-sizes", "x=800,y=400")
    spent = ["--ledger", tmp_path / "l.db", "--ledger-epsilon", 3, "--ledger-delta", 1e-6]
    fitted = run("fit", folder / "people.csv", *asked, *spent, "-o", tmp_path / "m.skops",
                 "--person", "id", "--random-state", 0)  # fmt: skip
    for done in (planned, fitted):
        assert done.exit_code == 0, done.stderr
        assert "neighbours: replace any record, its group included." in done.stdout
        assert "Unit of privacy: a person" in done.stdout
    sizes = pd.read_csv(folder / "people.csv")["race"].value_counts()
    model = load_model(tmp_path / "m.skops")
    assert dict(zip(model[-1].group_labels_, model[-1].group_sizes_, strict=True)) != dict(sizes)
    assert model[-1].privacy_.relation.short_name == "replace-any"
    for size in sizes:
        assert not re.search(rf"\b{size}\b", fitted.stdout + fitted.stderr)


@pytest.mark.parametrize("k", [None, 2])
def test_of_each_person_only_so_many_rows_are_learned_from(folder, tmp_path, k):
    table = pd.read_csv(folder / "people.csv").assign(who=lambda rows: rows["id"] // 3)
    table.loc[:5, "who"] = [7, 7, 7, 7, 8, 8]
    expected = int(table["who"].value_counts().clip(upper=k or 1).sum())
    table["who"] = table["who"].astype(str) + np.where(table.index < 6, ".0", "")  # the same person
    table.to_csv(tmp_path / "rows.csv", index=False)
    fit = ["fit", tmp_path / "rows.csv", "--schema", folder / "schema.toml", "--person", "who"]
    most = [] if k is None else ["--rows-per-person", k]
    result = run(*fit, *most, "-o", tmp_path / "m.skops")
    assert result.exit_code == 0, result.stderr
    assert f"Rows: {expected:,}, at most {k or 1} of each person, chosen" in result.stdout
    model = load_model(tmp_path / "m.skops")
    assert sum(model[-1].group_sizes_) == expected
    assert model[-1].privacy_.records_per_person == (k or 1)
    table["who"] = table["who"].where(table.index > 3)
    table.to_csv(tmp_path / "rows.csv", index=False)
    refused = run(*fit, *most, "-o", tmp_path / "n.skops")
    assert refused.exit_code == 2
    assert "column 'who' (person): 4 missing" in refused.stderr


def test_a_model_that_cannot_be_written_any_more_was_paid_for(folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sklearn_dpwg.cli.models.write", full)
    book = tmp_path / "l.db"
    result = run("fit", folder / "people.csv", "--schema", folder / "schema.toml", "-o",
                 tmp_path / "m.skops", "--ledger", book, "--ledger-epsilon", 3, "--ledger-delta",
                 1e-6)  # fmt: skip
    assert result.exit_code == 1
    assert "is spent, and what it released could not be written: No space left" in result.stderr
    assert [row.state for row in PrivacyLedger(3.0, 1e-6, path=book).rows] == ["spent"]


def test_overwriting_has_to_be_asked_for(folder, tmp_path):
    output = tmp_path / "out.csv"
    output.write_text("mine")
    arguments = ("predict", folder / "model.skops", folder / "people.csv", "-o", output)
    assert run(*arguments).exit_code == 2
    assert output.read_text() == "mine"
    assert run(*arguments, "--overwrite").exit_code == 0
    assert len(pd.read_csv(output)) == 1200
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def arrays_of(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if name.endswith(".npy")]


def test_a_saved_model_holds_no_value_of_a_record(folder, tmp_path):
    table = pd.read_csv(folder / "people.csv", dtype=str)
    table.loc[0, "town"] = table.loc[0, "id"] = "s3cret"
    table.to_csv(tmp_path / "people.csv", index=False)
    result = run("fit", tmp_path / "people.csv", "--schema", folder / "schema.toml", "--solver",
                 "phased-erm", "-o", tmp_path / "m.skops")  # fmt: skip
    assert result.exit_code == 0
    with zipfile.ZipFile(tmp_path / "m.skops") as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
        sizes = [np.load(archive.open(name)).size for name in arrays_of(archive)]
        described = json.loads(archive.read("schema.json"))
    assert b"s3cret" not in content
    assert b"wage" not in content  # nor names of columns that the model does not use
    assert max(sizes) < 200  # there are 1200 records
    assert described["__class__"] == "Pipeline"


def test_the_console_script_is_the_module(tmp_path):
    scripts = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, function = scripts["dpwg"].partition(":")
    # what an installer writes
    (tmp_path / "dpwg").write_text(f"import {module}, sys; sys.exit({module}.{function}())")
    said = [
        subprocess.run(
            [sys.executable, *start, "audit", "gone.csv"],
            capture_output=True, text=True, timeout=60, check=False,
        )
        for start in ((str(tmp_path / "dpwg"),), ("-m", "sklearn_dpwg"))
    ]  # fmt: skip
    assert said[0].stderr == said[1].stderr
    assert said[0].stderr.startswith("Error: audit needs decisions")
    assert [each.returncode for each in said] == [2, 2]


def test_a_reader_who_has_gone_ends_no_command(folder, tmp_path):
    reads, writes = os.pipe()
    os.close(reads)  # as of `| head`
    written = tmp_path / "s.toml"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sklearn_dpwg", "schema", folder / "people.csv", "-o", written],
            stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")
    assert written.is_file()


def test_without_click_one_sentence_says_what_to_install():
    code = "import runpy, sys; sys.modules['click'] = None; runpy.run_module('sklearn_dpwg')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Error: the command line needs click: pip install 'sklearn-dpwg[cli]'.\n"
    )
