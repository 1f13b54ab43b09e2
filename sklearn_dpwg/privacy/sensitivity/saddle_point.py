"""How far one record moves the regularised worst-group weights: as proved, and as published.

The weights are those of ``min_w max_λ Σ λ_i L_i(w) + μ_w/2 ‖w - c‖² - μ_λ KL(λ‖π)`` on a convex
set, for instance a ball, with any centre c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_dpwg._checks import (
    FloatArray,
    non_negative,
    positive_finite,
    real_number,
    whole_number,
)
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy.sensitivity.group_moves import ROUNDING, GroupMoves, LargestMove

# Quotients by weaker strengths are beyond all floats.
_WEAKEST = 1e-305


def saddle_point_sensitivity(
    *,
    group_sizes: Sequence[int],
    lipschitz: float,
    gradient_diameter: float,
    loss_range: float,
    strong_convexity: float,
    entropy_weight: float,
    prior: Sequence[float],
    solver_slack: float = 0.0,
) -> float:
    """Bound how far one record of any one group moves the regularised worst-group weights.

    The weights are those of ``min_w max_λ Σ λ_i L_i(w) + μ_w/2 ‖w - c‖² - μ_λ KL(λ‖π)`` on a
    convex set, for instance a ball, with any centre c; L_i is the mean loss of group i. The loss
    has Lipschitz constant L in the weights, range B, and two records' gradients at the same weights
    are at most Γ apart (2L is used where that is less); an infinite μ_λ fixes the group weights at
    the prior π. A solver's certified duality gap α may leave each of two neighbours ``√(2α/μ_w)``
    from its exact solution.

    For each group the bound, in the L2 norm and rounded up, is the largest x for which there are
    group weights λ < λ' of the two neighbours, their log-odds within B/μ_λ of the prior's and ρ
    apart, with ``μ_w x² ≤ λ Γ/n x + (λ' - λ) min(B/n - μ_λ ρ, Γ x)``. It holds for losses that are
    not smooth and where the ball is active: ``docs/theory/phased-erm-sensitivity.md``.
    """
    mu_weights = positive_finite(strong_convexity, "strong_convexity")
    slack = 2.0 * math.sqrt(2.0 * non_negative(solver_slack, "solver_slack") / mu_weights)
    exact = saddle_point_sensitivities(
        group_sizes=group_sizes,
        lipschitz=lipschitz,
        gradient_diameter=gradient_diameter,
        loss_range=loss_range,
        strong_convexities=[mu_weights],
        entropy_weight=entropy_weight,
        prior=prior,
    )
    return float(exact[0] + slack * (1.0 + ROUNDING))


def saddle_point_sensitivities(
    *,
    group_sizes: Sequence[int],
    lipschitz: float,
    gradient_diameter: float,
    loss_range: float,
    strong_convexities: Sequence[float] | FloatArray,
    entropy_weight: float,
    prior: Sequence[float] | FloatArray,
    by_group: bool = False,
) -> FloatArray:
    """Return `saddle_point_sensitivity` at several strengths, for plans that choose among them.

    What does not depend on the strength is computed once; so is what equal groups share. By group
    it is a bound for replacing a record of each, a row a strength, by the closed form of Theorem 2.
    """
    sizes, weights = _sizes_and_weights(group_sizes, prior)
    diameter = min(
        positive_finite(gradient_diameter, "gradient_diameter"),
        2.0 * positive_finite(lipschitz, "lipschitz"),
    )
    loss_range = positive_finite(loss_range, "loss_range")
    strengths = [positive_finite(each, "strong_convexities") for each in strong_convexities]
    mu_groups = real_number(entropy_weight, "entropy_weight")
    if mu_groups <= 0.0:
        raise InputError(f"entropy_weight must be positive, got {mu_groups!r}.")
    if min([mu_groups, *strengths]) < _WEAKEST:
        raise InputError(
            f"strong_convexity and entropy_weight must be at least {_WEAKEST:g}, as floats end "
            f"below, got {min(strengths)!r} and {mu_groups!r}."
        )
    facts = sizes, _log_odds(weights), diameter, loss_range, mu_groups
    if by_group:
        groups = GroupMoves.of(*facts, distinct=False)
        return np.array([groups.simple_bounds(each) for each in strengths]) * (1.0 + ROUNDING)
    search = LargestMove(GroupMoves.of(*facts))
    return np.array([search.at(mu_weights) for mu_weights in strengths]) * (1.0 + ROUNDING)


def _sizes_and_weights(
    group_sizes: Sequence[int], prior: Sequence[float] | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return checked sizes and prior weights."""
    if len(group_sizes) != len(prior) or not len(group_sizes):
        raise InputError(
            "group_sizes and prior must have one entry for each group, got "
            f"{len(group_sizes)} and {len(prior)}."
        )
    sizes = np.asarray(group_sizes)
    if sizes.dtype.kind not in "iu" or sizes.min() < 1:  # one by one, to name what is wrong
        sizes = np.array([whole_number(size, "group_sizes", least=1) for size in group_sizes])
    weights = np.asarray(prior)
    if weights.dtype.kind != "f" or not (weights > 0.0).all() or not np.isfinite(weights).all():
        weights = np.array([positive_finite(weight, "prior") for weight in prior])
    total = float(weights.sum())
    if abs(total - 1.0) > 1e-9:
        raise InputError(f"prior must sum to 1, got {total!r}.")
    return sizes.astype(float), weights.astype(float)


def _log_odds(weights: FloatArray) -> FloatArray:
    """Return the log-odds of the weights of the groups, infinite for the only one."""
    if len(weights) == 1:
        return np.array([np.inf])
    rest = weights.sum() - weights
    for i in np.flatnonzero(weights >= 0.5):
        # a difference from 1 would lose the digits of what a heavy group leaves to the others
        rest[i] = math.fsum(np.delete(weights, i))
    return np.asarray(np.log(weights) - np.log(rest))


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
    """Bound how far one record, its group included, moves the weights at each strength μ_w.

    A risk L_i is a centre, the middle of the range of losses, plus the sum of what losses of the
    group are above it, over a public number m_i, its normaliser, that stands for the group's size.

    With fixed group weights it is ``max(Γ, L) max_i π_i/m_i / μ_w``. With others one record is
    removed from a group, and another added to one: each moves the weights by at most the largest x
    with ``μ_w x² <= λ κ x + τ (β - μ_λ ρ)`` for group weights λ and λ + τ whose log-odds are ρ
    apart, with ``κ = L/m_i`` and ``β = B/(2 m_i)``; both in one group also with ``κ = Γ/m_i`` and
    ``β = B/m_i`` at once. Weights may be anything from 0 to 1, as the group's true size may be:
    ``docs/theory/replace-one.md``.
    """
    sizes, weights = np.asarray(normalisers, dtype=float), np.asarray(prior, dtype=float)
    lipschitz = positive_finite(lipschitz, "lipschitz")
    diameter = min(positive_finite(gradient_diameter, "gradient_diameter"), 2.0 * lipschitz)
    loss_range = positive_finite(loss_range, "loss_range")
    if not (sizes > 0.0).all() or len(sizes) != len(weights):
        raise InputError(
            f"normalisers must be one positive number a group of prior, got {normalisers!r}."
        )
    if not entropy_weight > 0.0:
        raise InputError(f"entropy_weight must be positive, got {entropy_weight!r}.")
    strengths = np.array(
        [positive_finite(each, "strong_convexities") for each in strong_convexities]
    )
    if len(sizes) == 1 or entropy_weight == math.inf:
        found = max(diameter, lipschitz) * float((weights / sizes).max()) / strengths
        return np.asarray(found * (1.0 + ROUNDING))
    smallest = np.sort(sizes)[:2]
    one, other = (
        _largest_move(lipschitz / m, loss_range / (2.0 * m), strengths, entropy_weight)
        for m in smallest
    )
    m = smallest[0]
    within = _largest_move(diameter / m, loss_range / m, strengths, entropy_weight)
    found = np.maximum(np.minimum(within, 2.0 * one), one + other)
    return np.asarray(found * (1.0 + ROUNDING))


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


def lemma3_sensitivity(
    *,
    group_sizes: Sequence[int],
    lipschitz: float,
    loss_range: float,
    strong_convexity: float,
    entropy_weight: float,
) -> float:
    """Bound the move of the regularised worst-group weights as Zhou & Bassily (2024), Lemma 3, do.

    It is ``3/n (L/μ_w + B/√(μ_w μ_λ))``, n the smallest group's size, for weights of a solver whose
    gap is at most ``L²/(8n²μ_w) + B²/(8n²μ_λ)``. Kept to compare with, and for the excess that
    paper plans predict: `saddle_point_sensitivity`, which noise is planned by, is never larger.
    """
    if not group_sizes:
        raise InputError("group_sizes must name at least one group, got none.")
    n = min(whole_number(size, "group_sizes", least=1) for size in group_sizes)
    lipschitz = positive_finite(lipschitz, "lipschitz")
    loss_range = positive_finite(loss_range, "loss_range")
    mu_weights = positive_finite(strong_convexity, "strong_convexity")
    mu_groups = positive_finite(entropy_weight, "entropy_weight")
    return 3.0 / n * (lipschitz / mu_weights + loss_range / math.sqrt(mu_weights * mu_groups))
