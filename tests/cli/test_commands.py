"""The way from a table to a model, its predictions and its audit, and what each step writes."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from skops import io

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.inspection import AuditResult
from sklearn_dpwg.serving import trusted_types
from tests.cli.conftest import SCHEMA, done, make_table, run, schema_of

TARGET = 'column = "hired"\nclasses = ["rejected", "hired"]'
WAGE = 'column = "wage"\nlow = 0\nhigh = 10_000'


def load(path):
    return io.load(path, trusted=list(trusted_types()))


def stored(path):
    return AuditResult.from_json(path.read_text(encoding="utf-8"))


# --- plan -----------------------------------------------------------------------------------------


def test_a_plan_reads_no_record_and_is_that_of_the_fit(folder):
    sizes = ",".join(f"{label}={n}" for label, n in make_table()["race"].value_counts().items())
    schema = ("--schema", folder / "schema.toml")
    printed = done("plan", *schema, "--group-sizes", sizes, "--epsilon", 8).stdout
    plan = load(folder / "model.skops")[-1].plan_
    assert printed.splitlines()[0] == str(plan).splitlines()[0]


# --- fit ------------------------------------------------------------------------------------------


def test_a_number_is_learned_in_the_cells_of_two_columns(folder, tmp_path):
    cells = '["race", "sex"]\nlabels = [["x", 0], ["x", 1], ["y", 0], ["y", 1]]'
    schema = schema_of(tmp_path, ('"race"\nlabels = ["x", "y"]', cells), (TARGET, WAGE))
    done("plan", "--schema", schema, "--group-sizes", "x/0=420,x/1=420,y/0=180,y/1=180")
    model, table = tmp_path / "m.skops", tmp_path / "wages.csv"
    options = ("--neighbours", "replace-one-within-group", "--solver", "mgr", "--shapes", "linear")
    printed = done("fit", folder / "people.csv", "--schema", schema, "-o", model, *options).stdout
    assert "within its group" in printed
    fitted = load(model)
    assert isinstance(fitted[-1], DPWorstGroupRegressor)
    assert (fitted[0].shapes, fitted[-1].plan_.solver) == ("linear", "mgr")
    assert [*fitted[-1].group_labels_] == [("x", "0"), ("x", "1"), ("y", "0"), ("y", "1")]
    done("predict", model, folder / "people.csv", "-o", table)
    assert [*pd.read_csv(table).columns] == ["prediction"]


@pytest.mark.parametrize("k", [1, 3])
def test_so_many_rows_of_a_person_are_learned_from_and_one_is_audited(tmp_path, k):
    table = make_table(4000)
    table["patient"] = "p" + (table["id"] % 1000).astype(str)
    table["race"] = np.where(table["id"] % 1000 < 600, "x", "y")
    table.to_csv(tmp_path / "visits.csv", index=False)
    schema = tmp_path / "schema.toml"
    schema.write_text(f'{SCHEMA}\n[person]\ncolumn = "patient"\nrows = {k}\n', encoding="utf-8")
    names, model = (tmp_path / "visits.csv", "--schema", schema), tmp_path / "m.skops"
    done("fit", *names, "-o", model)
    assert load(model)[-1].group_sizes_.sum() == 1000 * k
    assert load(model)[-1].privacy_.of_person
    json_file = tmp_path / "audit.json"
    result = done("audit", *names, "--model", model, "--same-records", "--json", json_file)
    assert "the unit is a person" in result.stdout
    assert stored(json_file).n_records == 1000
    assert stored(json_file).privacy_.of_person


# --- predict --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_predictions_are_those_of_python(folder, tmp_path, end):
    model, X = load(folder / "model.skops"), make_table()
    output = tmp_path / f"p.{end}"
    names = (folder / "model.skops", folder / f"people.{end}", "-o", output, "--keep", "id")
    for options, threshold in (([], None), (["--threshold", 0.8], 0.8)):
        done("predict", *names, *options, "--overwrite")
        table = pd.read_csv(output) if end == "csv" else pd.read_parquet(output)
        assert [*table.columns] == [
            *("id", "prediction", "probability of rejected", "probability of hired")
        ]
        for name, column in zip(model.classes_, model.predict_proba(X).T, strict=True):
            np.testing.assert_allclose(table[f"probability of {name}"], column)
        hired = model.predict(X) == "hired"
        if threshold is not None:  # of the last class
            hired = table["probability of hired"] >= threshold
        assert ((table["prediction"] == "hired") == hired).all()
        assert (table["id"] == X["id"]).all()


# --- audit ----------------------------------------------------------------------------------------


def test_a_column_of_decisions_is_audited_alone(folder, tmp_path):
    schema = schema_of(tmp_path, (TARGET, "classes = [0, 1]"))
    names = (folder / "people.csv", "--schema", schema, "--predictions", "decided")
    files = ("--json", tmp_path / "audit.json", "-o", tmp_path / "audit.html")
    printed = done("audit", *names, *files, "--epsilon", 2).stdout
    assert "Privacy: epsilon = 2 at delta = 1e-06, replace any record" in printed
    assert "error rate" not in printed
    assert "Verdict" not in printed
    result = stored(tmp_path / "audit.json")
    assert (result.has_outcomes, result.classes) == (False, ("0", "1"))
    estimates = [rate.estimate for rate in result.rates("selection_rate")]
    assert estimates == pytest.approx([0.7, 0.2], abs=0.08)
    assert "<html" in (tmp_path / "audit.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code", "answer"),
    [
        ([], 0, None),
        (["--fail-below", 0.8], 4, "fails"),
        (["--fail-below", 0.8, "--reference", "x"], 4, "fails"),
        (["--fail-below", 0.8, "--metric", "true_positive_rate"], 4, "fails"),
        (["--fail-below", 0.8, "--threshold", 0.05], 0, "passes"),
        (["--fail-below", 0.8, "--epsilon", 0.001], 0, "cannot tell"),
    ],
)
def test_a_verdict_is_given_where_it_is_asked_for(folder, options, code, answer):
    names = (folder / "people.csv", "--schema", folder / "schema.toml", "--scores", "score")
    result = run("audit", *names, *options)
    assert result.exit_code == code, result.output
    assert ("Verdict" in result.stdout) == (answer is not None)
    assert answer is None or f"Verdict: {answer}." in result.stdout


@pytest.mark.parametrize("options", [[], ["--threshold", 0.8]])
def test_an_audit_of_a_model_counts_what_predict_writes(folder, tmp_path, options):
    table, json_file = tmp_path / "p.csv", tmp_path / "audit.json"
    names = (folder / "model.skops", folder / "people.csv", "-o", table, "--keep", "race")
    done("predict", *names, *options)
    chosen = pd.read_csv(table).set_index("race")["prediction"].eq("hired")
    names = (folder / "people.csv", "--schema", folder / "schema.toml", "--json", json_file)
    model = ("--model", folder / "model.skops", "--held-out")
    done("audit", *names, *model, "--epsilon", math.inf, *options)
    counts = np.array(json.loads(json_file.read_text(encoding="utf-8"))["counts"])
    assert counts[:, :, 1].sum(axis=1).tolist() == chosen.groupby("race").sum().tolist()


# --- ledger ---------------------------------------------------------------------------------------


def test_a_ledger_counts_fits_and_audits_and_refuses_with_three(folder, tmp_path):
    ledger = ("--ledger", tmp_path / "spent.db", "--ledger-epsilon", 3)
    names = (folder / "people.csv", "--schema", folder / "schema.toml")
    model = tmp_path / "m.skops"
    printed = done("fit", *names, "-o", model, "--epsilon", 2, *ledger).stdout
    assert printed.splitlines()[-1].endswith("has spent epsilon = 2 of 3 at delta = 1e-06")
    scored = ("--scores", "score", *ledger)
    state = done("audit", *names, *scored, "--epsilon", 0.5).stdout.splitlines()[-1]
    result = run("fit", *names, "-o", tmp_path / "again.skops", "--epsilon", 2, *ledger)
    assert (result.exit_code, "Nothing was spent" in result.stderr) == (3, True)
    assert not (tmp_path / "again.skops").exists()
    assert run("audit", *names, *scored, "--epsilon", 2).exit_code == 3
    assert run("audit", *names, *scored[:-1], 9).exit_code == 2  # another budget than the file's
    after = done("audit", *names, *scored, "--epsilon", 0.001).stdout.splitlines()[-1]
    assert float(after.split()[6]) - float(state.split()[6]) < 0.01


# --- what is published ----------------------------------------------------------------------------


def test_what_is_published_holds_no_word_of_a_record(tmp_path):
    secret, model = "s3cret", tmp_path / "m.skops"
    table = make_table().assign(name=secret, town="x")
    table.loc[7, "town"] = secret
    table.to_csv(tmp_path / "people.csv", index=False)
    schema = schema_of(tmp_path, ("[groups]", 'town = { levels = ["x", "y"] }\n\n[groups]'))
    names = (tmp_path / "people.csv", "--schema", schema)
    files = ("-o", tmp_path / "audit.html", "--json", tmp_path / "audit.json")
    printed = done("fit", *names, "-o", model).output
    printed += done("audit", *names, "--model", model, "--same-records", *files).output
    assert secret not in printed + repr(vars(load(model)[-1]))
    for name in ("m.skops", "audit.html", "audit.json"):
        assert secret.encode() not in (tmp_path / name).read_bytes()


# --- the module is the command --------------------------------------------------------------------


def test_without_click_a_sentence_says_what_to_install():
    without = "import runpy, sys; sys.modules['click'] = None; runpy.run_module('sklearn_dpwg')"
    result = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True)
    assert (result.returncode, "sklearn-dpwg[cli]" in result.stderr) == (1, True)
