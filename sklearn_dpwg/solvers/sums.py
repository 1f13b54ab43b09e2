"""Sums of losses and gradients: over fresh records, and how far a record and rounding move them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.privacy.sensitivity import (
    grid_step,
    record_rounding,
    summation_slack,
    weighting_slack,
)

# Records of a batch whose gradients are added before the next ones.
BLOCK_ROWS = 2**11
_UNIT = 2.0**-53
# Roundings of a sum beside one or two a record of a block: of products, registers, weights.
_EXTRA_ROUNDINGS = 256


def batch_losses(
    problem: Problem, rows: FloatArray, targets: ArrayLike, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the losses of a batch and their slopes in the scores."""
    scaling, n_outputs = problem.intercept_scaling, problem.loss.n_outputs
    if n_outputs == 1:
        scores = rows @ weights[:-1] + scaling * weights[-1] if scaling > 0 else rows @ weights
    else:
        matrix = weights.reshape(n_outputs, -1)
        if scaling > 0:
            scores = rows @ matrix[:, :-1].T + scaling * matrix[:, -1]
        else:
            scores = rows @ matrix.T
    return problem.loss.value_and_derivative(np.asarray(scores), np.asarray(targets))


def gradient_sum(
    problem: Problem, rows: FloatArray, slopes: FloatArray, n_weight: int
) -> FloatArray:
    """Return the sum of the gradients of a batch's first records, those for the weights."""
    if n_weight > BLOCK_ROWS:  # block by block, so that rounding does not grow with the batch
        total = np.zeros(problem.n_weights)
        for start in range(0, n_weight, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, n_weight))
            total += gradient_sum(problem, rows[block], slopes[block], block.stop - start)
        return total
    rows, slopes = rows[:n_weight], slopes[:n_weight]
    scaling = problem.intercept_scaling
    if problem.loss.n_outputs == 1:
        if scaling == 0:
            return np.asarray(slopes @ rows)
        gradient = np.empty(rows.shape[1] + 1)
        gradient[:-1] = slopes @ rows
        gradient[-1] = scaling * slopes.sum()
        return gradient
    matrix = slopes.T @ rows
    if scaling > 0:
        matrix = np.column_stack([matrix, scaling * slopes.sum(axis=0)])
    return np.asarray(matrix.ravel())


def rounding_of_sum(n_records: float, n_groups: int) -> float:
    """Bound the error of the sum of a batch, over the number of records times a record's bound."""
    n_roundings = 2.0 * BLOCK_ROWS + n_records / BLOCK_ROWS + 2.0 * n_groups + _EXTRA_ROUNDINGS
    return n_roundings * _UNIT / (1.0 - n_roundings * _UNIT)


def record_errors(problem: Problem, highest: float) -> tuple[float, float]:
    """Return what rounding adds to a record's gradient and to its loss, counted up to a number.

    A slope follows the score's rounding as steeply as the loss curves; where it jumps, constants
    hold for all slopes between.
    """
    constants, score = problem.constants, problem.constants.score_bound
    steepness = constants.smoothness if constants.smoothness < np.inf else 1.0
    slope = constants.lipschitz + max(1.0, steepness) * score
    loss = abs(highest) + (constants.lipschitz + 1.0) * score
    return (
        problem.rounding_factor * record_rounding(problem.row_norm * slope, problem.n_weights),
        record_rounding(loss, problem.n_weights),
    )


@dataclass(frozen=True)
class SumSensitivity:
    """How far one record moves the sums of `Risks.sums` and `Risks.sampled_sums`.

    Rounding is included: ``docs/theory/sums.md``.

    Parameters
    ----------
    grid : SumGrid
        Steps of the sums.
    gradient_diameter : float
        By how much replacing a record moves a weighted sum of group means, over the ratio of its
        group's weight to its size.
    gradient_norm : float
        By how much a record that joins a batch moves the sum of its group's gradients.
    loss_range : float
        By how much replacing a record moves the sum of its group's losses, and twice what one that
        joins a batch, or leaves its group for another, moves the sum of losses minus the centre.
    center : float
        Middle of the range of losses, on the grid.
    """

    grid: SumGrid
    gradient_diameter: float
    gradient_norm: float
    loss_range: float
    center: float

    @classmethod
    def of(cls, problem: Problem, *, ceiling: float) -> Self:
        """Return the numbers of a problem whose losses count up to a ceiling.

        Parameters
        ----------
        problem : Problem
            Public facts.
        ceiling : float
            A record's loss counts for at most this much.

        Returns
        -------
        SumSensitivity
            From these alone.
        """
        constants, largest_group = problem.constants, problem.most_in_a_group
        highest = min(ceiling, constants.supremum)
        of_gradient, of_loss = record_errors(problem, highest)
        # as they are read: a change of variables may follow
        factor, gradient = problem.rounding_factor, problem.summed_norm + of_gradient
        loss = max(abs(highest), abs(constants.infimum)) + of_loss
        grid = SumGrid(
            loss_step=grid_step(loss, largest_group),
            gradient_step=grid_step(gradient, largest_group),
        )
        slack = summation_slack(
            problem.row_norm * grid.gradient_step, n_dimensions=problem.n_weights
        )
        loss_slack = summation_slack(grid.loss_step)
        loss_range = constants.range_up_to(ceiling) + 2.0 * of_loss
        middle = constants.infimum + (highest - constants.infimum) / 2.0
        return cls(
            grid=grid,
            gradient_diameter=problem.pair_diameter
            + 2.0 * of_gradient
            + factor * slack
            + factor
            * weighting_slack(
                gradient + 0.5 * slack, n_records=problem.n_records, n_groups=problem.n_groups
            ),
            gradient_norm=problem.lipschitz + of_gradient + 0.5 * factor * slack,
            # the centre is on the grid, half a step at most from the middle
            loss_range=loss_range + 2.0 * loss_slack,
            center=on_step(middle, grid.loss_step),
        )


def on_step(number: float, step: float) -> float:
    """Return the nearest multiple of a step."""
    return float(np.rint(number / step) * step)
