"""A table as it comes, from the command line: cells, and whose rows they are, by the schema."""

from __future__ import annotations

import re
import tomllib

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sklearn_dpwg.cli.models import load_model
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import AuditResult
from sklearn_dpwg.preprocessing import Boolean, Category, Cells, Date, Number, Ordered, PublicSchema
from sklearn_dpwg.preprocessing.schema_draft import draft
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
    assert "Rows: 600, at most 2 of each person, chosen by coins." in done.stdout
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
    (messy / "other.toml").write_text(SCHEMA.replace('column = "patient"', 'column = "sex"'))
    own[own.index("schema.toml")] = "other.toml"
    own[own.index("page.html")] = "other.html"
    done = run("audit", "messy.csv", "--model", "m.skops", *own)
    assert done.exit_code == 2
    assert "stated for a person by 'patient', and 'sex' says whose row" in done.stderr


def test_people_are_read_by_the_rules_of_cells(messy):
    """Spellings of one person are one, and a mark of a missing value is nobody."""
    table = pd.read_csv("messy.csv")
    spellings = np.array(["p{}", " P{} ", "P{}"])[np.arange(N) // 300]
    table["patient"] = [
        one.format(who) for one, who in zip(spellings, table["patient"], strict=True)
    ]
    table.to_csv("spelled.csv", index=False)
    fit = ["fit", "spelled.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    done = run(*fit, "-o", "m.skops")
    assert done.exit_code == 0, done.stderr
    assert "Rows: 600, at most 2 of each person, chosen by coins." in done.stdout
    audit = ["audit", "spelled.csv", "--model", "m.skops", "--held-out", "--epsilon", 1]
    for whose in (["--schema", "schema.toml"], ["--groups", "sex", "--group-labels", "f,m"]):
        task = whose if "--schema" in whose else [*whose, "--target", "ill"]
        done = run(*audit, *task, "-o", f"{len(whose)}.json")
        assert "People: one row of each, 300" in done.stdout, done.stderr
    table.loc[:3, "patient"] = "?"
    table.to_csv("spelled.csv", index=False)
    for command in (fit, [*audit, "--schema", "schema.toml"]):
        done = run(*command, "-o", "n.skops" if command is fit else "n.json")
        assert "column 'patient' (person): 4 missing" in done.stderr


def test_one_row_a_person_is_said_of_a_person(messy):
    (messy / "schema.toml").write_text(SCHEMA.replace("rows = 2", "rows = 1"))
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    told = run(*fit, "-o", "m.skops").stdout
    assert "kept one row of each." in told
    assert "the word of" not in told  # nobody else chose the rows
    assert "Unit of privacy: a person, as column 'patient' tells people apart." in told
    # how many cells were unusable is about the records
    assert "How many is not said: that number is about the records" in told
    audit = ["audit", "messy.csv", "--schema", "schema.toml", "--predictions", "ill"]
    told = run(*audit, "--no-outcomes", "--json", "a.json").stdout
    assert "its group included; the unit is a person." in told
    assert AuditResult.from_json((messy / "a.json").read_text()).privacy_.of_person
    nobody = SCHEMA.replace('[person]\ncolumn = "patient"\nrows = 2', "")
    (messy / "schema.toml").write_text(nobody)
    sizes = ["--group-sizes", "f=300,m=300", "--solver", "mgr"]
    told = run(*fit, "-o", "n.skops").stdout + run("plan", "--schema", "schema.toml", *sizes).stdout
    assert "Unit of privacy: one row." in told
    assert "for_records" not in told
    assert "Unit of privacy: a person" not in told
    told = run(*fit, "-o", "p.skops", "--person", "patient").stdout
    assert "Unit of privacy: a person, as column 'patient' tells people apart." in told


def test_a_fit_says_which_words_are_no_level_at_a_terminal_alone(messy, caplog, monkeypatch):
    """Spellings of a level and rows are not lost silently; nothing that is kept has the count."""
    table = pd.read_csv("messy.csv", dtype=str)
    table.loc[:1, "town"], table.loc[2:4, "town"] = "other", None
    table.to_csv("messy.csv", index=False)
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    caplog.set_level("INFO", "sklearn_dpwg")
    at_a_terminal = "sklearn_dpwg.cli.cells.at_a_terminal"
    monkeypatch.setattr(at_a_terminal, lambda: True)
    understood = run(*fit, "-o", "m.skops")
    assert understood.exit_code == 0
    rows = "NOT PRIVATE, for those who may see the records: 600 of 900 rows are learned from.\n"
    assert understood.stderr == rows
    assert "900" not in understood.stdout
    (messy / "schema.toml").write_text(SCHEMA.replace("ignore_case = true", ""))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(at_a_terminal, lambda: False)
        assert run(*fit, "-o", "kept.skops").stderr == ""  # which may be a file
    spent = ["--ledger", "l.db", "--ledger-epsilon", 9, "--ledger-delta", 1e-6]
    done = run(*fit, "-o", "n.skops", *spent)
    assert done.exit_code == 0
    lost = table["town"].isin(["AIX", "bonn"]).sum()
    assert done.stderr.startswith("NOT PRIVATE, for those who may see the records: cells that are")
    assert done.stderr.endswith(rows)
    assert f"became 'other', {lost:,} of 'town'. Where these are words for a level" in done.stderr
    assert "became" not in done.stdout + caplog.text + (messy / "l.db").read_bytes().decode(
        "latin-1"
    )
    predict = ["predict", "n.skops", "messy.csv", "--overwrite", "-o", "p.csv"]
    said = "p.csv: predictions, 'yes' above a probability of 0.5.\n"
    counted = run(*predict)
    chosen = (pd.read_csv("p.csv")["prediction"] == "yes").sum()
    told = (
        f"900 prediction(s), 'yes' for {chosen} of them ({chosen / 900:.1%}), of these very rows."
    )
    assert counted.stderr == f"NOT PRIVATE, for those who may see the records: {told}\n"
    monkeypatch.setattr(at_a_terminal, lambda: False)
    kept = run(*predict)
    assert (counted.stdout, kept.stdout, kept.stderr) == (said, said, "")


@pytest.mark.parametrize(
    ("labels", "label", "marks"),
    [
        (["f", "m", "unbekannt"], "unbekannt", ["?", "Unbekannt"]),
        (["f", "m"], "unbekannt", ["unbekannt", "?"]),
        (["f", "m", "missing"], "missing", ["?", "unbekannt"]),
    ],
)
def test_a_mark_may_be_the_group_of_those_who_have_none(messy, labels, label, marks):
    """Both ways to it lead to the same group, and whatever is printed says that there is one."""
    table = pd.read_csv("messy.csv", dtype=str)
    table.loc[table["patient"].astype(int) % 3 == 0, "sex"] = "?"
    table.loc[table["patient"].astype(int) % 6 == 0, "sex"] = "unbekannt"
    table.to_csv("messy.csv", index=False)
    said = SCHEMA.replace('["?"]', str(marks)).replace('["f", "m"]', str(labels))
    (messy / "schema.toml").write_text(said)
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    refused = run(*fit, "-o", "m.skops")
    assert refused.exit_code == 2
    if labels[-1] == "unbekannt":  # without the word a group of nobody, or one of everybody's gaps
        assert "got 'unbekannt': of groups it may be the missing_label" in refused.stderr
    else:
        assert "'sex' (groups): 300 missing" in refused.stderr
    said = said.replace(str(labels), f'{labels}\nmissing_label = "{label}"')
    (messy / "schema.toml").write_text(said)
    done = run(*fit, "-o", "m.skops")
    assert done.exit_code == 0, done.stderr
    model = load_model(messy / "m.skops")
    sizes = dict(zip(model[-1].group_labels_, model[-1].group_sizes_, strict=True))
    assert sizes == {"f": 200, "m": 200, label: 200}
    told = f"\nMissing groups: whoever has none is counted as one of the group {label!r}."
    plan = ["plan", "--schema", "schema.toml", "--solver", "mgr"]
    planned = run(*plan, "--group-sizes", f"f=200,m=200,{label}=200")
    audit = ["audit", "messy.csv", "--schema", "schema.toml", "--model", "m.skops"]
    audited = run(*audit, "--held-out", "-o", "page.html")
    for printed in (done.stdout, planned.stdout, audited.stdout):
        assert printed.count(told) == 1, printed
    page = (messy / "page.html").read_text().replace("&#39;", "'")
    assert told.strip() in page
    schema = PublicSchema.from_toml(messy / "schema.toml")
    assert schema.read(table, "sex").value_counts().to_dict() == {"f": 300, "m": 300, label: 300}


def test_a_group_of_nobodys_gaps_is_refused_by_its_entry(messy):
    said = SCHEMA.replace('["f", "m"]', '["f", "m"]\nmissing_label = "none"')
    (messy / "schema.toml").write_text(said)
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "-o", "m.skops"]
    done = run(*fit)
    assert done.exit_code == 2
    assert "missing_label must be left out, and no label be 'none', where nobody is" in done.stderr
    done = run(*fit, "--neighbours", "replace-any")  # which does not tell whether anybody is
    assert done.exit_code == 0, done.stderr


def test_labels_that_differ_from_that_of_gaps_by_case_alone_are_refused(messy):
    said = SCHEMA.replace('["f", "m"]', '["f", "m", "None"]\nmissing_label = "none"')
    (messy / "schema.toml").write_text(said)
    plan = ["plan", "--schema", "schema.toml", "--group-sizes", "f=9,m=9"]
    assert "'sex' must differ by more than case for ignore_case" in run(*plan).stderr


@pytest.mark.parametrize("more", [[], ["--share", 0.3], ["--missing-label", "none"]])
def test_what_a_fit_printed_is_shown_of_its_model_again(messy, more):
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    if more[:1] == ["--missing-label"]:
        table = pd.read_csv("messy.csv", dtype=str)
        table.loc[::4, "sex"] = None
        table.to_csv("messy.csv", index=False)
    done = run(*fit, "-o", "m.skops", *more)
    assert done.exit_code == 0, done.stderr
    shown = run("show", "m.skops")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert f"{shown.stdout}Model: m.skops\n" == done.stdout
    assert "Rows: 600, at most 2 of each person" in shown.stdout
    assert ("group 'none'" in shown.stdout) == (more[:1] == ["--missing-label"])


def test_rows_that_are_said_to_the_command_count(messy):
    fit = ["fit", "messy.csv", "--schema", "schema.toml", "--epsilon", 8, "--solver", "mgr"]
    done = run(*fit, "-o", "m.skops", "--rows-per-person", 1)
    assert "Rows: 300, at most 1 of each person" in done.stdout
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


def test_a_column_of_which_no_cell_can_be_used_is_refused_before_anything_is_spent(messy):
    fit = ["fit", "messy.csv", "--epsilon", 8, "--solver", "mgr", "-o", "m.skops", "--schema"]
    assert run(*fit, "schema.toml").exit_code == 0
    table = pd.read_csv("messy.csv", dtype=str)
    table.loc[10:, "age"] += " y"
    table["town"] = "?"  # what is marked as missing is not lost
    table.to_csv("messy.csv", index=False)
    fit += ["schema.toml", "--overwrite", "--ledger", "l.db"]
    fit += ["--ledger-epsilon", 9, "--ledger-delta", 1e-6]
    audit = ["audit", "messy.csv", "--schema", "schema.toml", "--model", "m.skops", "--held-out"]
    for command in (fit, audit):
        done = run(*command)
        assert done.exit_code == 2
        assert done.stderr.startswith(
            "Error: messy.csv has cells that cannot be used:\n  column 'age' (features): "
            "10 not a number but text; 890 with something behind it\n    in the schema: missing = "
        )
        assert done.stderr.count("column '") == 1
        assert 'unusable = "' not in done.stderr  # which it says already
    assert not (messy / "l.db").exists()
    assert run("predict", "m.skops", "messy.csv", "-o", "p.csv").exit_code == 0
    table.loc[899, "age"] = "40"
    table.to_csv("messy.csv", index=False)
    for command in (fit, audit):
        assert run(*command).exit_code == 0


def test_a_ledger_is_shown_and_stays_as_it_is(messy):
    schema = ["--schema", "schema.toml"]
    fit = ["fit", "messy.csv", *schema, "--epsilon", 4, "--solver", "mgr", "-o", "m.skops"]
    book = ["--ledger", "l.db"]
    run(*fit, *book, "--ledger-epsilon", 6, "--ledger-delta", 1e-6)
    one = run("show", "l.db").stdout.splitlines()
    assert re.fullmatch(r"Ledger: l.db has spent epsilon = 4 of 6 at delta = 1e-06\.", one[0])
    assert len(one) == 2
    audit = ["audit", "messy.csv", *schema, "--model", "m.skops", "--same-records", *book]
    told = run(*audit).stdout.splitlines()[-1]
    before = (messy / "l.db").read_bytes()
    (messy / "l.db").chmod(0o444)
    done = run("show", "l.db")
    assert (done.exit_code, done.stderr) == (0, "")
    total, fitted, audited, together = done.stdout.splitlines()
    assert total == f"{told}."
    assert re.fullmatch(
        r"  20\d\d-\S+, fit \(DPWorstGroupClassifier\): epsilon = 4 at delta = 1e-06, "
        r"replace one record within its group; unit: person, 2 rows\.",
        fitted,
    )
    assert ", audit (GroupAudit): epsilon = 1 at delta = 1e-06, replace any record" in audited
    assert together.endswith("what each of them covers: replace one record within its group.")
    assert (messy / "l.db").read_bytes() == before
    assert not list(messy.glob("l.db?*"))
    (messy / "text.db").write_text("no ledger")
    (messy / "other.db").write_bytes(before[:100])
    for name in ("text.db", "other.db"):
        done = run("show", name)
        assert (done.exit_code, done.stdout) == (2, "")


# --- groups, targets and decisions by the same rules ---------------------------------------------

HOSPITAL = """
[columns.weight]
kind = "number"
low = 30
high = 200

[columns.admitted]
kind = "date"
first = 2019-01-01
last = 2024-12-31

[columns.sex]
kind = "category"
levels = ["F", "M"]
other = false

[groups]
columns = "race"
labels = ["white", "black"]

[target]
column = "ill"
classes = ["no", "yes"]
"""
RULES = (
    ("high = 200", 'high = 200\ndecimal = ","\nunit = "kg"\nmissing = true'),
    ("last = 2024-12-31", 'last = 2024-12-31\nformat = "%d.%m.%Y"'),
    ("other = false", 'other = false\nsynonyms = { female = "F" }'),
    ('"black"]', '"black"]\nmissing_label = "unknown"\nsynonyms = { W = "white", B = "black" }'),
    ('["no", "yes"]', '["no", "yes"]\nsynonyms = { N = "no", 1 = "yes" }'),
    ("[groups]", '[cells]\nmissing = ["?"]\nignore_case = true\n\n[groups]'),
)
TOLD = """Error: visits.csv has cells that cannot be used:
  column 'race' (groups): 675 not one of the declared labels 'white', 'black'
    in the schema: ignore_case = true under [cells]; synonyms = { "..." = "white" }; GAP
  column 'ill' (target): 600 not one of the declared classes 'no', 'yes'
    in the schema: synonyms = { "..." = "no" }; GAP; ignore_case = true under [cells]
  column 'weight' (features): 450 with a decimal comma and something behind it; 225 with a \
decimal comma; 225 not a number but text
    in the schema: decimal = ","; unit = "..."; GAP; LOSE
  column 'admitted' (features): 900 not a date of the form 'ISO8601'
    in the schema: format = "%d.%m.%Y"
  column 'sex' (features): 600 not one of the levels 'F', 'M'
    in the schema: ignore_case = true under [cells]; synonyms = { "..." = "F" }; GAP
--show-examples shows a few of the values, which are not private.
"""
GAP = 'missing = ["..."] under [cells] for a mark of a gap'
LOSE = 'unusable = "missing" under [cells] for what may be lost'


@pytest.fixture
def hospital(tmp_path, monkeypatch):
    """Write a table in which hardly a cell is as its schema has it, and what was meant."""
    monkeypatch.chdir(tmp_path)
    at = np.arange(N)

    def column(*words):
        return np.array(words, dtype=object)[(at // len(words) + at) % len(words)]

    messy = {
        "weight": column("72,5 kg", "80,0", "?", "101,25 kg"),
        "admitted": column("01.02.2020", "31.12.2023"),
        "sex": column("F", "f", "female"),
        "race": column("White", "W", "black", "?"),
        "ill": column("no", "N", "YES", "1", "yes", "No"),
    }
    clean = {
        "weight": column(72.5, 80.0, None, 101.25),
        "admitted": column("2020-02-01", "2023-12-31"),
        "sex": column("F", "F", "F"),
        "race": column("white", "white", "black", None),
        "ill": column("no", "no", "yes", "yes", "yes", "no"),
    }
    pd.DataFrame(messy).to_csv("visits.csv", index=False)
    pd.DataFrame(clean).to_csv("clean.csv", index=False)
    (tmp_path / "strict.toml").write_text(HOSPITAL)
    told = HOSPITAL
    for old, new in RULES:
        assert old in told
        told = told.replace(old, new)
    (tmp_path / "schema.toml").write_text(told)
    return tmp_path


def test_all_refusals_of_a_table_fit_in_a_screen_and_say_what_to_write(hospital):
    done = run("fit", "visits.csv", "--schema", "strict.toml", "-o", "m.skops")
    assert done.exit_code == 2
    assert done.stderr == TOLD.replace("GAP", GAP).replace("LOSE", LOSE)
    assert len(done.stderr.splitlines()) < 25


def test_groups_targets_and_decisions_are_read_by_the_rules_of_cells(hospital):
    clean = (hospital / "schema.toml").read_text().replace('format = "%d.%m.%Y"', "")
    clean = clean.replace('decimal = ","\nunit = "kg"', "")
    (hospital / "clean.toml").write_text(clean)
    fits, audits = [], []
    for table, schema in (("visits.csv", "schema.toml"), ("clean.csv", "clean.toml")):
        fit = ["fit", table, "--schema", schema, "--solver", "mgr", "--random-state", 0]
        done = run(*fit, "-o", f"{table}.skops", "--epsilon", 8)
        assert done.exit_code == 0, done.stderr
        fits.append(load_model(hospital / f"{table}.skops")[-1])
        audit = ["audit", table, "--schema", schema, "--predictions", "ill", "--no-outcomes"]
        done = run(*audit, "--random-state", 0, "--json", f"{table}.json")
        assert done.exit_code == 0, done.stderr
        audits.append(AuditResult.from_json((hospital / f"{table}.json").read_text()))
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert list(fits[0].group_labels_) == ["white", "black", "unknown"]
    assert audits[0].counts == audits[1].counts
    schema = PublicSchema.from_toml(hospital / "schema.toml")
    table, meant = pd.read_csv("visits.csv", dtype=str), pd.read_csv("clean.csv")
    # the label of missing ones is the file's, as for the command; without one they are missing
    assert schema.missing_label == "unknown"
    left_open = clone(schema).set_params(missing_label=None)
    for name in ("race", "ill"):
        expected = meant[name].fillna("unknown").tolist()
        assert (meant[name].isna().any(), "unknown" in expected) == (name == "race",) * 2
        assert schema.read(table, name).tolist() == expected
        assert left_open.read(table, name).isna().tolist() == meant[name].isna().tolist()
        assert left_open.read(table, name).fillna("unknown").tolist() == expected
    said = table.assign(race=table["race"].where(meant["race"].notna(), "unknown"))
    assert schema.read(said, "race").tolist() == meant["race"].fillna("unknown").tolist()
    assert schema.read(table, ["race", "ill"]).shape == (N, 2)
    with pytest.raises(InputError, match="'ill' must hold none but its levels"):
        schema.read(table.assign(ill="perhaps"), "ill")
    with pytest.raises(InputError, match=r"name must be one of unseen, \['race', 'ill'\], got 'x'"):
        schema.read(table, "x")
    with pytest.raises(InputError, match="'race', and has none"):
        schema.read(table.drop(columns="race"), "race")


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_a_graph_is_checked_before_the_budget_is_spent_and_written_after(hospital):
    onnxruntime = pytest.importorskip("onnxruntime")
    fit = ["fit", "visits.csv", "--schema", "schema.toml", "--solver", "mgr", "--epsilon", 8]
    book = ["--ledger", "l.db", "--ledger-epsilon", 8, "--ledger-delta", "1e-6"]
    done = run(*fit, *book, "-o", "m.skops", "--onnx", "m.onnx")
    assert done.exit_code == 0, done.stderr
    assert "Graph: m.onnx, for cells that [cells], synonyms" in done.stdout
    session = onnxruntime.InferenceSession((hospital / "m.onnx").read_bytes())
    clean = pd.read_csv("clean.csv")
    seconds = pd.to_datetime(clean["admitted"]).to_numpy("datetime64[s]").astype(float)
    given = {"weight": clean["weight"].to_numpy(), "admitted": seconds}
    given["sex"] = clean["sex"].to_numpy(dtype=object)
    labels, scores = session.run(None, {name: one[:, None] for name, one in given.items()})
    table, model = pd.read_csv("visits.csv", dtype=str), load_model(hospital / "m.skops")
    assert np.array_equal(labels, model.predict(table))
    assert scores == pytest.approx(model.predict_proba(table), abs=1e-12)
    text = (hospital / "schema.toml").read_text()
    (hospital / "schema.toml").write_text(text.replace('["F", "M"]', '["F", 1]'))
    for more, says in (
        ([], "levels of column 'sex' must be all strings"),
        (["--loss", "hinge"], ""),
    ):
        done = run(
            *fit, "--ledger", "new.db", *book[2:], "-o", "n.skops", "--onnx", "n.onnx", *more
        )
        assert done.exit_code == 2
        assert says in done.stderr
        (hospital / "schema.toml").write_text(text)  # and then of a loss without probabilities
    assert "DPWorstGroupClassifier has no graph in ONNX" in done.stderr
    assert not [name for name in ("new.db", "n.skops", "n.onnx") if (hospital / name).exists()]


def test_a_target_that_is_a_number_has_its_comma_and_unit_and_cells_their_own_synonyms(hospital):
    text = """
[columns.sex]
kind = "category"
levels = ["F"]

[groups]
columns = ["race", "sex"]
labels = [["white", "F"], ["black", "F"], ["none", "F"]]
missing_label = "none"

[groups.synonyms.race]
W = "white"

[groups.synonyms.sex]
female = "F"

[cells]
missing = ["?"]
ignore_case = true

[target]
column = "weight"
low = 30
high = 200
decimal = ","
unit = "kg"
"""
    table = pd.read_csv("visits.csv", dtype=str)
    table["weight"] = table["weight"].where(table["weight"] != "?", "-")
    table.to_csv("visits.csv", index=False)
    (hospital / "schema.toml").write_text(text)
    fit = ["fit", "visits.csv", "--schema", "schema.toml", "-o", "m.skops"]
    done = run(*fit)
    assert "'weight' (target): 225 not a number but text" in done.stderr
    table["weight"] = table["weight"].where(table["weight"] != "-", "60")
    table.to_csv("visits.csv", index=False)
    done = run(*fit)
    assert done.exit_code == 0, done.stderr
    assert len(load_model(hospital / "m.skops")[-1].group_labels_) == 3
    found = PublicSchema.from_toml(hospital / "schema.toml").read(table, "weight")
    assert sorted(set(found)) == [60.0, 72.5, 80.0, 101.25]
    for old, new, says in (
        ("[groups.synonyms.race]", "[groups.synonyms.gone]", r"synonyms of \[groups\] in"),
        ('W = "white"', 'W = "pink"', "synonyms of column 'race' must stand for its levels"),
    ):
        (hospital / "schema.toml").write_text(text.replace(old, new))
        assert re.search(says, run(*fit, "--overwrite").stderr)


def test_how_a_file_is_written_is_said_once_in_the_schema(hospital):
    table = pd.read_csv("visits.csv", dtype=str).replace("female", "weiblich ä")
    table.to_csv("visits.csv", sep=";", encoding="cp1252", index=False)
    write = ["schema", "visits.csv", "-o", "new.toml", "--groups", "race", "--target", "ill"]
    done = run(*write, "--delimiter", ";", "--encoding", "cp1252")
    assert done.exit_code == 0, done.stderr
    told = tomllib.loads((hospital / "new.toml").read_text())
    assert told["file"] == {"delimiter": ";", "encoding": "cp1252"}
    said = (hospital / "schema.toml").read_text().replace("female", '"weiblich ä"')
    fit = ["fit", "visits.csv", "--schema", "schema.toml", "--solver", "mgr", "--overwrite"]
    audit = ["audit", "visits.csv", "--schema", "schema.toml", "--predictions", "ill"]
    for file, code in (('[file]\ndelimiter = ";"\nencoding = "cp1252"\n', 0), ("", 2)):
        (hospital / "schema.toml").write_text(said + file)
        done = run(*fit, "-o", "m.skops")
        assert done.exit_code == code, done.stderr
        assert run(*audit, "--no-outcomes").exit_code == code
    assert "say --encoding, as cp1252, or" in done.stderr
    said_to_fit = ["--delimiter", ";", "--encoding", "cp1252", "--missing-value", "80,0"]
    assert run(*fit, "-o", "n.skops", *said_to_fit).exit_code == 0
    # a model reads tables as the fit read its own, by the schema or by options
    audit = ["audit", "visits.csv", "--groups", "race", "--no-outcomes", "--held-out"]
    audit += ["--missing-label", "unknown", "--group-labels", "white,black,unknown"]
    for name, kept in (("m", {}), ("n", {"missing_values": ("80,0",)})):
        model = load_model(hospital / f"{name}.skops")
        assert model[0].file == {"delimiter": ";", "encoding": "cp1252", **kept}
        done = run("predict", f"{name}.skops", "visits.csv", "-o", f"{name}.csv")
        assert done.exit_code == 0, done.stderr
        done = run(*audit, "--model", f"{name}.skops")
        assert done.exit_code == 0, done.stderr
    assert run("predict", "n.skops", "visits.csv", "-o", "o.csv", "--missing-value", "-").stdout
    kept, other = (pd.read_csv(f"{name}.csv")["probability of yes"] for name in "no")
    assert set(table["weight"][(kept - other).abs() > 1e-9]) == {"80,0"}
    other = run("predict", "n.skops", "visits.csv", "-o", "p.csv", "--delimiter", ",")
    assert "there seems to be ';': say --delimiter" in other.stderr
    (hospital / "schema.toml").write_text(said + "[file]\ndelimiter = 1\n")
    refused = run(*fit, "-o", "m.skops").stderr
    assert "[file] in schema.toml: file must hold a delimiter of one character" in refused


def test_a_draft_reads_the_records_says_so_loudly_and_is_taken_once_it_is_reviewed(hospital):
    draft = ["schema", "visits.csv", "-o", "d.toml", "--draft", "--target", "ill"]
    done = run(*draft, "--groups", "race")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith("NOT PUBLIC: ranges, levels and marks were read from the records")
    assert "no value was read" not in done.stdout + (hospital / "d.toml").read_text()
    fit = ["fit", "visits.csv", "--schema", "d.toml", "-o", "m.skops", "--solver", "mgr"]
    for refused in (run(*fit), run("plan", "--schema", "d.toml", "--group-sizes", "1,2")):
        assert refused.exit_code == 2
        assert "d.toml is a draft, whose ranges and levels were read" in refused.stderr
    text = (hospital / "d.toml").read_text().replace("draft = true\n", "")
    text = text.replace('"W", "White", "black"]', '"White", "black"]\nmissing_label = "none"\n'
                        'synonyms = { W = "White" }')  # fmt: skip
    text = text.replace(
        '["1", "N", "YES", "no"]', '["no", "yes"]\nsynonyms = { 1 = "yes", N = "no" }'
    )
    (hospital / "d.toml").write_text(text)
    said = read_schema_file("d.toml")
    assert said.columns == {
        "weight": Number(70, 110, missing=True, decimal=",", unit="kg"),
        "admitted": Category(("01.02.2020", "31.12.2023"), missing=True),  # two, as a code has
        "sex": Category(("F", "female"), missing=True),
    }
    assert (said.cells.missing, said.cells.ignore_case) == (("?",), True)
    done = run(*fit)
    assert done.exit_code == 0, done.stderr
    assert "draft must be left out" in run(*draft, "--dictionary", "--overwrite").stderr


def test_what_a_draft_makes_of_columns():
    days = [f"{day:02d}/12/20{year}" for day in range(1, 29) for year in (20, 22)]
    n = len(days)
    table = pd.DataFrame(
        {
            "day": days,
            "iso": [f"2021-03-{1 + i % 28}" if i % 28 > 8 else "2020-01-01" for i in range(n)],
            "age": [*(str(age) for age in range(18, 18 + n - 2)), "-9", "?"],
            "change": [*(str(one) for one in range(-20, n - 21)), "-9"],
            "price": [f"{i / 10:.1f} €" for i in range(n)],
            "code": [f"A{i}" for i in range(n)],
            "flag": ["1", "0"] * (n // 2),
            "typed": np.linspace(0, 1, n),
            "empty": [None] * n,
            "stamp": pd.to_datetime(["2020-02-01"] * n),
            "yes": [True, False] * (n // 2),
        }
    )
    found = draft(table)
    assert found.kinds == {
        **dict.fromkeys(("day", "iso", "stamp"), "date"),
        "yes": "boolean",
        **dict.fromkeys(("age", "change", "price", "typed"), "number"),
        **dict.fromkeys(("code", "flag", "empty"), "category"),
    }
    assert found.facts["day"] == {"first": "2020-01-01", "last": "2022-12-31", "format": "%d/%m/%Y"}
    assert found.facts["iso"] == {"first": "2020-01-01", "last": "2021-12-31"}
    assert (found.facts["age"]["low"], found.facts["age"]["high"]) == (10, 80)
    assert found.facts["change"]["low"] == -20
    assert found.facts["price"]["unit"] == "€"
    assert found.facts["code"] == {}  # too many words to be levels: a person says what it is
    assert found.facts["flag"] == {"levels": ["0", "1"]}
    assert found.facts["typed"] == {"low": 0, "high": 2}
    assert found.facts["empty"] == {}
    assert found.cells == {"missing": ["-9", "?"]}


def test_a_template_has_a_place_for_people_and_for_marks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("who,age,ill\n")
    assert run("schema", "a.csv", "-o", "a.toml").exit_code == 0
    text = (tmp_path / "a.toml").read_text().replace('levels = "FILL IN"', 'levels = ["x"]')
    (tmp_path / "a.toml").write_text(text)
    said = read_schema_file("a.toml")
    assert (said.cells, said.person, list(said.columns)) == (None, None, ["who", "age", "ill"])
    # what stands there is what may be said
    lines = text[text.index("# How all cells") :].splitlines()
    live = [line.removeprefix("# ") for line in lines if re.match(r"# (\[|\w+ = )", line)]
    (tmp_path / "b.toml").write_text(text[: text.index("# How all cells")] + "\n".join(live))
    said = read_schema_file("b.toml")
    assert (said.person, said.rows_per_person) == ("patient", 1)
    assert said.cells == Cells(("?", -9), ignore_case=True, unusable="missing")
    done = run("schema", "a.csv", "-o", "c.toml", "--person", "who", "--target", "ill")
    assert done.stdout == "c.toml: 1 column(s) to describe; no value was read into it.\n"
    assert '[person]\ncolumn = "who"\nrows = 1\n' in (tmp_path / "c.toml").read_text()
    assert "has no 'whom'" in run("schema", "a.csv", "-o", "d.toml", "--person", "whom").stderr


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
        ("Ages; in years\n\nWho came\n", [], "A data dictionary is a table, not text in sent"),
        ("Ages\nin years, or months\n", [], "a header with name and type, and low, high and"),
        ("a,b\n1,2\n", [], "a data dictionary must have a column name or column or"),
        ("name,b\n1,2\n", [], "a data dictionary must have a column type or kind"),
        ("name,type\na,int\na,int\n", [], "must name each column once, got 'a'"),
        ("name,type\na,int\n", ["--target", "b"], "book.csv has no row of 'b'"),
        ("name,type\na,int\n", ["--draft"], "draft must be left out with --dict"),
    ],
)
def test_what_is_no_dictionary_is_refused(text, more, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.csv").write_text(text)
    done = run("schema", "book.csv", "-o", "s.toml", "--dictionary", *more)
    assert done.exit_code == 2
    assert says in done.stderr
    assert not (tmp_path / "s.toml").exists()
