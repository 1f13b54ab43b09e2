"""The proved sensitivity of the regularised worst-group weights where groups are hidden."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_dpwg._checks import positive_finite
from sklearn_dpwg._typing import FloatArray

# More than the rounding of a few dozen operations.
_ROUNDING = 1e-9


def hidden_group_sensitivities(
    *,
    normalisers: Sequence[int] | FloatArray,
    lipschitz: float,
    gradient_diameter: float,
    loss_range: float,
    strong_convexities: Sequence[float] | FloatArray,
    entropy_weight: float,
    prior: Sequence[float] | FloatArray,
) -> FloatArray:
    """Bound how far one record, its group included, moves the regularised worst-group weights.

    The weights are those of ``min_w max_λ Σ λ_i L_i(w) + μ_w/2 ‖w - c‖² - μ_λ KL(λ‖π)`` on a
    convex set. A risk L_i is a centre, the middle of the range of losses, plus the sum of what
    losses of the group are above it, over a public number m_i that stands for the group's size.

    Parameters
    ----------
    normalisers : sequence of float
        The numbers m_i, positive.
    lipschitz : float
        Lipschitz constant L of the loss in the weights.
    gradient_diameter : float
        Bound Γ on the distance of two records' gradients at the same weights; 2L is used where
        that is less.
    loss_range : float
        Range B of the loss, supremum minus infimum.
    strong_convexities : sequence of float
        Regularisations μ_w of the weights.
    entropy_weight : float
        Regularisation μ_λ of the group player; ``inf`` fixes the group weights at the prior.
    prior : sequence of float
        Prior π of the group player, positive, summing to 1.

    Returns
    -------
    ndarray
        L2 sensitivity at each strength to replacing one record by any other, rounded up.

    Raises
    ------
    TypeError
        If a number is not one.
    ValueError
        If a number is not positive.

    Notes
    -----
    With fixed group weights it is ``max(Γ, L) max_i π_i/m_i / μ_w``. With others one record is
    removed from a group, and another added to one: each moves the weights by at most the largest x
    with ``μ_w x² <= λ κ x + τ (β - μ_λ ρ)`` for group weights λ and λ + τ whose log-odds are ρ
    apart, with ``κ = L/m_i`` and ``β = B/(2 m_i)``; both in one group also with ``κ = Γ/m_i`` and
    ``β = B/m_i`` at once. Weights may be anything from 0 to 1, as the group's true size may be.
    ``docs/theory/replace-any.md`` has the proof.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import hidden_group_sensitivities
    >>> facts = dict(normalisers=[100, 300], lipschitz=1.0, gradient_diameter=1.6, loss_range=5.0)
    >>> facts |= dict(strong_convexities=[0.1], prior=[0.25, 0.75])
    >>> hidden_group_sensitivities(**facts, entropy_weight=float("inf")).round(3)
    array([0.04])
    >>> hidden_group_sensitivities(**facts, entropy_weight=0.1).round(3)
    array([0.184])
    """
    sizes, weights = np.asarray(normalisers, dtype=float), np.asarray(prior, dtype=float)
    lipschitz = positive_finite(lipschitz, "lipschitz")
    diameter = min(positive_finite(gradient_diameter, "gradient_diameter"), 2.0 * lipschitz)
    loss_range = positive_finite(loss_range, "loss_range")
    if not (sizes > 0.0).all() or len(sizes) != len(weights):
        raise ValueError(
            f"normalisers must be one positive number a group of prior, got {normalisers!r}."
        )
    if not entropy_weight > 0.0:
        raise ValueError(f"entropy_weight must be positive, got {entropy_weight!r}.")
    strengths = np.array(
        [positive_finite(each, "strong_convexities") for each in strong_convexities]
    )
    if len(sizes) == 1 or entropy_weight == math.inf:
        found = max(diameter, lipschitz) * float((weights / sizes).max()) / strengths
        return np.asarray(found * (1.0 + _ROUNDING))
    smallest = np.sort(sizes)[:2]
    one, other = (
        _largest_move(lipschitz / m, loss_range / (2.0 * m), strengths, entropy_weight)
        for m in smallest
    )
    m = smallest[0]
    within = _largest_move(diameter / m, loss_range / m, strengths, entropy_weight)
    found = np.maximum(np.minimum(within, 2.0 * one), one + other)
    return np.asarray(found * (1.0 + _ROUNDING))


def _largest_move(
    slope: float, change: float, strengths: FloatArray, entropy_weight: float
) -> FloatArray:
    """Return the largest x of the notes, for κ and β, at each strength μ_w.

    As τ = m (1-m) ρ for some m between the two weights, x is at most
    ``(A m + √(A² m² + m (1-m) S²))/2`` with A = κ/μ_w and S = β/√(μ_w μ_λ), which is A or, for
    S > 2A, ``S²/(4 (S-A))`` at most; and as τ is at most 1 - λ, the larger of A and √(β/μ_w).
    """
    along = slope / strengths
    value = change / np.sqrt(strengths) / math.sqrt(entropy_weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = value * (value / (4.0 * (value - along)))
    of_change = np.where(value > 2.0 * along, inside, along)
    return np.asarray(np.fmin(of_change, np.maximum(along, np.sqrt(change / strengths))))
