"""Peers with parameters fixed in advance, as those of a default are: what a person could run.

For each ε, kind of task and grid the run is taken that has the least geometric mean of the excess
on the choosing half (each excess at least its floor), and measured on the checking half. A run is
tried on the choosing half as in the first stage of the race (`tuning`): on few records and seeds,
with the noise of all. `python -m utility.peers.in_advance` runs what is missing and prints what was
taken. diffprivlib, whose grid runs in an environment of its own, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from utility.frame import FLOORS, in_advance
from utility.peers.numpy_peers import judge, peer_of
from utility.peers.run import GRIDS, made_by
from utility.peers.tuning import cell, single, tuning_part
from utility.population import DEFINITIONS, load_by_name
from utility.store import (
    FOLDER,
    N_PEER_SEEDS,
    POPULATION_EPSILONS,
    Progress,
    Store,
    peer_path,
)
from utility.tasks import Task


class Choice(NamedTuple):
    """A run that was taken."""

    # Its parameters, the kind of iterate last.
    run: tuple[Any, ...]
    # Geometric mean on the tasks of the choosing half.
    excess: float
    n_tasks: int


def tried_path(task: str, method: str, folder: Path = FOLDER) -> Path:
    """Return the file of all runs of one grid on one task of the choosing half."""
    return peer_path(task, f"{method} tried", folder)


def try_grid(task: Task, method: str, epsilons: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return the mean excess of every run, by ε and the run as JSON."""
    peer = peer_of(task, method)
    stage = peer.stages[0]
    part = tuning_part(task, stage.max_rows)
    runs = dict.fromkeys(epsilons, peer.grid)
    judged = judge(task, peer, part, runs, stage.n_seeds, is_final=False)
    return {
        f"{epsilon:g}": {
            json.dumps([*run, kind]): excess for excess, run, kind, _ in judged[epsilon]
        }
        for epsilon in epsilons
    }


def choose(tried: Sequence[Mapping[str, float]], floor: float) -> Choice:
    """Return the run with the least geometric mean over tasks."""
    logs = {
        run: float(np.mean([np.log(max(task[run], floor)) for task in tried])) for run in tried[0]
    }
    best = min(logs, key=lambda run: logs[run])
    return Choice(tuple(json.loads(best)), float(np.exp(logs[best])), len(tried))


def run_chosen(
    task: Task, method: str, chosen: Mapping[float, Choice], n_seeds: int
) -> dict[str, Any]:
    """Return the cells of one grid's chosen runs on all records of a task, by ε."""
    peer = peer_of(task, method)
    make = type(peer.grid[0])
    everything = task.train if peer.is_double else single(task.train)
    runs = {epsilon: [make(*each.run[:-1])] for epsilon, each in chosen.items()}
    judged = judge(task, peer, everything, runs, n_seeds, is_final=True)
    cells = {}
    for epsilon, each in chosen.items():
        weights = next(found for _, _, kind, found in judged[epsilon] if kind == each.run[-1])
        parameters = dict(zip((*make._fields, "iterate"), each.run, strict=True))
        cells[f"{epsilon:g}"] = cell(task, weights, parameters, 0.0) | {
            "choosing_excess": each.excess,
            "choosing_tasks": each.n_tasks,
        }
    return cells


def try_half(
    definitions: Sequence[Any], progress: Progress, methods: Sequence[str] = GRIDS
) -> dict[tuple[str, str, float], Choice]:
    """Try every run of grids on tasks, and return what to take, by kind, grid and ε."""
    tried: dict[tuple[str, str, float], list[Mapping[str, float]]] = {}
    for definition in definitions:
        task = None
        for method in methods:
            store = Store(tried_path(definition.name, method), made_by(method))
            if any(f"{epsilon:g}" not in store for epsilon in POPULATION_EPSILONS):
                task = task or load_by_name(definition.name, FOLDER / "optima")
                store.put(try_grid(task, method, POPULATION_EPSILONS))
            for epsilon in POPULATION_EPSILONS:
                key = definition.kind, method, epsilon
                tried.setdefault(key, []).append(store[f"{epsilon:g}"])
            progress.advance()
        progress.note(definition.name)
    return {key: choose(tasks, FLOORS[key[0]]) for key, tasks in tried.items()}


@cache
def chosen_run(kind: str, method: str, epsilon: float) -> Choice:
    """Return what to take of one grid, which is tried on the choosing half where it was not."""
    choosing = [each for each in DEFINITIONS if each.half == "choosing" and each.kind == kind]
    return try_half(choosing, Progress(len(choosing), method), [method])[kind, method, epsilon]


def fit_chosen(method: str) -> Callable[[Task, float, int], np.ndarray]:
    """Return one seeded fit of a grid's chosen run, for `held_out`."""

    def fit(task: Task, epsilon: float, seed: int) -> np.ndarray:
        peer, chosen = peer_of(task, method), chosen_run(task.kind, method, epsilon).run
        run = type(peer.grid[0])(*chosen[:-1])
        part = task.train if peer.is_double else single(task.train)
        found = peer.train(part, [run], np.array([epsilon]), np.array([seed]), is_final=True)
        return found[chosen[-1]][:, 0].astype(float)

    return fit


def run_half(
    definitions: Sequence[Any], chosen: Mapping[tuple[str, str, float], Choice], progress: Progress
) -> None:
    """Run what was taken on tasks; what other choices made is measured again."""
    for definition in definitions:
        task = None
        for method in GRIDS:
            taken = {
                epsilon: chosen[definition.kind, method, epsilon] for epsilon in POPULATION_EPSILONS
            }
            made = {**made_by(method), "runs": json.dumps([each.run for each in taken.values()])}
            store = Store(peer_path(definition.name, in_advance(method)), made)
            if any(f"{epsilon:g}" not in store for epsilon in POPULATION_EPSILONS):
                task = task or load_by_name(definition.name, FOLDER / "optima")
                store.put(run_chosen(task, method, taken, N_PEER_SEEDS))
            progress.advance()
        progress.note(definition.name)


def main() -> None:
    """Run what is missing: every grid on the choosing half, then what was taken on the other."""
    choosing, checking = (
        [each for each in DEFINITIONS if each.half == half] for half in ("choosing", "checking")
    )
    progress = Progress(len(DEFINITIONS) * len(GRIDS), "fixed in advance")
    chosen = try_half(choosing, progress)
    run_half(checking, chosen, progress)
    for (kind, method, epsilon), each in chosen.items():
        print(
            f"{kind}, {method}, epsilon {epsilon:g}: {each.run}, geometric mean of the excess "
            f"{each.excess:.4f} on {each.n_tasks} tasks of the choosing half"
        )


if __name__ == "__main__":
    main()
