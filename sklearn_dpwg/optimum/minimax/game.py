"""Convex-concave games as descent–ascent sees them: releases and projections, never records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from sklearn_dpwg._checks import FloatArray


class Released(NamedTuple):
    """Noisy gradients of a game at one point, which are all that a step learns of the records."""

    weights: FloatArray  # gradient in the weights, which descend; (n_weights,)
    dual: FloatArray  # gradient in the dual variables, which ascend; (n_dual,)
    noise_std: float  # standard deviation of the noise on a coordinate of the first


class Game(Protocol):
    """A convex-concave game of records, in which every look at them is paid for."""

    def release(self, weights: FloatArray, dual: FloatArray) -> Released:
        """Release both gradients at one point.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Point of the descending player.
        dual : ndarray of shape (n_dual,)
            Point of the ascending player.

        Returns
        -------
        Released
            With noise; without regularisers, which are public.
        """

    def project_weights(self, weights: FloatArray) -> FloatArray:
        """Return the nearest allowed weights.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Any.

        Returns
        -------
        ndarray of shape (n_weights,)
            Allowed ones.
        """

    def project_dual(self, dual: FloatArray) -> FloatArray:
        """Return the nearest allowed dual variables.

        Parameters
        ----------
        dual : ndarray of shape (n_dual,)
            Any.

        Returns
        -------
        ndarray of shape (n_dual,)
            Allowed ones.
        """


@dataclass(frozen=True, eq=False)
class Regulariser:
    """The public part ``ρ_w/2 ‖w - w₁‖² - ρ_λ/2 ‖λ - π‖²`` of a game."""

    of_weights: float  # strengths ρ_w and ρ_λ, at least 0
    of_dual: float
    center: FloatArray  # weights w₁ that cost nothing; (n_weights,)
    prior: FloatArray  # dual variables π that cost nothing; (n_dual,)

    def slope(self, weights: FloatArray) -> FloatArray:
        """Return the gradient in the weights, which needs no noise, as it knows no record."""
        return self.of_weights * (weights - self.center)

    def rise(self, dual: FloatArray) -> FloatArray:
        """Return the gradient in the dual variables, which needs no noise either."""
        return self.of_dual * (self.prior - dual)


def project_to_simplex(point: FloatArray) -> FloatArray:
    """Return the nearest distribution in Euclidean distance.

    Parameters
    ----------
    point : ndarray of shape (n_dual,)
        Any finite numbers.

    Returns
    -------
    ndarray of shape (n_dual,)
        At least 0, with sum 1: ``max(x - θ, 0)`` for the one θ that makes it so.
    """
    # a constant changes nothing, and digits next to the largest matter
    shifted = point - point.max()
    falling = -np.sort(-shifted)
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(falling > levels)[-1])
    found = np.maximum(shifted - levels[last], 0.0)
    return np.asarray(found / found.sum())


# Noisy gradient descent–ascent.


class Steps(Protocol):
    """What turns released gradients into moves."""

    def push(
        self, step: int, slope: FloatArray, rise: FloatArray, noise_std: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the moves of both players in a step, counted from 1, before projection."""


class StronglyConvexSteps:
    """Steps of length ``1/(ρ t)``, those of strongly convex-concave games."""

    def __init__(self, of_weights: float, of_dual: float) -> None:
        self.of_weights, self.of_dual = of_weights, of_dual

    def push(
        self, step: int, slope: FloatArray, rise: FloatArray, noise_std: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the moves of both players, before projection."""
        return -slope / (self.of_weights * step), rise / (self.of_dual * step)


def descent_ascent(
    game: Game,
    steps: Steps,
    weights: FloatArray,
    dual: FloatArray,
    *,
    regulariser: Regulariser,
    n_steps: int,
    averaged: range,
) -> tuple[FloatArray, FloatArray]:
    """Descend in the weights and ascend in the dual variables, both at once, by noisy gradients.

    Parameters
    ----------
    game : Game
        What releases gradients and projects.
    steps : Steps
        What turns gradients into moves, by released numbers and public facts alone.
    weights : ndarray of shape (n_weights,)
        First point w₁, allowed.
    dual : ndarray of shape (n_dual,)
        First dual variables λ₁, allowed.
    regulariser : Regulariser
        Added to the released gradients.
    n_steps : int
        Number of steps T, one release of both gradients each.
    averaged : range
        Which of the points 1, ..., T + 1 are averaged; not empty.

    Returns
    -------
    weights : ndarray of shape (n_weights,)
        Average of the weights.
    dual : ndarray of shape (n_dual,)
        Average of the dual variables.

    Notes
    -----
    Both gradients are those of one point (w_t, λ_t): neither player sees the other's move first.

    References
    ----------
    Kang, Liu, Li and Wang (2022), Stability and Generalization of Differentially Private Minimax
    Problems, Algorithm 1.
    """
    weights_sum, dual_sum = np.zeros_like(weights), np.zeros_like(dual)
    for step in range(1, n_steps + 2):
        if step in averaged:
            weights_sum += weights
            dual_sum += dual
        if step > n_steps:
            break
        released = game.release(weights, dual)
        move, dual_move = steps.push(
            step,
            released.weights + regulariser.slope(weights),
            released.dual + regulariser.rise(dual),
            released.noise_std,
        )
        weights = game.project_weights(weights + move)
        dual = game.project_dual(dual + dual_move)
    return weights_sum / len(averaged), dual_sum / len(averaged)
