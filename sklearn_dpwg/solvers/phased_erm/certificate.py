"""Rounding of the certificate of a phase: docs/theory/sums.md, section 6."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sklearn_dpwg.privacy import record_rounding
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import BLOCK_ROWS

_UNIT = 2.0**-53
# Roundings of a sum beside one a term: of products, of vector registers, of tasks.
_EXTRA_ROUNDINGS = 128
# Digits that a logarithm of a group weight may take before the point, as roundings.
_LOG_WEIGHT = 750.0


def record_errors(solved: Problem) -> tuple[float, float]:
    """Return what rounding adds to the gradient and to the loss of one record."""
    constants = solved.constants
    score = constants.score_bound
    # a slope follows the score's rounding as steeply as the loss curves
    slope = constants.lipschitz + max(1.0, constants.smoothness) * score
    return (
        record_rounding(solved.row_norm * slope, solved.n_weights),
        record_rounding(
            abs(constants.supremum) + (constants.lipschitz + 1.0) * score, solved.n_weights
        ),
    )


def rounding_of_gap(solved: Problem, mu_weights: float) -> float:
    """Bound by how much a gap computed from a gradient is below that of the same gradient."""
    steepest = solved.lipschitz + 4.0 * mu_weights * solved.radius
    return 4.0 * (solved.n_weights + 16.0) * _UNIT * solved.radius * steepest


def rounding_of_minimiser(
    solved: Problem, sizes: Sequence[int], *, mu_weights: float, mu_groups: float
) -> float:
    """Bound how much farther apart rounding of gradients lets two neighbours' minimisers be.

    It is ``4 δ/μ_w`` where δ bounds the error of a gradient of the objective.
    """
    of_gradient, of_loss = record_errors(solved)
    n_groups, lipschitz = len(sizes), solved.lipschitz + of_gradient
    n_additions = 2.0 * BLOCK_ROWS + max(sizes) / BLOCK_ROWS + _EXTRA_ROUNDINGS
    relative = n_additions * _UNIT / (1.0 - n_additions * _UNIT)
    loss = max(abs(solved.constants.supremum), abs(solved.constants.infimum)) + of_loss
    # of the logarithm of a group weight: of its risk, and of the exponent itself
    risk = (relative * loss + of_loss) / mu_groups
    exponent = 4.0 * _UNIT * (solved.loss_range / mu_groups + _LOG_WEIGHT + n_groups)
    of_weights = min(2.0, math.expm1(min(2.0 * (risk + exponent), 2.0)))
    error = (
        relative * lipschitz
        + of_gradient
        + lipschitz * (of_weights + (n_groups + 8.0) * _UNIT)
        + 16.0 * _UNIT * mu_weights * solved.radius
    )
    return 4.0 * error / mu_weights
