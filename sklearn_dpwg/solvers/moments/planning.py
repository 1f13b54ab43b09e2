"""Plan of the rounds, and the planning bound on the excess risk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget, Release, calibrate, grid_step, moment_sensitivity
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.moments.parameters import MomentsParameters
from sklearn_dpwg.solvers.moments.releases import BLOCK_SIZE, MOMENTS, triangle
from sklearn_dpwg.solvers.moments.schedule import MomentsSchedule
from sklearn_dpwg.solvers.plan import Plan, predict_seconds

# Entries of a record's vector beside its row of norm 1: the constant, and the largest residual.
# With the latter √(1 + constant²) residuals have the least noise; both are exact in binary, and
# constants from a half to 1 do equally well (benchmarks/moments.py constant).
CONSTANT, LENGTH = 0.75, 1.25

# What the sensitivity is larger by to pay for rounding, and the digits of a float.
ROUNDING, DIGITS = 5e-3, 53

# Records of a group up to which both parts of its sums are exact (docs/theory/sums.md, section 7).
LARGEST_GROUP = 2**38

# What planning assumes that residuals, and weights from those of the round before, are in the last
# of several rounds, over the target bound and the aim.
LEFT_BY_ROUNDS = 0.5


def plan_of_rounds(problem: Problem, budget: Budget, parameters: MomentsParameters) -> Plan:
    """Plan the rounds; refuse so many records or weights that sums could not be exact."""
    shares = float(parameters.growth) ** np.arange(parameters.n_rounds)
    shares = shares / shares.sum()
    releases = calibrate(
        [Release(MOMENTS, "gaussian", 1.0 / math.sqrt(share), 1) for share in shares], budget
    )
    multipliers = [release.noise_multiplier for release in releases]
    schedule = MomentsSchedule(**schedule_of_rounds(problem, parameters, multipliers))
    bounds = excess_bound_by_group(problem, schedule, aim=parameters.aim * problem.radius)
    n_entries = problem.n_groups * n_released(problem)
    # a product of rows with rows takes a pass for every eight columns
    n_passes = parameters.n_rounds * (2 + problem.n_columns // 8)
    return Plan.of(
        "moments",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=parameters.n_rounds,
        seconds=predict_seconds(
            problem,
            n_passes,
            n_draws=parameters.n_rounds,
            n_coordinates=parameters.n_rounds * n_entries,
        ),
    )


def schedule_of_rounds(
    problem: Problem, parameters: MomentsParameters, multipliers: Sequence[float]
) -> dict[str, Any]:
    """Return the fields of a schedule, with the noise multiplier of each round."""
    assert isinstance(problem.loss, SquaredError)
    has_constant = problem.intercept_scaling > 0.0
    constant, length = (CONSTANT, LENGTH) if has_constant else (0.0, 1.0)
    square = 1.0 + constant**2 + length**2
    step, sum_step = _rounding_steps(problem, math.sqrt(square))
    return {
        "multipliers": tuple(multipliers),
        "sensitivity": (1.0 + ROUNDING) * moment_sensitivity(math.sqrt(square)),
        "constant": constant,
        "length": length,
        "step": step,
        "sum_step": sum_step,
        "target_bound": problem.loss.target_bound,
        "clip": float(parameters.clip),
        "ridge": float(parameters.ridge),
        "smoothing": float(parameters.smoothing),
    }


def n_released(problem: Problem) -> int:
    """Return how many numbers of a symmetric matrix are released."""
    rows, _ = triangle(problem.n_columns + 1, has_constant=problem.intercept_scaling > 0.0)
    return len(rows)


def _rounding_steps(problem: Problem, norm: float) -> tuple[float, float]:
    """Return the finest step of entries, and that of sums, with which sums are exact.

    A vector is rounded by at most half a step in each coordinate, which its norm and so the
    sensitivity pay for, and integers below 2⁵³ are floats. The sum of all blocks is held in
    multiples of the second step and in what is left of it; together they are rounded once, by at
    most half of that step in every entry of either neighbour's sum.
    """
    size, largest = problem.n_columns + 1, problem.most_in_a_group
    # a record that changes its group moves the rounding of two sums
    n_sums = 1 if problem.hidden is None else 2
    square = ((1.0 + ROUNDING / 4.0) * norm) ** 2
    in_block = min(largest, BLOCK_SIZE) * square
    step = 2.0 ** math.ceil((math.log2(in_block) - DIGITS) / 2.0)
    sum_step = max(step**2, grid_step(square, largest)) if largest > BLOCK_SIZE else step**2
    if (
        math.sqrt(size) * step / 2.0 > ROUNDING / 5.0 * norm
        or n_sums * size * sum_step + largest * square * 2.0**-51 > ROUNDING / 5.0 * norm**2
        or largest > LARGEST_GROUP
    ):
        raise ValueError(
            f"solver 'moments' cannot add up {largest:,} records of a group with "
            f"{problem.n_weights:,} weights exactly: choose 'mgr', or split the group."
        )
    return step, sum_step


def excess_of_weights(
    problem: Problem, schedule: MomentsSchedule, stds: FloatArray, *, aim: float
) -> tuple[FloatArray, float]:
    """Return the part ``a √g_i`` of the bound, and the squared norm of v that it is for."""
    ratio = 1.0
    if schedule.constant > 0.0:
        ratio = max(1.0, problem.intercept_scaling / schedule.constant)
    target = schedule.target_bound / schedule.length
    square = (aim * ratio) ** 2 + target**2
    if schedule.n_rounds > 1:
        square *= LEFT_BY_ROUNDS**2
    return aim * ratio * stds * math.sqrt(square * (problem.n_columns + 1) / 2.0), square


def excess_bound_by_group(problem: Problem, schedule: MomentsSchedule, *, aim: float) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    It is ``a √g_i + √(2 log p) (h_i + Σ_j π_j h_j)`` with a the norm `aim` of the weights, and of
    what they miss the optimum by, the variance g_i of the gradient and the standard deviation h_i
    of the risk that the last round's noise adds to group i; at most what predicting nothing costs.

    docs/theory/moments.md, section 4, derives it. That the last of several rounds has a vector half
    as long, as it is about residuals, is an assumption.
    """
    sizes = problem.sizes_to_plan_for
    stds = schedule.sensitivity * schedule.multipliers[-1] / sizes
    bound, square = excess_of_weights(problem, schedule, stds, aim=aim)
    if problem.n_groups > 1:
        levels = stds * square / 2.0
        spread = levels + float(np.asarray(problem.prior) @ levels)
        bound = bound + math.sqrt(2.0 * math.log(problem.n_groups)) * spread
    return np.asarray(np.minimum(bound, problem.constants.zero_score))
