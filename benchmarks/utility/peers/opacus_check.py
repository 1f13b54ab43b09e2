"""Show that DP-SGD with group-DRO weights in NumPy is what Opacus does.

`python -m utility.peers.opacus_check` runs both on three tasks: without noise on the same batches,
where the weights must agree to rounding, and with noise of ε = 1, where the mean excess must agree
within the seeds' spread. Torch and Opacus live in an environment of their own, made when missing.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from utility.ours import DELTA
from utility.peers import group_dro
from utility.peers.diffprivlib_peer import HERE, environment
from utility.store import FOLDER
from utility.summary import interval
from utility.tasks import Task, load_task

TASKS = ("compas", "law-school", "adult")
RUN = group_dro.Run(400, 0.02, learning_rate=0.4, clip=1.0, group_rate=0.1, start="average")
EPSILON, N_SEEDS = 1.0, 8


def with_opacus(task: Task, unit_noise: float, seeds: list[int]) -> np.ndarray:
    """Return Opacus's last iterates, one column a seed."""
    python = environment("opacus", HERE / "requirements-opacus.txt")
    settings = RUN._asdict() | {
        "seeds": seeds,
        "momentum": group_dro.MOMENTUM,
        "n_groups": len(task.group_labels),
        "cap": group_dro.LOSS_CAPS[task.kind],
        "gradient_noise": unit_noise / np.sqrt(group_dro.GRADIENT_SHARE),
        "loss_noise": unit_noise / np.sqrt(1.0 - group_dro.GRADIENT_SHARE),
    }
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "task.npz"
        part = task.train
        np.savez(archive, rows=part.rows, targets=part.targets, codes=part.codes)
        command = [python, HERE / "opacus_worker.py", archive, json.dumps(settings)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return np.array(json.loads(done.stdout)).T


def with_numpy(task: Task, unit_noise: float, seeds: list[int]) -> np.ndarray:
    """Return our last iterates, one column a seed."""
    columns = [
        group_dro.sgd(task, task.train, [RUN], np.array([unit_noise]), seed)["last"]
        for seed in seeds
    ]
    return np.hstack(columns)


def main() -> None:
    """Print the comparison."""
    noise = group_dro.unit_noise(RUN.n_steps, RUN.sampling_rate, EPSILON, DELTA)
    print(f"{RUN}\nnoise of ε = {EPSILON:g}: {noise:.4f} times the clip for a replaced record\n")
    titles = ("same batches, no noise", "NumPy excess", "Opacus excess", "difference")
    print(f"{'task':<14}" + "".join(f"{title:>24}" for title in titles))
    seeds = list(range(N_SEEDS))
    for name in TASKS:
        task = load_task(name, cache=FOLDER / "optima")
        apart = np.abs(with_numpy(task, 0.0, [0]) - with_opacus(task, 0.0, [0])).max()
        ours, theirs = (
            task.train_excess(run(task, noise, seeds)) for run in (with_numpy, with_opacus)
        )
        cells = (f"{apart:.1e}", *map(str, map(interval, (ours, theirs, ours - theirs))))
        print(f"{name:<14}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
