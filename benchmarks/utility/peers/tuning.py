"""What the NumPy peers share: rows to tune on, and the choice in hindsight."""

from __future__ import annotations

from typing import Any

import numpy as np

from utility.ours import number
from utility.tasks import Part, Task

# More rows than these are thinned for the grid only, with the noise of all rows: the winner of the
# grid is then run on all of them.
MAX_TUNING_ROWS = 50_000


def tuning_part(task: Task) -> Part:
    """Return the training records, at most so many, in single precision."""
    part, n_rows = task.train, len(task.train.targets)
    if n_rows > MAX_TUNING_ROWS:
        rng = np.random.default_rng(0)
        part = part.take(np.sort(rng.choice(n_rows, MAX_TUNING_ROWS, replace=False)))
    return single(part)


def single(part: Part) -> Part:
    """Return records with rows and targets in single precision."""
    rows, targets = part.rows.astype(np.float32), part.targets.astype(np.float32)
    return Part(rows, targets, part.codes, part.X, part.y, part.groups)


def thinned_excess(task: Task, part: Part, weights: np.ndarray) -> np.ndarray:
    """Return what the grid is judged by: the excess, on thinned rows where they are."""
    if task.excess_of is not None or len(part.targets) == len(task.train.targets):
        return task.train_excess(weights)
    losses, _ = task.losses_by_group(part, weights.astype(np.float32))
    return losses.max(axis=0) - task.optima["worst-group"]["value"]


def cell(
    task: Task, weights: np.ndarray, parameters: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """Return the cell of a peer from one column of weights a seed."""
    scores = task.scores(weights)
    return {
        "train_excess": scores.train_excess.tolist(),
        "test_loss": scores.test_loss.tolist(),
        "test_accuracy": [number(value) for value in scores.test_accuracy],
        "seconds": seconds,
        "parameters": parameters,
    }
