"""What skl2onnx makes of fitted models, scalers and schemas, beside what these compute."""

from __future__ import annotations

import builtins
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.onnx import check_graph, register_converters
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import (
    Boolean,
    BoundedScaler,
    Category,
    Cells,
    Date,
    DPStandardScaler,
    Number,
    Ordered,
    PublicSchema,
    PublicShapes,
)
from sklearn_dpwg.preprocessing.columns import DATE_UNITS

INSTALLED = True
try:
    import onnxruntime
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )
except ImportError:
    INSTALLED = False

converts = pytest.mark.skipif(not INSTALLED, reason="skl2onnx and onnxruntime are not installed")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
if INSTALLED:
    register_converters()

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(300, 3)).astype(np.float32)
SCORE = X @ np.array([1.0, -2.0, 0.5])
CLASSES = {
    "two strings": np.where(SCORE > 0, "yes", "no"),
    "two numbers": (SCORE > 0).astype(int),
    "booleans": SCORE > 0,
    "three strings": np.array(["low", "mid", "high"])[np.digitize(SCORE, [-0.7, 0.7])],
}


def run(converted, inputs):
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    return session.run(None, inputs)


@converts
@pytest.mark.parametrize(
    ("kind", "name", "how"),
    [
        *((DPWorstGroupClassifier, name, {}) for name in CLASSES),
        *((DPAUCClassifier, name, {}) for name in list(CLASSES)[:3]),
        (DPWorstGroupClassifier, "two strings", {"loss": "hinge"}),
    ],
)
def test_classifiers(kind, name, how):
    model = kind(math.inf, data_norm=2.0, **how).fit(X, CLASSES[name])
    # skl2onnx refuses doubles without probabilities, which a hinge loss has not
    for rows, error in ((X, 1e-5), (X.astype(float), 1e-12))[: 1 if how else 2]:
        converted = to_onnx(model, rows[:1], options={"zipmap": False})
        labels, scores = run(converted, {"X": rows})
        assert np.array_equal(labels, model.predict(rows))
        if not how:
            assert scores == pytest.approx(model.predict_proba(rows), abs=error)


@converts
def test_pipelines_of_numbers():
    bounds = [(-0.5, 0.5), (-3.0, 2.0), (0.0, 1.0)]
    for scaler in (
        BoundedScaler(bounds, unit_norm=True),
        BoundedScaler(bounds),
        PublicShapes(bounds),
        DPStandardScaler(math.inf, bounds=bounds),
    ):
        regressor = DPWorstGroupRegressor(math.inf, data_norm=1.0, target_bounds=(-3.0, 3.0))
        pipeline = make_pipeline(scaler, regressor).fit(X, SCORE)
        found = run(to_onnx(pipeline, X[:1]), {"X": X})[0]
        assert found.ravel() == pytest.approx(pipeline.predict(X), abs=1e-5)
        double = X.astype(float)
        rows = run(to_onnx(scaler, double[:1]), {"X": double})[0]
        assert rows == pytest.approx(scaler.transform(double), abs=1e-13)


@converts
def test_a_search_for_a_pipeline():
    pipeline = make_pipeline(BoundedScaler(), DPWorstGroupClassifier(math.inf, data_norm=2.0))
    search = GridSearchCV(pipeline, {"dpworstgroupclassifier__radius": [5.0, 10.0]}, cv=2)
    search.fit(X, CLASSES["two numbers"])
    converted = to_onnx(search.best_estimator_, X[:1], options={"zipmap": False})
    assert np.array_equal(run(converted, {"X": X})[0], search.predict(X))


TABLE = pd.DataFrame(
    {
        "age": [50.0, np.nan, 300.0, -2.0],
        "income": [0.0, 5e3, 1e9, 70.0],
        "day": pd.to_datetime(["2019-01-01", "2020-03-04", None, "2199-12-31"]),
        "grade": ["low", "high", None, "mid"],
        "floor": [0, 2, 1, 1],
        "member": ["yes", "no", None, "no"],
        "flag": [True, False, True, True],
        "town": ["A", "Z", None, "B"],
        "code": [3.0, 9.0, np.nan, 0.5],
        "kind": ["other", "x", "y", "x"],
    }
)
COLUMNS = {
    "age": Number(0, 100, missing=True, fill=30),
    "income": Number(0, 1e6, log=True),
    "day": Date("2020-01-01", "2021-01-01", "week", missing=True, fill="2020-05-01"),
    "grade": Ordered(("low", "mid", "high"), missing=True),
    "floor": Ordered((0, 1, 2)),
    "member": Boolean("yes", "no", missing=True),
    "flag": Boolean(),
    "town": Category(("A", "B"), missing=True),
    "code": Category((2, 3, 4), missing=True),
    "kind": Category(("x", "other", "y")),
}


def typed_inputs(table):
    """Return types and values as ONNX wants them."""
    types, values = [], {}
    for name, column in table.items():
        if name == "day":
            seconds = column.astype("datetime64[s]").astype("int64").astype(float)
            kind, found = DoubleTensorType, seconds.where(column.notna(), np.nan).to_numpy()
        elif name == "flag":
            kind, found = BooleanTensorType, column.to_numpy(dtype=bool)
        elif name == "floor":
            kind, found = Int64TensorType, column.to_numpy(dtype=np.int64)
        elif pd.api.types.is_numeric_dtype(column):
            kind, found = FloatTensorType, column.to_numpy(dtype=np.float32)
        else:
            kind, found = StringTensorType, column.fillna("").to_numpy(dtype=object)
        types.append((name, kind([None, 1])))
        values[name] = found[:, None]
    return types, values


PAIRS = [("age", "code"), ("grade", "town"), ("flag", "day")]


@converts
@pytest.mark.parametrize("interactions", [(), PAIRS])
def test_a_schema_with_a_model(interactions):
    schema = PublicSchema(COLUMNS, interactions=interactions, sparse_output=False)
    types, values = typed_inputs(TABLE)
    rows = run(to_onnx(schema, initial_types=types), values)[0]
    assert rows == pytest.approx(schema.fit_transform(TABLE), abs=1e-6)
    model = DPWorstGroupClassifier(math.inf, data_norm=1.0)
    pipeline = make_pipeline(schema, model).fit(TABLE, ["a", "b", "b", "a"])
    converted = to_onnx(pipeline, initial_types=types, options={"zipmap": False})
    labels, probabilities = run(converted, values)
    assert np.array_equal(labels, pipeline.predict(TABLE))
    assert probabilities == pytest.approx(pipeline.predict_proba(TABLE), abs=1e-5)


@converts
@pytest.mark.parametrize("unit", DATE_UNITS)
def test_dates_count_units_of_the_calendar(unit):
    years = (1899, 1900, 1970, 1999, 2000, 2024, 2099, 2100)  # 1900 and 2100 are no leap years
    every = pd.DatetimeIndex([]).append(
        [pd.date_range(f"{year}-01-01", f"{year}-12-31") for year in years]
    )
    moments = [np.datetime64(f"{year}-{day}T23:59:59") for year in range(1600, 2401, 50)
               for day in ("01-01", "02-28", "03-01", "12-31")]  # fmt: skip
    days = np.concatenate([every.to_numpy("datetime64[s]"), np.array(moments, "datetime64[s]")])
    schema = PublicSchema({"c": Date("1500-01-01", "2500-01-01", unit)}, shapes="linear")
    expected = schema.fit_transform(pd.DataFrame({"c": days}))
    graph = to_onnx(schema, initial_types=[("c", DoubleTensorType([None, 1]))])
    found = run(graph, {"c": days.astype("int64").astype(float)[:, None]})[0]
    assert found == pytest.approx(expected, abs=1e-12)


@converts
@pytest.mark.parametrize(
    ("order", "double"),
    [
        *((order, True) for order in itertools.permutations(["age", "town", "floor"])),
        (("age", "town", "floor"), False),
    ],
)
def test_inputs_of_a_model_may_come_in_any_order(order, double):
    kinds = {"age": DoubleTensorType if double else FloatTensorType}
    kinds |= {"town": StringTensorType, "floor": Int64TensorType}
    table = pd.DataFrame({"age": [10.0, 50, 70] * 9, "town": ["A", "B", "C"] * 9, "floor": 1})
    columns = {"age": Number(0, 100), "town": Category(("A", "B")), "floor": Ordered((0, 1))}
    model = DPWorstGroupClassifier(math.inf, data_norm=1.0)
    pipeline = make_pipeline(PublicSchema(columns), model).fit(table, [0, 1, 1] * 9)
    types = [(name, kinds[name]([None, 1])) for name in order]
    graph = to_onnx(pipeline, initial_types=types, options={"zipmap": False})
    given = {name: table[[name]].to_numpy() for name in order}
    given |= {"age": given["age"].astype(float if double else np.float32)}
    given |= {"town": given["town"].astype(object)}
    labels, probabilities = run(graph, given)
    assert np.array_equal(labels, pipeline.predict(table))
    error = 1e-13 if double else 1e-6
    assert probabilities == pytest.approx(pipeline.predict_proba(table), abs=error)


@converts
def test_columns_by_position():
    schema = PublicSchema({1: Number(0, 10)}, shapes="linear").fit([[0, 5.0]])
    types = [("x1", DoubleTensorType([None, 1]))]
    found = run(to_onnx(schema, initial_types=types), {"x1": np.array([[5.0], [20.0]])})[0]
    assert found.ravel().tolist() == pytest.approx([0.0, 1.0])


@converts
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Category(("a", 1)), "levels of column 'c' must be all strings or all whole numbers"),
        (Category((0.5,)), "levels of column 'c' must be all strings or all whole numbers"),
        (Ordered(("a", "b")), "levels of column 'c' must be all strings or all whole numbers"),
    ],
)
def test_what_has_no_graph_is_refused_by_name(kind, says):
    with pytest.raises(ValueError, match=says):
        to_onnx(PublicSchema({"c": kind}), initial_types=[("c", FloatTensorType([None, 1]))])


@converts
def test_inputs_are_named_like_columns():
    with pytest.raises(ValueError, match="initial_types must have an input 'age'"):
        to_onnx(PublicSchema({"age": Number(0, 1)}), initial_types=[("a", FloatTensorType([1, 1]))])
    text = [("age", StringTensorType([None, 1]))]
    with pytest.raises(ValueError, match="input 'age' must have numbers or seconds"):
        to_onnx(PublicSchema({"age": Number(0, 1)}), initial_types=text)


@converts
@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([PublicSchema({"a": Category(("x", 1))}), DPWorstGroupClassifier()], "levels of column"),
        ([PublicSchema({"a": Number(0, 1)}, cells=Cells()), DPWorstGroupClassifier()], "cells of"),
        (
            [PublicSchema({"a": Number(0, 1)}), DPThresholdClassifier(DPWorstGroupClassifier())],
            "DPThresholdClassifier has no graph in ONNX",
        ),
        ([BoundedScaler(), DPWorstGroupClassifier()], "must be a PublicSchema and a model"),
    ],
)
def test_what_will_have_no_graph_is_refused_before_a_fit(steps, says):
    with pytest.raises(InputError, match=says):
        check_graph(make_pipeline(*steps))


@converts
@pytest.mark.parametrize("model", [DPAUCClassifier(), DPWorstGroupRegressor(target_bounds=(0, 1))])
def test_what_will_have_a_graph_passes_and_stays_as_it_is(model):
    steps = make_pipeline(PublicSchema(COLUMNS), model)
    before = dict(vars(model))
    check_graph(steps)
    assert vars(model) == before


def test_without_skl2onnx(monkeypatch):
    imported = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == "skl2onnx":
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match="register_converters needs skl2onnx: pip install"):
        register_converters()
