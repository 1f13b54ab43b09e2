"""Raw tables of pandas, polars and NumPy, and scikit-learn's manners."""

from __future__ import annotations

import datetime
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_dpwg.preprocessing import (
    Boolean,
    Category,
    Date,
    Number,
    Ordered,
    PublicSchema,
    bound_rows_per_person,
)

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
    assert np.array_equal(PublicSchema(COLUMNS).fit_transform(pl.DataFrame(RAW)), expected)
    by_position = PublicSchema(dict(enumerate(COLUMNS.values(), start=1)))
    rows = list(zip(*RAW.values(), strict=True))
    assert np.array_equal(by_position.fit_transform(rows), expected)
    assert by_position.get_feature_names_out()[:2].tolist() == ["x1=0..12.5", "x1=12.5..25"]


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
    alone = [one.transform(TABLE.iloc[[row]]) for row in range(len(TABLE))]
    assert np.array_equal(found, np.vstack(alone))
    copy = pickle.loads(pickle.dumps(clone(one)))
    assert np.array_equal(copy.transform(TABLE), found)


def test_the_schema_decides_whether_rows_are_sparse():
    wide = {"town": Category(tuple("ABCDEFGHIJKLMNOPQRS"))}
    towns = TABLE.assign(town=TABLE["town"].astype(object).fillna("A"))
    for columns, sparse, expected in [(wide, None, True), (wide, False, False),
                                      (COLUMNS, None, False), (COLUMNS, True, True)]:  # fmt: skip
        for table in (towns, towns.iloc[[0]], towns.iloc[:0]):
            found = PublicSchema(columns, sparse_output=sparse).fit_transform(table)
            assert isinstance(found, csr_array) == expected
            dense = PublicSchema(columns, sparse_output=False).fit_transform(table)
            assert np.array_equal(found.toarray() if expected else found, dense)


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
    st.just(Category((0, 1, 2), missing=True)),
    st.just(Ordered((0, 1, 2, 3), missing=True)),
)


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


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ([Number(0, 1)], {}, "columns must be a mapping"),
        ({"age": (0, 1)}, {}, r"columns must map 'age' to a kind .*, got \(0, 1\)"),
        ({"age": Number(0, 1, missing="no")}, {}, "missing of column 'age' must be"),
        ({"age": Number(0, 1)}, {"person": "age"}, "person must be none of columns"),
        ({"age": Number(0, 1)}, {"shapes": "round"}, "shapes must be one of"),
        ({}, {}, "columns must name at least one column"),
    ],
)
def test_wrong_parameters(columns, options, says):
    with pytest.raises((TypeError, ValueError), match=says):
        PublicSchema(columns, **options).fit(TABLE)


def test_rows_of_a_person_are_bounded_by_what_the_schema_says():
    people = [*np.arange(600) % 100, " 7"]
    table = pd.DataFrame({"age": 1.0, "id": pd.Series(people, dtype=object)})
    schema = PublicSchema({"age": Number(0, 100)}, person="id", rows_per_person=3)
    kept = bound_rows_per_person(table, table["age"], person="id", k=3)
    assert len(kept.kept) == 300
    assert schema.fit(table.iloc[kept.kept]).transform(kept.X).shape[0] == 300
    with pytest.raises(ValueError, match="at most rows_per_person=3 rows of one 'id', and some"):
        schema.fit(table)
    with pytest.raises(ValueError, match=r"person must say whose .* in row 1"):
        schema.fit(pd.DataFrame({"age": [1, 2], "id": ["a", " "]}))


# One column.


def one(kind, values, **options):
    """The block of a column alone, in its own units."""
    schema = PublicSchema({"c": kind}, shapes="linear", sparse_output=False)
    rows = schema.fit_transform(pd.DataFrame({"c": pd.Series(values, **options)}))
    return rows * schema.divisor_


def test_amounts_are_taken_by_their_logarithm_and_a_gap_has_the_fill():
    kind = Number(0, 1e6, log=True, missing=True, fill=30_000)
    fill = 2.0 * math.log1p(30_000) / math.log1p(1e6) - 1.0
    expected = [[-1.0, 0.0], [fill, math.sqrt(1.0 - fill**2)], [1.0, 0.0]]
    assert one(kind, [0.0, np.nan, 5e6]) == pytest.approx(np.array(expected), abs=1e-12)


def test_infinities_and_wide_bounds():
    assert one(Number(0, 10), [-math.inf, math.inf]).ravel().tolist() == pytest.approx([-1, 1])
    assert one(Number(-1e308, 7e307), [-1e308, 1e308]).ravel().tolist() == pytest.approx([-1, 1])


def test_dates():
    times = pd.to_datetime(["2020-01-01T12:00", "2020-01-03T00:00"])
    assert one(Date("2020-01-01", "2020-01-03"), times).ravel().tolist() == pytest.approx([-1, 1])
    hours = one(Date("2020-01-01", "2020-01-02", "hour"), times).ravel()
    assert hours.tolist() == pytest.approx([0, 1])
    zone = pd.to_datetime(["2020-01-03T01:00:00+02:00"])
    assert one(Date("2020-01-01", "2020-01-03"), zone).ravel().tolist() == pytest.approx([0])
    far = [datetime.date(9999, 12, 31), datetime.date(1, 1, 1), pd.Timestamp("2020-01-02")]
    found = one(Date("2020-01-01", "2020-01-03"), far, dtype=object).ravel()
    assert found.tolist() == pytest.approx([1, -1, 0])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Number(1, 1), "low < high"),
        (Number(0, math.inf), "finite bounds"),
        (Number(-1, 1, log=True), "low >= 0 for log=True"),
        (Number(0, 1, fill=0.5), "is for missing=True"),
        (Number(0, 1, missing=True, fill=1), "strictly between its bounds"),
        (Number("0", 1), "low of column 'c' must be a number"),
        (Ordered(("a", None)), "texts, numbers or booleans"),
        (Category("abc"), "tuple of at least 1"),
        (Category((1, "01")), "differ as text"),
        (Date("2020-01-01", "soon"), "first < last"),
        (Date("2020-01-01", "2020-01-02", "days"), "unit of column 'c' must be one of year, month"),
    ],
)
def test_wrong_facts_are_refused_by_name(kind, says):
    with pytest.raises((TypeError, ValueError), match="column 'c'") as caught:
        one(kind, [])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (Number(0, 1), [0.5, None], "declared with missing=True, got one in row 1"),
        (Ordered(("a", "b")), ["a", "c"], "must hold its levels 'a', 'b', got 'c' in row 1"),
        (Boolean(), [True, None], "declared with missing=True"),
        (Category(("a",), other=False), ["b"], "got 'b' in row 0"),
        (Category(("a",)), ["a", None], "declared with missing=True"),
    ],
)
def test_wrong_values_are_refused_by_name(kind, values, says):
    with pytest.raises(ValueError, match="column 'c'") as caught:
        one(kind, values)
    assert says in str(caught.value)
