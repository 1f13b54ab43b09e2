"""Sensitivities: bounds on how far one record moves the sums and solutions that solvers release.

Each bounds the L2 distance between the outputs on two data sets that differ in one record: by
default within its group, in `hidden_group_sensitivities` its group included. All inputs are public:
sizes, constants of the loss, strengths of the regularisation, norms. ``docs/theory/sums.md`` and
``docs/theory/moments.md`` prove the bounds for sums and for rounding. Regularised worst-group
weights w solve ``min_w max_λ Σ λ_i L_i(w) + μ_w/2 ‖w - c‖² - μ_λ KL(λ‖π)`` on a convex set, with
any centre c. ``docs/theory/phased-erm-sensitivity.md``, whose symbols and inequality (1) are used
here, and ``docs/theory/replace-one.md`` prove their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from sklearn_dpwg._checks import FloatArray, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError

# Unit roundoff of double precision.
_UNIT = 2.0**-53
# Largest magnitude of a sum in grid steps; up to 2⁵³ there is room for what rounding adds.
_STEPS = 2.0**52
# Roundings of a loss or a slope for each rounding of the score: a margin for exp, log and the like.
_ROUNDINGS_OF_A_RECORD = 16
# Relative margin, above the rounding of a few dozen operations and the tolerance of the search.
ROUNDING = 1e-9
# For smaller changes of a log-odds the closed form is within 1 % of the exact bound.
_SMALL_CHANGE = 0.1
# The exponential of this log-odds does not overflow yet.
_FAR = 600.0
# Largest change of a log-odds that the grid of `_edges` covers.
_LARGEST = 1e300
# Numbers of grid cells for changes of a log-odds up to `_NEAR`, and for larger ones.
_NEAR = 50.0
_NEAR_CELLS, _FAR_CELLS = 2048, 1024
# Least size, strength or weight: quotients by smaller numbers may overflow.
_SMALLEST = 1e-305


def grid_step(bound: float, n_terms: int) -> float:
    """Return the grid step h for exact sums of ``n_terms`` numbers of magnitude at most ``bound``.

    It is the least power of two with ``n_terms * bound <= 2**52 * h``. Multiples of h up to
    ``2**53 * h`` are floating-point numbers, so adding multiples of h is exact in any order.
    """
    bound = positive_finite(bound, "bound")
    n_terms = whole_number(n_terms, "n_terms", least=1)
    if n_terms > _STEPS:
        raise InputError(f"n_terms must be at most 2**52, got {n_terms!r}.")
    # the product as mantissa and exponent, which cannot overflow, rounded up by a few roundoffs
    mantissa, exponent = math.frexp(bound)
    count_mantissa, count_exponent = math.frexp(float(n_terms))
    product = mantissa * count_mantissa * (1.0 + 4.0 * _UNIT)
    # from 1/4 to barely above 1, so the least power of two not below the product is 1/2, 1 or 2
    power = exponent + count_exponent - 52 + (product > 1.0) - (product <= 0.5)
    return math.ldexp(1.0, max(power, -960))  # well above the smallest float


def record_rounding(size: float, n_dimensions: int) -> float:
    """Bound the rounding error of a number or vector that is computed from one record alone.

    ``size`` is a bound on the result plus a bound on the score times the derivative of the result
    with respect to the score. ``n_dimensions`` is the number of weights, columns times outputs;
    the 16 covers the roundings that do not grow with it (docs/theory/sums.md, above Lemma 3).
    """
    return _ROUNDINGS_OF_A_RECORD * (n_dimensions + 16.0) * _UNIT * size


def weighting_slack(bound: float, *, n_records: int, n_groups: int) -> float:
    """Bound what rounding adds to the sensitivity of Σ κ_i S_i / m_i, divided by max κ_i / m_i.

    S_i is the sum of group i, with weight κ_i and size m_i; every record adds a vector of norm at
    most ``bound``. The caller multiplies the result by the largest κ_i / m_i of the groups.

    Lemma 3 of docs/theory/sums.md: a term takes at most ``n_groups + 6`` roundings, here with a
    margin ``n_groups + 16``; the norms of the terms add up to at most
    ``n_records * bound * max κ_i / m_i``. The 4 is for two neighbours, with a margin of 2.
    """
    return 4.0 * (n_groups + 16.0) * _UNIT * bound * n_records


def moment_sensitivity(norm: float) -> float:
    """Bound how far one record moves the second moments ``Σ v v'`` of vectors v, in the L2 norm.

    Every record has one vector v, of at most this ``norm``. The sum is released as the vector of
    its upper triangle, every entry off the diagonal times √2, whose L2 norm is the Frobenius norm
    of the matrix; two matrices v v' are at most √2 norm² apart. (Vu and Slavkovic 2009; Wang 2018,
    *Revisiting differentially private linear regression*)
    """
    return math.sqrt(2.0) * positive_finite(norm, "norm") ** 2


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
    """Bound how far replacing one record, within its group, moves the weights, for each μ_w.

    μ_w is one of ``strong_convexities`` and μ_λ the ``entropy_weight``; an infinite μ_λ fixes the
    group weights at the ``prior`` π. L_i is the mean loss of group i, of n records. The loss has
    Lipschitz constant L in the weights and range B; the gradients of two records at the same
    weights are at most Γ = ``gradient_diameter`` apart (2L is used if it is less).

    Returns an array with the largest bound of all groups for each strength; with ``by_group`` a
    matrix, a row for each strength and a column for each group, by the closed form of Theorem 2.

    The bound of a group, in the L2 norm and rounded up, is the largest x for which there are
    group weights λ < λ' of the two neighbours, their log-odds within B/μ_λ of the prior's and ρ
    apart, with ``μ_w x² ≤ λ Γ/n x + (λ' - λ) min(B/n - μ_λ ρ, Γ x)``. It holds also for losses
    that are not smooth and for weights on the boundary of the ball.
    """
    sizes, strengths, weights = _as_arrays(group_sizes, strong_convexities, prior, entropy_weight)
    diameter = _diameter(lipschitz, gradient_diameter)
    loss_range = positive_finite(loss_range, "loss_range")
    if abs(weights.sum() - 1.0) > 1e-9:
        raise InputError(f"prior must sum to 1, got {prior!r}.")
    log_odds = _log_odds(weights)
    if not by_group:  # equal groups share their bound
        sizes, log_odds = np.unique(np.stack([sizes, log_odds]), axis=1)
    groups = GroupMoves(sizes, log_odds, diameter, loss_range, float(entropy_weight))
    bounds = groups.simple_bounds(strengths) if by_group else groups.largest_bounds(strengths)
    return bounds * (1.0 + ROUNDING)


def _as_arrays(
    sizes: Sequence[float] | FloatArray,
    strengths: Sequence[float] | FloatArray,
    prior: Sequence[float] | FloatArray,
    entropy_weight: float,
) -> list[FloatArray]:
    """Return sizes, strengths and prior as arrays; raise an error unless all are positive."""
    inputs = {"sizes": sizes, "strong_convexities": strengths, "prior": prior}
    arrays = {name: np.asarray(values, dtype=float) for name, values in inputs.items()}
    for name, numbers in {**arrays, "entropy_weight": np.asarray(entropy_weight)}.items():
        is_allowed = (numbers >= _SMALLEST) & ((numbers < np.inf) | (name == "entropy_weight"))
        if not is_allowed.all():
            raise InputError(f"{name} must be at least {_SMALLEST:g} and finite, got {numbers!r}.")
    if not 0 < len(arrays["sizes"]) == len(arrays["prior"]):
        raise InputError(f"sizes must be one a group of prior, got {sizes!r} and {prior!r}.")
    return list(arrays.values())


def _diameter(lipschitz: float, gradient_diameter: float) -> float:
    """Return Γ: the diameter of the gradients, or 2L if that is less."""
    diameter = positive_finite(gradient_diameter, "gradient_diameter")
    return min(diameter, 2.0 * positive_finite(lipschitz, "lipschitz"))


def _log_odds(weights: FloatArray) -> FloatArray:
    """Return the log-odds of the weight of each group; infinite if there is only one group."""
    if len(weights) == 1:
        return np.array([np.inf])
    rest = weights.sum() - weights
    for i in np.flatnonzero(weights >= 0.5):
        # the difference above loses digits: here the sum of the others is small beside the total
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
    """Bound how far replacing one record, its group included, moves the weights, for each μ_w.

    Symbols and inputs are those of `saddle_point_sensitivities`, but for the risk of a group, as
    its size is secret: L_i is c + Σ (loss - c) / m_i, the sum over the records of the group, c the
    middle of the range of losses, and m_i the public ``normalisers`` in place of sizes.

    With fixed group weights the bound is ``max(Γ, L) max_i π_i/m_i / μ_w``. Otherwise one record is
    removed from a group and another is added to a group: each moves the weights by at most the
    largest x with ``μ_w x² <= λ κ x + τ (β - μ_λ ρ)`` for group weights λ and λ + τ whose log-odds
    are ρ apart, with ``κ = L/m_i`` and ``β = B/(2 m_i)``. If both are in one group, the two changes
    together are also bounded with ``κ = Γ/m_i`` and ``β = B/m_i``. Group weights may be any number
    from 0 to 1, because the true size of a group may be any number.
    """
    sizes, strengths, weights = _as_arrays(normalisers, strong_convexities, prior, entropy_weight)
    diameter = _diameter(lipschitz, gradient_diameter)
    loss_range = positive_finite(loss_range, "loss_range")
    if len(sizes) == 1 or entropy_weight == math.inf:
        move = max(diameter, lipschitz) * float((weights / sizes).max()) / strengths
        return np.asarray(move * (1.0 + ROUNDING))
    # records of the groups with the smallest normalisers move the weights farthest
    least, second = np.sort(sizes)[:2]
    move_in_least, move_in_second = (
        _largest_move(lipschitz / m, loss_range / (2.0 * m), strengths, entropy_weight)
        for m in (least, second)
    )
    within_group = _largest_move(diameter / least, loss_range / least, strengths, entropy_weight)
    move = np.maximum(np.minimum(within_group, 2.0 * move_in_least), move_in_least + move_in_second)
    return np.asarray(move * (1.0 + ROUNDING))


def _largest_move(
    slope: float, change: float, strengths: FloatArray, entropy_weight: float
) -> FloatArray:
    """Bound the largest x with ``μ_w x² <= λ κ x + τ (β - μ_λ ρ)``, for each strength μ_w.

    κ is ``slope`` and β is ``change``, as in `hidden_group_sensitivities`. There τ = m (1-m) ρ for
    some m between the two weights, so x is at most ``(A m + √(A² m² + m (1-m) S²))/2`` with
    A = κ/μ_w and S = β/√(μ_w μ_λ). The maximum over m is A or, for S > 2A, ``S²/(4 (S-A))``. As
    τ is at most 1 - λ, x is also at most the larger of A and √(β/μ_w).
    """
    gradient_move = slope / strengths  # A
    value_move = change / np.sqrt(strengths) / math.sqrt(entropy_weight)  # S
    with np.errstate(divide="ignore", invalid="ignore"):
        interior_maximum = value_move * (value_move / (4.0 * (value_move - gradient_move)))
    maximum = np.where(value_move > 2.0 * gradient_move, interior_maximum, gradient_move)
    largest_shift = np.maximum(gradient_move, np.sqrt(change / strengths))
    return np.asarray(np.fmin(maximum, largest_shift))


class GroupMoves:
    """Bounds on how far a record of each group moves the weights; ``mu_groups`` is μ_λ."""

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
        # least and largest log-odds on any data: B/μ_λ from the prior's, infinite for one group
        swing = loss_range / mu_groups
        is_single = np.isposinf(log_odds)
        finite = np.where(is_single, 0.0, log_odds)
        self.low = np.where(is_single, np.inf, finite - swing)
        self.high = np.where(is_single, np.inf, finite + swing)

    def simple_bounds(self, strengths: FloatArray) -> FloatArray:
        """Return bounds in closed form: a row for each strength μ_w, a column for each group."""
        closed_forms = [self.small_change_bounds(mu_weights) for mu_weights in strengths.tolist()]
        # λ/n and λ' - λ add up to at most 1, so no move exceeds Γ/μ_w
        return np.fmin(closed_forms, (self.diameter / strengths)[:, None])

    def largest_bounds(self, strengths: FloatArray) -> FloatArray:
        """Return, for each strength, the largest bound of all groups, a little rounded up.

        Groups whose closed form is loose, and above the bounds of others, get the exact bound.
        """
        closed_forms = self.simple_bounds(strengths)
        # the closed form is too large if a record can move the log-odds far
        log_odds_change = self.loss_range / self.mu_groups / self.sizes
        is_searched = (log_odds_change > _SMALL_CHANGE) & (self.low < self.high)
        largest = closed_forms.max(axis=1, where=~is_searched, initial=0.0)
        # groups that may move the weights farthest come first, so that few others are searched
        order = np.argsort(-expit(self.high) / self.sizes, kind="stable")
        for group in order[is_searched[order]]:
            upper_bounds = closed_forms[:, group]
            searched_strengths = np.flatnonzero(upper_bounds > largest)
            cells = Cells(self, group) if len(searched_strengths) else None
            for i in searched_strengths:
                assert cells is not None
                largest[i] = cells.larger_bound(largest[i], upper_bounds[i], strengths[i])
        return largest

    def small_change_bounds(self, mu_weights: float) -> FloatArray:
        """Return each group's bound in closed form (Theorem 2), exact in the limit of large n."""
        low, high = expit(self.low), expit(self.high)
        gamma, b, mu_w, mu_l = self.diameter, self.loss_range, mu_weights, self.mu_groups
        gradient_move = gamma / mu_w
        if mu_l == math.inf:
            return np.asarray(gradient_move * high / self.sizes)
        value_move = b / math.sqrt(mu_w) / math.sqrt(mu_l)
        # the move, times the group's size, as a function of the weight is largest at the peak
        has_peak = value_move > 2.0 * gradient_move
        peak = value_move / (2.0 * (value_move - gradient_move)) if has_peak else 1.0
        weight = np.clip(peak, low, high)
        along = weight * gradient_move
        move = 0.5 * (along + np.hypot(along, np.sqrt(weight * (1.0 - weight)) * value_move))
        scale = max(mu_l, 1.0)  # divides both sides: the product of both strengths would overflow

        def short_move(weight: FloatArray) -> FloatArray:
            """Bound the move if it is so short that Γ times the move limits the advantage."""
            other = 1.0 - weight
            numerator = gamma * weight * (mu_l / scale + other * (b / scale))
            return numerator / (mu_w * (mu_l / scale) + weight * other * (gamma**2 / scale))

        # its maximum over the weights, at an end or at its own peak
        longest_short_move = np.maximum(short_move(low), short_move(high))
        discriminant = b * b - gamma * gradient_move * (mu_l + b)
        if discriminant > 0.0:
            peak = (mu_l + b) / (b + math.sqrt(discriminant))
            peak_move = short_move(np.clip(peak, low, high))
            longest_short_move = np.maximum(longest_short_move, peak_move)
        move = np.where(move * 2.0 * gamma < b, np.minimum(move, longest_short_move), move)
        return np.asarray(move / self.sizes)


class Cells:
    """Exact bound of one group: inequality (1) is bounded on each cell, an interval of ρ."""

    def __init__(self, groups: GroupMoves, group: int) -> None:
        size, low, high = groups.sizes[group], groups.low[group], groups.high[group]
        swing = groups.loss_range / groups.mu_groups
        # the last cells may be wide: beyond `_FAR` only the left end of a cell is used
        edges = _edges(min(swing / size, high - low, _LARGEST))
        left, right = edges[:-1], edges[1:]
        self._diameter, self._slope = groups.diameter, groups.diameter / size  # Γ and Γ/n
        # B/n - μ_λ ρ is largest at the left end of a cell
        self._advantage = np.maximum(groups.loss_range / size - groups.mu_groups * left, 0.0)
        # range of λ, the smaller weight: λ' has log-odds ρ above those of λ, and at most `high`
        self._min_weight, self._max_weight = expit(low), expit(high - left)
        # λ' - λ is largest at the right end of a cell, a function of exp(-ρ) and 1 - exp(-ρ)
        self._shrink, self._grow = np.exp(-right), -np.expm1(-right)
        # where odds grow by more than exp(600), λ' is replaced by 1, an upper bound
        self._is_far = right > _FAR

    def scaled_right_side(self, move: float) -> float:
        """Return an upper bound on the right side of (1) divided by the move x.

        It decreases in x, so if it is at most μ_w x, no move larger than x satisfies (1).
        """
        shrink, grow, slope = self._shrink, self._grow, self._slope
        with np.errstate(over="ignore"):
            gain = np.minimum(self._advantage / move, self._diameter)
        # λ slope + (λ' - λ) gain has a maximum in λ if gain > slope, and increases otherwise
        has_maximum = gain > slope
        ratio = np.divide(gain, gain - slope, out=np.ones_like(gain), where=has_maximum)
        stationary = (np.sqrt(ratio * shrink) - shrink) / grow
        inside = np.minimum(np.maximum(stationary, self._min_weight), self._max_weight)
        best = np.where(self._is_far, self._min_weight, inside)
        weight = np.where(has_maximum, best, self._max_weight)
        other = 1.0 - weight
        rise = other.copy()  # λ' - λ
        np.divide(weight * other * grow, weight + other * shrink, out=rise, where=~self._is_far)
        return float((weight * slope + rise * gain).max())

    def larger_bound(self, other_bound: float, upper_bound: float, mu_weights: float) -> float:
        """Return the larger of another group's bound and this group's exact one, rounded up.

        That is the largest x with (1), or the proved ``upper_bound`` if no search improves it.
        """

        def largest_move_at(move: float) -> float:
            return self.scaled_right_side(move) / mu_weights

        def excess(log_move: float) -> float:
            move = math.exp(log_move)
            return math.log(largest_move_at(move) / move)

        if other_bound > 0.0 and largest_move_at(other_bound) <= other_bound:
            return other_bound
        # the function decreases: its value at a bound above the root is below the root
        lower_bound = largest_move_at(upper_bound)
        if not 0.0 < lower_bound < upper_bound:
            return upper_bound
        low, high = math.log(lower_bound), math.log(upper_bound)
        if not excess(high) < 0.0:
            return upper_bound
        move = lower_bound
        if excess(low) > 0.0:
            move = math.exp(float(brentq(excess, low, high, xtol=1e-11, rtol=1e-11)))
        # the root search may end a little below the root
        while largest_move_at(move) > move:
            move *= 1.0 + ROUNDING / 8.0
        return max(other_bound, min(move, upper_bound))


def _edges(end: float) -> FloatArray:
    """Return cell edges from 0 to the end: evenly spaced up to `_NEAR`, then geometrically."""
    edges = min(end, _NEAR) * np.linspace(0.0, 1.0, _NEAR_CELLS + 1)
    if end > _NEAR:
        beyond = (end / _NEAR) ** np.linspace(0.0, 1.0, _FAR_CELLS + 1)[1:]
        edges = np.append(edges, np.minimum(_NEAR * beyond, end))
        edges[-1] = end
    return edges
