"""
Defaults of MGR on the choosing half of the population
======================================================

Each constant is varied alone: the geometric mean, over tasks and ε, of the excess worst-group risk
beside that of the defaults (each at least 1e-3), δ = 1e-5, means of three seeds of NumPy noise:
below 1 a value would have been better. Names of settings as arguments print these alone:

    python benchmarks/population_defaults.py centring STEP_SHARE
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from utility.population import DEFINITIONS, load_definition
from utility.store import FOLDER
from utility.tasks import Task

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.solvers import MGR, group_player, heavy_ball
from sklearn_dpwg.solvers.mgr import planning

EPSILONS, SEEDS, DELTA, FLOOR = (1.0, 4.0), range(3), 1e-5, 1e-3
# One task a source, none above 20,000 records, drawn up before any was fitted.
TASKS = (
    "doctor-visits", "any-physician-visit", "covid-tests", "spam-mail", "callbacks", "long-loans",
    "phone-churn", "hotel-changes", "slow-deliveries", "free-light-chain", "breast-cancer-deaths",
    "popular-tweets", "arrested-again", "michigan-passing-schools", "taxi-tips", "part-time-men",
    "nls-union-women",
)  # fmt: skip
PARAMETERS = {"centring": (False,), "aim": (0.15, 0.6), "max_passes": (50, 300)}
CONSTANTS = (
    ((heavy_ball,), "STEP_SHARE", (0.13, 0.25)),
    ((group_player,), "CEILING_OVER_ZERO_SCORE", (1.5, 3.6)),
    ((group_player,), "SPREAD_OVER_ZERO_SCORE", (0.075, 0.3)),
    ((group_player, planning), "CORRECTION", (0.0, 1.0)),
)


@lru_cache(maxsize=1)
def tasks() -> tuple[Task, ...]:
    """Return the tasks that the population still has."""
    cache: Path = FOLDER / "population" / "optima"
    return tuple(
        load_definition(each, cache=cache)
        for each in DEFINITIONS
        if each.name in TASKS and each.half == "choosing"
    )


def excesses(solver: MGR) -> np.ndarray:
    """Return mean excesses of shape (n_epsilons, n_tasks)."""
    found = np.zeros((len(EPSILONS), len(tasks())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("ignore", WeakPlanWarning)
        for row, epsilon in enumerate(EPSILONS):
            for column, task in enumerate(tasks()):
                fits = [
                    DPWorstGroupClassifier(
                        epsilon, DELTA, solver=solver, random_state=seed, **task.public
                    ).fit(task.train.X, task.train.y, groups=task.train.groups)
                    for seed in SEEDS
                ]
                weights = np.array([task.unit_weights(fitted) for fitted in fits]).T
                found[row, column] = task.train_excess(weights).mean()
    return np.maximum(found, FLOOR)


@contextmanager
def constant(modules: tuple, name: str, value: float) -> Iterator[None]:
    """Set a planning constant wherever it is looked up."""
    patches = [patch.object(module, name, value) for module in modules]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def show(what: str, ratios: np.ndarray) -> None:
    """Print the geometric mean, over all and by ε."""
    by_epsilon = "  ".join(f"{np.exp(np.log(row).mean()):.3f}" for row in ratios)
    print(f"{what:<34} {np.exp(np.log(ratios).mean()):.3f}   by epsilon  {by_epsilon}", flush=True)


if __name__ == "__main__":
    asked = set(sys.argv[1:])
    planned = excesses(MGR())
    print(f"{len(tasks())} tasks, epsilon = {EPSILONS}, {len(SEEDS)} seeds; excess over defaults'")
    for parameter, values in PARAMETERS.items():
        for value in values if not asked or parameter in asked else ():
            show(f"{parameter}={value!r}", excesses(MGR(**{parameter: value})) / planned)
    for modules, name, values in CONSTANTS:
        for value in values if not asked or name in asked else ():
            with constant(modules, name, value):
                show(f"{name} = {value}", excesses(MGR()) / planned)
