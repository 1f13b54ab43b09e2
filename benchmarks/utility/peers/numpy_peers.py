"""Run the grids of the NumPy peers on a task, all budgets and seeds at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from utility.ours import DELTA
from utility.peers import gradient_descent, group_dro
from utility.peers.tuning import cell, single, thinned_excess, tuning_part
from utility.tasks import Part, Task

# (part, runs, budgets, seeds) -> last iterates and means, one column a run, budget and seed
Trainer = Callable[[Part, Sequence[Any], np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def run_grid(task: Task, method: str, epsilons: Sequence[float], n_seeds: int) -> dict[str, Any]:
    """Return the cells of a NumPy peer, by ε."""
    if method == "dp-sgd group-dro":
        grid, shared = group_dro.grid(), ("n_steps", "sampling_rate")
    else:
        grid, shared = gradient_descent.grid(method), ("n_steps", "balance")
    return best_of_grid(task, grid, shared, trainer(task, method), epsilons, n_seeds)


def trainer(task: Task, method: str) -> Trainer:
    """Return the function that trains columns of a method on a task."""
    return _sgd(task) if method == "dp-sgd group-dro" else _descent(task)


def _descent(task: Task) -> Trainer:
    stds: dict[Any, float] = {}

    def train(
        part: Part, runs: Sequence[Any], budgets: np.ndarray, seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        for run, epsilon in zip(runs, budgets, strict=True):
            if (run, epsilon) not in stds:
                stds[run, epsilon] = gradient_descent.noise_std(
                    task.group_sizes, run, float(epsilon), DELTA
                )
        noise = np.array([stds[pair] for pair in zip(runs, budgets, strict=True)])
        return gradient_descent.descend(task, part, list(runs), noise, seeds)

    return train


def _sgd(task: Task) -> Trainer:
    def train(
        part: Part, runs: Sequence[Any], budgets: np.ndarray, seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        last, mean = np.empty((2, part.rows.shape[1], len(runs)))
        for seed in np.unique(seeds):
            own = np.flatnonzero(seeds == seed)
            noise = [
                group_dro.unit_noise(
                    runs[k].n_steps, runs[k].sampling_rate, float(budgets[k]), DELTA
                )
                for k in own
            ]
            last[:, own], mean[:, own] = group_dro.sgd(
                task, part, [runs[k] for k in own], np.array(noise), int(seed)
            )
        return last, mean

    return train


def best_of_grid(
    task: Task,
    grid: Sequence[Any],
    shared: Sequence[str],
    train: Trainer,
    epsilons: Sequence[float],
    n_seeds: int,
) -> dict[str, Any]:
    """Run a grid and return the cell of the best run at each ε.

    Parameters
    ----------
    task : Task
        The task.
    grid : sequence of NamedTuple
        The runs.
    shared : sequence of str
        Fields that columns of one batch share.
    train : callable
        The peer.
    epsilons : sequence of float
        Budgets.
    n_seeds : int
        Seeds of each run; the best run is that of the least mean over them.

    Returns
    -------
    dict
        Cells by ε as text.
    """
    batches: dict[Any, list[Any]] = {}
    for run in grid:
        batches.setdefault(tuple(getattr(run, name) for name in shared), []).append(run)
    part = tuning_part(task)
    is_thinned = len(part.targets) < len(task.train.targets)
    best: dict[float, tuple[float, Any, bool, np.ndarray]] = {}
    start, n_models = time.perf_counter(), 0
    for batch in batches.values():
        columns = [
            (run, epsilon, seed) for run in batch for epsilon in epsilons for seed in range(n_seeds)
        ]
        runs = [column[0] for column in columns]
        budgets = np.array([column[1] for column in columns])
        seeds = np.array([column[2] for column in columns])
        n_models += len(columns)
        for is_mean, weights in enumerate(train(part, runs, budgets, seeds)):
            excess = thinned_excess(task, part, weights).reshape(-1, n_seeds).mean(axis=1)
            for k, value in enumerate(excess):
                run, epsilon, _ = columns[k * n_seeds]
                if epsilon not in best or value < best[epsilon][0]:
                    own = weights[:, k * n_seeds : (k + 1) * n_seeds].copy()
                    best[epsilon] = (float(value), run, bool(is_mean), own)
    seconds = (time.perf_counter() - start) / n_models

    cells = {}
    for epsilon in epsilons:
        _, run, is_mean, weights = best[epsilon]
        if is_thinned:
            start = time.perf_counter()
            both = train(
                single(task.train), [run] * n_seeds, np.full(n_seeds, epsilon), np.arange(n_seeds)
            )
            weights, seconds = both[is_mean], (time.perf_counter() - start) / n_seeds
        parameters = run._asdict() | {"iterate": "mean" if is_mean else "last"}
        cells[f"{epsilon:g}"] = cell(task, weights, parameters, seconds) | {
            "fresh_excess": fresh_excess(task, train, run, is_mean, epsilon, n_seeds)
        }
    return cells


def fresh_excess(
    task: Task, train: Trainer, run: Any, is_mean: bool, epsilon: float, n_seeds: int
) -> list[float]:
    """Return the excess of a grid's winner on seeds that it was not chosen by."""
    seeds = np.arange(n_seeds, 2 * n_seeds)
    both = train(single(task.train), [run] * n_seeds, np.full(n_seeds, epsilon), seeds)
    return task.train_excess(both[is_mean]).tolist()
