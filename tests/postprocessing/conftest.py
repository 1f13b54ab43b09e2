"""A model whose scores are a column, and records for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.solvers import MGR


class ScoresInAColumn(ClassifierMixin, BaseEstimator):
    """Stands for a public model: the score of a row is its first number."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.array([0, 1]), np.shape(X)[1]
        return self

    def predict_proba(self, X):
        scores = np.asarray(X, dtype=float)[:, 0]
        return np.column_stack([1.0 - scores, scores])

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


class Records(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray


def make_records(n_records=4000, n_groups=3, seed=0):
    """Return records whose second column tells the group, and whose classes depend on it."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=n_records)
    X = np.column_stack([rng.beta(1 + codes, 2), codes / n_groups])
    y = (rng.uniform(size=n_records) < X[:, 0] ** (1.0 + 0.5 * codes)).astype(int)
    return Records(X, y, np.array(list("abcdefgh"))[codes])


@pytest.fixture(scope="session")
def records():
    return make_records()


@pytest.fixture(scope="session")
def frozen():
    return FrozenEstimator(ScoresInAColumn().fit(np.zeros((2, 2)), [0, 1]))


@pytest.fixture
def private():
    return DPWorstGroupClassifier(data_norm=1.5, solver=MGR(n_steps=5))
