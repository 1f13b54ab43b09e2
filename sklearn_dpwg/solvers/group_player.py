"""Group player that the solvers share: loss ceiling, rate, noise correction, weights."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import LARGEST_QUOTIENT
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.by_loss import by_loss

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of what predicting nothing can cost: what groups that carry weight differ by in practice. The
# worst case of Hoeffding, 0.5 of the range, would plan a group rate that is many times smaller.
SPREAD_OVER_ZERO_SCORE = 0.15

# Half of log E exp of the noise is subtracted from a group's exponent: all of it would drive out
# small groups that are truly the worst off, none would let noise alone raise them
# (benchmarks/population_defaults.py CORRECTION).
CORRECTION = 0.5


def risk_spread(problem: Problem) -> float:
    """Return the standard deviation of the group risks that planning assumes."""
    return SPREAD_OVER_ZERO_SCORE * problem.constants.zero_score


def loss_ceiling(
    problem: Problem,
    wanted: float | None,
    owner: str,
    *,
    multiple: float | None = None,
) -> float:
    """Return the most that a record's loss counts for in the group risks; planned where None."""
    constants = problem.constants
    multiple = by_loss(problem.loss).ceiling if multiple is None else multiple
    ceiling = multiple * constants.zero_score if wanted is None else wanted
    ceiling = min(ceiling, constants.supremum)
    if ceiling <= constants.infimum:
        raise ValueError(
            f"loss_ceiling of {owner} must be above the smallest possible loss, "
            f"{constants.infimum:.3g}, got {ceiling:.3g}."
        )
    return ceiling


def refuse_rounding(quotient: float, who: str, cure: str) -> None:
    """Refuse sums so large beside what one record can move that their rounding may show it."""
    if quotient > LARGEST_QUOTIENT:
        raise ValueError(
            f"{who} times its largest loss is {quotient:.2g} times what one record can move, where "
            f"rounding may show a record: {cure}."
        )


def best_rate(divided: float, multiplied: float) -> float:
    """Return the minimiser √(a/b) of ``a/x + b x``, the regret of a group player at rate x."""
    return math.sqrt(divided / multiplied)


def log_mean_exp_laplace(scale: FloatArray) -> FloatArray:
    """Return log E exp(N) of Laplace noise of a scale; scale² from 1 on, where it is infinite."""
    square = scale**2
    return np.maximum(square, -np.log1p(-np.minimum(square, 0.9)))


def normalised(log_weights: FloatArray, *, least: float = 0.0) -> FloatArray:
    """Return the distribution of log weights, each at least `least` of the largest.

    SciPy's softmax takes longer than a pass over few records.
    """
    weights = np.maximum(np.exp(log_weights - log_weights.max()), least)
    return np.asarray(weights / weights.sum())


def shown(group_weights: tuple[float, ...]) -> str:
    """Return the first few group weights, for people."""
    first = ", ".join(f"{weight:.2g}" for weight in group_weights[:6])
    return f"({first}{', ...' if len(group_weights) > 6 else ''})"
