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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from sklearn_dpwg._checks import (
    FloatArray,
    non_negative,
    positive_finite,
    real_number,
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
# Cells of changes up to `_NEAR` and beyond it: few where many groups are ruled out at a time.
_NEAR = 50.0
_COARSE, _FINE = (64, 32), (2048, 1024)
_MAX_CACHED = 128
# Quotients by weaker strengths are beyond all floats.
_WEAKEST = 1e-305


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
    size = non_negative(size, "size")
    n_dimensions = whole_number(n_dimensions, "n_dimensions", least=1)
    return _ROUNDINGS_OF_A_RECORD * (n_dimensions + 16.0) * _UNIT * size


def weighting_slack(bound: float, *, n_records: int, n_groups: int) -> float:
    """Bound what rounding of a weighted sum of group means, of norm up to a bound, adds to Δ.

    It is to be multiplied by the largest ratio of a group's weight to its size: at least
    ``1 / n_records``, so the rounding of both neighbours' sums is at most this times the ratio.
    """
    bound = positive_finite(bound, "bound")
    n_records = whole_number(n_records, "n_records", least=1)
    n_groups = whole_number(n_groups, "n_groups", least=1)
    return 4.0 * (n_groups + 16.0) * _UNIT * bound * n_records


def moment_sensitivity(norm: float) -> float:
    """Bound how far one record moves a sum of outer products of vectors with themselves.

    The sum is ``Σ v v'``, every v of at most this norm, as the vector of its upper triangle with
    every entry off the diagonal times √2. (Vu and Slavkovic 2009; Wang 2018, *Revisiting
    differentially private linear regression*)
    """
    return math.sqrt(2.0) * positive_finite(norm, "norm") ** 2


# --- regularised weights -------------------------------------------------------------------------


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

    L_i is the mean loss of group i. The loss has Lipschitz constant L in the weights, range B, and
    two records' gradients at the same weights are at most Γ apart (2L is used where that is less);
    an infinite μ_λ fixes the group weights at the prior π. A solver's certified duality gap α may
    leave each of two neighbours ``√(2α/μ_w)`` from its exact solution.

    For each group the bound, in the L2 norm and rounded up, is the largest x for which there are
    group weights λ < λ' of the two neighbours, their log-odds within B/μ_λ of the prior's and ρ
    apart, with ``μ_w x² ≤ λ Γ/n x + (λ' - λ) min(B/n - μ_λ ρ, Γ x)``. It holds for losses that are
    not smooth and where the ball is active.
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
    ``β = B/m_i`` at once. Weights may be anything from 0 to 1, as the group's true size may be.
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


@dataclass(frozen=True)
class GroupMoves:
    """Facts of groups."""

    sizes: FloatArray
    low: FloatArray  # least and largest log-odds of the group's weight on any data
    high: FloatArray
    diameter: float
    loss_range: float
    mu_groups: float

    @classmethod
    def of(
        cls,
        sizes: FloatArray,
        log_odds: FloatArray,
        diameter: float,
        loss_range: float,
        mu_groups: float,
        *,
        distinct: bool = True,
    ) -> GroupMoves:
        """Return groups, the distinct ones by size, given the log-odds of their prior weights."""
        if distinct:
            sizes, log_odds = np.unique(np.stack([sizes, log_odds]), axis=1)
        swing = loss_range / mu_groups  # how far losses can move log-odds from the prior's
        # a group that has all the weight keeps it
        alone = np.isposinf(log_odds)
        finite = np.where(alone, 0.0, log_odds)
        low, high = (np.where(alone, np.inf, finite + move) for move in (-swing, swing))
        return cls(sizes, low, high, diameter, loss_range, mu_groups)

    def take(self, chosen: NDArray[np.intp]) -> GroupMoves:
        """Return some of the groups."""
        return replace(self, sizes=self.sizes[chosen], low=self.low[chosen], high=self.high[chosen])

    @property
    def is_searched(self) -> NDArray[np.bool_]:
        """Which groups a record can move so far that the closed form is too large for them."""
        change = self.loss_range / self.mu_groups / self.sizes
        return (change > _SMALL_CHANGE) & (self.low < self.high)

    def simple_bounds(self, mu_weights: float) -> FloatArray:
        """Return bounds that see how far the weights move at all, and no more."""
        # λ/n and λ' - λ add up to 1 at most
        return np.fmin(self.small_change_bounds(mu_weights), self.diameter / mu_weights)

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
    """Cells of changes of the groups' log-odds, a row a group."""

    def __init__(self, groups: GroupMoves, n_cells: tuple[int, int]) -> None:
        self._diameter = groups.diameter
        swing = groups.loss_range / groups.mu_groups
        # beyond `_FAR` a cell may end anywhere: what counts there is its left end
        end = np.minimum(swing / groups.sizes, groups.high - groups.low)
        end = np.minimum(end, _LARGEST)[:, None]
        edges = _edges(end, n_cells)
        # in a cell the advantage is largest at its left end and the weight moves most at its right
        left, right = edges[:, :-1], edges[:, 1:]
        sizes = groups.sizes[:, None]
        self._advantage = np.maximum(groups.loss_range / sizes - groups.mu_groups * left, 0.0)
        self._least = expit(groups.low)[:, None]
        self._most = expit(groups.high[:, None] - left)
        self._shrink, self._grow = np.exp(-right), -np.expm1(-right)
        self._slope = groups.diameter / sizes
        # odds times more than 1e300 take any weight but 0 to 1
        self._far = right > _FAR

    def allowed(self, move: float, rows: NDArray[np.intp] | slice = slice(None)) -> FloatArray:
        """Return at least the right side of (1) over the move, for each of some groups.

        It falls with the move, so groups where it is at most μ_w times the move never move the
        weights farther.
        """
        shrink, grow, slope = self._shrink[rows], self._grow[rows], self._slope[rows]
        least, most, far = self._least[rows], self._most[rows], self._far[rows]
        with np.errstate(over="ignore"):
            gain = np.minimum(self._advantage[rows] / move, self._diameter)
        # concave in the smaller weight, with a stationary point where the advantage counts
        counts = gain > slope
        ratio = np.divide(gain, gain - slope, out=np.ones_like(gain), where=counts)
        stationary = (np.sqrt(ratio * shrink) - shrink) / grow
        inside = np.minimum(np.maximum(stationary, least), most)
        weight = np.where(counts, np.where(far, least, inside), most)
        other = 1.0 - weight
        rise = other.copy()
        np.divide(weight * other * grow, weight + other * shrink, out=rise, where=~far)
        return np.asarray((weight * slope + rise * gain).max(axis=1))


def _edges(end: FloatArray, n_cells: tuple[int, int]) -> FloatArray:
    """Return 0 and increasing changes of log-odds up to the largest possible, a row a group."""
    near, far = n_cells
    edges = np.minimum(end, _NEAR) * np.linspace(0.0, 1.0, near + 1)
    if (end > _NEAR).any():
        # of groups whose changes end before, these are empty
        beyond = np.maximum(end / _NEAR, 1.0) ** np.linspace(0.0, 1.0, far + 1)[1:]
        edges = np.concatenate([edges, np.minimum(edges[:, -1:] * beyond, end)], axis=1)
        edges[:, -1:] = end
    return edges


class LargestMove:
    """Search for the largest move of several groups' bounds.

    What it keeps are cells, which are functions of the groups: so what it finds at a strength does
    not depend on those that were asked for before.
    """

    def __init__(self, groups: GroupMoves) -> None:
        self._all = groups
        self._is_searched = groups.is_searched
        self._searched = groups.take(np.flatnonzero(self._is_searched))
        self._coarse = Cells(self._searched, _COARSE)
        self._cells: dict[int, Cells] = {}

    def at(self, mu_weights: float) -> float:
        """Return the largest bound on a move, rounded up by less than `ROUNDING`.

        A group is left out only where it is proved not to move the weights farther than another.
        """
        simple = self._all.simple_bounds(mu_weights)
        largest = float(simple.max(where=~self._is_searched, initial=0.0))
        above = simple[self._is_searched]
        left = np.flatnonzero(above > largest)
        left = left[np.argsort(-above[left])]
        while len(left):
            group = int(left[0])
            largest = max(largest, self._exact(group, float(above[group]), mu_weights))
            left = left[(above[left] > largest) & (left != group)]
            left = self._not_below(left, largest, mu_weights)
        return largest

    def _exact(self, group: int, above: float, mu_weights: float) -> float:
        """Return a bound that also sees how far a group's weight can move at all.

        It is the largest move for which there are group weights that explain it, never too small;
        or ``above``, a bound already proved, where that is as good.
        """
        cells = self._fine(group)

        def allowed(move: float) -> float:
            return float(cells.allowed(move)[0]) / mu_weights

        def excess(log_move: float) -> float:
            move = math.exp(log_move)
            return math.log(allowed(move) / move)

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
        return min(move, above)

    def _not_below(
        self, groups: NDArray[np.intp], move: float, mu_weights: float
    ) -> NDArray[np.intp]:
        """Return the groups that may move the weights farther, the first of them for certain."""
        limit = mu_weights * move
        bounds = self._coarse.allowed(move, groups)
        is_open = ~(bounds <= limit)  # what is no number rules nothing out
        groups = groups[is_open][np.argsort(-bounds[is_open])]
        for i, group in enumerate(groups.tolist()):
            if not self._fine(group).allowed(move)[0] <= limit:
                return groups[i:]
        return groups[:0]

    def _fine(self, group: int) -> Cells:
        """Return the cells of one group, which the next strength often asks for again."""
        if group not in self._cells:
            if len(self._cells) >= _MAX_CACHED:
                self._cells.clear()
            self._cells[group] = Cells(self._searched.take(np.array([group])), _FINE)
        return self._cells[group]
