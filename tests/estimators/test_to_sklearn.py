"""The linear model of scikit-learn that a fitted estimator becomes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnxruntime import InferenceSession
from scipy.sparse import csr_array
from skl2onnx import to_onnx
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC

# many of these are longer than `data_norm`: a prediction shortens no row
ROWS = np.random.default_rng(0).uniform(-3.0, 3.0, size=(200, 3))


def methods_of(model):
    names = ("predict", "decision_function", "predict_proba", "predict_log_proba")
    return [name for name in names if hasattr(model, name)]


@pytest.mark.parametrize(
    ("kind", "given", "becomes"),
    [
        ("binary", {}, LogisticRegression),
        ("multiclass", {}, LogisticRegression),
        ("binary", {"loss": "hinge"}, LinearSVC),
        ("regressor", {}, LinearRegression),
        ("regressor", {"fit_intercept": False}, LinearRegression),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, csr_array, np.float32])
def test_it_answers_as_the_model_does(make_task, kind, given, becomes, form):
    model = make_task(kind).fit(**given)
    linear = model.to_sklearn()
    assert type(linear) is becomes
    rows = form(ROWS)
    assert methods_of(linear) == methods_of(model)
    for name in methods_of(model):
        expected, answer = (getattr(each, name)(rows) for each in (model, linear))
        if answer.dtype.kind == "f":
            np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(answer, expected)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regressor"])
def test_a_pipeline_with_it_as_last_step_has_a_graph(make_task, kind):
    task = make_task(kind)
    public = MinMaxScaler((-0.5, 0.5)).fit([[-3.0] * 3, [3.0] * 3])
    model = task.make(epsilon=math.inf, solver="auto").fit(*task.data)
    pipeline = Pipeline([("scale", public), ("model", model)])
    served = Pipeline([*pipeline.steps[:-1], ("model", model.to_sklearn())])
    options = None if kind == "regressor" else {"zipmap": False}
    graph = to_onnx(served, ROWS[:1], options=options).SerializeToString()
    answer = InferenceSession(graph).run(None, {"X": ROWS})[0].ravel()
    expected = pipeline.predict(ROWS)
    if kind == "regressor":
        np.testing.assert_allclose(answer, expected, atol=1e-9)
    else:
        np.testing.assert_array_equal(answer, expected)
