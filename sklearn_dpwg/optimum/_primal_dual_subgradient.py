"""Algorithm 4 of Zhou and Bassily, kept as the reference to compare with."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import RegularisedObjective, project_to_ball


def primal_dual_subgradient(
    objective: RegularisedObjective, n_steps: int
) -> tuple[FloatArray, FloatArray]:
    """Run projected subgradient steps against the group player's best responses.

    Parameters
    ----------
    objective : RegularisedObjective
        The regularised worst-group objective.
    n_steps : int
        Number of iterates N.

    Returns
    -------
    weights : ndarray of shape (n_weights,)
        Average of the iterates.
    group_weights : ndarray of shape (n_groups,)
        Average of the best responses.

    Notes
    -----
    Step t has length 1/(μ_w t); the gap is O(log N / N · (L²/μ_w + M² μ_w)).

    References
    ----------
    Zhou and Bassily (2024), Algorithm 4 and Theorem 11.
    """
    weights = project_to_ball(objective.center, objective.radius)
    weights_sum = np.zeros_like(weights)
    group_weights_sum = np.zeros(len(objective.prior))
    for t in range(1, n_steps + 1):
        at = objective.evaluate(weights)
        weights_sum += weights
        group_weights_sum += at.group_weights
        moved = weights - at.gradient / (objective.mu_weights * t)
        weights = project_to_ball(moved, objective.radius)
    return weights_sum / n_steps, group_weights_sum / n_steps
