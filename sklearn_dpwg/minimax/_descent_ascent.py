"""Noisy gradient descent–ascent."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.minimax.game import Game, Regulariser


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
