"""Peers at one setting of their parameters, as those of a default are: what a person could run.

For each ε, kind of task and grid the run is taken that has the least geometric mean of the excess
on the choosing half (each excess at least its floor). It is tried on few records and seeds, with
the noise and the group weights of all. `python -m utility.peers.in_advance` prints what was taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from utility.peers import gradient_descent
from utility.peers.numpy_peers import judge, peer_of
from utility.peers.tuning import single, tuning_part
from utility.population import DEFINITIONS, load_by_name
from utility.store import FOLDER, Progress, Store, versions
from utility.tasks import Task

EPSILONS = (1.0, 2.0, 4.0, 8.0)
GRIDS = (*gradient_descent.METHODS, "dp-newton")
# A smaller excess is of no use to anybody.
FLOORS = {"classification": 1e-3, "regression": 1e-4}
N_SEEDS, MAX_ROWS = 2, 8_000


class Choice(NamedTuple):
    """A run that was taken."""

    # Its parameters, the kind of iterate last.
    run: tuple[Any, ...]
    # Geometric mean on the tasks of the choosing half.
    excess: float
    n_tasks: int


def tried_path(task: str, method: str, folder: Path = FOLDER) -> Path:
    """Return the file of all runs of one grid on one task of the choosing half."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in f"{method} tried")
    return folder / "peers" / task / f"{plain}.json"


def try_grid(task: Task, method: str, epsilons: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return the mean excess of every run, by ε and the run as JSON."""
    peer = peer_of(task, method)
    part = tuning_part(task, MAX_ROWS)
    runs = dict.fromkeys(epsilons, peer.grid)
    judged = judge(task, peer, part, runs, N_SEEDS)
    return {
        f"{epsilon:g}": {json.dumps([*run, kind]): excess for excess, run, kind in judged[epsilon]}
        for epsilon in epsilons
    }


def choose(tried: Sequence[Mapping[str, float]], floor: float) -> Choice:
    """Return the run with the least geometric mean over tasks."""
    logs = {
        run: float(np.mean([np.log(max(task[run], floor)) for task in tried])) for run in tried[0]
    }
    best = min(logs, key=lambda run: logs[run])
    return Choice(tuple(json.loads(best)), float(np.exp(logs[best])), len(tried))


def try_half(
    definitions: Sequence[Any], progress: Progress, methods: Sequence[str] = GRIDS
) -> dict[tuple[str, str, float], Choice]:
    """Try every run of grids on tasks, and return what to take, by kind, grid and ε."""
    tried: dict[tuple[str, str, float], list[Mapping[str, float]]] = {}
    for definition in definitions:
        task = None
        for method in methods:
            store = Store(
                tried_path(definition.name, method), versions("numpy", "scipy", "dp-accounting")
            )
            if any(f"{epsilon:g}" not in store for epsilon in EPSILONS):
                task = task or load_by_name(definition.name, FOLDER / "optima")
                store.put(try_grid(task, method, EPSILONS))
            for epsilon in EPSILONS:
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
        result = peer.train(
            single(task.train), [run], np.array([epsilon]), np.array([seed]), is_final=True
        )
        return result[chosen[-1]][:, 0].astype(float)

    return fit


def main() -> None:
    """Try every grid on the choosing half, and print what was taken."""
    choosing = [each for each in DEFINITIONS if each.half == "choosing"]
    chosen = try_half(choosing, Progress(len(choosing) * len(GRIDS), "fixed in advance"))
    for (kind, method, epsilon), each in chosen.items():
        print(
            f"{kind}, {method}, epsilon {epsilon:g}: {each.run}, geometric mean of the excess "
            f"{each.excess:.4f} on {each.n_tasks} tasks of the choosing half"
        )


if __name__ == "__main__":
    main()
