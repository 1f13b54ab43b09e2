"""Small data, quick estimators, and an eye on the noise."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.estimators import learn
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import relation_of

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Fits of this folder are seeded and small, which is warned of; tests of that ask for it."""
    for folder in {node for item in items for node in item.listchain() if node.path == HERE}:
        for name in ("SeededNoiseWarning", "WeakPlanWarning"):
            ignored = f"ignore::sklearn_dpwg.exceptions.{name}"
            folder.add_marker(pytest.mark.filterwarnings(ignored))


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray


class Task(NamedTuple):
    """An estimator class with data for it."""

    estimator: type
    data: Data

    def make(self, **parameters):
        defaults = {"solver": MGR(n_steps=5), "random_state": 0, "data_norm": 1.0}
        if self.estimator is DPWorstGroupRegressor:
            defaults["target_bounds"] = (-1, 1)
        known = defaults | parameters
        return self.estimator(**relation_of(known["solver"]) | known)

    def fit(self, start=None, **parameters):
        return self.make(**parameters).fit(*self.data, start=start)


def make_task(kind: str, n_records: int = 90) -> Task:
    rng = np.random.default_rng(7)
    X = rng.uniform(-0.5, 0.5, size=(n_records, 3))
    groups = rng.choice(["a", "b", "c"], size=n_records, p=[0.5, 0.3, 0.2])
    signal = X[:, 0] + np.where(groups == "a", 0.5, -0.5) * X[:, 1]
    if kind == "regressor":
        return Task(DPWorstGroupRegressor, Data(X, signal, groups))
    if kind == "binary":
        return Task(
            DPWorstGroupClassifier,
            Data(X, np.where(signal > 0, "yes", "no"), groups),
        )
    thirds = np.digitize(signal, [-0.15, 0.15])
    return Task(DPWorstGroupClassifier, Data(X, np.array(["hi", "lo", "mid"])[thirds], groups))


@pytest.fixture(params=["binary", "multiclass", "regressor"])
def task(request) -> Task:
    return make_task(request.param)


@pytest.fixture(params=["binary", "regressor"])
def one_output(request) -> Task:
    return make_task(request.param)


@pytest.fixture
def binary() -> Task:
    return make_task("binary")


@pytest.fixture
def regressor() -> Task:
    return make_task("regressor")


@pytest.fixture(name="make_task")
def task_maker():
    """Return what makes a task of a kind and a size."""
    return make_task


@pytest.fixture
def draws(monkeypatch):
    """Return a function that lists every draw of noise so far in a test."""
    sources = []

    class WatchedSource(NoiseSource):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            sources.append(self)

    monkeypatch.setattr(learn, "NoiseSource", WatchedSource)
    return lambda: [draw for source in sources for draw in source.draws]
