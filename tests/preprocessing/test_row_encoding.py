"""Rows from public facts: norms, names, missing and unknown values, refusals."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.preprocessing.columns import Boolean, Category, Date, Number, Ordered
from sklearn_dpwg.preprocessing.public_schema import Schema

SCHEMA = Schema(
    {
        "age": Number(0, 100),
        "income": Number(0, 1e6, log=True, missing=True, fill=30_000),
        "grade": Ordered(("low", "middle", "high"), missing=True),
        "member": Boolean("yes", "no", missing=True),
        "job": Category(("nurse", "clerk", "other"), missing=True),
        "town": Category(("A", "B")),
        "day": Date("2020-01-01", "2020-12-31", missing=True),
    }
)
NAMES = (
    *("age", "income", "income=missing", "grade", "grade=missing", "member", "member=missing"),
    *("job=nurse", "job=clerk", "job=other", "job=missing", "town=A", "town=B", "town=other"),
    *("day", "day=missing"),
)
FRAME = pd.DataFrame(
    {
        "age": [50, -3, 1e9],
        "income": [0.0, np.nan, 5e6],
        "grade": ["middle", None, "high"],
        "member": ["no", "yes", None],
        "job": ["clerk", "pilot", None],
        "town": ["B", "Z", "A"],
        "day": [datetime.date(2020, 12, 31), None, datetime.date(1999, 1, 1)],
        "unused": ["x", "y", "z"],
    }
)


def rows(schema, frame):
    found = schema.encode(frame)
    return found.toarray() if isinstance(found, csr_array) else found


def one(kind, values, **options):
    """The block of a column alone, in its own units."""
    schema = Schema({"c": kind})
    return rows(schema, pd.DataFrame({"c": pd.Series(values, **options)})) * schema.row_norm


def test_every_kind():
    fill = 2.0 * math.log1p(30_000) / math.log1p(1e6) - 1.0
    rest = math.sqrt(1.0 - fill**2)
    assert SCHEMA.feature_names == NAMES
    found = rows(SCHEMA, FRAME) * SCHEMA.row_norm
    expected = [
        [0, -1, 0, 0, 0, -1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0],
        [-1, fill, rest, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1],
        [1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, -1, 0],
    ]
    assert found == pytest.approx(np.array(expected), abs=1e-12)


def test_the_bound_holds_in_exact_arithmetic():
    for n_columns in range(1, 80):
        names = [f"c{column}" for column in range(n_columns)]
        schema = Schema({name: Boolean() for name in names})
        (row,) = rows(schema, pd.DataFrame([[True] * n_columns], columns=names))
        assert 1 - 1e-11 < sum(Fraction(value) ** 2 for value in row) <= 1


anything = st.one_of(
    st.none(), st.floats(), st.floats(-1e3, 1e3), st.integers(-(10**12), 10**12), st.just(5e-324)
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.floats(allow_nan=False), st.integers(-(2**60), 2**60)),
            anything,
            st.sampled_from([None, "low", "middle", "high"]),
            st.sampled_from(["yes", "no", None]),
            st.one_of(st.none(), st.text(max_size=3), st.sampled_from(["nurse", "clerk"])),
            st.one_of(st.integers(), st.text(max_size=2), st.booleans()),
            st.one_of(st.none(), st.datetimes()),
        ),
        min_size=1,
        max_size=8,
    ),
    st.floats(1e-6, 1e12),
)
def test_no_row_is_longer_than_one(records, high):
    frame = pd.DataFrame(records, columns=list(SCHEMA.columns))
    frame["income"] = frame["income"].astype(float)
    for schema in (SCHEMA, Schema({**SCHEMA.columns, "age": Number(0, high, log=True)})):
        assert np.linalg.norm(rows(schema, frame), axis=1).max() <= 1.0


def test_levels_may_be_a_list():
    for kind in (Category, Ordered):
        assert kind(["a", "b"]) == kind(("a", "b"))


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
        (Number(1, 1), "low < high, got (1.0, 1.0)"),
        (Number(0, math.inf), "finite bounds"),
        (Number(-1, 1, log=True), "low >= 0 for log=True"),
        (Number(0, 1, fill=0.5), "is for missing=True"),
        (Number(0, 1, missing=True, fill=1), "strictly between its bounds, got 1"),
        (Number("0", 1), "low of column 'c' must be a number"),
        (Ordered(("a",)), "tuple of at least 2"),
        (Ordered(("a", None)), "texts, numbers or booleans"),
        (Category(()), "tuple of at least 1"),
        (Category(("a", " a")), "differ as text"),
        (Category("abc"), "tuple of at least 1"),
        (Category(("a", "missing"), missing=True), "names of their own"),
        (Category((1, "01")), "differ as text"),
        (Boolean(1, True), "differ as text"),
        (Date("2020-01-02", "2020-01-02"), "first < last"),
        (Date("2020-01-01", "2020-01-02", "month"), "first < last in its unit 'month'"),
        (Date("2020-01-01", "soon"), "first < last"),
        (Date("2020-01-01", "now"), "first < last"),
        (Date("2020-01-01", "2020-01-02", "days"), "unit of column 'c' must be one of year, month"),
    ],
)
def test_wrong_facts_are_refused_by_name(kind, says):
    with pytest.raises((TypeError, ValueError), match="column 'c'") as caught:
        Schema({"c": kind})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (Number(0, 1), [0.5, None], "declared with missing=True, got one in row 1"),
        (Ordered(("a", "b")), ["a", "c"], "must hold its levels 'a', 'b', got 'c' in row 1"),
        (Ordered(("a", "b")), ["a", None], "declared with missing=True"),
        (Boolean(), [True, 2], "got '2' in row 1"),
        (Category(("a",), other=False), ["b"], "got 'b' in row 0"),
        (Category(("a",)), ["a", None], "declared with missing=True"),
        (Date("2020-01-01", "2020-01-02"), [pd.Timestamp(0), None], "declared with missing=True"),
    ],
)
def test_wrong_values_are_refused_by_name(kind, values, says):
    with pytest.raises(ValueError, match="column 'c'") as caught:
        one(kind, values)
    assert says in str(caught.value)


def test_columns_are_there_once():
    with pytest.raises(ValueError, match="X must have one column 'age', got 2"):
        SCHEMA.encode(pd.concat([FRAME, FRAME[["age"]]], axis=1))
    with pytest.raises(ValueError, match="'a=b' is twice"):
        Schema({"a": Category(("b",)), "a=b": Number(0, 1)})


def test_a_schema_does_not_change():
    columns = {"age": Number(0, 100)}
    schema = Schema(columns)
    columns["age"] = Number(0, 1)
    assert schema.columns["age"] == Number(0, 100)
    with pytest.raises(TypeError):
        schema.columns["age"] = Number(0, 1)
