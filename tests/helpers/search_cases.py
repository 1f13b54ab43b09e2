"""A small private search, and the records that it searches on."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.solvers import MGR

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(600, 2))
GROUPS = np.where(X[:, 1] > 0.2, "a", "b")
Y = np.where(X[:, 0] + 0.1 * RNG.normal(size=600) > 0, "yes", "no")
GRID = {"radius": [0.5, 5.0]}


def model(**parameters):
    return DPWorstGroupClassifier(**{"solver": MGR(n_steps=2), "data_norm": 1.0} | parameters)


def search(estimator=None, grid=None, **parameters):
    return DPSearchCV(
        model() if estimator is None else estimator,
        GRID if grid is None else grid,
        **{"epsilon": 2.0, "n_iter": 3} | parameters,
    )
