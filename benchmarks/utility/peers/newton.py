"""Private Newton steps with noise on gradients and Hessians (after Ganesh et al. 2023).

A step releases the weighted sum of clipped gradients; Hessians are weighted sums of φ'' x xᵀ, φ''
limited so that no term is longer than B in the Frobenius norm. "each" step has a Hessian of its
own; "once" one is released at zero weights, where the logistic curvature is largest and so bounds
all others: the universal bound of the paper. All are Gaussian releases, whose μ² add up. The ridge
on a Hessian is a multiple of the spectral norm of its noise.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from utility.peers.clipped import ClippedGradients, project
from utility.peers.tuning import thin
from utility.peers.weightings import (
    WEIGHTINGS,
    largest_factor,
    record_factors,
    replace_sensitivity,
    total_mu,
)
from utility.tasks import Part, Task

STEPS = (5, 10, 20)
HESSIANS = ("once", "each")
RIDGES = (1.0, 3.0, 10.0)
CLIPS = (0.25, 0.5, 1.0)
# B as a part of the most that a record can have.
CURVATURE_CLIPS = (0.25, 1.0)
HESSIAN_FRACTION = 0.2

# Hessians of tuning runs are of so many records; each group keeps its weight.
HESSIAN_TUNING_ROWS = 2_000
PRODUCT_ELEMENTS, KEPT_ELEMENTS = 500_000, 20_000_000


class Run(NamedTuple):
    """Parameters of one run."""

    n_steps: int
    hessians: str
    ridge: float
    clip: float
    curvature_clip: float
    weighting: str


class Noise(NamedTuple):
    """Standard deviations of the noise on gradients and Hessians, and B."""

    gradient: float
    hessian: float
    longest: float


def grid() -> list[Run]:
    """Return the grid."""
    each = product(STEPS, HESSIANS, RIDGES, CLIPS, CURVATURE_CLIPS, WEIGHTINGS)
    return [Run(*run) for run in each]


def make_noise(
    sizes: np.ndarray,
    run: Run,
    epsilon: float,
    delta: float,
    bound: float,
    *,
    is_classification: bool,
) -> Noise:
    """Return the noise that spends a budget.

    Two terms of a Hessian are positive semi-definite, so their difference is at most √2 B long.
    """
    factor = largest_factor(sizes, run.weighting)
    longest = run.curvature_clip * (0.25 if is_classification else 1.0) * bound**2
    mu = total_mu(epsilon, delta)
    gradient_mu = mu * np.sqrt((1.0 - HESSIAN_FRACTION) / run.n_steps)
    n_hessians = 1 if run.hessians == "once" else run.n_steps
    hessian_mu = mu * np.sqrt(HESSIAN_FRACTION / n_hessians)
    return Noise(
        replace_sensitivity(run.clip, factor) / gradient_mu,
        np.sqrt(2.0) * longest * factor / hessian_mu,
        longest,
    )


def symmetric_noise(generator: np.random.Generator, d: int) -> np.ndarray:
    """Return a standard normal symmetric matrix, isometrically: √2 less off the diagonal."""
    full = generator.normal(size=(d, d))
    return (full + full.T) / 2.0


class ClippedHessians:
    """Sums over records of factor times φ'' x xᵀ, clipped to the B of each column."""

    def __init__(
        self, part: Part, factors: np.ndarray, longest: np.ndarray, *, is_classification: bool
    ) -> None:
        self.rows, self.is_classification = part.rows, is_classification
        self.factors = factors.astype(part.rows.dtype)
        squares = np.einsum("ij,ij->i", part.rows, part.rows)
        self.limits = 1.0 / np.maximum(squares, 1e-12)
        self.longest = longest.astype(part.rows.dtype)
        self.upper = np.triu_indices(part.rows.shape[1])
        # products of few rows are kept, those of many are made anew
        n_kept = len(self.rows) * len(self.upper[0])
        self.kept = self._products(self.rows) if n_kept <= KEPT_ELEMENTS else None

    def _products(self, rows: np.ndarray) -> np.ndarray:
        """Return products of pairs of columns, in the order of the upper triangle."""
        d = rows.shape[1]
        return np.hstack([rows[:, [i]] * rows[:, i:] for i in range(d)])

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """Return the sums, of shape (k, d, d), at weights of shape (d, k)."""
        d, k = weights.shape
        weights = weights.astype(self.rows.dtype, copy=False)
        total = np.zeros((len(self.upper[0]), k), dtype=self.rows.dtype)
        step = max(64, PRODUCT_ELEMENTS // max(len(total), k))
        for first in range(0, len(self.rows), step):
            rows = self.rows[first : first + step]
            if self.is_classification:
                with np.errstate(over="ignore"):
                    slopes = 1.0 / (1.0 + np.exp(rows @ weights))
                curvatures = slopes * (1.0 - slopes)
            else:
                curvatures = np.ones((len(rows), k), dtype=rows.dtype)
            np.minimum(
                curvatures, self.limits[first : first + step, None] * self.longest, out=curvatures
            )
            curvatures *= self.factors[first : first + step, None]
            if self.kept is None:
                total += self._products(rows).T @ curvatures
            else:
                total += self.kept[first : first + step].T @ curvatures
        result = np.empty((k, d, d))
        result[:, self.upper[0], self.upper[1]] = total.T
        result[:, self.upper[1], self.upper[0]] = total.T
        return result


def newton(
    task: Task,
    part: Part,
    runs: list[Run],
    noises: list[Noise],
    seeds: np.ndarray,
    *,
    is_final: bool,
) -> dict[str, np.ndarray]:
    """Return weights of columns of equal steps, Hessians and weighting, a seed's noise scaled."""
    n_steps, kind, weighting = runs[0].n_steps, runs[0].hessians, runs[0].weighting
    gradient_stds, hessian_stds, longest = np.array(noises).T
    gradients = ClippedGradients(
        part,
        record_factors(task, part, weighting),
        np.array([run.clip for run in runs]),
        is_classification=task.is_classification,
    )
    fewer = part if is_final else thin(part, len(task.group_labels), HESSIAN_TUNING_ROWS)
    hessians = ClippedHessians(
        fewer,
        record_factors(task, fewer, weighting),
        longest,
        is_classification=task.is_classification,
    )
    kinds, of_kind = np.unique(seeds, return_inverse=True)
    generators = [np.random.default_rng([int(seed), n_steps, 3]) for seed in kinds]
    d = part.rows.shape[1]
    ridges = np.array([run.ridge for run in runs]) * np.sqrt(2.0 * d) * hessian_stds
    weights, mean = np.zeros((2, d, len(runs)))
    n_averaged = n_steps - n_steps // 2
    inverses = np.empty((len(runs), d, d))
    for t in range(n_steps):
        if t == 0 or kind == "each":
            draws = np.array([symmetric_noise(generator, d) for generator in generators])
            noisy = hessians(weights) + hessian_stds[:, None, None] * draws[of_kind]
            inverses = np.linalg.inv(noisy + ridges[:, None, None] * np.eye(d))
        draws = np.column_stack([generator.normal(size=d) for generator in generators])
        noisy = gradients(weights) + gradient_stds * draws[:, of_kind]
        weights = project(weights - np.einsum("kij,jk->ik", inverses, noisy), task.radius)
        if t >= n_steps - n_averaged:
            mean += weights / n_averaged
    return {"last": weights, "mean": mean}
