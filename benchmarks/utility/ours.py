"""Fits of this package's estimators with default parameters."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from utility.tasks import Task

DELTA = 1e-5


def make_model(
    task: Task, solver: Any, epsilon: float, seed: int | None = None, **parameters: Any
) -> Any:
    """Return an estimator with public groups and defaults but for the solver, and these."""
    kind = DPWorstGroupClassifier if task.is_classification else DPWorstGroupRegressor
    known = {"neighbours": "replace-one-within-group", **task.public, **parameters}
    return kind(epsilon, DELTA, solver=solver, random_state=seed, **known)


@cache
def warm_up(kind: str) -> None:
    """Fit a few records once, as the first fit of a process also imports what all fits need."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, size=(400, 2))
    y, groups = rng.integers(2, size=(2, 400))
    make, public = DPWorstGroupClassifier, {"data_norm": 1.0}
    if kind == "regression":
        make, public = DPWorstGroupRegressor, public | {"target_bounds": (0.0, 1.0)}
    for solver in ("mgr", "phased-erm"):
        make(1.0, DELTA, solver=solver, random_state=0, **public).fit(rows, y, groups=groups)
