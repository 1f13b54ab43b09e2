"""The proved sensitivity of the regularised worst-group weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from sklearn_dpwg._checks import non_negative, positive_finite, real_number, whole_number
from sklearn_dpwg._typing import FloatArray

# More than the rounding of a few dozen operations, and than what a step of the search leaves.
_ROUNDING = 1e-9
# Quotients by weaker strengths are beyond all floats.
_WEAKEST = 1e-305
# Below this change of a log-odds the exact bound is within 1 % of its limit for small changes.
_SMALL_CHANGE = 0.1
# A log-odds whose exponential is still a floating-point number.
_FAR = 600.0


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
    convex set, for instance a ball, with any centre c; L_i is the mean loss of group i.

    Parameters
    ----------
    group_sizes : sequence of int
        Number of records n_i in each group; at least 1.
    lipschitz : float
        Lipschitz constant L of the loss in the weights.
    gradient_diameter : float
        Bound Γ on the distance of two records' gradients at the same weights; 2L is used where
        that is less.
    loss_range : float
        Range B of the loss, supremum minus infimum.
    strong_convexity : float
        Regularisation μ_w of the weights.
    entropy_weight : float
        Regularisation μ_λ of the group player; ``inf`` fixes the group weights at the prior.
    prior : sequence of float
        Prior π of the group player, positive, summing to 1.
    solver_slack : float, default=0.0
        Certified duality gap α of the solver; each of two neighbours may be ``√(2α/μ_w)`` away from
        its exact solution.

    Returns
    -------
    float
        L2 sensitivity to replacing one record, the maximum over groups, rounded up.

    Raises
    ------
    TypeError
        If a number is not one.
    ValueError
        If a number is out of range or there is not one prior weight for each group.

    Notes
    -----
    For each group the bound is the largest x for which there are group weights λ < λ' of the two
    neighbours, their log-odds within B/μ_λ of the prior's and ρ apart, with
    ``μ_w x² ≤ λ Γ/n x + (λ' - λ) min(B/n - μ_λ ρ, Γ x)``. It holds for losses that are not smooth
    and where the ball is active. For B/(nμ_λ) below 1/10 its limit for small changes is used, which
    is larger and has a closed form.

    References
    ----------
    X. Zhou and R. Bassily (2024). *Differentially Private Worst-group Risk Minimization*, whose
    Lemma 3 this sharpens; ``docs/theory/phased-erm-sensitivity.md`` has the proof.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import saddle_point_sensitivity
    >>> facts = dict(group_sizes=[100, 300], lipschitz=1.0, gradient_diameter=1.6, loss_range=5.0)
    >>> facts |= dict(strong_convexity=0.1, prior=[0.25, 0.75])
    >>> round(saddle_point_sensitivity(**facts, entropy_weight=0.1), 3)
    0.181
    >>> round(saddle_point_sensitivity(**facts, entropy_weight=float("inf")), 3)
    0.04
    """
    if len(group_sizes) != len(prior) or not len(group_sizes):
        raise ValueError(
            "group_sizes and prior must have one entry for each group, got "
            f"{len(group_sizes)} and {len(prior)}."
        )
    sizes = [whole_number(size, "group_sizes", least=1) for size in group_sizes]
    weights = [positive_finite(weight, "prior") for weight in prior]
    total = math.fsum(weights)
    if abs(total - 1.0) > 1e-9:
        raise ValueError(f"prior must sum to 1, got {total!r}.")
    diameter = min(
        positive_finite(gradient_diameter, "gradient_diameter"),
        2.0 * positive_finite(lipschitz, "lipschitz"),
    )
    loss_range = positive_finite(loss_range, "loss_range")
    mu_weights = positive_finite(strong_convexity, "strong_convexity")
    mu_groups = real_number(entropy_weight, "entropy_weight")
    if mu_groups <= 0.0:
        raise ValueError(f"entropy_weight must be positive, got {mu_groups!r}.")
    if min(mu_weights, mu_groups) < _WEAKEST:
        raise ValueError(
            f"strong_convexity and entropy_weight must be at least {_WEAKEST:g}, as floats end "
            f"below, got {mu_weights!r} and {mu_groups!r}."
        )
    slack = 2.0 * math.sqrt(2.0 * non_negative(solver_slack, "solver_slack") / mu_weights)

    groups = []
    for i, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        # a difference from 1 would lose the digits of what a heavy group leaves to the others
        rest = total - weight if weight < 0.5 else math.fsum(weights[:i] + weights[i + 1 :])
        log_odds = math.log(weight) - math.log(rest) if rest else math.inf  # one group has it all
        groups.append(_Group(size, log_odds, diameter, loss_range, mu_weights, mu_groups))

    largest = 0.0
    # a group whose simple bound is below what another attains needs no search
    for simple, group in sorted(((g.small_change_bound(), g) for g in groups), key=lambda t: -t[0]):
        if simple <= largest:
            break
        largest = max(largest, min(simple, group.exact_bound(simple)))
    return (largest + slack) * (1.0 + _ROUNDING)


@dataclass(frozen=True)
class _Group:
    """One group's facts; the symbols are those of ``docs/theory/phased-erm-sensitivity.md``."""

    size: int
    log_odds: float
    diameter: float
    loss_range: float
    mu_weights: float
    mu_groups: float

    @property
    def swing(self) -> float:
        """How far losses can move the log-odds of the group from the prior's."""
        return self.loss_range / self.mu_groups

    @property
    def range_of_log_odds(self) -> tuple[float, float]:
        """Least and largest log-odds of the group's weight on any data."""
        if self.log_odds == math.inf:
            return math.inf, math.inf
        return self.log_odds - self.swing, self.log_odds + self.swing

    def small_change_bound(self) -> float:
        """Return the bound in closed form, to which the exact one tends for large groups."""
        low, high = (float(expit(end)) for end in self.range_of_log_odds)
        gamma, b, mu_w, mu_l = self.diameter, self.loss_range, self.mu_weights, self.mu_groups
        gradient = gamma / mu_w
        if mu_l == math.inf:
            return gradient * high / self.size
        value = b / math.sqrt(mu_w) / math.sqrt(mu_l)

        def both_players(weight: float) -> float:
            along = weight * gradient
            return 0.5 * (along + math.hypot(along, math.sqrt(weight * (1.0 - weight)) * value))

        # increasing up to here, decreasing behind it
        best = value / (2.0 * (value - gradient)) if value > 2.0 * gradient else 1.0
        move = both_players(min(max(best, low), high))
        if move * 2.0 * gamma < b:
            # the weights move too little to change the group's advantage by as much as it could
            scale = max(mu_l, 1.0)  # the product of both strengths would overflow

            def bounded_advantage(weight: float) -> float:
                other = 1.0 - weight
                most = gamma * weight * (mu_l / scale + other * (b / scale))
                return most / (mu_w * (mu_l / scale) + weight * other * (gamma**2 / scale))

            candidates = [low, high]
            discriminant = b * b - gamma * gradient * (mu_l + b)
            if discriminant > 0.0:
                peak = (mu_l + b) / (b + math.sqrt(discriminant))
                candidates.append(min(max(peak, low), high))
            move = min(move, max(map(bounded_advantage, candidates)))
        return move / self.size

    def exact_bound(self, above: float) -> float:
        """Return a bound that also sees how far a group's weight can move at all.

        It is the largest move for which there are group weights that explain it, at most 1e-3 too
        large and never too small; or ``above``, a bound already proved, where that is as good.
        """
        change = self.swing / self.size
        low, high = self.range_of_log_odds
        if change <= _SMALL_CHANGE or low == high:
            return above
        edges = _edges(min(change, high - low))
        # in a cell the advantage is largest at its left end and the weight moves most at its right
        left, right = edges[:-1], edges[1:]
        advantage = np.maximum(self.loss_range / self.size - self.mu_groups * left, 0.0)
        least, most = float(expit(low)), expit(high - left)
        shrink, grow = np.exp(-right), -np.expm1(-right)
        slope = self.diameter / self.size

        def allowed(move: float) -> float:
            """Largest right side of the inequality over the move and μ_w."""
            with np.errstate(over="ignore"):
                gain = np.minimum(advantage / move, self.diameter)
            # concave in the smaller weight, with a stationary point where the advantage counts
            ratio = np.divide(gain, gain - slope, out=np.ones_like(gain), where=gain > slope)
            stationary = (np.sqrt(ratio * shrink) - shrink) / grow
            weight = np.where(gain > slope, np.clip(stationary, least, most), most)
            # odds times more than 1e300 take any weight but 0 to 1
            far = right > _FAR
            weight = np.where(far & (gain > slope), least, weight)
            other = 1.0 - weight
            rise = other.copy()
            np.divide(weight * other * grow, weight + other * shrink, out=rise, where=~far)
            return float((weight * slope + rise * gain).max()) / self.mu_weights

        above = min(above, self.diameter / self.mu_weights)  # λ/n and λ' - λ add up to 1 at most
        if not allowed(above) < above:
            return above
        lower, upper = 0.0, above
        while upper - lower > 1e-4 * upper:
            middle = 0.5 * (lower + upper)
            lower, upper = (lower, middle) if allowed(middle) <= middle else (middle, upper)
        return upper


def _edges(end: float) -> FloatArray:
    """Return 0 and increasing changes of a log-odds up to the largest possible."""
    edges = np.linspace(0.0, min(end, 50.0), 2049)
    if end > 50.0:
        edges = np.concatenate([edges, np.geomspace(50.0, end, 1025)[1:]])
    return edges
