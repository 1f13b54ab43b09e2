"""DP-SGD with group-DRO weights: Poisson batches, clipped gradients, Hedge on noisy losses.

A step draws every record with probability q. The loss of a record of group g is weighted by
λ_g n/n_g, its gradient clipped to C, the sum given noise and divided by q n, as Opacus does. The
capped losses of the drawn records are summed by group, given noise and divided by q n_g; the group
weights λ start at the shares of a weighting and grow with the exponential of these. Gradient and
losses are one Gaussian release of a vector that a record adds at most 1 to: (√a gradient/C,
√(1 - a) loss/B).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from utility.peers.clipped import equal_pieces, project
from utility.peers.gradient_descent import MOMENTUM
from utility.peers.weightings import group_shares, noise_multiplier, replace_sensitivity
from utility.tasks import Part, Task

STEPS = (100, 400)
SAMPLING_RATES = (0.02, 0.1)
LEARNING_RATES = (0.1, 0.4, 1.6, 6.4)
CLIPS = (0.25, 0.5, 1.0)
# Rates of the group weights, by where they start.
GROUP_RATES = {"average": (0.01, 0.1, 1.0), "half": (0.0, 0.01), "balanced": (0.0, 0.01)}
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
    start: str


def grid() -> list[Run]:
    """Return the grid."""
    each = product(STEPS, SAMPLING_RATES, LEARNING_RATES, CLIPS)
    groups = [(rate, start) for start, rates in GROUP_RATES.items() for rate in rates]
    return [Run(*run, *of_groups) for run, of_groups in product(each, groups)]


def unit_noise(n_steps: int, sampling_rate: float, epsilon: float, delta: float) -> float:
    """Return the noise on a vector that each record adds at most 1 to."""
    return noise_multiplier(n_steps, epsilon, delta, sampling_rate) * replace_sensitivity(1.0)


def noise_of_run(_: np.ndarray, run: Run, epsilon: float, delta: float) -> float:
    """Return the noise of one run, which group sizes have no part in."""
    return unit_noise(run.n_steps, run.sampling_rate, epsilon, delta)


def sgd(
    task: Task, part: Part, runs: list[Run], unit_noises: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """Run columns of the same steps and sampling rate, which share their batches."""
    n_steps, rate = runs[0].n_steps, runs[0].sampling_rate
    assert all((run.n_steps, run.sampling_rate) == (n_steps, rate) for run in runs)
    rng = np.random.default_rng([seed, n_steps, round(1000 * rate)])
    learning_rates = np.array([run.learning_rate for run in runs])
    clips = np.array([run.clip for run in runs])
    group_rates = np.array([run.group_rate for run in runs])
    cap = LOSS_CAPS[task.kind]
    n_groups, d, dtype = len(task.group_labels), part.rows.shape[1], part.rows.dtype
    n, sizes = task.group_sizes.sum(), np.maximum(task.group_sizes, 1)[:, None]
    gradient_stds = unit_noises * clips / np.sqrt(GRADIENT_SHARE)
    loss_stds = unit_noises * cap / np.sqrt(1.0 - GRADIENT_SHARE)
    proportions = sizes / n
    # of records that stand for those left out, each counts for several
    counts = task.group_sizes / np.maximum(np.bincount(part.codes, minlength=n_groups), 1)
    multiples = counts[part.codes].astype(dtype)

    # margins are scores of rows times their targets, and gradients point against these
    sign = -1.0 if task.is_classification else 1.0
    signed = part.rows * part.targets[:, None] if task.is_classification else part.rows
    pieces = equal_pieces(clips.astype(dtype))
    inverse_norms = (1.0 / np.maximum(np.linalg.norm(part.rows, axis=1), 1e-12)).astype(dtype)
    weights, velocity, mean = np.zeros((3, d, len(runs)))
    starts = [group_shares(task.group_sizes, run.start) for run in runs]
    log_shares = np.log(np.maximum(np.column_stack(starts), 1e-300))
    n_averaged = n_steps - n_steps // 2
    for t in range(n_steps):
        drawn = np.flatnonzero(rng.random(len(part.codes)) < rate)
        shares = np.exp(log_shares - log_shares.max(axis=0))
        shares /= shares.sum(axis=0)
        rows, targets, codes = signed[drawn], part.targets[drawn, None], part.codes[drawn]
        slopes, losses = _slopes_and_losses(
            rows @ weights.astype(dtype), targets, is_classification=task.is_classification
        )
        slopes *= (shares / proportions).astype(dtype)[codes]
        for columns, clip in pieces:
            limits, own = clip * inverse_norms[drawn, None], slopes[:, columns]
            if task.is_classification:
                np.minimum(own, limits, out=own)
            else:
                np.clip(own, -limits, limits, out=own)
        gradient = sign * (rows * multiples[drawn, None]).T @ slopes
        gradient = (gradient + gradient_stds * rng.normal(size=(d, 1))) / (rate * n)
        belongs = (codes == np.arange(n_groups)[:, None]) * multiples[drawn]
        by_group = belongs @ np.minimum(losses, dtype.type(cap), out=losses)
        by_group = (by_group + loss_stds * rng.normal(size=(n_groups, 1))) / (rate * sizes)
        log_shares = log_shares + group_rates * by_group
        velocity = MOMENTUM * velocity + gradient
        weights = project(weights - learning_rates * velocity, task.radius)
        if t >= n_steps - n_averaged:
            mean += weights / n_averaged
    return {"last": weights, "mean": mean}


def _slopes_and_losses(
    scores: np.ndarray, targets: np.ndarray, *, is_classification: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes and losses: of margins, the slopes' sign left out, or of scores."""
    if not is_classification:
        scores -= targets
        return scores, 0.5 * scores**2
    # the radius keeps margins within what exp can take
    np.negative(scores, out=scores)
    odds = np.exp(scores, out=scores)
    below = 1.0 + odds
    np.divide(odds, below, out=odds)
    return odds, np.log(below, out=below)
