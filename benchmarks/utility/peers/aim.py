"""Models of synthetic tables by AIM (dpmm), which covers who is in which group too.

Every column of a table becomes codes: categories as they are, numbers by 16 public bins, and target
and group are columns too. A synthetic table has as many records; it takes minutes and is kept.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.preprocessing import Boolean, Category, Ordered
from utility import references
from utility.ours import DELTA
from utility.peers.environments import environment
from utility.population import DEFINITIONS
from utility.store import FOLDER
from utility.tasks import Part, Task

HERE = Path(__file__).resolve().parent
N_BINS = 16
# In MB, the library's default is 80; seconds of processor time after which a table is given up.
MODEL_SIZE, PATIENCE = 20.0, 600
CENTRES = (np.arange(N_BINS) + 0.5) / N_BINS * 2.0 - 1.0


class Block(NamedTuple):
    """Encoded columns of one column: numbers at some points, or one of several columns is 1."""

    width: int
    points: np.ndarray | None

    @property
    def n_levels(self) -> int:
        """Number of codes; the last one stands for a missing number, or for no category."""
        return self.width + 1 if self.points is None else len(self.points) + self.width - 1

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return codes of values in [-1, 1], of shape (n, width)."""
        if self.points is None:
            return np.where(values.any(axis=1), values.argmax(axis=1), self.width)
        nearest = np.abs(values[:, :1] - self.points).argmin(axis=1)
        return (
            np.where(values[:, -1] > 0.5, len(self.points), nearest) if self.width > 1 else nearest
        )

    def values(self, codes: np.ndarray) -> np.ndarray:
        """Return what codes stand for."""
        if self.points is None:
            return np.eye(self.width + 1)[codes][:, : self.width]
        points = np.append(self.points, 0.0)[codes]
        return np.column_stack([points, codes == len(self.points)])[:, : self.width]


def blocks_of(task: Task) -> tuple[list[Block], float]:
    """Return the columns of a task, and what its rows were divided by."""
    known = {each.name: each for each in DEFINITIONS}
    if task.name in known:
        columns = known[task.name].columns
        return [_block(each) for each in columns.values()], float(np.sqrt(len(columns)))
    names = load_dataset(task.name).feature_names
    blocks = []
    for name, same in itertools.groupby(names, lambda each: each.partition("=")[0]):
        width = len(list(same))
        blocks.append(Block(width, None if f"{name}=" in "".join(names) else CENTRES))
    return blocks, task.public["data_norm"]


def _block(column: Any) -> Block:
    if isinstance(column, Category):
        return Block(column._width, None)
    if isinstance(column, Boolean | Ordered):
        n_levels = 2 if isinstance(column, Boolean) else len(column.levels)
        return Block(1 + column.missing, np.linspace(-1.0, 1.0, n_levels))
    return Block(1 + column.missing, CENTRES)


def synthetic(task: Task, epsilon: float, seed: int) -> Part:
    """Return a synthetic training part, kept once AIM has made it; empty if that took too long."""
    blocks, divisor = blocks_of(task)
    target = Block(1, np.array([-1.0, 1.0]) if task.is_classification else CENTRES)
    kept = FOLDER / "aim" / f"{task.name}, {epsilon:g}, {seed}.npz"
    if not kept.exists():
        ends = np.cumsum([each.width for each in blocks])
        parts = np.split(task.train.rows[:, : ends[-1]] * divisor, ends[:-1], axis=1)
        codes = [each.codes(part) for each, part in zip(blocks, parts, strict=True)]
        codes += [target.codes(task.train.targets[:, None]), task.train.codes]
        levels = [*(each.n_levels for each in (*blocks, target)), len(task.group_labels)]
        _run_aim(np.column_stack(codes), np.array(levels), epsilon, seed, kept)
    codes = np.load(kept)["codes"].T
    values = [each.values(own) for each, own in zip(blocks, codes, strict=False)]
    rows = np.column_stack([*values, np.full(codes.shape[1], divisor)]) / divisor
    targets = target.values(codes[-2])[:, 0]
    return Part(rows, targets, codes[-1], rows[:, :-1], targets, codes[-1])


def _run_aim(codes: np.ndarray, levels: np.ndarray, epsilon: float, seed: int, to: Path) -> None:
    python = environment("dpmm", HERE / "requirements-dpmm.txt")
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        archives = [Path(folder) / name for name in ("table.npz", "made.npz")]
        np.savez(archives[0], codes=codes, n_levels=levels)
        words = map(str, (*archives, epsilon, DELTA, MODEL_SIZE, seed, PATIENCE))
        command = [python, HERE / "aim_worker.py", *words]
        done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode == -signal.SIGXCPU:
            np.savez(archives[1], codes=codes[:0])
        elif done.returncode:
            raise RuntimeError(f"AIM failed: {done.stderr[-2000:]}")
        shutil.move(archives[1], to)


def on_synthetic(learn: Callable[..., Any]) -> Callable[[Task, float, int], Any]:
    """Return a method that learns from a synthetic table; that may lack a group or take long."""

    def fit(task: Task, epsilon: float, seed: int) -> Any:
        made = synthetic(task, epsilon, seed)
        if not len(made.codes):
            return np.full(task.train.rows.shape[1], np.nan)
        labels, made.codes = np.unique(made.codes, return_inverse=True)
        of_made = Task(task.name, task.kind, made, made, tuple(map(str, labels)), task.public)
        return learn(of_made, epsilon, seed)

    return fit


AIM = {
    "AIM, exact minimax": on_synthetic(references.minimax),
    "AIM, boosted trees": on_synthetic(references.boosting),
    "AIM, boosted trees, groups alike": on_synthetic(
        references.REFERENCES["boosted trees, groups alike"]
    ),
}
