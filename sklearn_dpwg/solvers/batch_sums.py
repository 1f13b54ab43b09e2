"""Sums over a batch of fresh records, and how far rounding takes them from the exact ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem

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
