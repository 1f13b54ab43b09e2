"""Confidence limits by inverting tests about a noisy binomial count."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.metrics.intervals._noisy_binomial import Counts, survival_of, upper_tail
from sklearn_dpwg.privacy import IntegerNoise

# Limits are found to so much in the angle arcsin √rate, where a probit is nearly a line, or to so
# much in that probit: in a tail of 2.5 % a part of 10⁹.
_ANGLE_TOLERANCE = 1e-10
_PROBIT_TOLERANCE = 4e-10
# Probabilities at the ends of what a float holds, so that a probit stays finite.
_LEAST_TAIL, _MOST_TAIL = 1e-300, 1.0 - 1e-16
# A total need not be solved for if its tail is above the level by no more than this part.
_LEVEL_TOLERANCE = 1e-7

Tail = Callable[[float, Counts], FloatArray]


@dataclass(frozen=True)
class Piece:
    """Rates from left to right, and P(statistic ≥ observed) there for given totals."""

    left: float
    right: float
    tail: Tail


def known_total_piece(
    successes: int, total: int, noise: IntegerNoise | None, n_cells: int
) -> tuple[Piece, Counts]:
    """Return the one piece of a rate whose total is known: the statistic is the noisy count."""
    survival = survival_of(noise, (n_cells,), (1,))
    observed = np.array([successes])
    return (
        Piece(0.0, 1.0, lambda rate, totals: upper_tail(rate, totals, observed, 1, survival)),
        np.array([total]),
    )


def unknown_total_piece(
    hits: int,
    misses: int,
    noise: IntegerNoise | None,
    n_cells: tuple[int, int],
    place: int,
    n_places: int,
) -> Piece:
    """Return the piece where a rate is rounded to w = place / n_places.

    The statistic (1−w) hits − w misses is, times n_places, n_places X − place P + N where X of P
    are true hits: of an error in P little is left, as it is weighted by rate − w.
    """
    shared = math.gcd(place, n_places)
    factor, weight = n_places // shared, place // shared
    survival = survival_of(noise, n_cells, (factor - weight, weight))
    observed = (factor - weight) * hits - weight * misses

    def tail(rate: float, totals: Counts) -> FloatArray:
        return upper_tail(rate, totals, observed + weight * totals, factor, survival)

    left, right = (place - 0.5) / n_places, (place + 0.5) / n_places
    return Piece(max(left, 0.0), min(right, 1.0), tail)


def least_rate(piece: Piece, totals: Counts, level: float, guess: float) -> float | None:
    """Return the least rate of a piece that some total does not reject, None if there is none.

    A total rejects a rate where P(statistic ≥ observed) is at most the level. That rises with the
    rate within a piece, so what is not rejected is all that lies above the limit.
    """
    tails = piece.tail(piece.right, totals)
    worst = int(tails.argmax())
    if tails[worst] <= level:
        return None
    limit, solved = piece.right, set[int]()
    while worst not in solved:
        total = totals[worst : worst + 1]
        limit = _crossing(piece, total, level, (limit, float(tails[worst])), min(guess, limit))
        solved.add(worst)
        guess = limit
        tails = piece.tail(limit, totals)
        worst = int(tails.argmax())
        if tails[worst] <= level * (1.0 + _LEVEL_TOLERANCE):
            break
    return limit


def _crossing(
    piece: Piece, total: Counts, level: float, above: tuple[float, float], guess: float
) -> float:
    """Return where the tail for one total crosses the level, the piece's left end if it does not.

    By secants, as probits of tails are almost lines in the angle, with bisections where a secant
    leaves the bracket; `above` is a rate with its tail, above the level.
    """
    target = float(ndtri(level))

    def excess(tail: float) -> float:
        return float(ndtri(min(max(tail, _LEAST_TAIL), _MOST_TAIL))) - target

    left = low = _angle(piece.left)
    before = high = _angle(above[0])
    excess_before = excess(above[1])
    angle = min(max(_angle(guess), low), 0.999 * high + 0.001 * low)
    while high - low > _ANGLE_TOLERANCE:
        found = excess(float(piece.tail(math.sin(angle) ** 2, total)[0]))
        if found > 0.0 and angle == left:
            return piece.left
        low, high = (low, angle) if found > 0.0 else (angle, high)
        if abs(found) < _PROBIT_TOLERANCE:
            break
        rise = found - excess_before
        step = found * (angle - before) / rise if rise else math.inf
        before, excess_before = angle, found
        angle -= step
        if angle <= left == low and before > left:
            angle = left
        elif not low < angle < high:
            angle = 0.5 * (low + high)
    return math.sin(angle) ** 2


def _angle(rate: float) -> float:
    return math.asin(math.sqrt(rate))
