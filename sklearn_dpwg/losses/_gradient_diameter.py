"""Certified diameter of the set of gradients of a linear model's loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sklearn_dpwg._typing import FloatArray

# Keeps the search below a second and some hundred MiB.
_MOST_CELLS = 2**20


@lru_cache(maxsize=256)
def gradient_diameter(
    derivative: Callable[[FloatArray], FloatArray],
    score_bound: float,
    *,
    derivative_slope: float,
    tolerance: float = 2e-3,
) -> float:
    """Return a certified upper bound on the distance of two records' gradients.

    Covers every loss whose gradient is ``u f(<w, u>)`` for a vector u in the unit ball that
    stands for the row and, by symmetry, the target.

    Parameters
    ----------
    derivative : callable
        The function f of the score, vectorised and hashable.
    score_bound : float
        Bound r on the norm of the weights w.
    derivative_slope : float
        Lipschitz constant of f on [-r, r].
    tolerance : float, default=2e-3
        Relative slack of the bound; larger for derivatives so steep (log loss beyond r = 200)
        that the search would need more than a million cells.

    Returns
    -------
    float
        Upper bound on ``‖u f(<w, u>) - v f(<w, v>)‖`` over ``‖w‖ <= r`` and u, v in the unit
        ball.

    Notes
    -----
    It is enough to bound the distance for ``‖w‖ = r``, in every dimension: with one more
    coordinate, 0 in u and v and ``√(r² - ‖w‖²)`` in w, a shorter w has norm r and every gradient
    is the same.

    Write ``u = sin(s) w/‖w‖ + o`` with o orthogonal to w. For given s and t the distance is
    largest when the two orthogonal parts are opposite and as long as they can be, cos(s) and
    cos(t). With ``F = f(r sin s)`` and ``G = f(r sin t)`` the squared distance is then
    ``(F sin s - G sin t)² + (|F| cos s + |G| cos t)²``, a function of two angles. The curve
    ``s -> (F sin s, |F| cos s)`` has speed at most ``sup |f| + r * derivative_slope``, so the
    distance anywhere in a square cell exceeds that at its centre by at most speed times width.
    Branch and bound drops the cells that cannot hold the maximum and halves the others; the
    largest distance at a centre plus the slack is a bound at every level.
    """

    def curve(angle: FloatArray) -> tuple[FloatArray, FloatArray]:
        value = derivative(score_bound * np.sin(angle))
        return value * np.sin(angle), np.abs(value) * np.cos(angle)

    n_cells = 32
    width = np.pi / n_cells
    centres = -np.pi / 2 + width * (np.arange(n_cells) + 0.5)
    # |f| can exceed its value at a centre by at most slope times half a cell of scores
    largest = np.abs(derivative(score_bound * np.sin(centres))).max()
    speed = largest + score_bound * derivative_slope * (1.0 + width / 2)

    first, second = (cells.ravel() for cells in np.meshgrid(centres, centres))
    upper_triangle = first <= second  # the distance is symmetric in the two records
    first, second = first[upper_triangle], second[upper_triangle]
    while True:
        first_along, first_across = curve(first)
        second_along, second_across = curve(second)
        distance = np.hypot(first_along - second_along, first_across + second_across)
        best = float(distance.max())
        slack = float(speed * width)
        if slack <= tolerance * best or len(first) > _MOST_CELLS:
            return best + slack
        alive = distance + slack >= best
        width /= 2
        step = width / 2
        first = (first[alive, None] + [-step, -step, step, step]).ravel()
        second = (second[alive, None] + [-step, step, -step, step]).ravel()
