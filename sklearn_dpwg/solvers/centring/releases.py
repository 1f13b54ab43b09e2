"""The mean row and the mean squared distance from it: every line that hands them to noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release, grid_step
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.by_loss import by_loss
from sklearn_dpwg.solvers.centring.problem import (
    CENTRE_SHARE,
    CONSTANT,
    SPREAD_SHARE,
    largest_clip,
    row_sum_grid,
    row_sum_sensitivity,
)

CENTRE, SPREAD = "mean row", "mean squared distance from it"


@dataclass(frozen=True, eq=False)
class Centring:
    """A released centre, and what follows from it."""

    center: FloatArray  # the released centre, in the unit ball; (n_features,)
    clip: float  # no gradient of a record is longer

    def view(self, data: Risks) -> Risks:
        """Return the risks of centred rows with limited slopes."""
        return data.centred(self.center, constant=CONSTANT, clip=self.clip)

    def from_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the weights of rows, in the ball, that score like weights of centred rows."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        constants = CONSTANT * matrix[:, -1] - matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / problem.intercept_scaling
        return project_to_ball(matrix.ravel(), problem.radius)

    def to_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the weights of centred rows that score like weights of rows."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        constants = problem.intercept_scaling * matrix[:, -1] + matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / CONSTANT
        return project_to_ball(matrix.ravel(), problem.radius)


def centring_releases(mu: float) -> tuple[Release, Release]:
    """Return the two releases, which take their shares of μ²."""
    return (
        Release(CENTRE, "gaussian", 1.0 / (mu * math.sqrt(CENTRE_SHARE)), 1),
        Release(SPREAD, "gaussian", 1.0 / (mu * math.sqrt(SPREAD_SHARE)), 1),
    )


def release_centre(
    problem: Problem, data: Risks, noise: NoiseSource, of_rows: Release, of_squares: Release
) -> Centring:
    """Release the centre and the spread of all records around it.

    Replacing a record moves the sum of rows by at most 2 and that of squared distances, each cut at
    1, by at most 1. The noisy mean is shrunk by the positive part of ``1 - d s²/‖c‖²`` (James and
    Stein), with s its noise, and drawn into the unit ball: both read released numbers only.
    """
    n_records, d = problem.n_records, problem.n_features
    sensitivity = row_sum_sensitivity(problem)
    total = data.row_sum(grid=row_sum_grid(problem))
    center = noise.gaussian(total, sensitivity=sensitivity, release=of_rows) / n_records
    variance = d * (of_rows.noise_multiplier * sensitivity / n_records) ** 2
    square = float(center @ center)
    shrunk = max(0.0, 1.0 - variance / square) if square > 0.0 else 0.0
    center = project_to_ball(shrunk * center, 1.0)
    step = grid_step(1.0, n_records)
    squares = np.array([data.spread(center, step=step)])
    noisy = float(noise.gaussian(squares, sensitivity=1.0, release=of_squares)[0])
    mean_square = float(np.clip(noisy / n_records, 0.0, 1.0)) + CONSTANT**2
    clip_share = by_loss(problem.loss).clip_share
    return Centring(center, min(largest_clip(problem.loss), clip_share * math.sqrt(mean_square)))
