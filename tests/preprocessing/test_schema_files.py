"""One TOML file says what is public of a table, what its groups and target are, how it is read."""

from __future__ import annotations

import datetime

import pandas as pd
import pytest

from sklearn_dpwg.cli.files import read_schema
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered, PublicSchema

FILE = """
interactions = [["age", "town"]]
[columns]
age = { low = 0, high = 100, missing = true, fill = 30, shape = "linear" }
day = { first = 2020-01-01, last = 2021-01-01, unit = "week" }
town = { levels = ["A", "B"], other = false }
grade = { kind = "ordered", levels = [1, 2] }
flag = { true = "j", false = "n" }
[columns.member]
kind = "boolean"
[groups]
columns = ["sex", "race"]
labels = [["f", 1], ["m", 1]]
[target]
column = "wage"
low = 0
high = 9
[person]
column = "id"
rows = 2
[read_csv]
sep = ";"
na_values = ["?"]
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "schema.toml"


def test_a_file_says_all_of_it(path):
    path.write_text(FILE, encoding="utf-8")
    table = read_schema(path)
    assert table.schema.columns == {
        "age": Number(0, 100, missing=True, fill=30, shape="linear"),
        "day": Date(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), unit="week"),
        "town": Category(("A", "B"), other=False),
        "grade": Ordered((1, 2)),
        "flag": Boolean("j", "n"),
        "member": Boolean(),
    }
    assert table.schema.interactions == [["age", "town"]]
    assert (table.schema.person, table.schema.rows_per_person) == ("id", 2)
    assert table.group_columns == ("sex", "race")
    assert table.group_labels == (("f", 1), ("m", 1))
    assert (table.target, table.classes, table.target_bounds) == ("wage", None, (0.0, 9.0))
    assert table.read_csv == {"sep": ";", "na_values": ["?"]}
    schema = PublicSchema.from_toml(path)
    assert schema.get_params() == table.schema.get_params()
    raw = pd.DataFrame({"age": [None], "day": [datetime.date(2020, 5, 1)], "town": "A"})
    assert schema.transform(raw.assign(grade=1.0, flag="j", member=True)).shape == (1, 25)


AGE = "[columns]\nage = {low = 0, high = 1}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[columns.age", "schema.toml"),
        ("", "columns"),
        ("[columns]\n[cells]", "'cells'"),
        ("[columns.age]\nlow = 0", "'age' .* 'high'"),
        ("columns.age = {low = 0, levels = [1]}", "'levels'"),
        (f'interactions = [["age", "z"]]\n{AGE}', "interactions .* 'z'"),
        ("columns = {}\ngroups = 1", "groups"),
        (f"{AGE}[groups]\nlabel = 1", "groups.* 'label'"),
        (f"{AGE}[target]\ncolumn = 'age'", "target"),
        (f"{AGE}[target]\nlow = 1", "target"),
        (f"{AGE}[person]\nrows = 2", "person"),
    ],
)
def test_what_a_file_may_not_say_is_refused_by_name(path, text, says):
    path.write_text(text, encoding="utf-8")
    for read in (read_schema, PublicSchema.from_toml):
        with pytest.raises((TypeError, ValueError), match=says):
            read(path)
