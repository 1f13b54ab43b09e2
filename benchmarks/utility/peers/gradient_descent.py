"""Full-batch private gradient descent on the average and on group-balanced risks.

The noise of every step is calibrated by Gaussian differential privacy, exactly; steps have
heavy-ball momentum; the result is the last iterate or the mean of the last half, whichever is
better.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from utility.peers.clipped import ClippedGradients, project
from utility.peers.weightings import (
    FAIRER,
    largest_factor,
    noise_multiplier,
    record_factors,
    replace_sensitivity,
)
from utility.tasks import Part, Task

STEPS = (10, 30, 100)
LEARNING_RATES = (0.1, 0.4, 1.6, 6.4)
CLIPS = (0.1, 0.25, 0.5, 1.0)
# More steps want long ones, and are too slow for a grid of their own.
MANY_STEPS, LONG_RATES, WIDE_CLIPS = (300,), (1.6, 6.4), (0.5, 1.0)
MOMENTUM = 0.9
METHODS = {"dp-gd average": ("average",), "dp-gd balanced": FAIRER}


class Run(NamedTuple):
    """Parameters of one run."""

    n_steps: int
    learning_rate: float
    clip: float
    weighting: str


def grid(method: str) -> list[Run]:
    """Return the grid of a method."""
    few = product(STEPS, LEARNING_RATES, CLIPS, METHODS[method])
    many = product(MANY_STEPS, LONG_RATES, WIDE_CLIPS, METHODS[method])
    return [Run(*each) for each in (*few, *many)]


def noise_std(sizes: np.ndarray, run: Run, epsilon: float, delta: float) -> float:
    """Return the noise on each coordinate of a step's gradient."""
    factor = largest_factor(sizes, run.weighting)
    return noise_multiplier(run.n_steps, epsilon, delta) * replace_sensitivity(run.clip, factor)


def descend(
    task: Task, part: Part, runs: list[Run], noise_stds: np.ndarray, seeds: np.ndarray
) -> dict[str, np.ndarray]:
    """Return weights of columns of equal steps and weighting, a seed's noise scaled for each."""
    n_steps, weighting = runs[0].n_steps, runs[0].weighting
    assert all((run.n_steps, run.weighting) == (n_steps, weighting) for run in runs)
    rates = np.array([run.learning_rate for run in runs])
    gradients = ClippedGradients(
        part,
        record_factors(task, part, weighting),
        np.array([run.clip for run in runs]),
        is_classification=task.is_classification,
    )
    kinds, of_kind = np.unique(seeds, return_inverse=True)
    generators = [np.random.default_rng([int(seed), n_steps]) for seed in kinds]

    d = part.rows.shape[1]
    weights, velocity, mean = np.zeros((3, d, len(runs)))
    n_averaged = n_steps - n_steps // 2
    for t in range(n_steps):
        draws = np.column_stack([generator.normal(size=d) for generator in generators])
        velocity *= MOMENTUM
        velocity += gradients(weights)
        velocity += noise_stds * draws[:, of_kind]
        weights = project(weights - rates * velocity, task.radius)
        if t >= n_steps - n_averaged:
            mean += weights / n_averaged
    return {"last": weights, "mean": mean}
