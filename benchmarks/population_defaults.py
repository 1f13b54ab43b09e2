"""Defaults of MGR on the choosing half of the population.

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
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from common import DELTA, PUBLIC, constants, ignore_warnings
from utility.population import DEFINITIONS, load_definition
from utility.store import FOLDER
from utility.tasks import Task

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.solvers import MGR, centring
from sklearn_dpwg.solvers import steps as group_player
from sklearn_dpwg.solvers.descent import group_weights, planning
from sklearn_dpwg.solvers.solver import BY_KERNEL

ignore_warnings()

EPSILONS, SEEDS = (1.0, 4.0), range(3)
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
RADII = {"log loss": (20.0, 200.0), "squared_error": (2.0, 8.0)}
PARAMETERS = {
    "centring": (False,),
    "whitening": (False,),
    "aim": (0.15, 0.6),
    "max_passes": (50, 300),
}
CONSTANTS: tuple[tuple[tuple[ModuleType, ...], str, tuple[float, ...]], ...] = (
    ((group_player,), "SPREAD_OVER_ZERO_SCORE", (0.075, 0.3)),
    ((group_player, group_weights, planning), "CORRECTION", (0.0, 1.0)),
    ((planning,), "NOISE_PRICE", (0.0, 0.1, 0.4)),
    ((planning,), "DEAREST", (1.0, 4.0)),
    ((centring,), "MOST_COLUMNS", (1,)),
    ((centring,), "LEAST_SIGNAL", (0.0, 60.0)),
    ((group_weights,), "ASSUMED_STEPS", (3.0, 30.0)),
    ((group_weights,), "REMEMBERED", (0.8, 0.95, 1.0)),
    ((group_weights,), "WORSE_DEVIATIONS", (0.0, 3.0)),
)
BY_LOSS = {
    "log loss": {
        "step_share": (0.13, 0.25),
        "ceiling": (1.5, 3.6, 4.5),
        "raised_ceiling": (0.0, 4.5, 13.0),
        "clip_share": (0.6, 1.3),
        "shrinks": (False,),
        "forgets": (False,),
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
    return tuple(
        load_definition(each, cache=FOLDER / "population" / "optima")
        for each in DEFINITIONS
        if each.name in TASKS[kind] and each.half == "choosing"
    )


def mean_excess(task: Task, epsilon: float, **parameters: Any) -> float:
    """Return the mean excess of seeded fits, of MGR if nothing else is said."""
    make = DPWorstGroupClassifier if task.is_classification else DPWorstGroupRegressor
    told = {"solver": MGR(), **PUBLIC, **task.public, **parameters}
    fits = (make(epsilon, DELTA, random_state=seed, **told) for seed in SEEDS)
    X, y, groups = task.train.X, task.train.y, task.train.groups
    weights = [task.unit_weights(fit.fit(X, y, groups=groups)) for fit in fits]
    return float(task.train_excess(np.array(weights).T).mean())


def excesses(kind: str, **parameters: Any) -> np.ndarray:
    """Return mean excesses of shape (n_epsilons, n_tasks)."""
    found = [
        [mean_excess(task, epsilon, **parameters) for task in tasks(kind)] for epsilon in EPSILONS
    ]
    return np.maximum(found, FLOORS[kind])


class Setting(NamedTuple):
    """A name, what to print, parameters of the estimator, and constants that are changed."""

    name: str
    said: str
    parameters: dict[str, Any]
    changed: Any


def settings(kind: str) -> Iterator[Setting]:
    """Yield all settings that differ from the defaults in one number."""
    for value in RADII[kind]:
        yield Setting("radius", f"radius={value:g}", {"radius": value}, nullcontext())
    for name, values in PARAMETERS.items():
        for value in values:
            solver = {"solver": MGR(**{name: value})}
            yield Setting(name, f"{name}={value!r}", solver, nullcontext())
    for modules, name, values in CONSTANTS:
        for value in values:
            yield Setting(name, f"{name} = {value}", {}, constants(modules, **{name: value}))
    kernel = "binary_log" if kind == "log loss" else kind
    for name, values in BY_LOSS[kind].items():
        for value in values:
            changed = replace(BY_KERNEL[kernel], **{name: value})
            yield Setting(name, f"{name} = {value}", {}, patch.dict(BY_KERNEL, {kernel: changed}))


def main(asked: set[str]) -> None:
    """Print what was asked for, or everything: geometric means over all and by ε."""
    names = asked - set(TASKS)
    for kind in [each for each in TASKS if each in asked] or list(TASKS)[: 1 if asked else None]:
        planned = excesses(kind)
        print(
            f"{kind}: {len(tasks(kind))} tasks, epsilon = {EPSILONS}, {len(SEEDS)} seeds; "
            "excess over the defaults'"
        )
        for name, said, parameters, changed in settings(kind):
            if not names or name in names:
                with changed:
                    logs = np.log(excesses(kind, **parameters) / planned)
                by_epsilon = "  ".join(f"{each:.3f}" for each in np.exp(logs.mean(axis=1)))
                total = np.exp(logs.mean())
                print(f"{said:<34} {total:.3f}   by epsilon  {by_epsilon}", flush=True)


if __name__ == "__main__":
    main(set(sys.argv[1:]))
