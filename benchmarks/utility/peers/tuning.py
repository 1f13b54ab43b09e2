"""What the NumPy peers share: rows to tune on, and the choice in hindsight."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from utility.ours import number
from utility.peers.clipped import BLOCK_ELEMENTS
from utility.tasks import Part, Task


class Stage(NamedTuple):
    """A part of the race of a grid: records and seeds of each run, and how many runs stay."""

    max_rows: int
    n_seeds: int
    n_kept: int


# Records are thinned for the race only, with the noise and the group weights of all records; the
# last runs of every budget are then judged on all of them, by the excess that is reported.
STAGES = (Stage(8_000, 2, 12), Stage(30_000, 4, 3))
SLOW_STAGES = (Stage(8_000, 1, 6), Stage(30_000, 4, 2))


def thin(part: Part, n_groups: int, max_rows: int) -> Part:
    """Return at most so many records, those of the largest groups left out first, by group."""
    sizes = np.bincount(part.codes, minlength=n_groups)
    kept, left = np.zeros_like(sizes), max_rows
    for rank, group in enumerate(np.argsort(sizes, kind="stable")):
        kept[group] = min(sizes[group], left // (n_groups - rank))
        left -= kept[group]
    rng = np.random.default_rng(0)
    chosen = [
        np.sort(rng.permutation(np.flatnonzero(part.codes == group))[: kept[group]])
        for group in range(n_groups)
    ]
    return part.take(np.concatenate(chosen))


def tuning_part(task: Task, max_rows: int) -> Part:
    """Return the training records by group, at most so many, in single precision."""
    return single(thin(task.train, len(task.group_labels), max_rows))


def single(part: Part) -> Part:
    """Return records with rows and targets in single precision."""
    rows, targets = part.rows.astype(np.float32), part.targets.astype(np.float32)
    return Part(rows, targets, part.codes, part.X, part.y, part.groups)


def thinned_excess(task: Task, part: Part, weights: np.ndarray) -> np.ndarray:
    """Return the excess on records sorted by group, in single precision."""
    weights = weights.astype(part.rows.dtype)
    worst = np.full(weights.shape[1], -np.inf)
    step = max(64, BLOCK_ELEMENTS // weights.shape[1])
    for group in np.unique(part.codes):
        first, end = np.searchsorted(part.codes, [group, group + 1])
        total = np.zeros(weights.shape[1])
        for start in range(first, end, step):
            block = slice(start, min(end, start + step))
            scores, targets = part.rows[block] @ weights, part.targets[block, None]
            if task.is_classification:
                scores *= -targets
                np.exp(scores, out=scores)
                total += np.log1p(scores, out=scores).sum(axis=0)
            else:
                scores -= targets
                total += 0.5 * np.einsum("ij,ij->j", scores, scores)
        worst = np.maximum(worst, total / (end - first))
    return worst - task.optima["worst-group"]["value"]


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
