"""Fits of this package's estimators with default parameters."""

from __future__ import annotations

import time
import warnings
from functools import cache
from typing import Any

import numpy as np

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import NoProtectionWarning, SeededNoiseWarning, WeakPlanWarning
from utility.tasks import Task

DELTA = 1e-5


def number(value: float) -> float | None:
    """Return a number as JSON has it, None for NaN."""
    return None if np.isnan(value) else float(value)


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


def fit_once(
    task: Task, solver: Any, epsilon: float, seed: int, **parameters: Any
) -> dict[str, Any]:
    """Fit one estimator and score it."""
    model = make_model(task, solver, epsilon, seed, **parameters)
    with warnings.catch_warnings():
        # seeds make a benchmark repeatable, and weak plans are measured on purpose
        for category in (NoProtectionWarning, SeededNoiseWarning, WeakPlanWarning):
            warnings.simplefilter("ignore", category)
        warm_up(task.kind)
        start = time.perf_counter()
        model.fit(task.train.X, task.train.y, groups=task.train.groups)
        seconds = time.perf_counter() - start
    scores = task.scores(task.unit_weights(model)[:, None])
    return {
        "train_excess": float(scores.train_excess[0]),
        "test_loss": float(scores.test_loss[0]),
        "test_accuracy": number(scores.test_accuracy[0]),
        "seconds": seconds,
        "solver": model.plan_.solver,
        "predicted_excess": float(model.plan_.predicted_excess),
        "stated_epsilon": float(model.privacy_.epsilon),
    }
