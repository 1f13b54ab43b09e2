"""The published sensitivity of the regularised worst-group weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sklearn_dpwg._checks import positive_finite, whole_number


def lemma3_sensitivity(
    *,
    group_sizes: Sequence[int],
    lipschitz: float,
    loss_range: float,
    strong_convexity: float,
    entropy_weight: float,
) -> float:
    """Bound the move of the regularised worst-group weights as Zhou & Bassily do.

    Kept to run their algorithm as printed and to compare with: `saddle_point_sensitivity` is never
    larger.

    Parameters
    ----------
    group_sizes : sequence of int
        Number of records in each group; at least 1. The paper's groups are equally large, the
        bound holds with the smallest.
    lipschitz : float
        Lipschitz constant L of the loss in the weights.
    loss_range : float
        Range B of the loss.
    strong_convexity : float
        Regularisation μ_w of the weights.
    entropy_weight : float
        Regularisation μ_λ of the group player.

    Returns
    -------
    float
        ``3/n (L/μ_w + B/√(μ_w μ_λ))``, which holds for weights of a solver whose gap is at most
        ``L²/(8n²μ_w) + B²/(8n²μ_λ)``.

    Raises
    ------
    ValueError
        If a number is not positive and finite.

    References
    ----------
    X. Zhou and R. Bassily (2024). *Differentially Private Worst-group Risk Minimization*, Lemma 3.
    """
    if not group_sizes:
        raise ValueError("group_sizes must name at least one group, got none.")
    n = min(whole_number(size, "group_sizes", least=1) for size in group_sizes)
    lipschitz = positive_finite(lipschitz, "lipschitz")
    loss_range = positive_finite(loss_range, "loss_range")
    mu_weights = positive_finite(strong_convexity, "strong_convexity")
    mu_groups = positive_finite(entropy_weight, "entropy_weight")
    return 3.0 / n * (lipschitz / mu_weights + loss_range / math.sqrt(mu_weights * mu_groups))
