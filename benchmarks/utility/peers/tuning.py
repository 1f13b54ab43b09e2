"""What the NumPy peers share: the records that they are tuned on."""

from __future__ import annotations

import numpy as np

from utility.peers.clipped import BLOCK_ELEMENTS
from utility.tasks import Part, Task


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
