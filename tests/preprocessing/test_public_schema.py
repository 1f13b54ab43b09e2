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
    result = schema.fit_transform(TABLE) * schema.divisor_
    fill = -0.4
    date = 2 * 60 / 365 - 1
    expected = [
        [-0.8, 0, 1, 0, 0, 0, -1, 0, 1, 0, -1, 0],
        [fill, (1 - fill**2) ** 0.5, 0, 0, 0, 1, 1, 0, -1, 0, date, (1 - date**2) ** 0.5],
        [1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0],
        [0, 0, 0, 1, 0, 0, -1, 0, 1, 0, -1, 0],
    ]
    assert result == pytest.approx(np.array(expected), abs=1e-12)
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


def test_nothing_is_learned_from_the_records():
    other = TABLE.assign(age=-1.0, town="?", day=datetime.date(1999, 1, 1))
    one, two = (PublicSchema(COLUMNS).fit(table) for table in (TABLE, other))
    assert np.array_equal(one.transform(TABLE), two.transform(TABLE))
    result = PublicSchema(COLUMNS).transform(TABLE)
    alone = [one.transform(TABLE.iloc[[row]]) for row in range(len(TABLE))]
    assert np.array_equal(result, np.vstack(alone))
    copy = pickle.loads(pickle.dumps(clone(one)))
    assert np.array_equal(copy.transform(TABLE), result)


def test_the_schema_decides_whether_rows_are_sparse():
    wide = {"town": Category(tuple("ABCDEFGHIJKLMNOPQRS"))}
    towns = TABLE.assign(town=TABLE["town"].astype(object).fillna("A"))
    for columns, sparse, expected in [(wide, None, True), (wide, False, False),
                                      (COLUMNS, None, False), (COLUMNS, True, True)]:  # fmt: skip
        for table in (towns, towns.iloc[[0]], towns.iloc[:0]):
            result = PublicSchema(columns, sparse_output=sparse).fit_transform(table)
            assert isinstance(result, csr_array) == expected
            dense = PublicSchema(columns, sparse_output=False).fit_transform(table)
            assert np.array_equal(result.toarray() if expected else result, dense)


kinds = st.one_of(
    st.builds(
        lambda low, width, log, fraction: Number(
            low, low + width, log=log, missing=True, fill=low + fraction * width
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
    result = schema.fit_transform(pd.DataFrame(row, dtype=object))
    values = (result.toarray() if sparse else result)[0]
    assert sum(Fraction(value) ** 2 for value in values.tolist()) <= 1


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


def test_dates():
    times = pd.to_datetime(["2020-01-01T12:00", "2020-01-03T00:00"])
    assert one(Date("2020-01-01", "2020-01-03"), times).ravel().tolist() == pytest.approx([-1, 1])
    hours = one(Date("2020-01-01", "2020-01-02", "hour"), times).ravel()
    assert hours.tolist() == pytest.approx([0, 1])
    zone = pd.to_datetime(["2020-01-03T01:00:00+02:00"])
    assert one(Date("2020-01-01", "2020-01-03"), zone).ravel().tolist() == pytest.approx([0])
    far = [datetime.date(9999, 12, 31), datetime.date(1, 1, 1), pd.Timestamp("2020-01-02")]
    result = one(Date("2020-01-01", "2020-01-03"), far, dtype=object).ravel()
    assert result.tolist() == pytest.approx([1, -1, 0])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Number(1, 1), []),
        (Number(0, math.inf), []),
        (Number(-1, 1, log=True), []),
        (Number(0, 1, fill=0.5), []),
        (Number(0, 1, missing=True, fill=1), []),
        (Number("0", 1), []),
        (Number(0, 1, missing="no"), []),
        (Ordered(("a", None)), []),
        (Category("abc"), []),
        (Category((1, "01")), []),
        (Date("2020-01-01", "soon"), []),
        (Date("2020-01-01", "2020-01-02", "days"), []),
        (Number(0, 1), [0.5, None]),
        (Number(0, 1), ["0,5", "1"]),
        (Date("2020-01-01", "2021-01-01"), ["2020-01-01"]),
        (Ordered(("a", "b")), ["a", "c"]),
        (Boolean(), [True, None]),
        (Category(("a",), other=False), ["b"]),
        (Category(("a",)), ["a", None]),
        (Category(("a",)), [datetime.date(2020, 1, 1)]),
        (Category((str(2**53),)), [1, float(2**53)]),
    ],
)
def test_wrong_facts_and_values_are_refused_by_the_name_of_the_column(kind, values):
    with pytest.raises((TypeError, ValueError), match="column 'c'"):
        one(kind, values)


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ({"columns": [Number(0, 1)]}, "columns"),
        ({"columns": {"age": (0, 1)}}, "columns"),
        ({"columns": {}}, "columns"),
        ({"person": "age"}, "person"),
        ({"shapes": "round"}, "shapes"),
        ({"interactions": "auto"}, "interactions"),
        ({"interactions": [("age", "height")]}, "interactions"),
        ({"interactions": [("age", "day"), ("day", "age")]}, "interactions"),
        ({"interactions": [("age", "day", "town")]}, "interactions"),
    ],
)
def test_wrong_parameters_are_refused_by_name(how, name):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must"):
        PublicSchema(**{"columns": COLUMNS} | how).fit(TABLE)
