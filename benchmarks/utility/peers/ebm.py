"""DP-EBM (interpret-core) at its defaults, in an environment of its own that stays open.

Columns are as a user has them: numbers with public bounds, and categories. It ignores groups, and
its ε is for adding or removing a record: that of a replacement, which ours is, would be larger.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from utility.ours import DELTA
from utility.peers.aim import Block, blocks_of
from utility.peers.environments import environment
from utility.tasks import Part, Task

HERE = Path(__file__).resolve().parent


def table_of(part: Part, blocks: list[Block], divisor: float) -> tuple[np.ndarray, list[bool]]:
    """Return columns, numbers in [-1, 1] and codes, and which are codes.

    DP-EBM takes no missing values: their fill stands for them, and a code says so.
    """
    ends = np.cumsum([block.width for block in blocks])
    columns, coded = [], []
    for block, own in zip(
        blocks, np.split(part.rows[:, : ends[-1]] * divisor, ends[:-1], axis=1), strict=True
    ):
        if block.points is None:
            columns.append(block.codes(own).astype(float))
        else:
            columns += [own[:, 0], own[:, 1:].any(axis=1)][: block.width]
        coded += [True] if block.points is None else [False, True][: block.width]
    return np.column_stack(columns), coded


@cache
def _worker() -> subprocess.Popen[str]:
    python = environment("interpret", HERE / "requirements-interpret.txt")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([python, HERE / "ebm_worker.py"], **pipes)


def fit(task: Task, epsilon: float, seed: int) -> Callable[[Part], np.ndarray]:
    """Return scores of both parts of a task."""
    blocks, divisor = blocks_of(task)
    worker = _worker()
    assert worker.stdin is not None
    assert worker.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        asked, made = Path(folder) / "asked.npz", Path(folder) / "made.npz"
        (train, coded), (test, _) = (
            table_of(part, blocks, divisor) for part in (task.train, task.test)
        )
        np.savez(asked, train=train, test=test, targets=task.train.targets, is_nominal=coded)
        how = [str(asked), str(made), epsilon, DELTA, seed, task.is_classification]
        worker.stdin.write(f"{json.dumps(how)}\n")
        worker.stdin.flush()
        if worker.stdout.readline() != "done\n":
            raise RuntimeError("DP-EBM failed.")
        scores = dict(np.load(made))

    def scores_of(part: Part) -> np.ndarray:
        result: np.ndarray = scores["test" if part is task.test else "train"]
        return result

    return scores_of
