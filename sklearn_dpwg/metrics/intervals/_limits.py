"""Confidence limits by inverting tests about a noisy binomial count."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.metrics.intervals._noisy_binomial import Counts, survival_of, upper_tail
from sklearn_dpwg.privacy import IntegerNoise

# Limits are found to so much in the angle arcsin √rate, where a probit is nearly a line.
_ANGLE_TOLERANCE = 1e-10
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
    noise: IntegerNoise,
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


def least_rate(piece: Piece, totals: Counts, level: float) -> float | None:
    """Return the least rate of a piece that some total does not reject, None if there is none.

    A total rejects a rate where P(statistic ≥ observed) is at most the level. That rises with the
    rate within a piece, so what is not rejected is all that lies above the limit.
    """
    at_right = piece.tail(piece.right, totals)
    if at_right.max() <= level:
        return None
    if piece.tail(piece.left, totals).max() > level:
        return piece.left
    limit, worst, solved = piece.right, int(at_right.argmax()), set[int]()
    while worst not in solved:
        limit = _root(piece, totals[worst : worst + 1], level, limit)
        solved.add(worst)
        at_limit = piece.tail(limit, totals)
        worst = int(at_limit.argmax())
        if at_limit[worst] <= level * (1.0 + _LEVEL_TOLERANCE):
            break
    return limit


def _root(piece: Piece, total: Counts, level: float, right: float) -> float:
    """Return where the tail for one total crosses the level."""
    target = float(ndtri(level))

    def excess(angle: float) -> float:
        tail = float(piece.tail(math.sin(angle) ** 2, total)[0])
        return float(ndtri(min(max(tail, _LEAST_TAIL), _MOST_TAIL))) - target

    low, high = (math.asin(math.sqrt(rate)) for rate in (piece.left, right))
    if excess(high) <= 0.0:  # the end that was above the level, moved by rounding
        return right
    angle = brentq(excess, low, high, xtol=_ANGLE_TOLERANCE, rtol=8.9e-16)
    return math.sin(float(angle)) ** 2
