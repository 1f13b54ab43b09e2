"""Nothing beside paid releases and returned numbers depends on what one record holds."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import astuple

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import cross_val_predict, cross_val_score

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.metrics import group_table, worst_group_score
from sklearn_dpwg.solvers import Plan

HUGE = 1.7e308
ROWS = {
    "long": [777.0, 0.0, 0.0],
    "huge": [HUGE, -HUGE, HUGE],
    "tiny": [5e-324, 0.0, -1e-310],
    "zero": [-0.0, 0.0, 0.0],
}


def records(kind, n=400):
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    groups = np.where(np.arange(n) % 3 == 0, "a", "b")
    signal = X[:, 0] + np.where(groups == "a", 0.5, -0.5) * X[:, 1]
    y = {
        "regressor": signal,
        "binary": (signal > 0).astype(int),
        "multiclass": np.digitize(signal, [-0.15, 0.15]),
    }[kind]
    return X, y, groups


def facts_of(value):
    """Return the form of an attribute, and its value where it is no release."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.shape, str(value.dtype)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Plan):
        return repr(astuple(value))  # its own text is cut short
    return type(value).__name__ if isinstance(value, float) else repr(value)


def emitted(kind, solver, X, y, groups, capsys):
    """Return all that a fit and its use say, beside the numbers that they return."""
    known = {"epsilon": 2.0, "delta": 1e-4, "solver": solver, "random_state": 0, "verbose": 1}
    if kind == "regressor":
        model = DPWorstGroupRegressor(target_bounds=(-1, 1), **known)
    else:
        classes = np.unique(records(kind)[1]).tolist()
        model = DPWorstGroupClassifier(classes=classes, **known)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y, groups)
        # as in a fold: the rows that are predicted for are records
        shapes = [model.predict(X).shape]
        if kind != "regressor":
            chances = model.predict_proba(X), model.predict_log_proba(X)
            shapes += [found.shape for found in (*chances, model.decision_function(X))]
            model.score(X, y)
            worst_group_score(y, model.predict(X), groups=groups)
            group_table(y, model.predict(X), groups=groups)
    said = [(warning.category.__name__, str(warning.message)) for warning in seen]
    attributes = {name: facts_of(value) for name, value in vars(model).items()}
    assert len(attributes.pop("_fit_key")) == 34  # drawn for each fit by the operating system
    pickled = pickle.loads(pickle.dumps(model))
    assert set(vars(pickled)) == set(vars(model))
    return said, shapes, capsys.readouterr(), repr(model), attributes


@pytest.mark.parametrize(
    ("kind", "solver", "form"),
    [
        ("binary", "auto", np.asarray),
        ("binary", "mgr", csr_array),
        ("binary", "phased-erm", csr_array),
        ("binary", "oco", np.float32),
        ("multiclass", "mgr", np.float32),
        ("multiclass", "oco", csr_array),
        ("regressor", "mgr", csr_array),
        ("regressor", "moments", np.asarray),
        ("regressor", "phased-erm", np.asarray),
    ],
)
def test_what_is_said_is_the_same_for_neighbours(kind, solver, form, capsys):
    X, y, groups = records(kind)
    expected = None
    targets = [y[5], y.min(), y.max(), *([1e300, -0.0] if kind == "regressor" else [y[5], y[6]])]
    for row, target in zip((X[5], *ROWS.values()), targets, strict=True):
        other, flipped = X.copy(), y.copy()
        other[5], flipped[5] = row, target
        given = form(np.clip(other, -3e38, 3e38) if form is np.float32 else other)
        found = emitted(kind, solver, given, flipped, groups, capsys)
        expected = found if expected is None else expected
        assert found == expected


def test_a_fold_that_is_scored_says_nothing():
    """The reproduction of issue 13: the warning told `3.21` or `777`, the norm of one record."""
    X, y, _ = records("binary")
    model = DPWorstGroupClassifier(float("inf"), solver="exact", classes=[0, 1], data_norm=1.0)
    for row in ROWS.values():
        X[5] = row
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            cross_val_score(model, X, y, cv=2)
            cross_val_predict(model, X, y, cv=2, method="predict_proba")
        assert {warning.category.__name__ for warning in seen} == {"UngroupedWarning"}


@pytest.mark.parametrize("y", [["secret", 1.0, 2.0, "hidden"] * 5, ["secret"] * 20])
@pytest.mark.parametrize("make", [DPWorstGroupClassifier, DPWorstGroupRegressor])
def test_errors_do_not_show_targets(make, y):
    X, groups = np.zeros((20, 1)), ["a", "b"] * 10
    y = np.array(y, dtype=object)
    if make is DPWorstGroupRegressor and y[1] == "secret":
        y = y.astype(str)
    with pytest.raises((ValueError, TypeError)) as caught:
        make().fit(X, y, groups)
    assert "hidden" not in str(caught.value)
    if make is DPWorstGroupClassifier:
        assert "secret" not in str(caught.value)
