"""DP-SGD with group-DRO weights: Poisson batches, clipped gradients, Hedge on noisy losses.

A step draws every record with probability q. The loss of a record of group g is weighted by
λ_g n/n_g, its gradient clipped to C, the sum given noise and divided by q n, as Opacus does. The
capped losses of the drawn records are summed by group, given noise and divided by q n_g; the group
weights λ grow with the exponential of these. Gradient and losses are one Gaussian release of a
vector that a record adds at most 1 to: (√a gradient/C, √(1 - a) loss/B).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from utility.peers.gradient_descent import MOMENTUM, project
from utility.relations import noise_multiplier, replace_sensitivity
from utility.tasks import Part, Task

STEPS = (100, 400)
SAMPLING_RATES = (0.02, 0.1)
LEARNING_RATES = (0.1, 0.4, 1.6, 6.4)
CLIPS = (0.25, 0.5, 1.0)
GROUP_RATES = (0.01, 0.1, 1.0)
GRADIENT_SHARE = 0.9
# Losses count for at most half again that of a model that predicts nothing.
LOSS_CAPS = {"classification": 1.5 * np.log(2.0), "regression": 0.75}


class Run(NamedTuple):
    """Parameters of one run."""

    n_steps: int
    sampling_rate: float
    learning_rate: float
    clip: float
    group_rate: float


def grid() -> list[Run]:
    """Return the grid."""
    return [
        Run(*each) for each in product(STEPS, SAMPLING_RATES, LEARNING_RATES, CLIPS, GROUP_RATES)
    ]


def unit_noise(n_steps: int, sampling_rate: float, epsilon: float, delta: float) -> float:
    """Return the noise on a vector that each record adds at most 1 to."""
    return noise_multiplier(n_steps, epsilon, delta, sampling_rate) * replace_sensitivity(1.0)


def sgd(
    task: Task,
    part: Part,
    runs: list[Run],
    unit_noises: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Run columns of the same steps and sampling rate, which share their batches.

    Parameters
    ----------
    task : Task
        The task.
    part : Part
        Records; those of thinned tasks get the noise that all records would have.
    runs : list of Run
        One a column.
    unit_noises : ndarray of shape (k,)
        What `unit_noise` returns, 0 for none.
    seed : int
        Seed of batches and noise.

    Returns
    -------
    last, mean : ndarray of shape (d, k)
        The last iterate, and the mean of the last half of them.
    """
    n_steps, rate = runs[0].n_steps, runs[0].sampling_rate
    assert all((run.n_steps, run.sampling_rate) == (n_steps, rate) for run in runs)
    rng = np.random.default_rng([seed, n_steps, round(1000 * rate)])
    learning_rates = np.array([run.learning_rate for run in runs])
    clips = np.array([run.clip for run in runs])
    group_rates = np.array([run.group_rate for run in runs])
    cap = LOSS_CAPS[task.kind]
    n_groups, (n, d) = len(task.group_labels), part.rows.shape
    sizes = np.bincount(part.codes, minlength=n_groups)[:, None]
    # noise of all records, though there may be fewer here
    thinned = n / len(task.train.targets)
    gradient_stds = unit_noises * clips / np.sqrt(GRADIENT_SHARE) * thinned
    loss_stds = unit_noises * cap / np.sqrt(1.0 - GRADIENT_SHARE) * thinned
    proportions = task.group_sizes[:, None] / task.group_sizes.sum()

    norms = np.linalg.norm(part.rows, axis=1)
    weights, velocity, mean = np.zeros((3, d, len(runs)))
    log_shares = np.log(np.repeat(proportions, len(runs), axis=1))
    n_averaged = n_steps - n_steps // 2
    for t in range(n_steps):
        drawn = np.flatnonzero(rng.random(n) < rate)
        shares = np.exp(log_shares - log_shares.max(axis=0))
        shares /= shares.sum(axis=0)
        rows, codes, targets = part.rows[drawn], part.codes[drawn], part.targets[drawn, None]
        scores = rows @ weights.astype(rows.dtype)
        factors = (shares / proportions).astype(rows.dtype)[codes]
        limits = clips.astype(rows.dtype) / np.maximum(norms[drawn, None], 1e-12)
        if task.is_classification:
            # the radius keeps margins within what exp can take
            odds = np.exp(-targets * scores)
            losses = np.log(1.0 + odds)
            slopes = -targets * np.minimum(factors * odds / (1.0 + odds), limits)
        else:
            residuals = scores - targets
            losses = 0.5 * residuals**2
            slopes = np.clip(factors * residuals, -limits, limits)
        gradient = rows.T @ slopes.astype(rows.dtype)
        gradient = (gradient + gradient_stds * rng.normal(size=(d, 1))) / (rate * n)
        belongs = (codes == np.arange(n_groups)[:, None]).astype(rows.dtype)
        by_group = belongs @ np.minimum(losses, cap).astype(rows.dtype)
        by_group = (by_group + loss_stds * rng.normal(size=(n_groups, 1))) / (rate * sizes)
        log_shares = log_shares + group_rates * by_group
        velocity = MOMENTUM * velocity + gradient
        weights = project(weights - learning_rates * velocity, task.radius)
        if t >= n_steps - n_averaged:
            mean += weights / n_averaged
    return weights, mean
