"""Raw tables of pandas, polars and NumPy, schema files, and scikit-learn's manners."""

from __future__ import annotations

import datetime
import pickle
import re
import tomllib
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered, PublicSchema
from sklearn_dpwg.preprocessing.columns import DATE_UNITS
from sklearn_dpwg.preprocessing.schema_files import declared_kinds, read_schema_file, template

COLUMNS = {
    "age": Number(0, 100, missing=True, fill=30),
    "town": Category(("A", "B"), missing=True),
    "grade": Ordered(("low", "high"), missing=True),
    "member": Boolean("yes", "no", missing=True),
    "day": Date("2020-01-01", "2020-12-31", missing=True, fill="2020-03-01"),
}
RAW = {
    "id": [1, 2, 3, 4],
    "age": [10.0, None, 300.0, 50.0],
    "town": ["A ", None, "Z", "B"],
    "grade": ["low", "high", None, " low"],
    "member": ["yes", "no", None, "yes"],
    "day": [datetime.date(2020, 1, 1), None, datetime.date(9999, 12, 31), datetime.date(1, 1, 1)],
}
TABLE = pd.DataFrame(RAW).assign(town=pd.Series(RAW["town"], dtype="category"))
FILE = """
[columns.age]
kind = "number"
low = 0
high = 100
missing = true
fill = 30

[columns.town]
kind = "category"
levels = ["A", "B"]
missing = true

[columns.grade]
kind = "ordered"
levels = ["low", "high"]
missing = true

[columns.member]
kind = "boolean"
true = "yes"
false = "no"
missing = true

[columns.day]
kind = "date"
first = 2020-01-01
last = 2020-12-31
missing = true
fill = "2020-03-01"
"""


# the checks hand over arrays of numbers, with gaps, so columns are positions
@parametrize_with_checks(
    [
        PublicSchema({0: Number(-100, 100, missing=True)}),
        PublicSchema({0: Category(tuple(range(-3, 4)), missing=True)}, sparse_output=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_rows_of_a_raw_table():
    schema = PublicSchema(COLUMNS, shapes="linear")
    found = schema.fit_transform(TABLE) * schema.divisor_
    fill = -0.4
    date = 2 * 60 / 365 - 1
    expected = [
        [-0.8, 0, 1, 0, 0, 0, -1, 0, 1, 0, -1, 0],
        [fill, (1 - fill**2) ** 0.5, 0, 0, 0, 1, 1, 0, -1, 0, date, (1 - date**2) ** 0.5],
        [1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0],
        [0, 0, 0, 1, 0, 0, -1, 0, 1, 0, -1, 0],
    ]
    assert found == pytest.approx(np.array(expected), abs=1e-12)
    assert schema.divisor_ == pytest.approx(5**0.5)
    assert schema.row_norm_ == 1.0
    assert schema.get_feature_names_out().tolist() == [
        *("age", "age=missing", "town=A", "town=B", "town=other", "town=missing"),
        *("grade", "grade=missing", "member", "member=missing", "day", "day=missing"),
    ]


def test_pandas_polars_and_arrays_agree():
    expected = PublicSchema(COLUMNS).fit_transform(TABLE)
    for table in (pd.DataFrame(RAW, dtype=object), pl.DataFrame(RAW, strict=False)):
        assert np.array_equal(PublicSchema(COLUMNS).fit_transform(table), expected)
    by_position = PublicSchema(dict(enumerate(COLUMNS.values(), start=1)))
    rows = list(zip(*RAW.values(), strict=True))
    assert np.array_equal(by_position.fit_transform(rows), expected)
    assert np.array_equal(by_position.transform(np.array(rows, dtype=object)), expected)
    assert by_position.get_feature_names_out()[:2].tolist() == ["x1=0..12.5", "x1=12.5..25"]


def test_polars_columns_of_every_type():
    moment = datetime.datetime(2020, 7, 1, 12, tzinfo=datetime.UTC)
    table = pl.DataFrame(
        {
            "flag": [True, None],
            "kind": pl.Series(["A", "B"], dtype=pl.Categorical),
            "when": pl.Series([moment, None], dtype=pl.Datetime("us", "UTC")),
            "cents": pl.Series(["0.25", None]).cast(pl.Decimal(10, 2)),
        }
    )
    schema = PublicSchema(
        {
            "flag": Boolean(missing=True),
            "kind": Category(("A",), other=True),
            "when": Date("2020-07-01", "2020-07-02", "hour", missing=True),
            "cents": Number(0, 1, missing=True),
        },
        shapes="linear",
    )
    found = schema.fit_transform(table) * schema.divisor_
    expected = [[1, 0, 1, 0, 0, 0, -0.5, 0], [0, 1, 0, 1, 0, 1, 0, 1]]
    assert found == pytest.approx(np.array(expected), abs=1e-12)


def test_the_table_may_lack_what_the_schema_does_not_name():
    schema = PublicSchema(COLUMNS).fit(TABLE)
    found = schema.transform(TABLE[["day", *list(COLUMNS)[:4]]])
    assert np.array_equal(found, schema.transform(TABLE))
    for call in (schema.fit, schema.transform):
        with pytest.raises(ValueError, match="X must have one column 'town', got none"):
            call(TABLE.drop(columns="town"))
    assert schema.transform(TABLE.iloc[:0]).shape == (0, 12 + 2 * 7)


def test_nothing_is_learned_from_the_records():
    other = TABLE.assign(age=-1.0, town="?", day=datetime.date(1999, 1, 1))
    one, two = (PublicSchema(COLUMNS).fit(table) for table in (TABLE, other))
    assert np.array_equal(one.transform(TABLE), two.transform(TABLE))
    found = PublicSchema(COLUMNS).transform(TABLE)
    assert np.array_equal(found, one.transform(TABLE))
    assert np.array_equal(found[::-1], one.transform(TABLE.iloc[::-1]))
    alone = [one.transform(TABLE.iloc[[row]]) for row in range(len(TABLE))]
    assert np.array_equal(found, np.vstack(alone))
    assert {key: str(value) for key, value in vars(one).items()} == {
        key: str(value) for key, value in vars(two).items()
    }
    check_is_fitted(PublicSchema(COLUMNS))


def test_copies_and_pickles():
    schema = PublicSchema(COLUMNS).fit(TABLE)
    for copy in (clone(schema), pickle.loads(pickle.dumps(schema))):
        assert np.array_equal(copy.transform(TABLE), schema.transform(TABLE))
        assert copy.get_params()["columns"] == COLUMNS


def test_set_output():
    schema = PublicSchema(COLUMNS)
    expected = schema.fit_transform(TABLE)
    named = schema.set_output(transform="pandas").transform(TABLE.set_index("id", drop=False))
    assert named.columns.tolist() == list(schema.get_feature_names_out())
    assert named.index.tolist() == RAW["id"]
    assert np.array_equal(named.to_numpy(), expected)
    named = schema.set_output(transform="polars").transform(TABLE)
    assert isinstance(named, pl.DataFrame)
    assert np.array_equal(named.to_numpy(), expected)


def test_the_schema_decides_whether_rows_are_sparse():
    wide = {"town": Category(tuple("ABCDEFGHIJKLMNOPQRS"))}
    for columns, sparse, expected in [
        (wide, None, True),
        (wide, False, False),
        (COLUMNS, None, False),
        (COLUMNS, True, True),
    ]:
        for table in (TABLE, TABLE.iloc[[0]], TABLE.iloc[:0]):
            schema = PublicSchema(columns, sparse_output=sparse)
            table = table.assign(town=table["town"].astype(object).fillna("A"))
            found = schema.fit_transform(table)
            assert isinstance(found, csr_array) == expected
            dense = PublicSchema(columns, sparse_output=False).fit_transform(table)
            assert np.array_equal(found.toarray() if expected else found, dense)
    with pytest.raises(ValueError, match="outputs a scipy sparse matrix"):
        PublicSchema(wide).set_output(transform="pandas").fit_transform(table)


def test_input_features_are_those_of_the_table():
    schema = PublicSchema(COLUMNS).fit(TABLE)
    assert len(schema.get_feature_names_out(list(TABLE.columns))) == 12 + 2 * 7
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        schema.get_feature_names_out(["a"])
    with pytest.raises(ValueError, match="input_features should have length equal"):
        PublicSchema({0: Number(0, 1)}).fit([[1, 2]]).get_feature_names_out(["a"])


kinds = st.one_of(
    st.builds(
        lambda low, width, log, share: Number(
            low, low + width, log=log, missing=True, fill=low + share * width
        ),
        st.floats(0, 1e6),
        st.floats(1, 1e6),
        st.booleans(),
        st.floats(0.01, 0.99),
    ),
    st.builds(
        lambda n, other: Category(tuple(range(n)), other=other, missing=True),
        st.just(4),
        st.just(True),
    ),
    st.builds(lambda n: Ordered(tuple(range(n)), missing=True), st.just(4)),
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(kinds, st.sampled_from([None, 0, 1, 2, 3])), min_size=1, max_size=40),
    st.sampled_from([True, False]),
    st.sampled_from(["linear", "ramps"]),
)
def test_no_row_is_longer_than_one_in_exact_arithmetic(columns, sparse, shapes):
    schema = PublicSchema(
        {f"c{place}": kind for place, (kind, _) in enumerate(columns)},
        sparse_output=sparse,
        shapes=shapes,
    )
    row = {f"c{place}": [value] for place, (_, value) in enumerate(columns)}
    found = schema.fit_transform(pd.DataFrame(row, dtype=object))
    values = (found.toarray() if sparse else found)[0]
    assert sum(Fraction(value) ** 2 for value in values.tolist()) <= 1


def test_behind_it_no_row_is_cut_and_nothing_is_paid():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(0, 90, 4000), "town": rng.choice(["A", "Z"], 4000)})
    model = make_pipeline(
        PublicSchema({"age": Number(0, 100), "town": Category(("A",))}),
        DPWorstGroupClassifier(epsilon=float("inf"), data_norm=1.0, group_labels=["A", "Z"]),
    )
    model.fit(table, table["age"] > 40, dpworstgroupclassifier__groups=table["town"])
    model[-1].check_rows(model[0].transform(table))
    private = clone(model).set_params(
        dpworstgroupclassifier__epsilon=2.0, dpworstgroupclassifier__random_state=0
    )
    with pytest.warns(match="random_state"):
        private.fit(table, table["age"] > 40, dpworstgroupclassifier__groups=table["town"])
    assert "PublicSchema" not in str(privacy_of(private))
    assert privacy_of(private).epsilon == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("columns", "options", "error", "says"),
    [
        ([Number(0, 1)], {}, TypeError, "columns must be a mapping from names to kinds"),
        ({"age": (0, 1)}, {}, TypeError, r"columns must map 'age' to a kind .*, got \(0, 1\)"),
        ({"age": Number(0, 1, missing="no")}, {}, TypeError, "missing of column 'age' must be"),
        ({"age": Number(0, 1)}, {"sparse_output": "auto"}, TypeError, "sparse_output must be"),
        *(
            ({"age": Number(0, 1)}, {"file": file}, ValueError, "file must hold a delimiter of.*")
            for file in (
                [1],
                {"sep": ";"},
                {"delimiter": ";;"},
                {"delimiter": 1},
                {"encoding": "klingon"},
                {"encoding": "rot13"},
                {"sheet": ["one"]},
                {"missing_values": "NA"},
                {"missing_values": ["NA", 9]},
            )
        ),
        ({}, {}, ValueError, "columns must name at least one column"),
        (
            {"day": Date("2020-01-01", "2020-02-01", missing=True, fill="2020-02-01")},
            {},
            ValueError,
            "fill of column 'day' must be a date strictly between",
        ),
        (
            {"day": Date("2020-01-01", "2020-02-01", fill="2020-01-02")},
            {},
            ValueError,
            "fill of column 'day' is for missing=True",
        ),
    ],
)
def test_wrong_parameters(columns, options, error, says):
    with pytest.raises(error, match=says):
        PublicSchema(columns, **options).fit(TABLE)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "schema.toml"


def test_a_schema_file(path):
    path.write_text(FILE, encoding="utf-8")
    schema = PublicSchema.from_toml(path, sparse_output=False)
    assert schema.columns["town"] == COLUMNS["town"]
    assert list(schema.columns) == list(COLUMNS)
    assert np.array_equal(schema.transform(TABLE), PublicSchema(COLUMNS).transform(TABLE))
    assert schema.sparse_output is False
    assert np.array_equal(clone(schema).transform(TABLE), schema.transform(TABLE))


def test_a_line_a_column_is_as_good_as_a_table(path):
    """A kind is that of its entries; defaults are those of columns that do not say otherwise."""
    path.write_text(
        """
defaults = { missing = true, decimal = ",", other = false, format = "%d.%m.%Y" }
groups = { columns = "sex", labels = ["f", "m"] }
target = { column = "wage", low = 0, high = 9 }
[columns]
age = { low = 0, high = 100, missing = false }
day = { first = 2020-01-01, last = 2021-01-01, unit = "week" }
town = { levels = ["A", "B"], synonyms = { a = "A" }, other = true }
grade = { kind = "ordered", levels = [1, 2] }
sex = { levels = ["f", "m"] }
flag = { true = "j", false = "n" }
[columns.height]
low = 1
high = 2
decimal = "."
""",
        encoding="utf-8",
    )
    schema, dates = PublicSchema.from_toml(path), (datetime.date(y, 1, 1) for y in (2020, 2021))
    assert schema.columns == {
        "age": Number(0, 100, decimal=","),
        "day": Date(*dates, unit="week", missing=True, format="%d.%m.%Y"),
        "town": Category(("A", "B"), missing=True),
        "grade": Ordered((1, 2), missing=True),
        "sex": Category(("f", "m"), other=False, missing=True),
        "flag": Boolean("j", "n", missing=True),
        "height": Number(1, 2, missing=True),
    }
    assert schema.unseen["wage"] == Number(0, 9, decimal=",")
    assert schema.cells.synonyms == {"town": {"a": "A"}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[columns.age", "must be a TOML file"),
        ("", r"must hold tables \[columns.NAME\], may hold .* and nothing else, got \[\]"),
        ("[columns]\n[other]", r"got \['columns', 'other'\]"),
        ("[columns]", "columns must name at least one column"),
        ("[columns.age]\nfill = 0", "column 'age' in .* its kind, one of number, date.* got None"),
        ("columns.age = 1", "column 'age' in .* must say low and high, .* its kind, one of number"),
        ("[columns.age]\nkind = ['number']", "column 'age' in .* its kind, one of"),
        ("[columns.age]\nlow = 0", "column 'age' in .* must have an entry 'high'"),
        ("columns.age = {low = 0, levels = [1]}", "entries of low, .*, got 'levels'"),
        (
            "[defaults]\nunit = 'kg'\n[columns]\nage = {low = 0, high = 1}",
            "entries of missing, .*got 'unit'",
        ),
        ("[defaults]\nmissing = 1\n[columns]\nage = {low = 0, high = 1}", "missing of"),
        ('[columns.age]\nkind = "number"\nlow = 0', "'age' in .* must have an entry 'high'"),
        (
            '[columns.age]\nkind = "number"\nlow = 0\nhigh = 1\nmean = 2',
            "'age' in .* must have entries of low, .*, shape, decimal, unit, got 'mean'",
        ),
        (
            '[columns.age]\nkind = "number"\nlow = 0\nhigh = "FILL IN"\n'
            '[columns.x]\nkind = "category"\nlevels = "FILL IN"',
            "entries that are to be filled in: high of 'age'; levels of 'x'",
        ),
        ('[columns.age]\nkind = "number"\nlow = 2\nhigh = 1', "low < high"),
        ('[columns.x]\nkind = "category"\nlevels = "ab"', "tuple of at least 1, got 'ab'"),
        ("columns = {}\ngroups = 1", r"groups in .* must be a table \[groups\], got 1"),
        (
            "[columns]\n[groups]\nlabel = 1",
            r"\[groups\] in .* entries of columns, labels, synonyms, missing_label, got",
        ),
        ('[columns]\n[groups]\nlabels = "FILL IN"', r"to be filled in: labels of \[groups\]"),
        ("[columns]\n[groups]\ncolumns = [1]", r"columns of \[groups\] in .* must be names"),
        ('[columns]\n[groups]\nlabels = "ab"', r"labels of \[groups\] in .* must be a list"),
        *(
            (
                f"[columns]\n[groups]\ncolumns = ['a', 'b']\nlabels = [['f', 'x'], {label}]",
                r"labels of \[groups\] in .* must each be a list of 2 values, .* as \[\[.*got",
            )
            for label in ("'f/y'", "['f']", "['f', 'y', 'z']")
        ),
        ("[columns]\n[target]\ncolumn = 1", r"column of \[target\] in .* must be a name"),
        ('[columns]\n[target]\nclasses = "ab"', r"classes of \[target\] in .* must be a list"),
        ("[columns]\n[target]\nlow = 1", r"or else both low and high, got \['low'\]"),
        ("[columns]\n[target]\nlow = 0\nhigh = 1\nclasses = [0]", "classes, or else both low"),
        ('[columns]\n[target]\nlow = "a"\nhigh = 1', r"bound of \[target\] in .* a number"),
        (
            '[columns.a]\nkind = "boolean"\n[target]\ncolumn = "a"',
            r"column of \[target\] in .* must not be one of \[columns\]",
        ),
    ],
)
def test_wrong_files_are_refused_by_name(path, text, says):
    path.write_text(text, encoding="utf-8")
    with pytest.raises((TypeError, ValueError), match=says):
        PublicSchema.from_toml(path)


def test_a_file_may_say_what_groups_and_target_are(path):
    task = '[groups]\ncolumns = "town"\nlabels = ["A", "B"]\n[target]\ncolumn = "y"\nlow = 0\n'
    path.write_text(f"{FILE}\n{task}high = 1", encoding="utf-8")
    found = read_schema_file(path)
    assert found.columns == PublicSchema.from_toml(path).columns
    assert (found.group_columns, found.group_labels) == (("town",), ("A", "B"))
    assert (found.target, found.classes, found.target_bounds) == ("y", None, (0.0, 1.0))


class NoValues(pd.DataFrame):
    """A frame whose values nobody may read."""

    def __getitem__(self, key):
        raise AssertionError("a value was read")

    iloc = loc = values = property(__getitem__)


def test_a_template_says_what_to_fill_in_and_reads_no_value(path):
    table = TABLE.assign(
        day=pd.to_datetime("2020-01-01"), flag=True, age=pd.Series([1], dtype="int64")
    )
    PublicSchema.write_template(NoValues(table), path)
    text = path.read_text(encoding="utf-8")
    entries = re.findall(r"^(\w+) = \{ (.*) \}$", text, re.MULTILINE)
    number, levels = 'low = "FILL IN", high = "FILL IN"', 'levels = "FILL IN"'
    assert entries == [
        *(("id", number), ("age", number), ("town", levels), ("grade", levels)),
        *(("member", levels), ("day", 'first = "FILL IN", last = "FILL IN"')),
        ("flag", 'kind = "boolean"'),
    ]
    units = " ".join(text[text.index('unit = "year') :].replace("\n#", "").split())
    assert units.startswith(f"unit = {str(list(DATE_UNITS))[1:-1]};".replace("'", '"'))
    body = text[text.index("\n[columns]") : text.index("# How all cells")]
    assert not re.search(r"\bA\b|\byes\b|2020|\b300\b", body)
    with pytest.raises(ValueError, match="filled in: low of 'id'; high of 'id'; low of 'age'"):
        PublicSchema.from_toml(path)
    with pytest.raises(FileExistsError):
        PublicSchema.write_template(table, path)


def test_a_template_of_a_task_leaves_groups_and_target_out_of_the_columns():
    text = template(dict(declared_kinds(NoValues(TABLE))), groups=["town", "member"], target="age")
    assert list(tomllib.loads(text)["columns"]) == ["id", "grade", "day"]
    assert (
        '[groups]\ncolumns = ["town", "member"]\nlabels = "FILL IN"\n\n'
        '[target]\ncolumn = "age"\nlow = "FILL IN"\nhigh = "FILL IN"\n\n# How all cells'
    ) in text
    assert 'classes = "FILL IN"' in template(dict(declared_kinds(TABLE)), target="town")


def test_the_template_does_not_depend_on_the_records(tmp_path):
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    PublicSchema.write_template(TABLE, one)
    PublicSchema.write_template(TABLE.iloc[:0], two)
    assert one.read_bytes() == two.read_bytes()


def test_a_filled_template_of_polars(path):
    table = pl.DataFrame({'a "b"': [1], "c": [datetime.date(2020, 1, 1)], "d": [True], "e": ["x"]})
    PublicSchema.write_template(table, path)
    text = path.read_text(encoding="utf-8")
    for entry, value in {
        "low": "0",
        "high": "1",
        "first": "2020-01-01",
        "last": "2021-01-01",
        "levels": '["x"]',
    }.items():
        text = text.replace(f'{entry} = "FILL IN"', f"{entry} = {value}")
    path.write_text(text, encoding="utf-8")
    schema = PublicSchema.from_toml(path)
    assert schema.columns == {
        'a "b"': Number(0, 1, missing=True),
        "c": Date(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), missing=True),
        "d": Boolean(missing=True),
        "e": Category(("x",), missing=True),
    }
    assert schema.transform(table).shape == (1, 9 + 2 * 7)


@pytest.mark.parametrize("table", [[[1]], pd.DataFrame([[1]])])
def test_a_template_needs_names(table, path):
    with pytest.raises(TypeError, match="X must"):
        PublicSchema.write_template(table, path)
    assert not path.exists()


def test_an_array_has_as_many_columns_as_in_the_fit():
    schema = PublicSchema({1: Number(0, 1)})
    with pytest.raises(ValueError, match="X must have one column 1, got none"):
        schema.fit([[0.5]])
    schema.fit([[0.5, 0.5]])
    with pytest.raises(ValueError, match="X has 3 features, but PublicSchema is expecting 2"):
        schema.transform([[0.5, 0.5, 0.5]])
    with pytest.raises(NotFittedError):
        check_is_fitted(make_pipeline(schema, DPWorstGroupClassifier(data_norm=1.0)))
