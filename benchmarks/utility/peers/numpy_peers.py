"""Train the grids of the NumPy peers on a task, all budgets and seeds at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from utility.ours import DELTA
from utility.peers import gradient_descent, newton, tuning
from utility.peers.weightings import row_bound
from utility.tasks import Part, Task

Array, Runs = np.ndarray, list[Any]


class Peer(NamedTuple):
    """A grid and what trains its runs."""

    grid: list[Any]
    # Fields that columns of one batch share.
    shared: tuple[str, ...]
    # (part, runs, budgets, seeds, is_final) to weights, one column a run, by kind of iterate.
    train: Callable[..., dict[str, np.ndarray]]


def peer_of(task: Task, method: str) -> Peer:
    """Return a peer, by name, for a task."""
    if method == "dp-newton":
        fields = ("n_steps", "hessians", "weighting")
        return Peer(newton.grid(), fields, partial(_newton, task))
    grid = gradient_descent.grid(method)
    return Peer(grid, ("n_steps", "weighting"), partial(_descend, task))


def _planned(task: Task, runs: Runs, budgets: Array, make: Callable[..., Any]) -> list[Any]:
    """Return what is made for each column; equal runs and budgets share it."""
    pairs = list(zip(runs, budgets.tolist(), strict=True))
    made = {pair: make(task.group_sizes, *pair, DELTA) for pair in set(pairs)}
    return [made[pair] for pair in pairs]


def _descend(
    task: Task, part: Part, runs: Runs, budgets: Array, seeds: Array, **_: bool
) -> dict[str, Array]:
    noise = _planned(task, runs, budgets, gradient_descent.noise_std)
    return gradient_descent.descend(task, part, runs, np.array(noise), seeds)


def _newton(
    task: Task, part: Part, runs: Runs, budgets: Array, seeds: Array, *, is_final: bool
) -> dict[str, Array]:
    facts = {"bound": row_bound(task), "is_classification": task.is_classification}
    noises = _planned(task, runs, budgets, partial(newton.make_noise, **facts))
    return newton.newton(task, part, runs, noises, seeds, is_final=is_final)


# The mean excess over seeds of a run and kind of iterate, by ε.
Judged = dict[float, list[tuple[float, Any, str]]]


def judge(task: Task, peer: Peer, part: Part, runs: dict[float, Runs], n_seeds: int) -> Judged:
    """Train runs of every budget on seeds, and return their mean excess."""
    batches: dict[Any, list[tuple[Any, float]]] = {}
    for epsilon, of_epsilon in runs.items():
        for run in of_epsilon:
            key = tuple(getattr(run, name) for name in peer.shared)
            batches.setdefault(key, []).append((run, epsilon))
    judged: Judged = {epsilon: [] for epsilon in runs}
    for batch in batches.values():
        # equal clips side by side
        batch.sort(key=lambda each: each[0].clip)
        budgets = np.repeat([epsilon for _, epsilon in batch], n_seeds)
        columns = [run for run, _ in batch for _ in range(n_seeds)]
        seeds = np.tile(np.arange(n_seeds), len(batch))
        for kind, weights in peer.train(part, columns, budgets, seeds, is_final=False).items():
            for k, value in enumerate(
                tuning.thinned_excess(task, part, weights).reshape(-1, n_seeds).mean(axis=1)
            ):
                run, epsilon = batch[k]
                judged[epsilon].append((float(value), run, kind))
    return judged
