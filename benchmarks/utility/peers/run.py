"""Which peers there are, and their cells on a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from utility.ours import PAPERS, fit_once
from utility.peers import gradient_descent
from utility.peers.diffprivlib_peer import REQUIREMENTS, run_diffprivlib
from utility.peers.numpy_peers import run_grid
from utility.peers.tuning import cell
from utility.store import versions
from utility.tasks import Task, task_names

NOTHING, AVERAGE = "predict nothing", "average optimum (not private)"
WORST_GROUP = "worst-group optimum (not private)"
REFERENCES = (AVERAGE, WORST_GROUP)

GRIDS = (*gradient_descent.METHODS, "dp-sgd group-dro", "amp", "dp-newton")
METHODS = (
    NOTHING,
    *GRIDS,
    "diffprivlib",
    *PAPERS,
    *REFERENCES,
)


def applies(method: str, name: str, kind: str) -> bool:
    """Return whether a method can do a task, and is run on it.

    The papers' schedules are far behind on the tasks of the page and run on these alone.
    """
    if method in PAPERS:
        return name in task_names()
    return method != "diffprivlib" or kind == "classification"


def run_method(method: str, task: Task, epsilons: Sequence[float], n_seeds: int) -> dict[str, Any]:
    """Return the cells of one peer on one task, by ε."""
    if method in GRIDS:
        return run_grid(task, method, epsilons, n_seeds)
    if method == "diffprivlib":
        return run_diffprivlib(task, epsilons, n_seeds)
    if method in PAPERS:
        return {
            f"{epsilon:g}": gather(
                [fit_once(task, PAPERS[method], epsilon, seed) for seed in range(n_seeds)]
            )
            for epsilon in epsilons
        }
    if method == NOTHING:
        weights = np.zeros(task.train.rows.shape[1])
    else:
        key = "average" if method == AVERAGE else "worst-group"
        weights = np.array(task.optima[key]["weights"])
    same = cell(task, weights[:, None], {}, 0.0)
    return {f"{epsilon:g}": same for epsilon in epsilons}


def gather(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the cell of several fits of `fit_once`."""
    found: dict[str, Any] = {
        name: [fit[name] for fit in fits] for name in ("train_excess", "test_loss", "test_accuracy")
    }
    found["seconds"] = float(np.mean([fit["seconds"] for fit in fits]))
    found["parameters"] = {
        "solver": fits[0]["solver"],
        "stated_epsilon": fits[0]["stated_epsilon"],
    }
    return found


def made_by(method: str) -> dict[str, str]:
    """Return the versions that a cell of a method depends on."""
    if method == "diffprivlib":
        return dict(line.split("==") for line in REQUIREMENTS.read_text().split())
    if method in PAPERS:
        return versions("sklearn-dpwg", "numpy", "opendp", "dp-accounting")
    return versions("numpy", "scipy", "dp-accounting")
