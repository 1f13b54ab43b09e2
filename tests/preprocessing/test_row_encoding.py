"""Rows from public facts: norms, names, missing and unknown values, refusals."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.preprocessing.columns import Boolean, Category, Date, Number, Ordered
from sklearn_dpwg.preprocessing.public_schema import Schema


def one(kind, values, **options):
    """The block of a column alone, in its own units."""
    schema = Schema({"c": kind})
    frame = pd.DataFrame({"c": pd.Series(values, **options)})
    return schema.encode(frame, sparse=False) * schema.row_norm


def test_amounts_are_taken_by_their_logarithm_and_a_gap_has_the_fill():
    kind = Number(0, 1e6, log=True, missing=True, fill=30_000)
    fill = 2.0 * math.log1p(30_000) / math.log1p(1e6) - 1.0
    expected = [[-1.0, 0.0], [fill, math.sqrt(1.0 - fill**2)], [1.0, 0.0]]
    assert one(kind, [0.0, np.nan, 5e6]) == pytest.approx(np.array(expected), abs=1e-12)


def test_the_bound_holds_in_exact_arithmetic():
    for n_columns in range(1, 80):
        names = [f"c{column}" for column in range(n_columns)]
        schema = Schema({name: Boolean() for name in names})
        (row,) = schema.encode(pd.DataFrame([[True] * n_columns], columns=names), sparse=False)
        assert 1 - 1e-11 < sum(Fraction(value) ** 2 for value in row) <= 1


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
        (Category("abc"), "tuple of at least 1"),
        (Category((1, "01")), "differ as text"),
        (Date("2020-01-02", "2020-01-02"), "first < last"),
        (Date("2020-01-01", "soon"), "first < last"),
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
        Schema({"age": Number(0, 1)}).encode(pd.DataFrame([[0, 1]], columns=["age", "age"]))
    with pytest.raises(ValueError, match="'a=b' is twice"):
        Schema({"a": Category(("b",)), "a=b": Number(0, 1)})
