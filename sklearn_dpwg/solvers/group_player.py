"""Group player that the solvers share: loss ceiling, rate, noise correction, weights."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import LARGEST_QUOTIENT
from sklearn_dpwg.problem import Problem

# Losses counted up to this multiple of what predicting nothing can cost: ceilings from 0.7 to 2
# nats did equally well on three data sets, no ceiling much worse (benchmarks/mgr_defaults.py).
CEILING_OVER_ZERO_SCORE = 1.5

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of the feedback range. Hoeffding's worst case would be 0.35; a tenth is what groups that carry
# weight differ by in practice, and plans a group rate that is several times larger
# (benchmarks/mgr_defaults.py varies the rate).
RISK_SPREAD = 0.1


def loss_ceiling(problem: Problem, wanted: float | None, owner: str) -> float:
    """Return the most that a record's loss counts for in the group risks; planned where None."""
    constants = problem.constants
    ceiling = CEILING_OVER_ZERO_SCORE * constants.zero_score if wanted is None else wanted
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
