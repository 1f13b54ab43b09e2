"""
Defaults of MGR on the choosing half of the population
======================================================

Each constant is varied alone: the geometric mean, over tasks and ε, of the excess worst-group risk
beside that of the defaults (each at least 1e-3, for numbers 1e-4), δ = 1e-5, means of three seeds
of NumPy noise: below 1 a value would have been better. Constants of the squared error are varied on
regressions, all others on classifications. Names of settings as arguments print these alone:

    python benchmarks/population_defaults.py centring step_share
    python benchmarks/population_defaults.py squared_error clip_share
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from utility.population import DEFINITIONS, load_definition
from utility.store import FOLDER
from utility.tasks import Task

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers import steps as group_player
from sklearn_dpwg.solvers.descent import group_weights, planning
from sklearn_dpwg.solvers.solver import BY_KERNEL

EPSILONS, SEEDS, DELTA = (1.0, 4.0), range(3), 1e-5
FLOORS = {"log loss": 1e-3, "squared_error": 1e-4}
# One task a source, none above 20,000 records, drawn up before any was fitted.
CLASSIFICATIONS = (
    "doctor-visits", "any-physician-visit", "covid-tests", "spam-mail", "callbacks", "long-loans",
    "phone-churn", "hotel-changes", "slow-deliveries", "free-light-chain", "breast-cancer-deaths",
    "popular-tweets", "arrested-again", "michigan-passing-schools", "taxi-tips", "part-time-men",
    "nls-union-women",
)  # fmt: skip
# The ten that are quickest to fit.
REGRESSIONS = (
    "package-check-times", "room-prices", "inner-london-exam", "fife-attainment", "maths-growth",
    "college-grades", "michigan-fourth-grade", "nls-men-wages", "young-men-wages", "psid-wages",
)  # fmt: skip
TASKS = {"log loss": CLASSIFICATIONS, "squared_error": REGRESSIONS}
RADII = {"log loss": (10.0, 40.0), "squared_error": (2.0, 8.0)}
PARAMETERS = {"centring": (False,), "aim": (0.15, 0.6), "max_passes": (50, 300)}
CONSTANTS: tuple[tuple[tuple[ModuleType, ...], str, tuple[float, ...]], ...] = (
    ((group_player,), "SPREAD_OVER_ZERO_SCORE", (0.075, 0.3)),
    ((group_player, group_weights, planning), "CORRECTION", (0.0, 1.0)),
    ((planning,), "NOISE_PRICE", (0.0, 0.1, 0.4)),
    ((planning,), "DEAREST", (1.0, 4.0)),
    ((group_weights,), "ASSUMED_STEPS", (3.0, 30.0)),
    ((group_weights,), "REMEMBERED", (0.8, 0.95, 1.0)),
)
BY_LOSS = {
    "log loss": {
        "step_share": (0.13, 0.25),
        "ceiling": (1.5, 3.6, 4.5),
        "raised_ceiling": (0.0, 4.5, 13.0),
        "clip_share": (0.6, 1.3),
        "shrinks": (False,),
    },
    "squared_error": {
        "step_share": (0.15, 0.2, 0.5),
        "ceiling": (0.5, 2.16),
        "clip_share": (0.25, 0.6, 0.9),
        "ceiling_of_level": (4.0, 9.0, math.inf),
    },
}


@lru_cache(maxsize=2)
def tasks(kind: str) -> tuple[Task, ...]:
    """Return the tasks that the population still has."""
    cache: Path = FOLDER / "population" / "optima"
    return tuple(
        load_definition(each, cache=cache)
        for each in DEFINITIONS
        if each.name in TASKS[kind] and each.half == "choosing"
    )


def excesses(solver: MGR, kind: str, **of_estimator: float) -> np.ndarray:
    """Return mean excesses of shape (n_epsilons, n_tasks)."""
    make = DPWorstGroupClassifier if kind == "log loss" else DPWorstGroupRegressor
    found = np.zeros((len(EPSILONS), len(tasks(kind))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("ignore", WeakPlanWarning)
        for row, epsilon in enumerate(EPSILONS):
            for column, task in enumerate(tasks(kind)):
                fits = [
                    make(
                        epsilon,
                        DELTA,
                        solver=solver,
                        random_state=seed,
                        **task.public,
                        **of_estimator,
                    ).fit(task.train.X, task.train.y, groups=task.train.groups)
                    for seed in SEEDS
                ]
                weights = np.array([task.unit_weights(fitted) for fitted in fits]).T
                found[row, column] = task.train_excess(weights).mean()
    return np.maximum(found, FLOORS[kind])


@contextmanager
def constant(modules: tuple[ModuleType, ...], name: str, value: float) -> Iterator[None]:
    """Set a planning constant wherever it is looked up."""
    with ExitStack() as patches:
        for module in modules:
            patches.enter_context(patch.object(module, name, value))
        yield


def of_loss(kind: str, name: str, value: float) -> AbstractContextManager[Any]:
    """Set a planning constant of a loss."""
    kernel = "binary_log" if kind == "log loss" else kind
    changed = replace(BY_KERNEL[kernel], **{name: value})
    return patch.dict(BY_KERNEL, {kernel: changed})


def settings(kind: str) -> Iterator[tuple[str, str, MGR, AbstractContextManager[Any]]]:
    """Yield the name, what to print, the solver and the constants of each setting."""
    for parameter, values in PARAMETERS.items():
        for value in values:
            yield parameter, f"{parameter}={value!r}", MGR(**{parameter: value}), nullcontext()
    for modules, name, values in CONSTANTS:
        for value in values:
            yield name, f"{name} = {value}", MGR(), constant(modules, name, value)
    for name, values in BY_LOSS[kind].items():
        for value in values:
            yield name, f"{name} = {value}", MGR(), of_loss(kind, name, value)


def show(what: str, ratios: np.ndarray) -> None:
    """Print the geometric mean, over all and by ε."""
    by_epsilon = "  ".join(f"{np.exp(np.log(row).mean()):.3f}" for row in ratios)
    print(f"{what:<34} {np.exp(np.log(ratios).mean()):.3f}   by epsilon  {by_epsilon}", flush=True)


def main(asked: set[str]) -> None:
    """Print what was asked for, or everything."""
    kinds = [kind for kind in TASKS if kind in asked] or (["log loss"] if asked else list(TASKS))
    names = asked - set(TASKS)
    for kind in kinds:
        planned = excesses(MGR(), kind)
        print(
            f"{kind}: {len(tasks(kind))} tasks, epsilon = {EPSILONS}, {len(SEEDS)} seeds; "
            "excess over the defaults'"
        )
        for radius in RADII[kind] if not names or "radius" in names else ():
            show(f"radius={radius:g}", excesses(MGR(), kind, radius=radius) / planned)
        for name, said, solver, constants in settings(kind):
            if not names or name in names:
                with constants:
                    show(said, excesses(solver, kind) / planned)


if __name__ == "__main__":
    main(set(sys.argv[1:]))
