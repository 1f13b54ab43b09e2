"""Tables as people keep them: sheets, encodings, labels as numbers, gaps, words in any order."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sklearn_dpwg._checks import as_text
from sklearn_dpwg.cli.cells import Faults, WrongTable, words
from sklearn_dpwg.inspection import AuditResult
from tests.cli.conftest import run

AUDIT = "audit {} --groups race --group-labels {} --target hired --classes no,yes --epsilon inf"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table() -> pd.DataFrame:
    """Return 40 records: of é a half and of b a quarter is selected."""
    race = np.repeat(["é", "b"], 20)
    picked = [*(i < 10 for i in range(20)), *(i < 5 for i in range(20))]
    decided = np.where(picked, "yes", "no")
    return pd.DataFrame({"race": race, "hired": np.resize(["no", "yes"], 40), "decided": decided})


def audited(file: str, *options: object, labels: str = "é,b") -> AuditResult:
    arguments = AUDIT.format(file, labels).split()
    result = run(*arguments, *options, "--json", "a.json", "--overwrite")
    assert result.exit_code == 0, result.stderr
    with open("a.json", encoding="utf-8") as text:
        return AuditResult.from_json(text.read())


DECIDED = ("--predictions", "decided")


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
def test_text_in_any_encoding_is_read_as_it_was_written(name):
    table().rename(columns={"decided": "entschieden für"}).to_csv("a.csv", encoding=name)
    found = audited("a.csv", "--encoding", name, "--predictions", "entschieden für")
    assert found.counts == (((5, 5), (5, 5)), ((7, 3), (8, 2)))


def test_a_wrong_encoding_is_told():
    table().to_csv("a.csv", encoding="latin-1")
    arguments = (*AUDIT.format("a.csv", "é,b").split(), *DECIDED)
    assert "some text is not UTF-8: say --encoding" in run(*arguments).stderr
    unknown = run(*arguments, "--encoding", "klingon").stderr
    assert unknown.startswith("Error: --encoding must be one that Python knows")


def test_a_sheet_is_read_by_its_cells():
    pytest.importorskip("openpyxl")
    typed = table().assign(race=np.repeat([1.0, 2.0], 20), on=pd.Timestamp("2020-02-01"))
    typed["hired"], typed["decided"] = typed["hired"] == "yes", typed["decided"] == "yes"
    typed.loc[40] = typed.loc[39]
    typed.loc[40, "race"] = None
    with pd.ExcelWriter("a.xlsx") as book:
        typed.to_excel(book, sheet_name="May", index=False, startrow=2)  # a title would be above
    options = (*DECIDED, "--classes", "false,true", "--missing-label", "-")
    found = audited("a.xlsx", *options, labels="1,2")
    assert found.group_labels == ("1", "2", "-")
    assert found.counts == (((5, 5), (5, 5)), ((7, 3), (8, 2)), ((0, 0), (1, 0)))
    with pd.ExcelWriter("b.xlsx") as book:
        for sheet in ("May", "June"):
            typed.to_excel(book, sheet_name=sheet, index=False)
    assert audited("b.xlsx", "--sheet", "June", *options, labels="1,2") == found
    refused = run(*AUDIT.format("b.xlsx", "1,2").split(), *DECIDED)
    assert "sheet must be one of those of b.xlsx, 'May', 'June', as --sheet NAME" in refused.stderr
    (Path("c.xlsx")).write_bytes(b"s3cret")
    refused = run(*AUDIT.format("c.xlsx", "1,2").split(), *DECIDED)
    assert refused.stderr == "Error: c.xlsx must be an Excel file, and it cannot be read.\n"


def test_without_openpyxl_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    Path("a.xlsx").write_bytes(b"")
    refused = run(*AUDIT.format("a.xlsx", "1,2").split(), *DECIDED)
    assert refused.exit_code == 2
    assert refused.stderr == (
        "Error: the command line needs openpyxl: pip install 'sklearn-dpwg[cli]'.\n"
    )


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        ("1.0", "1"), (" 1.00 ", "1"), ("-3.0", "-3"), ("-0.0", "0"), ("10.0", "10"),
        (1.0, "1"), (-0.0, "0"), (2.5, "2.5"), (True, "true"), (7, "7"),
        # codes and versions stay what they are
        ("01", "01"), ("01.0", "01.0"), ("1.", "1."), ("1.50", "1.50"), ("1.0.0", "1.0.0"),
        ("1.0 m", "1.0 m"), ("\u0661.0", "\u0661.0"),
    ],
)  # fmt: skip
def test_a_whole_number_is_one_label_however_it_is_written(cell, label):
    assert as_text(cell) == label
    assert as_text(label) == label


def test_one_and_one_point_nought_are_one_word_in_every_column_and_option():
    numbered = pd.DataFrame(
        {
            "race": np.repeat(["1", "1.0", "2", "2.0"], 10),
            "hired": np.resize(["0", "1.0"], 40),
            "decided": np.resize(["0.0", "0.0", "1", "1.0"], 40),
        }
    )
    numbered.to_csv("a.csv", index=False)
    numbered.astype(float).to_parquet("a.parquet")
    found = [
        audited(file, *DECIDED, "--classes", classes, labels=labels)
        for file in ("a.csv", "a.parquet")
        for classes, labels in (("0,1", "1,2"), ("0.0,1.0", "1.0,2"))
    ]
    assert found[0].counts == (((5, 5), (5, 5)), ((5, 5), (5, 5)))
    assert all(one == found[0] for one in found)
    twice = run(*AUDIT.format("a.csv", "1,1.0,2").split(), *DECIDED)
    assert "--group-labels must name each one once" in twice.stderr


def test_cells_of_any_type_are_words():
    def read(cells):
        faults = Faults("a")
        found, _ = words(pa.chunked_array([cells]), "'a'", faults, None)
        return found.tolist()

    assert read(pa.array([1, None, 2**60])) == ["1", None, str(2**60)]
    assert read(pa.array([1.0, None, float("nan"), 0.25])) == ["1", None, None, "0.25"]
    assert read(pa.array([True, None])) == ["true", None]
    assert read(pa.array(["a ", " ", None, "1.0"]).dictionary_encode()) == ["a", None, None, "1"]
    assert read(pa.array([], pa.string())) == []


# --- groups that are missing -------------------------------------------------------------------


def test_records_without_group_are_a_group_where_one_is_named():
    gaps = table()
    gaps.loc[:3, "race"] = None
    gaps.loc[4, "race"] = "?"
    gaps.to_csv("a.csv", index=False)
    options = (*DECIDED, "--missing-value", "?")
    refused = run(*AUDIT.format("a.csv", "é,b").split(), *options)
    assert "'race' (groups): 5 missing\n    in the schema: missing_label = " in refused.stderr
    for label, labels in (("none", "é,b"), ("none", "é,b,none"), ("b", "é,b")):
        found = audited("a.csv", *options, "--missing-label", label, labels=labels)
        sizes = dict(zip(found.group_labels, np.sum(found.counts, axis=(1, 2)), strict=True))
        assert sizes == ({"é": 15, "b": 25} if label == "b" else {"é": 15, "b": 20, "none": 5})


def test_of_several_columns_the_groups_of_missing_cells_are_declared():
    gaps = table().assign(sex=np.resize(["F", "M", None, "F"], 40))
    gaps.to_csv("a.csv", index=False)
    options = (*DECIDED, "--groups", "sex", "--missing-label", "-")
    labels = "é/F,é/M,b/F,b/M"
    refused = run(*AUDIT.format("a.csv", labels).split(), *options)
    assert "--missing-label must be a part of the group labels of several columns" in refused.stderr
    refused = run(*AUDIT.format("a.csv", f"{labels},é/-").split(), *options)
    assert "'race' and 'sex' (groups): 5 not one of the declared labels" in refused.stderr
    found = audited("a.csv", *options, labels=f"{labels},é/-,b/-")
    assert np.sum(found.counts, axis=(1, 2)).tolist() == [10, 5, 10, 5, 5, 5]


def test_faults_of_the_parts_of_a_file_add_up():
    faults = Faults("a.parquet")
    faults.add("'x' (target)", "not a number", ["?", "!"])
    faults.add("'x' (target)", "not a number", ["-"])
    with pytest.raises(WrongTable, match=r"column 'x' \(target\): 3 not a number"):
        faults.refuse()
