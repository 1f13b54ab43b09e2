"""Full-batch private gradient descent on the average and on group-balanced risks.

The noise of every step is calibrated by Gaussian differential privacy, exactly; steps have
heavy-ball momentum; the result is the last iterate or the mean of the last half, whichever is
better. Columns of a matrix of weights are runs of their own, so that one pass over the rows serves
every parameter, budget and seed.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from utility.relations import noise_multiplier, replace_sensitivity
from utility.tasks import Part, Task

# The grid: groups count by (1 - balance) n_i/n + balance/p; a balance of 0 is the average risk.
STEPS = (10, 30, 100)
LEARNING_RATES = (0.1, 0.4, 1.6, 6.4)
CLIPS = (0.1, 0.25, 0.5, 1.0)
# More steps want long ones, and are too slow for a grid of their own.
MANY_STEPS, LONG_RATES, WIDE_CLIPS = (300,), (1.6, 6.4), (0.5, 1.0)
MOMENTUM = 0.9
BALANCES = {"dp-gd average": (0.0,), "dp-gd balanced": (0.2, 1.0)}

# Scores of a block stay in the cache.
BLOCK_ELEMENTS = 250_000


class Run(NamedTuple):
    """Parameters of one run."""

    n_steps: int
    learning_rate: float
    clip: float
    balance: float


def grid(method: str) -> list[Run]:
    """Return the grid of a method."""
    balances = BALANCES[method]
    few = product(STEPS, LEARNING_RATES, CLIPS, balances)
    many = product(MANY_STEPS, LONG_RATES, WIDE_CLIPS, balances)
    return [Run(*each) for each in (*few, *many)]


def group_shares(sizes: np.ndarray, balance: float) -> np.ndarray:
    """Return how much each group counts."""
    return (1.0 - balance) * sizes / sizes.sum() + balance / len(sizes)


def noise_std(sizes: np.ndarray, run: Run, epsilon: float, delta: float) -> float:
    """Return the noise on each coordinate of a step's gradient."""
    weight = float((group_shares(sizes, run.balance) / sizes).max())
    return noise_multiplier(run.n_steps, epsilon, delta) * replace_sensitivity(run.clip, weight)


def clipped_gradient(
    part: Part,
    record_weights: np.ndarray,
    weights: np.ndarray,
    clips: np.ndarray,
    *,
    is_classification: bool,
) -> np.ndarray:
    """Return weighted sums of clipped gradients.

    Parameters
    ----------
    part : Part
        Records.
    record_weights : ndarray of shape (n,)
        Factor of each record's clipped gradient.
    weights : ndarray of shape (d, k)
        One model a column.
    clips : ndarray of shape (k,)
        Longest gradient of a record before its factor.

    Returns
    -------
    ndarray of shape (d, k)
        The sums.
    """
    rows, dtype = part.rows, part.rows.dtype
    norms = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), np.finfo(dtype).tiny)
    total = np.zeros(weights.shape, dtype=dtype)
    step = max(64, BLOCK_ELEMENTS // weights.shape[1])
    for first in range(0, len(rows), step):
        block = slice(first, first + step)
        # a row times its slope is the gradient, so clipping it is clipping the slope
        limits = clips[None, :].astype(dtype) / norms[block, None]
        scores = rows[block] @ weights
        targets = part.targets[block, None].astype(dtype)
        if is_classification:
            # 1/(1 + exp(margin)): NumPy's exp is several times faster than SciPy's expit
            scores *= targets
            slopes = np.exp(scores, out=scores)
            slopes += 1.0
            np.reciprocal(slopes, out=slopes)
            np.minimum(slopes, limits, out=slopes)
            slopes *= -targets * record_weights[block, None].astype(dtype)
        else:
            slopes = np.clip(scores - targets, -limits, limits)
            slopes *= record_weights[block, None].astype(dtype)
        total += rows[block].T @ slopes
    return total


def project(weights: np.ndarray, radius: float) -> np.ndarray:
    """Return columns that are no longer than a radius."""
    lengths = np.linalg.norm(weights, axis=0)
    return weights * np.minimum(1.0, radius / np.maximum(lengths, 1e-300))


def descend(
    task: Task,
    part: Part,
    runs: list[Run],
    noise_stds: np.ndarray,
    seeds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Run columns of the same number of steps and the same balance.

    Parameters
    ----------
    task : Task
        The task.
    part : Part
        Records to descend on.
    runs : list of Run
        One a column.
    noise_stds : ndarray of shape (k,)
        Noise of each.
    seeds : ndarray of shape (k,)
        Columns of one seed share their noise but for its scale.

    Returns
    -------
    last, mean : ndarray of shape (d, k)
        The last iterate, and the mean of the last half of them.
    """
    n_steps, balance = runs[0].n_steps, runs[0].balance
    assert all((run.n_steps, run.balance) == (n_steps, balance) for run in runs)
    sizes = np.bincount(part.codes, minlength=len(task.group_labels))
    with np.errstate(divide="ignore"):
        record_weights = (group_shares(task.group_sizes, balance) / sizes)[part.codes]
    rates = np.array([run.learning_rate for run in runs])
    clips = np.array([run.clip for run in runs])
    kinds, of_kind = np.unique(seeds, return_inverse=True)
    generators = [np.random.default_rng([int(seed), n_steps]) for seed in kinds]

    d = part.rows.shape[1]
    weights, velocity, mean = np.zeros((3, d, len(runs)))
    n_averaged = n_steps - n_steps // 2
    for t in range(n_steps):
        gradient = clipped_gradient(
            part,
            record_weights,
            weights.astype(part.rows.dtype),
            clips,
            is_classification=task.is_classification,
        )
        draws = np.column_stack([generator.normal(size=d) for generator in generators])
        velocity = MOMENTUM * velocity + gradient + noise_stds * draws[:, of_kind]
        weights = project(weights - rates * velocity, task.radius)
        if t >= n_steps - n_averaged:
            mean += weights / n_averaged
    return weights, mean
