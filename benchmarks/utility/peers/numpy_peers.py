"""Race the grids of the NumPy peers on a task, all budgets and seeds at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from utility.ours import DELTA
from utility.peers import gradient_descent, group_dro, newton, objective_perturbation, tuning
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
    is_double: bool = False
    # What runs are judged by before they are run on all records.
    stages: tuple[tuning.Stage, ...] = tuning.STAGES


def peer_of(task: Task, method: str) -> Peer:
    """Return a peer, by name, for a task."""
    if method == "dp-sgd group-dro":
        shared = ("n_steps", "sampling_rate")
        return Peer(group_dro.grid(), shared, partial(_sgd, task), stages=tuning.SLOW_STAGES)
    if method == "amp":
        grid = objective_perturbation.grid()
        return Peer(grid, ("weighting",), partial(_perturb, task), is_double=True)
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


def _sgd(
    task: Task, part: Part, runs: Runs, budgets: Array, seeds: Array, **_: bool
) -> dict[str, Array]:
    noise = np.array(_planned(task, runs, budgets, group_dro.noise_of_run))
    found = {kind: np.empty((part.rows.shape[1], len(runs))) for kind in ("last", "mean")}
    for seed in np.unique(seeds):
        own = np.flatnonzero(seeds == seed)
        of_seed = group_dro.sgd(task, part, [runs[k] for k in own], noise[own], int(seed))
        for kind, weights in of_seed.items():
            found[kind][:, own] = weights
    return found


def _perturb(
    task: Task, part: Part, runs: Runs, budgets: Array, seeds: Array, *, is_final: bool
) -> dict[str, Array]:
    facts = {"bound": row_bound(task), "is_classification": task.is_classification}
    plans = _planned(task, runs, budgets, partial(objective_perturbation.make_plan, **facts))
    return objective_perturbation.perturb(task, part, runs, plans, seeds, is_final=is_final)


def _newton(
    task: Task, part: Part, runs: Runs, budgets: Array, seeds: Array, *, is_final: bool
) -> dict[str, Array]:
    facts = {"bound": row_bound(task), "is_classification": task.is_classification}
    noises = _planned(task, runs, budgets, partial(newton.make_noise, **facts))
    return newton.newton(task, part, runs, noises, seeds, is_final=is_final)


# A run, its kind of iterate and the weights of its seeds, with their mean excess, by ε.
Judged = dict[float, list[tuple[float, Any, str, np.ndarray]]]


def run_grid(task: Task, method: str, epsilons: Sequence[float], n_seeds: int) -> dict[str, Any]:
    """Return the cells of a NumPy peer, by ε."""
    return best_of_grid(task, peer_of(task, method), epsilons, n_seeds)


def best_of_grid(task: Task, peer: Peer, epsilons: Sequence[float], n_seeds: int) -> dict[str, Any]:
    """Race a grid and return the cell of the best run at each ε."""
    runs = dict.fromkeys(epsilons, peer.grid)
    for stage in peer.stages:
        part = tuning.tuning_part(task, stage.max_rows)
        judged = judge(task, peer, part, runs, stage.n_seeds, is_final=False)
        runs = {epsilon: best_runs(judged[epsilon], stage.n_kept) for epsilon in epsilons}

    everything = task.train if peer.is_double else tuning.single(task.train)
    start = time.perf_counter()
    judged = judge(task, peer, everything, runs, n_seeds, is_final=True)
    n_models = n_seeds * sum(map(len, runs.values()))
    seconds = (time.perf_counter() - start) / n_models
    winners = {epsilon: min(judged[epsilon], key=lambda each: each[0]) for epsilon in epsilons}
    fresh = fresh_excess(task, peer, everything, winners, n_seeds)
    cells = {}
    for epsilon, (_, run, kind, weights) in winners.items():
        parameters = run._asdict() | {"iterate": kind}
        cells[f"{epsilon:g}"] = tuning.cell(task, weights, parameters, seconds) | {
            "fresh_excess": fresh[epsilon]
        }
    return cells


def best_runs(judged: list[tuple[float, Any, str, np.ndarray]], n_kept: int) -> list[Any]:
    """Return the runs of least mean excess, each once."""
    ranked = sorted(judged, key=lambda each: each[0])
    return list(dict.fromkeys(run for _, run, _, _ in ranked))[:n_kept]


def judge(
    task: Task, peer: Peer, part: Part, runs: dict[float, Runs], n_seeds: int, *, is_final: bool
) -> Judged:
    """Train runs of every budget on seeds, and return their mean excess."""
    batches: dict[Any, list[tuple[Any, float]]] = {}
    for epsilon, of_epsilon in runs.items():
        for run in of_epsilon:
            key = tuple(getattr(run, name) for name in peer.shared)
            batches.setdefault(key, []).append((run, epsilon))
    judged: Judged = {epsilon: [] for epsilon in runs}
    excess_of = task.train_excess if is_final else partial(tuning.thinned_excess, task, part)
    for batch in batches.values():
        # equal clips side by side
        batch.sort(key=lambda each: each[0].clip)
        budgets = np.repeat([epsilon for _, epsilon in batch], n_seeds)
        columns = [run for run, _ in batch for _ in range(n_seeds)]
        seeds = np.tile(np.arange(n_seeds), len(batch))
        for kind, weights in peer.train(part, columns, budgets, seeds, is_final=is_final).items():
            for k, value in enumerate(excess_of(weights).reshape(-1, n_seeds).mean(axis=1)):
                run, epsilon = batch[k]
                own = weights[:, k * n_seeds : (k + 1) * n_seeds] if is_final else weights[:, :0]
                judged[epsilon].append((float(value), run, kind, own))
    return judged


def fresh_excess(
    task: Task,
    peer: Peer,
    part: Part,
    winners: dict[float, tuple[float, Any, str, np.ndarray]],
    n_seeds: int,
) -> dict[float, list[float]]:
    """Return the excess of winners on seeds that they were not chosen by."""
    seeds = np.arange(n_seeds, 2 * n_seeds)
    found = {}
    for epsilon, (_, run, kind, _) in winners.items():
        budgets = np.full(n_seeds, epsilon)
        every = peer.train(part, [run] * n_seeds, budgets, seeds, is_final=True)
        found[epsilon] = task.train_excess(every[kind]).tolist()
    return found
