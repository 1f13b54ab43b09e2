"""Effects of columns: they are what scores change by, are drawn, and can be made monotone."""

import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.inspection import ShapeDisplay, shape_functions
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.postprocessing import monotone
from sklearn_dpwg.preprocessing import (
    Boolean,
    Category,
    Date,
    Number,
    Ordered,
    PublicSchema,
)

mpl.use("Agg")

SCHEMA = PublicSchema(
    {
        "age": Number(0, 100, missing=True),
        "day": Date("2020-01-01", "2020-12-31"),
        "grade": Ordered(("low", "mid", "high")),
        "town": Category(("A", "B"), missing=True),
        "member": Boolean(),
    }
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 4000
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 365, n), "D")
    result = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 100, n)),
            "day": days,
            "grade": rng.choice(["low", "mid", "high"], n),
            "town": rng.choice(["A", "B", "C", None], n),
            "member": rng.random(n) < 0.5,
        }
    )
    score = 0.1 * (30.0 - abs(result["age"].fillna(50.0) - 50.0)) + result["member"] - 0.5
    return result, score.to_numpy(), rng.choice(["a", "b"], n)


@pytest.fixture(scope="module")
def model(table):
    X, score, groups = table
    classifier = DPWorstGroupClassifier(4.0, data_norm=1.0, random_state=0)
    result = make_pipeline(SCHEMA, classifier)
    with pytest.warns(UserWarning, match="random_state"):
        return result.fit(X, score > 0, dpworstgroupclassifier__groups=groups)


def test_scores_change_by_the_effects(model, table):
    row = table[0].iloc[[0]]
    effects = {one.name: one for one in shape_functions(model)}
    for name, values, shown in [
        ("age", (25.0, np.nan), ("25", "missing")),
        ("town", ("B", "Z"), ("B", "other")),
        ("grade", ("high", "low"), ("high", "low")),
        ("member", (True, False), ("True", "False")),
    ]:
        one, other = (model.decision_function(row.assign(**{name: [value]})) for value in values)
        effect = dict(zip(effects[name].values, effects[name].effects, strict=True))
        assert one - other == pytest.approx(effect[shown[0]] - effect[shown[1]])
    assert next(iter(effects)) == "age"
    assert effects["age"].size > 2.0 * effects["grade"].size


def test_names_of_columns_that_mean_harm_are_text():
    harm = "<script>alert(1)</script> $\\frac{$ | a"
    named = PublicSchema(
        {harm: Number(0, 1), "b": Category((harm, "B"))}, interactions=[(harm, "b")]
    )
    width = len(named.get_feature_names_out())
    fit = DPWorstGroupClassifier(8.0, data_norm=1.0, random_state=0)
    with pytest.warns(UserWarning, match="random_state"):
        fit.fit(np.eye(width)[np.arange(999) % width], np.arange(999) % 2, np.repeat("a", 999))
    display = ShapeDisplay.from_estimator(fit, named)
    display.figure_.savefig(io.BytesIO())  # draws no formula
    assert display.axes_.flat[0].get_title(loc="left").startswith("<script>")


def test_a_monotone_model_is_the_nearest_one(model):
    result = monotone(model, {"age": 1, "grade": -1})
    assert privacy_of(result, warn=False) == privacy_of(model, warn=False)
    before, after = model[-1].coef_[0], result[-1].coef_[0]
    changed = {one.name: one.effects for one in shape_functions(result)}
    assert (np.diff(changed["age"][:-1]) > -1e-9).all()
    assert (np.diff(changed["grade"]) < 1e-9).all()
    seen = {one.name: one for one in SCHEMA._shown_columns()}
    assert np.array_equal(before[seen["town"].columns], after[seen["town"].columns])
    age = seen["age"].columns
    steps = np.diff(seen["age"].rows[:-1], axis=0)
    direct = minimize(
        lambda w: ((w - before[age]) ** 2).sum(),
        np.zeros(9),
        jac=lambda w: 2.0 * (w - before[age]),
        constraints={"type": "ineq", "fun": lambda w: steps @ w, "jac": lambda _: steps},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert after[age] == pytest.approx(direct.x, abs=1e-4)
    assert np.linalg.norm(after[age] - before[age]) <= np.linalg.norm(direct.x - before[age]) + 1e-9
    again = monotone(result, {"age": 1, "grade": -1})
    assert again[-1].coef_ == pytest.approx(result[-1].coef_, abs=1e-9)
