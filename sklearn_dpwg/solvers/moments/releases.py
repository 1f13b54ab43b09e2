"""Releases of the moments solver: the line at which records meet noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import NoiseSource, Release, weighting_slack
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.moments.schedule import MomentsSchedule
from sklearn_dpwg.solvers.plan import Plan

MOMENTS = "second moments"

# Records whose outer products are added exactly before the sum is rounded.
BLOCK_SIZE = 2**13


def from_pass(
    plan: Plan,
    release: Release,
    data: Risks,
    center: FloatArray,
    clip: float,
    noise: NoiseSource,
) -> FloatArray:
    """Release each group's mean second moments of rows and of clipped residuals of a centre.

    Entries off the diagonal count √2 times, so that the norm of what is released is that of the
    matrix, whose sensitivity is known; the square of the constant is public and left out.
    """
    schedule = plan.schedule
    assert isinstance(schedule, MomentsSchedule)
    sums = data.residual_moments(
        center,
        clip=clip,
        constant=schedule.constant,
        length=schedule.length,
        step=schedule.step,
        sum_step=schedule.sum_step,
        block_size=BLOCK_SIZE,
    )
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    at = triangle(sums.shape[1], has_constant=schedule.constant > 0.0)
    times = np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    noisy = noise.gaussian(
        sums[:, at[0], at[1]] * times, sensitivity=schedule.sensitivity, release=release
    )
    moments = np.full_like(sums, schedule.constant**2)
    moments[:, at[0], at[1]] = noisy / times / sizes[:, None]
    moments[:, at[1], at[0]] = moments[:, at[0], at[1]]
    return moments


def from_pass_of_mixture(
    release: Release,
    schedule: MomentsSchedule,
    group_weights: FloatArray,
    data: Risks,
    center: FloatArray,
    clip: float,
    noise: NoiseSource,
) -> tuple[FloatArray, float]:
    """Release the second moments of a mixture alone, and say how loud their noise is.

    A record of group i moves them by its group's weight over its size, times what it moves a sum.
    """
    sizes = np.asarray(data.group_sizes, dtype=float)
    sums = data.residual_moments(
        center,
        clip=clip,
        constant=schedule.constant,
        length=schedule.length,
        step=schedule.step,
        sum_step=schedule.sum_step,
        block_size=BLOCK_SIZE,
    )
    at = triangle(sums.shape[1], has_constant=schedule.constant > 0.0)
    times = np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    ratio = float((group_weights / sizes).max())
    slack = weighting_slack(
        1.0 + schedule.constant**2 + schedule.length**2,
        n_records=int(sizes.sum()),
        n_groups=len(sizes),
    )
    sensitivity = ratio * (schedule.sensitivity + slack)
    mixed = np.tensordot(group_weights / sizes, sums[:, at[0], at[1]], 1)
    noisy = noise.gaussian(mixed * times, sensitivity=sensitivity, release=release)
    moments = np.full(sums.shape[1:], schedule.constant**2)
    moments[at] = noisy / times
    moments[at[1], at[0]] = moments[at]
    return moments, release.noise_multiplier * sensitivity


def triangle(n_columns: int, *, has_constant: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of what is released of a symmetric matrix: the upper triangle.

    Its columns are features, the constant if there is one, and the residual; the square of the
    constant is public and left out.
    """
    rows, columns = np.triu_indices(n_columns)
    if has_constant:
        free = (rows != n_columns - 2) | (columns != n_columns - 2)
        rows, columns = rows[free], columns[free]
    return rows, columns
