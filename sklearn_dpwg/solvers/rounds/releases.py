"""Every line of the solvers that work in rounds at which records meet noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.saddle_point import solve_saddle_point
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.rounds.certificate import Phase
from sklearn_dpwg.solvers.rounds.noisy_moments import MomentsSchedule
from sklearn_dpwg.solvers.steps import SumSensitivity, sums_of_groups

WEIGHTS, RISKS, MOMENTS = "phase weights", "group risks", "second moments"

# A step of Newton's method that leaves a tenth of the gap keeps its Hessian: with 40 to 140 weights
# that halves the time of a phase.
KEEP_HESSIAN = 0.1


def release_risks(
    read: Risks,
    weights: FloatArray,
    problem: Problem,
    sums: SumSensitivity,
    ceiling: float,
    noise: NoiseSource,
    release: Release,
    payer: int | None = None,
) -> FloatArray:
    """Return the clipped risks of the records at released weights, with noise.

    The payer is the phase that alone reads fresh ones. Where groups are hidden, losses count
    relative to the middle of their range.
    """
    center = 0.0 if problem.hidden is None else sums.center
    losses, _ = read.sums(weights, ceiling=ceiling, gradients=False, center=center)
    # sums, of which a record moves those of its groups: dividing them first would round them
    moved = sums.loss_range * problem.loss_moves
    noisy = noise.gaussian(losses, sensitivity=moved, release=release, payer=payer)
    # by what stands for the sizes of hidden groups
    noisy = sums_of_groups(problem, noisy) / np.asarray(problem.group_sizes)
    return noisy + center if center else noisy


def release_weights(
    read: Risks,
    center: FloatArray,
    prior: FloatArray,
    phase: Phase,
    solved: Problem,
    noise: NoiseSource,
    release: Release,
    payer: int | None = None,
) -> FloatArray:
    """Return the minimiser of a phase around released weights, with noise.

    Its group weights, its gap and its number of steps are not private and stay here.
    """
    if solved.loss != read.loss:  # a smooth stand-in for a loss with kinks
        read = read.with_loss(solved.loss)
    if solved.hidden is not None:
        constants = solved.constants
        middle = constants.infimum + (constants.supremum - constants.infimum) / 2.0
        read = read.over(solved.group_sizes, loss_center=middle)
    found = solve_saddle_point(
        read,
        radius=solved.radius,
        prior=prior,
        mu_weights=phase.mu_weights,
        mu_groups=phase.mu_groups,
        center=center,
        tolerance=phase.tolerance,
        lipschitz=phase.total_weight * solved.lipschitz,
        smoothness=phase.total_weight * solved.smoothness,
        keep_hessian=KEEP_HESSIAN,
    )
    # the tolerance is within reach on every data set, so this is never about the records
    if not found.gap <= phase.tolerance:
        raise ArithmeticError("a phase was not solved to its public tolerance: a bug.")
    sensitivity = phase.sensitivity
    return noise.gaussian(found.weights, sensitivity=sensitivity, release=release, payer=payer)


def release_moments(
    plan: Plan,
    release: Release,
    data: Risks,
    center: FloatArray,
    clip: float,
    noise: NoiseSource,
) -> FloatArray:
    """Release each group's mean second moments of rows and of clipped residuals of a centre."""
    schedule = plan.schedule
    assert isinstance(schedule, MomentsSchedule)
    sums, at, times = _moments_read(schedule, data, center, clip)
    noisy = noise.gaussian(sums * times, sensitivity=schedule.sensitivity, release=release)
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    return _matrices(noisy / times / sizes[:, None], at, schedule)


def _moments_read(
    schedule: MomentsSchedule, data: Risks, center: FloatArray, clip: float
) -> tuple[FloatArray, tuple[NDArray[np.intp], NDArray[np.intp]], FloatArray]:
    """Return the entries of each group's sum, where they are, and how often each counts.

    Off the diagonal it is √2 times, so that the norm of what is released is that of the matrix,
    whose sensitivity is known; the square of the constant is public and left out.
    """
    sums = data.residual_moments(
        center,
        clip=clip,
        constant=schedule.constant,
        length=schedule.length,
    )
    at = triangle(sums.shape[1], has_constant=schedule.constant > 0.0)
    return sums[:, at[0], at[1]], at, np.where(at[0] == at[1], 1.0, math.sqrt(2.0))


def _matrices(
    entries: FloatArray,
    at: tuple[NDArray[np.intp], NDArray[np.intp]],
    schedule: MomentsSchedule,
) -> FloatArray:
    """Return the symmetric matrices of entries, with the square of the constant."""
    size = int(at[1].max()) + 1
    found = np.full((*entries.shape[:-1], size, size), schedule.constant**2)
    found[..., at[0], at[1]] = found[..., at[1], at[0]] = entries
    return found


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
