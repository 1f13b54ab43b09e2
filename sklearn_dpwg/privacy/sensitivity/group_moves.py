"""How far one record moves the worst-group weights: the search over many groups at once.

The symbols, and the inequality (1), are those of ``docs/theory/phased-erm-sensitivity.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from sklearn_dpwg._checks import FloatArray

# More than the rounding of a few dozen operations, and than what a step of the search leaves.
ROUNDING = 1e-9
# Below this change of a log-odds the exact bound is within 1 % of its limit for small changes.
_SMALL_CHANGE = 0.1
# A log-odds whose exponential is still a floating-point number.
_FAR = 600.0
_LARGEST = 1e300
# Cells of changes up to `_NEAR` and beyond it: few where many groups are ruled out at a time.
_NEAR = 50.0
_COARSE, _MIDDLE, _FINE = (32, 8), (256, 128), (2048, 1024)
_BLOCK = 32
_MAX_CACHED = 128


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
            order = np.lexsort((log_odds, sizes))
            sizes, log_odds = sizes[order], log_odds[order]
            is_new = np.ones(len(sizes), dtype=bool)
            is_new[1:] = (sizes[1:] != sizes[:-1]) | (log_odds[1:] != log_odds[:-1])
            sizes, log_odds = sizes[is_new], log_odds[is_new]
        swing = loss_range / mu_groups  # how far losses can move log-odds from the prior's
        # a group that has all the weight keeps it
        alone = np.isposinf(log_odds)
        low = np.where(alone, np.inf, np.where(alone, 0.0, log_odds) - swing)
        high = np.where(alone, np.inf, np.where(alone, 0.0, log_odds) + swing)
        return cls(sizes, low, high, diameter, loss_range, mu_groups)

    def take(self, chosen: NDArray[np.intp]) -> GroupMoves:
        """Return some of the groups."""
        return replace(self, sizes=self.sizes[chosen], low=self.low[chosen], high=self.high[chosen])

    def blocks(self) -> GroupMoves:
        """Return one group for each block that no group of it moves the weights farther than.

        The right side of (1) falls with the size, and a wider range of weights allows more.
        """
        starts = np.arange(0, len(self.sizes), _BLOCK)
        return replace(
            self,
            sizes=np.minimum.reduceat(self.sizes, starts),
            low=np.minimum.reduceat(self.low, starts),
            high=np.maximum.reduceat(self.high, starts),
        )

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
        self._cells: dict[object, Cells] = {}

    def at(self, mu_weights: float) -> float:
        """Return the largest bound on a move, rounded up by less than `ROUNDING`.

        A group is left out only where it is proved not to move the weights farther than another.
        """
        simple = self._all.simple_bounds(mu_weights)
        largest = float(simple.max(where=~self._is_searched, initial=0.0))
        above = simple[self._is_searched]
        left = np.flatnonzero(above > largest)
        group = int(left[np.argmax(above[left])]) if len(left) else -1
        while group >= 0:
            largest = max(largest, self._exact(group, float(above[group]), mu_weights))
            left = left[(above[left] > largest) & (left != group)]
            left, found = self._not_below(left, largest, mu_weights)
            group = int(left[np.argmax(found)]) if len(left) else -1
        return largest

    def _exact(self, group: int, above: float, mu_weights: float) -> float:
        """Return a bound that also sees how far a group's weight can move at all.

        It is the largest move for which there are group weights that explain it, never too small;
        or ``above``, a bound already proved, where that is as good.
        """
        cells = self._cells_of(group)

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
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the groups that may move the weights farther, and how far one might think."""
        limit = mu_weights * move
        if len(groups) > 2 * _BLOCK:
            cells = self._cells_of("blocks")
            is_open = ~(cells.allowed(move) <= limit)
            groups = groups[is_open[groups // _BLOCK]]
        found = np.empty(0)
        for kind in ("coarse", "middle", "fine"):
            if not len(groups):
                return groups, np.empty(0)
            if kind == "coarse":
                found = self._cells_of(kind).allowed(move, groups)
            elif kind == "middle":
                found = Cells(self._searched.take(groups), _MIDDLE).allowed(move)
            else:
                # one at a time: the first that is not ruled out is searched next
                order = groups[np.argsort(-found)]
                for i, group in enumerate(order):
                    if not self._cells_of(int(group)).allowed(move)[0] <= limit:
                        return order[i:], np.append(np.inf, np.zeros(len(order) - i - 1))
                return groups[:0], np.empty(0)
            is_open = ~(found <= limit)  # what is no number rules nothing out
            groups, found = groups[is_open], found[is_open]
        return groups, found

    def _cells_of(self, kind: object) -> Cells:
        if kind not in self._cells:
            if kind == "blocks":
                made = Cells(self._searched.blocks(), _COARSE)
            elif kind == "coarse":
                made = Cells(self._searched, _COARSE)
            else:
                made = Cells(self._searched.take(np.array([kind])), _FINE)
            if len(self._cells) >= _MAX_CACHED:
                self._cells.clear()
            self._cells[kind] = made
        return self._cells[kind]
