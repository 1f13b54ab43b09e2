"""Ceiling of losses above the usual one, for risks with little noise."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import lambertw

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.by_loss import by_loss

# No plan has a ceiling above this multiple of the usual one, which hides next to nothing.
HIGHEST = 2.0


def quiet_ceiling(problem: Problem, usual: float, variances: FloatArray) -> float:
    """Return the ceiling of least error of the mean risks, at least the usual one.

    Parameters
    ----------
    problem : Problem
        Public facts.
    usual : float
        Ceiling of `ByLoss`.
    variances : ndarray of shape (n_groups,)
        Of the noise on each group's mean risk over the run, under the usual ceiling.

    Returns
    -------
    float
        The c between the usual ceiling u and twice it with the least
        ``(s c/u)² + (h exp(-k (c - u)))²``, where s² is the mean of the variances, h what the usual
        ceiling hides, and k how fast a higher one hides less (`ByLoss`).

    Notes
    -----
    The derivative is 0 where ``2 k c exp(2 k c) = 2 (k h u/s)² exp(2 k u)``.
    """
    of_loss, zero_score = by_loss(problem.loss), problem.constants.zero_score
    highest = min(HIGHEST * usual, problem.constants.supremum)
    if of_loss.hidden == 0.0 or highest <= usual:
        return usual
    decay = of_loss.hidden_decay / zero_score
    std = max(math.sqrt(float(np.mean(variances))), 1e-100)
    quotient = decay * of_loss.hidden * zero_score * usual / std
    found = lambertw(2.0 * quotient**2 * math.exp(2.0 * decay * usual)).real / (2.0 * decay)
    return float(min(max(found, usual), highest))
