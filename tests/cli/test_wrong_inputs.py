"""Wrong inputs: one sentence on stderr, exit code 2, no noise, no file, no value of a record."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from sklearn_dpwg.privacy import NoiseSource
from tests.cli.conftest import SCHEMA, SECRET, run


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_, **__):
        raise AssertionError("noise was drawn, so a budget is spent")

    names = ("gaussian", "shared_gaussian", "gaussian_rows", "laplace", "poisson_sample")
    for name in (*names, "integers"):
        monkeypatch.setattr(NoiseSource, name, refuse)


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of copies, which a case may spoil."""
    for name in ("people.csv", "people.parquet", "schema.toml", "model.skops"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


FIT = "fit people.csv --schema schema.toml -o m.skops"
SPOOLED = "fit people.parquet --schema schema.toml -o m.skops"
PREDICT = "predict model.skops people.csv -o out.csv"
PLAN = "plan --schema schema.toml --group-sizes x=3000,y=3000"


def answer_to(command: str, says: str, code: int = 2) -> str:
    """Return what a wrong command is answered with: a sentence, or a line for each column."""
    before = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    result = run(*command.split())
    assert result.exit_code == code, (result.stdout, result.stderr)
    first, *lines = result.stderr.splitlines()
    assert first.startswith("Error: ")
    assert bool(lines) == first.endswith(":"), result.stderr
    begin = ("  column ", "    in the schema: ", "  of --", "--")
    assert all(line.startswith(begin) for line in lines), result.stderr
    assert re.search(says, result.stderr), result.stderr
    assert SECRET not in result.output
    assert result.stdout == ""
    after = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert after == before
    return result.stderr


# --- options -----------------------------------------------------------------------------------

OPTIONS = [
    ("fits people.csv", "No such command 'fits'"),
    (f"{FIT} --epsilo 1", "No such option.*--epsilo.*--epsilon"),
    (f"{FIT} --epsilon much", "'much' is not a valid float"),
    (f"{FIT} --epsilon 0", "epsilon must be positive.*got 0"),
    (f"{FIT} --epsilon -1", "epsilon must be positive.*got -1"),
    (f"{FIT} --epsilon nan", "epsilon must be a number, got NaN"),
    (f"{FIT} --delta 1", "delta must be strictly between 0 and 1, got 1"),
    (f"{FIT} --solver newton", "solver must be one of .*got 'newton'"),
    (f"{FIT} --loss zero_one", "loss of a classifier must be one of .*got 'zero_one'"),
    (f"{FIT} --radius -2", "^Error: --radius must be a positive finite number, got -2"),
    (f"{FIT} --prior mine", "prior must be proportional, uniform, or a number.*got 'mine'"),
    (f"{FIT} --prior 2", "prior must be 'proportional'.*got 2"),
    (f"{FIT} --share 1", "share must be strictly between 0 and 1, got 1"),
    (f"{FIT} --share 0.1 --miss-cost 2", "--miss-cost must be left out with --share"),
    (f"{FIT} --miss-cost much", "--miss-cost must be balanced or a number, got 'much'"),
    (f"{FIT} --miss-cost -1", "--miss-cost must be positive and finite, got -1"),
    (
        f"{FIT} --target wage --target-bounds 0 9 --share 0.1",
        "share is for a target of two classes",
    ),
    (f"{FIT} --share 0.1 --onnx m.onnx", "DPThresholdClassifier has no graph in ONNX"),
    (f"{SPOOLED} --spool . --share 0.1", "leave --share and --miss-cost out, and say a public"),
    (f"{PLAN} --n-features 3 --audit --share 0.1", "share is for a plan of a fit"),
    (f"{FIT} --neighbours any", "neighbours must be one of 'replace-in-group', 'replace-any', got"),
    *(
        (f"{command} --neighbours replace-any {more}", says)
        for command in (FIT, PLAN)
        for more, says in (
            (
                "--share 0.1",
                "--share must be left out with --neighbours replace-any.* `predict --thr",
            ),
            ("--miss-cost 2", "--miss-cost must be left out with --neighbours replace-any"),
            ("--solver oco", "solver 'oco' needs public groups: --neighbours replace-any is for"),
            (
                "--overlap both --groups race --groups sex --group-labels race/x,race/y,sex/F,sex/M"
                + " --group-sizes x/F=9,x/M=9,y/F=9,y/M=9" * (command == PLAN),
                "--overlap must be 'cells' with --neighbours replace-any, as nothing is proved",
            ),
        )
    ),
    (f"{SPOOLED} --spool . --neighbours replace-any", "neighbours must be 'replace-in-group' with"),
    (f"{PLAN} --audit --neighbours replace-any", "neighbours is for a plan of a fit"),
    (f"{FIT} --rows-per-person 0", "--rows-per-person must be a positive whole number, got 0"),
    (f"{FIT} --person id --rows-per-person 0", "--rows-per-person must be a positive whole number"),
    (f"{FIT} --person age", "person must be a column of its own, got 'age'"),
    (f"{FIT} --person nobody", "columns of --person, and has no 'nobody'"),
    (f"{SPOOLED} --spool . --person id", "person must be left out with --spool"),
    (f"{FIT} --classes no,yes --target-bounds 0 1", "classes and --target-bounds must not both"),
    (f"{FIT} --classes no", "not one of the declared classes 'no'"),
    (f"{FIT} --classes no,no", "classes must name each one once, got 'no', 'no'"),
    (f"{FIT} --target wage --target-bounds 5 1", "--target-bounds must be two finite numbers"),
    (f"{FIT} --group-labels x,,y", "--group-labels must be a list such as A,B,C, got 'x,,y'"),
    (f"{FIT} --group-labels x,x,y", "--group-labels must name each one once"),
    (f"{FIT} --group-labels x,y,z", "--group-labels contains 'z', a group without records"),
    (f"{FIT} --group-labels x", r"\(groups\): 366 not one of the declared labels 'x'"),
    (f"{FIT} --groups race --groups sex", "group_labels must have a part for each of the columns"),
    (f"{FIT} --groups race --groups race", "groups must name each column once"),
    (f"{FIT} --ledger-epsilon 1", "ledger must be named, as --ledger FILE"),
    (f"{FIT} --ledger new.db", "new.db is not there yet: say --ledger-epsilon and --ledger-delta"),
    (f"{FIT} --ledger people.csv", "the ledger's file .*people.csv' cannot be used"),
    (f"{PLAN} --n-features 3", "by --schema, or else by --n-features"),
    ("plan --group-sizes 5,5", "by --schema, or else by --n-features"),
    (
        "plan --n-features 0 --group-sizes 5,5",
        "--n-features must be a positive whole number, got 0",
    ),
    ("plan --n-features 3 --group-sizes a=x", "--group-sizes must be whole numbers.*got 'a=x'"),
    ("plan --n-features 3 --group-sizes a=5,6", "--group-sizes must name each group once, or none"),
    (
        "plan --n-features 3 --group-sizes a=0,b=6",
        "entry of --group-sizes must be a positive whole",
    ),
    (
        "plan --schema schema.toml --group-sizes x=5",
        "--group-sizes must be those of .* got those of",
    ),
]

NO_FLAG = SCHEMA.replace('labels = ["x", "y"]', 'labels = ["x", "x"]')


@pytest.mark.usefixtures("here", "no_noise")
def test_a_parameter_is_named_by_its_flag_where_that_was_said():
    """What the schema says is named as there, and a label is what it is."""
    Path("schema.toml").write_text(NO_FLAG)
    answer_to(FIT, "^Error: group_labels must name each one once, got 'x', 'x'")
    answer_to(f"{FIT} --group-labels=y,y", "^Error: --group-labels must .* got 'y', 'y'")
    label = "group_labels"
    told = answer_to(f"{FIT} --group-labels {label},{label}", "^Error: --group-labels must")
    assert f"got '{label}', '{label}'" in told
    of_file = answer_to(f"fit {label}.csv --schema schema.toml -o m.skops --group-labels x,y", "")
    assert of_file == f"Error: {label}.csv must be a file that is there.\n"


# --- columns and files -------------------------------------------------------------------------

FILES = [
    (f"{FIT} --target hird", "columns of --target, and has no 'hird': did you mean 'hired'"),
    (f"{FIT} --groups Race", "columns of --groups, and has no 'Race': did you mean 'race'"),
    (f"{FIT} --groups zzzz", "columns of --groups, and has no 'zzzz'.$"),
    (f"{FIT} --target age", "target must be a column of its own, .*'age' is one of .columns. of"),
    (f"{FIT} --target race", "target must be a column of its own, and 'race' is one of groups too"),
    (f"{PREDICT} --keep idd", "columns of --keep, and has no 'idd': did you mean 'id'"),
    (f"{PREDICT} --threshold 1.5", "threshold must be strictly between 0 and 1, got 1.5"),
    (f"{PREDICT} --keep prediction", "columns of --keep, and has no 'prediction'"),
    ("fit people.csv -o m.skops", "schema must be named, as --schema FILE"),
    ("fit gone.csv --schema schema.toml -o m.skops", "gone.csv must be a file that is there"),
    ("fit people.csv --schema gone.toml -o m.skops", "gone.toml must be a schema file that is"),
    ("fit people.csv --schema people.csv -o m.skops", "people.csv must be a TOML file"),
    ("fit schema.toml --schema schema.toml -o m.skops", "schema.toml must have a name that ends"),
    ("fit people.csv --schema schema.toml -o model.skops", "model.skops is there already: .*over"),
    ("fit people.csv --schema schema.toml -o gone/m.skops", "gone/m.skops must be in a folder"),
    ("fit people.csv --schema schema.toml -o .", "must be a file, and it is a folder"),
    ("fit people.csv --schema schema.toml -o people.csv --overwrite", "people.csv .* it is read"),
    ("predict people.csv people.csv -o out.csv", "people.csv must be a model that `fit` or skops"),
    ("predict model.skops people.csv -o out.xlsx", "out.xlsx must have a name that ends in .csv"),
    ("schema people.csv -o s.toml --groups rac", "columns of --groups, and has no 'rac': did you"),
    (f"{FIT} --spool .", "spool must be left out with people.csv, a file of text, which is read"),
    (f"{SPOOLED} --spool gone", "spool must be a folder that is there, got 'gone'"),
    (f"{SPOOLED} --spool people.csv", "spool must be a folder that is there, got 'people.csv'"),
    (f"{SPOOLED} --spool=", "spool must be a folder that is there, got ''"),
    (
        "fit . --schema schema.toml -o m.skops --spool .",
        "Error: . must be one file, got a folder",
    ),
    ("fit . --schema schema.toml -o m.skops", "several files are .* by sources.ParquetSource"),
    (f"{SPOOLED} --spool . --classes no", "not one of the declared classes 'no'"),
    (
        f"{SPOOLED} --spool . --group-labels x",
        r"race' \(groups\): 366 not one of the declared labels 'x'",
    ),
    (f"{SPOOLED} --spool . --solver oco", "solver must be one that reads all records at once"),
    (f"{FIT} --delimiter ;;", "delimiter must be one character, got ';;'"),
    (f"{FIT} --delimiter ;", "people.csv must have cells with ';' between them.*--delimiter ','"),
]


@pytest.mark.usefixtures("here", "no_noise")
@pytest.mark.parametrize(("command", "says"), [*OPTIONS, *FILES])
def test_a_wrong_command_is_answered_in_one_sentence(command, says):
    answer_to(command, says)


# --- what stands in the files ------------------------------------------------------------------


def changed(**cells: object) -> pd.DataFrame:
    """Return the table with other values in its first row."""
    table = pd.read_csv("people.csv", dtype=str)
    for name, value in cells.items():
        table.loc[0, name] = value
    return table


@pytest.mark.usefixtures("here", "no_noise")
@pytest.mark.parametrize(
    ("cells", "options", "says"),
    [
        ({"age": SECRET}, "", r"column 'age' \(features\): 1 not a number"),
        ({"age": None}, "", r"'age' \(features\): 1 missing\n    in the schema: missing = true"),
        ({"grade": SECRET}, "", "'grade' .*: 1 not one of the levels 1, 2, 3"),
        ({"member": SECRET}, "", "'member' .*: 1 not one of the levels True, False"),
        ({"since": SECRET}, "", "'since' .*: 1 not a date of the form 'ISO8601'"),
        ({"race": SECRET}, "", r"'race' \(groups\): 1 not one of the declared labels 'x', 'y'"),
        ({"race": None}, "", r"column 'race' \(groups\): 1 missing\n    in the .* missing_label"),
        ({"race": "NA"}, "--missing-value NA", r"'race' \(groups\): 1 missing"),
        (
            {"hired": SECRET},
            "",
            r"'hired' \(target\): 1 not one of the declared classes 'no', 'yes",
        ),
        ({"hired": None}, "", r"column 'hired' \(target\): 1 missing\n    in the schema: leave"),
        ({"wage": SECRET}, "--target wage --target-bounds 0 1", r"'wage' \(target\): 1 not a num"),
        ({"wage": None}, "--target wage --target-bounds 0 1", r"'wage' \(target\): 1 missing"),
        ({"wage": "inf"}, "--target wage --target-bounds 0 1", r"'wage' \(target\): 1 not finite"),
    ],
)
def test_a_wrong_cell_is_told_by_its_column(cells, options, says):
    table = changed(**cells)
    table.to_csv("people.csv", index=False)
    answer_to(f"{FIT} {options}", says)
    if "--missing-value" not in options:  # of files of text alone
        table.to_parquet("people.parquet", index=False, row_group_size=300)
        of_labels = "features" not in says and ".*:" not in says
        # rows are refused by the part that holds them, in the schema's words
        answer_to(f"{SPOOLED} --spool . {options}", says if of_labels else f"'{next(iter(cells))}'")
        if of_labels:  # there is no ledger yet
            ledger = "--ledger new.db --ledger-epsilon 2 --ledger-delta 1e-6"
            answer_to(f"{SPOOLED} --spool . {options} {ledger}", says)


@pytest.mark.usefixtures("here", "no_noise")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "people.csv must begin with the names of its columns, got none"),
        (b"age,age\n1,2\n", "people.csv must have a name of its own for each column, got 'age'"),
        (b"age;town\n1;2\n", "there seems to be ';': say --delimiter ';'"),
        (b"age,town,grade,member,since,race,hired\n", "people.csv must have rows, got a header"),
        (b"age,town,grade,member,since,race,hired\n1,s3cret\n", "more or fewer cells than the hea"),
        (b"age,town,grade,member,since,race,hired\n1,\xff,1,1,1,x,no\n", "some text is not UTF-8"),
        (b"\xff\xfe,town\n", "some text is not UTF-8"),
        (b"age,town,grade,member,since,race\n1,2,3,4,5,x\n", "--target, and has no 'hired'"),
        (b"ages,town,grade,member,since,race,hired\n1,2,3,4,5,x,no\n", "'age': did you mean 'ages"),
    ],
)
def test_a_broken_csv_file(content, says):
    Path("people.csv").write_bytes(content)
    answer_to(FIT, says)


@pytest.mark.usefixtures("here", "no_noise")
def test_broken_and_nested_parquet_files():
    Path("people.parquet").write_bytes(b"PAR1s3cret")
    fit = FIT.replace("csv", "parquet")
    answer_to(fit, "people.parquet must be a Parquet file, and it cannot be read")
    table = pd.read_csv("people.csv").assign(race=[["s3cret"]] * 1200)
    table.to_parquet("people.parquet")
    answer_to(fit, r"column 'race' \(groups\): 1,200 of type list")
    answer_to(f"{fit} --target id --target-bounds 0 1 --groups town --group-labels A,B",
              r"column 'town' \(groups\): 411 missing")  # fmt: skip


@pytest.mark.usefixtures("here", "no_noise")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("low = 0", 'low = "FILL IN"', "entries that are to be filled in: low of 'age'"),
        ("low = 0", "low = 200", "column 'age' must have finite bounds with low < high"),
        ("[columns.age]", "[columns.age", "schema.toml must be a TOML file"),
        ('kind = "number"', 'kind = "numbre"', "column 'age' in schema.toml .* its kind, one"),
        ("low = 0", "lo = 0", "column 'age' in schema.toml must have entries of low, high"),
        ("[groups]", "[group]", r"schema.toml must hold tables \[columns.NAME\], may hold"),
        ('labels = ["x", "y"]', "", "group_labels must be declared, as labels that are found in"),
        ('columns = "race"', "", "groups must be named: say --groups COLUMN"),
        ('column = "hired"', "", "target must be named: say --target COLUMN"),
        ('classes = ["no", "yes"]', "low = 1", "must have classes, or else both low and high"),
        ("[columns.since]", "[columns.sinse]", "has no 'sinse': did you mean 'since'"),
        ("first = 2000-01-01", "first = 2030-01-01", "column 'since' must have dates with first"),
    ],
)
def test_a_wrong_schema_file(old, new, says):
    assert old in SCHEMA
    Path("schema.toml").write_text(SCHEMA.replace(old, new), encoding="utf-8")
    answer_to(FIT, says)


@pytest.mark.usefixtures("here")
def test_a_table_without_what_the_model_needs():
    changed(age=SECRET).to_csv("people.csv", index=False)
    answer_to(PREDICT, r"column 'age' \(features\): 1 not a number")
    changed().drop(columns="age").to_csv("people.csv", index=False)
    answer_to(PREDICT, "the columns of model.skops, and has no 'age'")


@pytest.mark.usefixtures("here", "no_noise")
@pytest.mark.parametrize(
    ("module", "does"),
    [
        ("elsewhere.inside", "raise ValueError('s3cret')"),
        # a parser without a frame of its own, called by this package
        ("sklearn_dpwg.inside", "float('s3cret')"),
    ],
)
def test_what_another_library_says_is_not_shown(monkeypatch, module, does):
    from sklearn.pipeline import Pipeline

    other: dict[str, object] = {"__name__": module}
    exec(f"def fit(*args, **kwargs):\n    {does}", other)
    monkeypatch.setattr(Pipeline, "fit", other["fit"])
    answer_to(FIT, f"unexpected ValueError came from {module}, whose message is not", 1)
    with pytest.raises(ValueError, match="s3cret"):
        run("--debug", *FIT.split())


def dirty() -> None:
    """Write a table with something wrong in three columns."""
    table = changed(hired=SECRET)
    table.loc[1:3, "race"] = None
    table.loc[4:5, "race"] = ["Z", SECRET]
    table.loc[6:8, "age"] = "old"
    table.to_csv("people.csv", index=False)


@pytest.mark.usefixtures("here", "no_noise")
@pytest.mark.parametrize(
    ("command", "of_age"),
    [
        (FIT, "'age' (features): 3 not a number"),
        (
            "audit people.csv --schema schema.toml --scores age",
            "'age' (scores): 3 not a number but",
        ),
        (
            "audit people.csv --schema schema.toml --model model.skops --held-out",
            "'age' (features): 3 not a number",
        ),
    ],
)
def test_all_that_is_wrong_is_told_at_once_and_values_on_request_alone(command, of_age):
    dirty()
    ledger = "--ledger new.db --ledger-epsilon 2 --ledger-delta 1e-6"
    said = answer_to(f"{command} {ledger}", "people.csv has cells that cannot be used:")
    assert "  column 'race' (groups): 3 missing; 2 not one of the declared labels 'x', 'y'" in said
    assert "  column 'hired' (target): 1 not one of the declared classes 'no', 'yes'" in said
    assert f"  column {of_age}" in said
    assert "'Z'" not in said
    assert "'old'" not in said
    result = run(*f"{command} {ledger} --show-examples".split())
    assert result.exit_code == 2
    before, _, after = result.stderr.partition("NOT PRIVATE, values of records")
    assert SECRET not in before
    assert f"  column 'race' (groups): 'Z', '{SECRET}'\n" in after
    assert f"  column 'hired' (target): '{SECRET}'" in after
    assert "'age'" in after
    assert not Path("new.db").exists()


@pytest.mark.usefixtures("here", "no_noise")
def test_parts_of_a_file_are_told_together():
    dirty()
    pd.read_csv("people.csv", dtype=str).to_parquet("people.parquet", row_group_size=2)
    said = answer_to(f"{SPOOLED} --spool .", "people.parquet has cells that cannot be used:")
    assert "'race' (groups): 3 missing; 2 not one of the declared labels 'x', 'y'" in said
    assert "'hired' (target): 1 not one of the declared classes" in said


@pytest.mark.usefixtures("here", "no_noise")
def test_columns_that_are_not_there_are_told_together():
    said = answer_to(f"{FIT} --target hird --groups rac --group-labels x,y", "that it has not:")
    assert "  of --target it has no 'hird': did you mean 'hired'?" in said
    assert "  of --groups it has no 'rac': did you mean 'race'?" in said
