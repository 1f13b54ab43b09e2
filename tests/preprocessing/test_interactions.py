"""Pairs of columns in a schema: blocks of norm at most 1, names, files, pictures, refusals."""

from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_dpwg.inspection import ShapeDisplay, shape_functions
from sklearn_dpwg.postprocessing import monotone
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered, PublicSchema

mpl.use("Agg")

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
    found = schema.fit_transform(table)
    assert np.array_equal(schema.set_params(sparse_output=True).transform(table).toarray(), found)
    for one in found:
        assert sum(Fraction(value) ** 2 for value in one) <= 1


def test_a_block_has_the_products_of_parts():
    schema = schema_of(PAIRS[:2])
    names = list(schema.get_feature_names_out())
    rows = table_of(
        [(45, 50, "H", 2, True, "2020-01-01"), (None, 0, None, None, True, "2020-01-01")]
    )
    found = pd.DataFrame(schema.fit_transform(rows), columns=names) * np.sqrt(2.0 / 0.3)
    one, other = (
        {name: round(value, 6) for name, value in each.items() if "×" in name and value}
        for _, each in found.iterrows()
    )
    assert one == {
        "age=30×hours=40": 0.25,
        "age=30×hours=60": 0.25,
        "age=60×hours=40": 0.25,
        "age=60×hours=60": 0.25,
        "town=H×grade=2": 1.0,
    }
    assert other == {"age=missing×hours=0": 1.0, "town=missing×grade=missing": 1.0}
    alone = schema_of([]).fit_transform(rows) * np.sqrt(0.7)
    assert found.to_numpy()[:, : alone.shape[1]] == pytest.approx(alone * np.sqrt(2.0 / 0.3))


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(
        {
            "age": rng.uniform(0, 90, n),
            "hours": rng.uniform(0, 60, n),
            "town": rng.choice([*"ABCDEFGHIZ", None], n),
            "grade": rng.choice([1, 2, 3, np.nan], n),
            "member": rng.random(n) < 0.5,
            "day": pd.Timestamp("2020-03-01"),
        }
    )
    table.loc[::10, "age"] = np.nan
    y = (table["age"].fillna(0) > 45) ^ (table["hours"] > 30)
    return make_pipeline(schema_of(), LogisticRegression(C=100.0)).fit(table, y), table


def test_effects_of_pairs_are_those_of_their_products_and_are_drawn(model):
    fitted, table = model
    effects = {one.name: one for one in shape_functions(fitted)}
    effect = effects["age×hours"]
    assert effect is next(iter(effects.values()))
    assert effect.axes == (effects["age"], effects["hours"])
    cells = dict(zip(effect.values, effect.effects, strict=True))
    ends = [(age, hours) for age in (0.0, 67.5) for hours in (0.0, 15.0)]
    rows = table.iloc[[0] * 4].assign(
        **dict(zip(("age", "hours"), np.transpose(ends), strict=True))
    )
    together = np.array([cells[f"{age:g}, {hours:g}"] for age, hours in ends])
    # what is of one column by itself falls out of the difference of differences
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    assert fitted.decision_function(rows) @ signs == pytest.approx(signs @ together)
    display = ShapeDisplay.from_estimator(fitted)
    (drawn, *_) = display.axes_.flat[0].collections
    assert drawn.get_array().shape == (17, 18)  # of hours and of ages, the last one missing
    assert drawn.get_array()[4, 12] == pytest.approx(cells["67.5, 15"])
    mpl.pyplot.close(display.figure_)


def test_effects_of_pairs_are_not_monotone(model):
    with pytest.raises(ValueError, match="without interactions, got 'age'"):
        monotone(model[0], {"age": 1})


@pytest.mark.parametrize(
    ("interactions", "says"),
    [
        ("auto", "interactions must be pairs .* got 'auto'"),
        ([("age",)], "interactions must be pairs of names of columns"),
        ([("age", "height")], "interactions must be of columns .* got 'height'"),
        ([("age", "age")], "interactions must be of two columns, each pair once"),
        ([("age", "day"), ("day", "age")], "interactions must be of two columns, each pair once"),
        ([("age", "hours", "town")], "interactions must be pairs of names of columns"),
    ],
)
def test_wrong_interactions_are_refused(interactions, says):
    with pytest.raises(ValueError, match=says):
        schema_of(interactions).fit(table_of([]))
