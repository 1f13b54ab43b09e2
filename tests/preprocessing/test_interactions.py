"""Pairs of columns in a schema: blocks of norm at most 1, names, files, pictures, refusals."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_dpwg.inspection import shape_functions
from sklearn_dpwg.postprocessing import monotone
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered, PublicSchema

COLUMNS = {
    "age": Number(0, 90, missing=True, fill=30),
    "hours": Number(0, 60),
    "town": Category(tuple("ABCDEFGHI"), missing=True),
    "grade": Ordered((1, 2, 3), missing=True),
    "member": Boolean(),
    "day": Date("2020-01-01", "2020-12-31"),
}
PAIRS = [("age", "hours"), ("town", "grade"), ("member", "day"), ("hours", "grade")]


def schema_of(interactions=PAIRS, **how):
    return PublicSchema(COLUMNS, interactions=interactions, sparse_output=False, **how)


def table_of(rows):
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table["day"] = pd.to_datetime(table["day"])
    return table.astype({"age": float, "hours": float})


row = st.tuples(
    st.one_of(st.none(), st.floats(-1e9, 1e9)),
    st.floats(-10, 70),
    st.sampled_from([*"ABCDEFGHIZ", None]),
    st.sampled_from([1, 2, 3, None]),
    st.booleans(),
    st.sampled_from(pd.to_datetime(["2019-01-01", "2020-05-17", "2020-12-31"]).tolist()),
)


@given(st.lists(row, min_size=1, max_size=5), st.integers(1, 4))
def test_no_row_is_longer_than_one_in_exact_arithmetic(rows, n_pairs):
    schema, table = schema_of(PAIRS[:n_pairs]), table_of(rows)
    result = schema.fit_transform(table)
    assert np.array_equal(schema.set_params(sparse_output=True).transform(table).toarray(), result)
    for one in result:
        assert sum(Fraction(value) ** 2 for value in one) <= 1


def test_effects_of_pairs_are_those_of_their_products():
    rng, n = np.random.default_rng(0), 600
    table = pd.DataFrame({"age": rng.uniform(0, 90, n), "hours": rng.uniform(0, 60, n)})
    columns = {name: COLUMNS[name] for name in table}
    schema = PublicSchema(columns, interactions=[("age", "hours")])
    y = (table["age"] > 45) ^ (table["hours"] > 30)
    fitted = make_pipeline(schema, LogisticRegression(C=100.0)).fit(table, y)
    (effect,) = [one for one in shape_functions(fitted) if one.name == "age×hours"]
    cells = dict(zip(effect.values, effect.effects, strict=True))
    ends = pd.DataFrame(product((0.0, 67.5), (0.0, 15.0)), columns=["age", "hours"])
    together = [cells[f"{age:g}, {hours:g}"] for age, hours in ends.to_numpy()]
    # what is of one column by itself falls out of the difference of differences
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    assert fitted.decision_function(ends) @ signs == pytest.approx(signs @ together)
    with pytest.raises(ValueError, match="without interactions"):
        monotone(fitted, {"age": 1})
