"""diffprivlib's LogisticRegression, in an environment of its own.

Objective perturbation with the default constants of the library: it has no groups, no δ, and one
parameter, `C`. The grid is run on few seeds and its winner on all.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from utility.peers.tuning import cell
from utility.store import FOLDER
from utility.tasks import Task

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements-diffprivlib.txt"
# `C` multiplies the sum of losses; the library's default is 1.
GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
N_TUNING_SEEDS = 2


def environment(name: str, requirements: Path) -> Path:
    """Return the Python of an environment, made when it is missing."""
    folder = FOLDER / "environments" / name
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", "-r", requirements]
        subprocess.run(install, check=True)
        done.touch()
    return python


def run_diffprivlib(task: Task, epsilons: Sequence[float], n_seeds: int) -> dict[str, Any]:
    """Return the cells, by ε."""
    python = environment("diffprivlib", REQUIREMENTS)
    d = task.train.rows.shape[1] - task.fit_intercept
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "task.npz"
        np.savez(
            archive,
            rows=task.train.rows[:, :d],
            y=(task.train.targets > 0).astype(int),
            fit_intercept=task.fit_intercept,
        )

        def fits(jobs: list[tuple[float, float, int]]) -> tuple[np.ndarray, float]:
            command = [python, HERE / "diffprivlib_worker.py", archive, json.dumps(jobs)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            weights, seconds = zip(*json.loads(done.stdout), strict=True)
            return np.array(weights).T, float(np.mean(seconds))

        tried = [
            (epsilon, c, seed)
            for epsilon in epsilons
            for c in GRID
            for seed in range(N_TUNING_SEEDS)
        ]
        excess = task.train_excess(fits(tried)[0])
        excess = excess.reshape(len(epsilons), len(GRID), N_TUNING_SEEDS).mean(axis=2)
        cells = {}
        for epsilon, of_grid in zip(epsilons, excess, strict=True):
            c = GRID[int(of_grid.argmin())]
            weights, seconds = fits([(epsilon, c, seed) for seed in range(n_seeds)])
            cells[f"{epsilon:g}"] = cell(task, weights, {"C": c}, seconds)
    return cells
