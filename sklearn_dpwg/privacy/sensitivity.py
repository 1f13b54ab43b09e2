"""Sensitivities: by how much one record moves the sums and the solutions that solvers release.

Each is a largest L2 distance between the outputs on two data sets that differ in one record of one
group, or, where it says so, in one record of whatever groups. They are functions of public numbers:
sizes, constants of the loss, strengths of the regularisation, norms. ``docs/theory/sums.md`` and
``docs/theory/moments.md`` have the proofs of what rounding adds and of sums;
``docs/theory/phased-erm-sensitivity.md``, whose symbols and inequality (1) stand here, and
``docs/theory/replace-one.md`` those of regularised worst-group weights, which are those of
``min_w max_λ Σ λ_i L_i(w) + μ_w/2 ‖w - c‖² - μ_λ KL(λ‖π)`` on a convex set with any centre c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from sklearn_dpwg._checks import (
    FloatArray,
    positive_finite,
    whole_number,
)
from sklearn_dpwg.exceptions import InputError

# Unit roundoff of double precision.
_UNIT = 2.0**-53
# Magnitudes up to so many steps leave room, below 2⁵³, for what rounding adds to the sums.
_STEPS = 2.0**52
# Relative error of a loss or a slope, in roundings of a score: a margin for exp, log and the like.
_ROUNDINGS_OF_A_RECORD = 16
# More than the rounding of a few dozen operations, and than what a step of the search leaves.
ROUNDING = 1e-9
# Below this change of a log-odds the exact bound is within 1 % of its limit for small changes.
_SMALL_CHANGE = 0.1
# A log-odds whose exponential is still a floating-point number.
_FAR = 600.0
_LARGEST = 1e300
# Cells of changes up to `_NEAR`, and beyond it.
_NEAR = 50.0
_NEAR_CELLS, _FAR_CELLS = 2048, 1024
# Quotients by smaller numbers are beyond all floats.
_SMALLEST = 1e-305


# --- sums ----------------------------------------------------------------------------------------


def grid_step(bound: float, n_terms: int) -> float:
    """Return the finest power of two h with ``n_terms * bound <= 2**52 * h``.

    Multiples of h, of which no sum exceeds ``2**53`` of them, are floating-point numbers, and
    adding them is exact in any order.
    """
    bound = positive_finite(bound, "bound")
    n_terms = whole_number(n_terms, "n_terms", least=1)
    if n_terms > _STEPS:
        raise InputError(f"n_terms must be at most 2**52, got {n_terms!r}.")
    # as mantissas and exponents nothing overflows, and rounding is upwards
    mantissa, exponent = math.frexp(bound)
    count_mantissa, count_exponent = math.frexp(float(n_terms))
    product = mantissa * count_mantissa * (1.0 + 4.0 * _UNIT)
    power = exponent + count_exponent - 52 + (product > 1.0) - (product <= 0.5)
    return math.ldexp(1.0, max(power, -960))


def record_rounding(size: float, n_dimensions: int) -> float:
    """Bound what rounding adds to a number or vector that is computed from one record alone.

    A relative error counts from ``size``: bounds on the result, and on the score times the
    derivative of the result in it. Weights, columns times outputs, are ``n_dimensions``.
    """
    return _ROUNDINGS_OF_A_RECORD * (n_dimensions + 16.0) * _UNIT * size


def weighting_slack(bound: float, *, n_records: int, n_groups: int) -> float:
    """Bound what rounding of a weighted sum of group means, of norm up to a bound, adds to Δ.

    It is to be multiplied by the largest ratio of a group's weight to its size: at least
    ``1 / n_records``, so the rounding of both neighbours' sums is at most this times the ratio.
    """
    return 4.0 * (n_groups + 16.0) * _UNIT * bound * n_records


def moment_sensitivity(norm: float) -> float:
    """Bound how far one record moves a sum of outer products of vectors with themselves.

    The sum is ``Σ v v'``, every v of at most this norm, as the vector of its upper triangle with
    every entry off the diagonal times √2. (Vu and Slavkovic 2009; Wang 2018, *Revisiting
    differentially private linear regression*)
    """
    return math.sqrt(2.0) * positive_finite(norm, "norm") ** 2


# --- regularised weights -------------------------------------------------------------------------


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
    """Bound how far one record of any one group moves the weights at each strength μ_w.

    L_i is the mean loss of group i. The loss has Lipschitz constant L in the weights, range B, and
    two records' gradients at the same weights are at most Γ apart (2L is used where that is less);
    an infinite μ_λ fixes the group weights at the prior π.

    For each group the bound, in the L2 norm and rounded up, is the largest x for which there are
    group weights λ < λ' of the two neighbours, their log-odds within B/μ_λ of the prior's and ρ
    apart, with ``μ_w x² ≤ λ Γ/n x + (λ' - λ) min(B/n - μ_λ ρ, Γ x)``. It holds for losses that are
    not smooth and where the ball is active. By group it is a bound for replacing a record of each,
    a row a strength, by the closed form of Theorem 2.
    """
    sizes, strengths, weights = _checked(group_sizes, strong_convexities, prior, entropy_weight)
    diameter = _diameter(lipschitz, gradient_diameter)
    loss_range = positive_finite(loss_range, "loss_range")
    if abs(weights.sum() - 1.0) > 1e-9:
        raise InputError(f"prior must sum to 1, got {prior!r}.")
    log_odds = _log_odds(weights)
    if not by_group:  # equal groups share their bound
        sizes, log_odds = np.unique(np.stack([sizes, log_odds]), axis=1)
    groups = GroupMoves(sizes, log_odds, diameter, loss_range, float(entropy_weight))
    moves = groups.simple_bounds if by_group else groups.largest
    return moves(strengths) * (1.0 + ROUNDING)


def _checked(
    sizes: Sequence[float] | FloatArray,
    strengths: Sequence[float] | FloatArray,
    prior: Sequence[float] | FloatArray,
    entropy_weight: float,
) -> list[FloatArray]:
    """Return public numbers of the groups and strengths as arrays, all of them positive."""
    facts = {"sizes": sizes, "strong_convexities": strengths, "prior": prior}
    arrays = {name: np.asarray(values, dtype=float) for name, values in facts.items()}
    for name, numbers in {**arrays, "entropy_weight": np.asarray(entropy_weight)}.items():
        is_allowed = (numbers >= _SMALLEST) & ((numbers < np.inf) | (name == "entropy_weight"))
        if not is_allowed.all():
            raise InputError(f"{name} must be at least {_SMALLEST:g} and finite, got {numbers!r}.")
    if not 0 < len(arrays["sizes"]) == len(arrays["prior"]):
        raise InputError(f"sizes must be one a group of prior, got {sizes!r} and {prior!r}.")
    return list(arrays.values())


def _diameter(lipschitz: float, gradient_diameter: float) -> float:
    """Return Γ, which is 2L at most."""
    diameter = positive_finite(gradient_diameter, "gradient_diameter")
    return min(diameter, 2.0 * positive_finite(lipschitz, "lipschitz"))


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
    ``β = B/m_i`` at once. Weights may be anything from 0 to 1, as the group's true size may be.
    """
    sizes, strengths, weights = _checked(normalisers, strong_convexities, prior, entropy_weight)
    diameter = _diameter(lipschitz, gradient_diameter)
    loss_range = positive_finite(loss_range, "loss_range")
    if len(sizes) == 1 or entropy_weight == math.inf:
        move = max(diameter, lipschitz) * float((weights / sizes).max()) / strengths
        return np.asarray(move * (1.0 + ROUNDING))
    smallest = np.sort(sizes)[:2]
    one, other = (
        _largest_move(lipschitz / m, loss_range / (2.0 * m), strengths, entropy_weight)
        for m in smallest
    )
    m = smallest[0]
    within = _largest_move(diameter / m, loss_range / m, strengths, entropy_weight)
    move = np.maximum(np.minimum(within, 2.0 * one), one + other)
    return np.asarray(move * (1.0 + ROUNDING))


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


# --- the search over many groups at once ---------------------------------------------------------


class GroupMoves:
    """Groups, given the log-odds of their prior weights, and how far a record of each can move."""

    def __init__(
        self,
        sizes: FloatArray,
        log_odds: FloatArray,
        diameter: float,
        loss_range: float,
        mu_groups: float,
    ) -> None:
        self.sizes = sizes
        self.diameter, self.loss_range, self.mu_groups = diameter, loss_range, mu_groups
        # least and largest log-odds on any data: losses move the prior's so far, but a group that
        # has all the weight keeps it
        swing = loss_range / mu_groups
        alone = np.isposinf(log_odds)
        finite = np.where(alone, 0.0, log_odds)
        self.low, self.high = (np.where(alone, np.inf, finite + move) for move in (-swing, swing))

    def simple_bounds(self, strengths: FloatArray) -> FloatArray:
        """Return bounds that see how far the weights move at all, and no more, by strength."""
        # λ/n and λ' - λ add up to 1 at most
        of_changes = [self.small_change_bounds(mu_weights) for mu_weights in strengths.tolist()]
        return np.fmin(of_changes, (self.diameter / strengths)[:, None])

    def largest(self, strengths: FloatArray) -> FloatArray:
        """Return the largest bound of all groups by strength, rounded up by less than `ROUNDING`.

        A group is left out only where it is proved not to move the weights farther than another.
        """
        simple = self.simple_bounds(strengths)
        # a record can move these so far that the closed form is too large for them
        change = self.loss_range / self.mu_groups / self.sizes
        is_searched = (change > _SMALL_CHANGE) & (self.low < self.high)
        largest = simple.max(axis=1, where=~is_searched, initial=0.0)
        # those that may move the weights farthest come first, the same ones at every strength
        order = np.argsort(-expit(self.high) / self.sizes, kind="stable")
        for group in order[is_searched[order]]:
            above = simple[:, group]
            farther = np.flatnonzero(above > largest)
            cells = Cells(self, group) if len(farther) else None
            for i in farther:
                assert cells is not None
                largest[i] = cells.at_least(largest[i], above[i], strengths[i])
        return largest

    def small_change_bounds(self, mu_weights: float) -> FloatArray:
        """Return the bounds in closed form, to which the exact ones tend for large groups."""
        low, high = expit(self.low), expit(self.high)
        gamma, b, mu_w, mu_l = self.diameter, self.loss_range, mu_weights, self.mu_groups
        gradient = gamma / mu_w
        if mu_l == math.inf:
            return np.asarray(gradient * high / self.sizes)
        value = b / math.sqrt(mu_w) / math.sqrt(mu_l)
        # increasing up to here, decreasing behind it
        best = value / (2.0 * (value - gradient)) if value > 2.0 * gradient else 1.0
        weight = np.clip(best, low, high)
        along = weight * gradient
        move = 0.5 * (along + np.hypot(along, np.sqrt(weight * (1.0 - weight)) * value))
        scale = max(mu_l, 1.0)  # the product of both strengths would overflow

        def bounded_advantage(weight: FloatArray) -> FloatArray:
            other = 1.0 - weight
            most = gamma * weight * (mu_l / scale + other * (b / scale))
            return most / (mu_w * (mu_l / scale) + weight * other * (gamma**2 / scale))

        # there the weights move too little to change the advantage by as much as it could
        bounded = np.maximum(bounded_advantage(low), bounded_advantage(high))
        discriminant = b * b - gamma * gradient * (mu_l + b)
        if discriminant > 0.0:
            peak = (mu_l + b) / (b + math.sqrt(discriminant))
            bounded = np.maximum(bounded, bounded_advantage(np.clip(peak, low, high)))
        move = np.where(move * 2.0 * gamma < b, np.minimum(move, bounded), move)
        return np.asarray(move / self.sizes)


class Cells:
    """Cells of changes of one group's log-odds."""

    def __init__(self, groups: GroupMoves, group: int) -> None:
        size, low, high = groups.sizes[group], groups.low[group], groups.high[group]
        swing = groups.loss_range / groups.mu_groups
        # beyond `_FAR` a cell may end anywhere: what counts there is its left end
        edges = _edges(min(swing / size, high - low, _LARGEST))
        # in a cell the advantage is largest at its left end and the weight moves most at its right
        left, right = edges[:-1], edges[1:]
        self._diameter, self._slope = groups.diameter, groups.diameter / size
        self._advantage = np.maximum(groups.loss_range / size - groups.mu_groups * left, 0.0)
        self._least, self._most = expit(low), expit(high - left)
        self._shrink, self._grow = np.exp(-right), -np.expm1(-right)
        # odds times more than 1e300 take any weight but 0 to 1
        self._far = right > _FAR

    def allowed(self, move: float) -> float:
        """Return at least the right side of (1) over the move.

        It falls with the move, so where it is at most μ_w times the move no move is larger.
        """
        shrink, grow, slope = self._shrink, self._grow, self._slope
        with np.errstate(over="ignore"):
            gain = np.minimum(self._advantage / move, self._diameter)
        # concave in the smaller weight, with a stationary point where the advantage counts
        counts = gain > slope
        ratio = np.divide(gain, gain - slope, out=np.ones_like(gain), where=counts)
        stationary = (np.sqrt(ratio * shrink) - shrink) / grow
        inside = np.minimum(np.maximum(stationary, self._least), self._most)
        weight = np.where(counts, np.where(self._far, self._least, inside), self._most)
        other = 1.0 - weight
        rise = other.copy()
        np.divide(weight * other * grow, weight + other * shrink, out=rise, where=~self._far)
        return float((weight * slope + rise * gain).max())

    def at_least(self, known: float, above: float, mu_weights: float) -> float:
        """Return a known move, or a bound that also sees how far the weight can move at all.

        It is the largest move for which there are group weights that explain it, never too small;
        or ``above``, a bound already proved, where that is as good.
        """

        def allowed(move: float) -> float:
            return self.allowed(move) / mu_weights

        def excess(log_move: float) -> float:
            move = math.exp(log_move)
            return math.log(allowed(move) / move)

        if known > 0.0 and allowed(known) <= known:
            return known
        least = allowed(above)  # what is allowed at too large a move is too small
        if not 0.0 < least < above:
            return above
        low, high = math.log(least), math.log(above)
        if not excess(high) < 0.0:
            return above
        move = least
        if excess(low) > 0.0:
            move = math.exp(float(brentq(excess, low, high, xtol=1e-11, rtol=1e-11)))
        while allowed(move) > move:
            move *= 1.0 + ROUNDING / 8.0
        return max(known, min(move, above))


def _edges(end: float) -> FloatArray:
    """Return 0 and increasing changes of log-odds up to the largest possible."""
    edges = min(end, _NEAR) * np.linspace(0.0, 1.0, _NEAR_CELLS + 1)
    if end > _NEAR:
        beyond = (end / _NEAR) ** np.linspace(0.0, 1.0, _FAR_CELLS + 1)[1:]
        edges = np.append(edges, np.minimum(_NEAR * beyond, end))
        edges[-1] = end
    return edges
