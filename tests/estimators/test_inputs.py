"""Rows in every form: arrays of both precisions, frames, compressed rows – and what they cost."""

from __future__ import annotations

import gc
import itertools
import math
import tracemalloc
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.solvers import MGR, Exact
from tests.helpers.relations import WITHIN_GROUP

NAMES = ["u", "v", "w"]
FORMS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "pandas, mixed types": lambda X: pd.DataFrame(X, columns=NAMES).astype({"v": "float32"}),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "csr_array": csr_array,
    "csr_matrix": csr_matrix,
    "csc_matrix": csc_matrix,
    "coo_array": coo_array,
}


def with_zeros(X):
    """Return rows that single precision holds exactly, some of their entries zero."""
    X = np.round(64 * X) / 64
    X[np.random.default_rng(3).random(X.shape) < 0.4] = 0.0
    return X


def predictions(model, X):
    return getattr(model, "decision_function", model.predict)(X)


@cache
def expected_of(make_task, kind, **parameters):
    """Return what is learned from an array, once for all forms."""
    task = make_task(kind)
    return task.make(**parameters).fit(with_zeros(task.data.X), task.data.y, task.data.groups)


@pytest.mark.parametrize(
    ("kind", "form", "precision"),
    [
        *itertools.product(["binary"], FORMS, ["float64", "float32"]),
        *itertools.product(["multiclass", "regressor"], ["F", "polars", "csc_matrix"], ["float32"]),
    ],
)
def test_every_form_gives_the_same_model(make_task, kind, form, precision):
    task, expected = make_task(kind), expected_of(make_task, kind)
    X = with_zeros(task.data.X)
    rows = FORMS[form](X.astype(precision))
    fitted = task.make().fit(rows, task.data.y, task.data.groups)
    np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-9)
    np.testing.assert_allclose(fitted.intercept_, expected.intercept_, rtol=1e-9)
    np.testing.assert_allclose(predictions(fitted, rows), predictions(expected, X), rtol=1e-8)
    assert fitted.coef_.dtype == np.float64
    assert predictions(fitted, rows).dtype == np.float64
    if form.startswith("pa") or form == "polars":
        assert fitted.feature_names_in_.tolist() == NAMES


def test_broken_sparse_rows_are_refused_before_any_noise(binary, draws):
    X = csr_array(with_zeros(binary.data.X))
    X.indices = X.indices.copy()
    X.indices[0] = 77
    with pytest.raises(ValueError, match=r"^X must be whole sparse rows: indices from 0 to 2"):
        binary.make().fit(X, binary.data.y, binary.data.groups)
    assert draws() == []


# --- copies ------------------------------------------------------------------------------------

N_RECORDS, N_FEATURES = 30_000, 80
# what is kept beside the rows: a factor, a target and a code a record, groups, sums of a task
BESIDE = 90 * N_RECORDS + 5 * 2**20


def big(form, precision):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.1, 0.1, size=(N_RECORDS, N_FEATURES)).astype(precision)
    if form == "csr":
        places = rng.integers(0, 10, (N_RECORDS, 40)) + 10 * np.arange(40)  # one in ten columns
        starts = 40 * np.arange(N_RECORDS + 1)
        entries = 0.1 * rng.random(places.size)
        X = csr_array((entries, places.ravel(), starts), shape=(N_RECORDS, 400)).astype(precision)
    elif form == "F":
        X = np.asfortranarray(X)
    y = rng.integers(0, 2, N_RECORDS)
    return X, y, rng.integers(0, 5, N_RECORDS)


def traced(function):
    """Return the peak of what NumPy and Python held beyond what was there before."""
    gc.collect()
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("form", "precision", "solver"),
    [
        ("C", "float64", MGR(n_steps=2)),
        ("C", "float32", MGR(n_steps=2)),
        ("csr", "float32", MGR(n_steps=2)),
        ("F", "float64", Exact(tolerance=1e-2)),
    ],
    ids=repr,
)
def test_rows_are_copied_once_in_single_precision(form, precision, solver):
    epsilon = math.inf if isinstance(solver, Exact) else 1.0
    bounds = {"data_norm": 1.0, "radius": 1.0, **WITHIN_GROUP}
    model = DPWorstGroupClassifier(epsilon, solver=solver, **bounds)
    X, y, groups = big(form, precision)
    model.fit(X[:99], y[:99], groups=groups[:99])  # what is loaded late is not traced
    before = X.copy()
    n_bytes = 4 * (X.nnz if form == "csr" else X.size)
    for codes in (np.sort(groups), groups):
        peak = traced(lambda: model.fit(X, y, groups=codes))  # noqa: B023
        assert (before != X).sum() == 0
        # compressed rows that are put in order bring their indices along, in their own precision,
        # and a block of both is held in double precision beside
        assert 0.9 * n_bytes < peak < (5 if form == "csr" else 1) * n_bytes + BESIDE
