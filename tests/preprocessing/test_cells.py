"""A table as it comes: marks, other words, case, cells that no kind can use, and whose rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from skops import io

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing import Boolean, Category, Cells, Date, Number, Ordered, PublicSchema
from sklearn_dpwg.serving import trusted_types

COLUMNS = {
    "age": Number(0, 100, missing=True),
    "town": Category(("Aachen", "Bonn"), missing=True),
    "pain": Ordered(("none", "mild", "severe"), missing=True),
    "insured": Boolean("yes", "no", missing=True),
    "visit": Date("2020-01-01", "2024-01-01", missing=True),
}
WORDS = {"town": {"Aix": "Aachen"}, "insured": {"ja": "yes", 1: "yes", 0: "no"}}
PLAIN = Cells(["?", -9], unusable="missing")
CELLS = Cells(["?", -9], synonyms=WORDS, ignore_case=True, unusable="missing")


def rows(cells: Cells | None, columns=COLUMNS, **values: list) -> pd.DataFrame:
    plain = {name: [None] * len(next(iter(values.values()))) for name in columns}
    schema = PublicSchema(columns, shapes="linear", cells=cells).set_output(transform="pandas")
    return schema.fit_transform(pd.DataFrame({**plain, **values}))


@pytest.mark.parametrize(
    ("name", "messy", "clean"),
    [
        ("age", ["50", " -9 ", -9.0, "?", "abc", None], [50, None, None, None, None, None]),
        ("age", [50.0, -9.0, np.nan], [50, None, None]),
        ("age", [50, -9], [50, None]),
        ("town", ["AIX", " bonn", "?", "Ulm"], ["Aachen", "Bonn", None, "Ulm"]),
        ("pain", ["Mild ", "SEVERE", "lots"], ["mild", "severe", None]),
        ("insured", ["JA", 1, "1.0", 0, "No", "perhaps"], ["yes", "yes", "yes", "no", "no", None]),
        ("visit", ["2021-03-01", "?", "1.3.2021"], ["2021-03-01", None, None]),
        ("visit", list(pd.to_datetime(["2021-03-01", None])), ["2021-03-01", None]),
    ],
)
def test_cells_are_read_as_what_they_stand_for(name, messy, clean):
    found, expected = rows(CELLS, **{name: messy}), rows(None, **{name: clean})
    pd.testing.assert_frame_equal(found, expected)
    assert ((found**2).sum(axis=1) <= 1).all()
    # each by itself, and twice as once, as the command reads a table before the model does
    for place, cell in enumerate(messy):
        assert rows(CELLS, **{name: [cell]}).iloc[0].equals(expected.iloc[place])
    values = CELLS.read(pd.Series(messy), name, COLUMNS[name])
    again = CELLS.read(values, name, COLUMNS[name])
    assert [None if pd.isna(v) else v for v in again] == [None if pd.isna(v) else v for v in values]


WEIGHT = Number(0, 200, missing=True, decimal=",", unit=["kg", "KG"])


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *(("72", 72), ("72 kg", 72), (" 72,5KG ", 72.5), (",5kg", 0.5), ("-1", 0), (72, 72)),
        *((72.5, 72.5), ("1e2kg", 100), ("?", None), ("-9,0 kg", None), (None, None)),
        *((cell, None) for cell in ("72.5", "1.234,5", "150 lb", "kg", "72 kg kg", "7,2,5", "Kg")),
    ],
)
def test_numbers_are_read_with_their_comma_and_unit_and_others_are_none(cell, number):
    columns = {"w": WEIGHT, "plain": Number(0, 200, missing=True)}
    plain = rows(None, columns, plain=[number])[["plain", "plain=missing"]]
    assert rows(PLAIN, columns, w=[cell, "1"]).iloc[0, :2].tolist() == plain.iloc[0].tolist()
    if number is None and cell is not None and cell != "?" and "9" not in cell:
        with pytest.raises(InputError, match="'w' must hold numbers"):
            rows(None, columns, w=[cell, "1"])


def test_pairs_of_columns_are_read_by_the_same_rules():
    columns = {"w": WEIGHT, "town": COLUMNS["town"]}
    given: dict = {"shapes": "linear", "interactions": [("w", "town")]}
    clean = PublicSchema(columns, **given).fit_transform(
        pd.DataFrame({"w": [72.5, None], "town": ["Aachen", "Bonn"]})
    )
    cells = Cells(["?"], synonyms={"town": {"Aix": "Aachen"}}, ignore_case=True)
    messy = pd.DataFrame({"w": ["72,5 kg", "?"], "town": ["AIX", "bonn"]})
    assert np.array_equal(PublicSchema(columns, cells=cells, **given).fit_transform(messy), clean)


def test_all_columns_that_cannot_be_used_are_told_at_once():
    with pytest.raises(InputError) as caught:
        rows(None, age=["x", 5], visit=["1.3.2021", None], pain=["lots", "none"])
    first, *lines = str(caught.value).split("\n")
    assert first == "X has columns that cannot be used:"
    assert [line.split("'")[1] for line in lines] == ["age", "pain", "visit"]
    assert lines[2].endswith('and some are none: format="%d.%m.%Y".')


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"decimal": ";"}, r"decimal of column 'w' must be one of \('.', ','\), got ';'"),
        ({"unit": " kg"}, "unit of column 'w' must be a text such as 'kg', or several, without"),
        ({"unit": ["kg", 1]}, "unit of column 'w' must be a text such as 'kg'"),
        ({"unit": 1}, "unit of column 'w' must be a text such as 'kg'"),
        ({"unit": "1kg"}, "unit of column 'w' must not begin like a number, got '1kg'"),
    ],
)
def test_wrong_words_about_numbers_are_refused(given, says):
    with pytest.raises(InputError, match=says):
        rows(None, {"w": Number(0, 1, **given)}, w=[1])


def test_without_rules_cells_are_taken_as_they_are():
    with pytest.raises(InputError, match=r"'age' must hold numbers, and the first .* text: Cells"):
        rows(Cells(["?"]), age=["abc"])
    with pytest.raises(InputError, match="'age' must have no missing values"):
        rows(PLAIN, {"age": Number(0, 100)}, age=["?"])
    with pytest.raises(InputError, match="'age' must hold numbers"):  # it cannot be missing
        rows(PLAIN, {"age": Number(0, 100)}, age=["abc"])
    assert rows(Cells(), town=["bonn"])["town=other"].item() > 0


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("3,5", 'a number with a decimal comma: decimal=","'),
        ("72 kg", 'a number with something behind it: unit="..."'),
        ("3,5mg", 'a number with a decimal comma and something behind it: decimal=",", unit="..."'),
        ("1.234,5", "a number with marks between its digits: write"),
        ("1 234", "a number with marks between its digits: write"),
        ("<0.5", 'a limit such as < 1: Cells(unusable="missing"), or write the number alone'),
        (" ", "blanks: Cells"),
        ("x", 'text: Cells(missing=["..."]) for a mark of a gap'),
        ([1], "list: make"),
    ],
)
def test_the_first_cell_that_is_no_number_is_told_by_its_kind(cell, kind):
    with pytest.raises(InputError) as caught:
        rows(None, age=["1", cell, "Smith"])
    assert str(caught.value).startswith(
        f"column 'age' must hold numbers, and the first value that is none is {kind}"
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"missing": "?"}, "missing of Cells must be a list of marks, got '\\?'"),
        ({"ignore_case": 1}, "ignore_case of Cells must be True or False, got 1"),
        ({"unusable": "drop"}, "unusable of Cells must be one of refuse, missing, got 'drop'"),
        ({"synonyms": ["a"]}, "synonyms of Cells must map columns to words"),
        ({"synonyms": {"age": {"ten": 10}}}, "must map a column with levels .* got 'age'"),
        ({"synonyms": {"gone": {"a": "b"}}}, "must map a column with levels .* got 'gone'"),
        ({"synonyms": {"town": {"Aix": "Ulm"}}}, "must stand for its levels .* got 'Ulm'"),
        ({"synonyms": {"town": {"bonn": "Aachen"}}, "ignore_case": True}, "no levels themselves"),
        ({"missing": ["Bonn"]}, "missing of Cells must hold no word of column 'town', got 'Bonn'"),
        ({"missing": ["Aix"], "synonyms": WORDS}, "must hold no word of column 'town'"),
    ],
)
def test_rules_that_say_nothing_or_two_things_are_refused(given, says):
    with pytest.raises((InputError, TypeError), match=says):
        rows(Cells(**given), age=[1])


def test_levels_that_differ_by_case_alone_need_it():
    columns = {"town": Category(("a", "A"))}
    rows(Cells(), columns, town=["a"])
    with pytest.raises(InputError, match="must differ by more than case"):
        rows(Cells(ignore_case=True), columns, town=["a"])


TOML = """
[columns.town]
kind = "category"
levels = ["Aachen", "Bonn"]
missing = true
synonyms = { Aix = "Aachen" }

[cells]
missing = ["?", -9]
ignore_case = true
unusable = "missing"

[person]
column = "patient"
rows = 2
"""


def test_a_file_says_all_of_it(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(TOML)
    schema = PublicSchema.from_toml(path)
    town = {"town": {"Aix": "Aachen"}}
    assert schema.cells == Cells(("?", -9), synonyms=town, ignore_case=True, unusable="missing")
    assert (schema.person, schema.rows_per_person) == ("patient", 2)
    io.dump(clone(schema), tmp_path / "schema.skops")
    stored = io.load(tmp_path / "schema.skops", trusted=list(trusted_types()))
    assert (stored.cells, stored.person) == (schema.cells, "patient")
    for wrong, says in (
        ('column = "patient"', r"\[person\] in .* must have a column"),
        ("unusable", r"\[cells\] in .* must have entries of missing, ignore_case, unusable"),
    ):
        path.write_text(TOML.replace(wrong, "" if "column" in wrong else "unsuable"))
        with pytest.raises(InputError, match=says):
            PublicSchema.from_toml(path)


# --- whose rows ----------------------------------------------------------------------------------


def test_rows_of_a_person_are_bounded_by_what_the_schema_says():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(0, 100, 600), "id": rng.integers(0, 100, 600)})
    y, groups = table["age"] > 40, np.where(table["id"] % 2, "a", "b")
    schema = PublicSchema({"age": Number(0, 100)}, person="id", rows_per_person=3)
    with pytest.raises(InputError, match="at most rows_per_person=3 rows of one 'id', and some"):
        schema.fit(table)
    kept = schema.bound_rows(table, y, groups)
    assert np.bincount(table["id"][kept.kept]).max() == 3
    assert "id" not in kept.X
    assert schema.fit(table.iloc[kept.kept]).transform(kept.X).shape[0] == len(kept.y)
    model = DPWorstGroupClassifier(math.inf, data_norm=1.0, rows_per_person=kept.rows_per_person)
    model.fit(schema.transform(kept.X), kept.y, groups=kept.groups)
    assert model.privacy_.records_per_person == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"person": "age"}, "person must be no column that the model sees, got 'age'"),
        ({"person": "id", "rows_per_person": 0}, "rows_per_person must be at least 1, got 0"),
        ({"cells": {"missing": []}}, "cells must be a Cells"),
    ],
)
def test_wrong_words_about_people_are_refused(given, says):
    with pytest.raises((InputError, TypeError), match=says):
        PublicSchema({"age": Number(0, 1)}, **given).fit(pd.DataFrame({"age": [1]}))
    with pytest.raises(InputError, match="person must be said"):
        PublicSchema({"age": Number(0, 1)}).bound_rows(pd.DataFrame({"age": [1]}), [1])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_people_are_read_by_the_rules_of_cells(library):
    names = ["P1", " P1", "p1 ", "P2", "7", "7.0", "p2"]
    table = pd.DataFrame({"age": range(7), "id": names})
    frame = table if library == "pandas" else pytest.importorskip("polars").from_pandas(table)

    def kept(cells: Cells | None) -> int:
        schema = PublicSchema({"age": Number(0, 100)}, cells=cells, person="id")
        with pytest.raises(InputError, match="at most rows_per_person=1"):
            schema.fit(frame)
        found = schema.bound_rows(frame, np.arange(7))
        assert list(found.X.columns) == ["age"]
        return len(found.kept)

    assert kept(None) == kept(Cells()) == 5  # P1, p1, P2, 7, p2
    assert kept(Cells(ignore_case=True)) == 3


@pytest.mark.parametrize("nobody", ["?", " ? ", "n/A", -9, "-9.0", None, "", " "])
def test_a_mark_of_a_missing_value_is_nobody(nobody):
    schema = PublicSchema(
        {"age": Number(0, 100)}, cells=Cells(["?", "N/A", -9], ignore_case=True), person="id"
    )
    table = pd.DataFrame({"age": [1, 2], "id": pd.Series(["a", nobody], dtype=object)})
    for call in (lambda: schema.fit(table), lambda: schema.bound_rows(table, [0, 1])):
        with pytest.raises(InputError, match="person must say whose row each row is, got missing"):
            call()


@pytest.mark.parametrize(
    "kind",
    [
        Category(("1", "2", "true"), missing=True),
        Number(0, 100, missing=True),
        Number(0, 100, missing=True, decimal=",", unit="kg"),
    ],
)
@pytest.mark.parametrize("first", [True, 1, "1", None, "abc", 30.0, "1,5 kg"])
def test_no_cell_decides_how_another_is_read(kind, first):
    """Whether a column is of objects or numbers, and what equals what, may follow from one cell."""
    cells = Cells(["?", "-9.50", "1e3"], unusable="missing")
    read = [1, 2, -9.5, 1000.0, 1.0, 50]
    alone = [cells.read(pd.Series([one]), "c", kind).iloc[0] for one in read]
    for column in (pd.Series([first, *read]), pd.Series([first, *read], dtype=object)):
        found = cells.read(column, "c", kind).iloc[1:]
        assert [None if pd.isna(one) else one for one in found] == [
            None if pd.isna(one) else one for one in alone
        ]
