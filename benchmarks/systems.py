"""Every system beside the others: `python benchmarks/systems.py [--seeds 3]`.

Prints the excess worst-group risk on training records of each solver as it plans and, where its
paper has a schedule, with that, on Adult and law school at ε = 1 and 4, δ = 1e-5; beside them what
predicting nothing costs. Sampling has no price, as the game is on these records. Half of the 95 %
interval of the mean follows each figure.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import cell
from utility.ours import OURS, PAPERS, fit_once
from utility.store import FOLDER
from utility.tasks import load_task

TASKS = ("adult", "law-school")
BUDGETS = (1.0, 4.0)


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="of each cell")
    n_seeds = parser.parse_args().seeds
    tasks = [load_task(name, cache=FOLDER / "optima") for name in TASKS]
    columns = [f"{task.name}, ε = {epsilon:g}" for task in tasks for epsilon in BUDGETS]
    print(f"| solver | {' | '.join(columns)} | seconds |\n|---|{'--:|' * (len(columns) + 1)}")
    systems = OURS | PAPERS
    del systems["moments"]  # learns numbers alone
    for name, solver in systems.items():
        cells, seconds = [], []
        for task in tasks:
            for epsilon in BUDGETS:
                fits = [
                    fit_once(task, solver, epsilon, seed, optimism_correction=0)  # on these records
                    for seed in range(n_seeds)
                ]
                cells.append(cell([fit["train_excess"] for fit in fits], errors=1.96))
                seconds += [fit["seconds"] for fit in fits]
        print(f"| {name} | {' | '.join(cells)} | {np.median(seconds):.2f} |", flush=True)
    zeros = {task.name: np.zeros((task.train.rows.shape[1], 1)) for task in tasks}
    nothing = [task.train_excess(zeros[task.name])[0] for task in tasks for _ in BUDGETS]
    print(f"| predicting nothing | {' | '.join(f'{each:.4f}' for each in nothing)} | |")


if __name__ == "__main__":
    main()
