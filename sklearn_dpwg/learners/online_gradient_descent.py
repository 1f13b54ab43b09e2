"""Online projected (sub)gradient descent."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners.learner import Learner, WeightPlayer
from sklearn_dpwg.learners.sum_noise import SumNoise


class OnlineGradientDescent(Learner):
    """Online projected (sub)gradient descent, optimistic if it gets hints.

    A step of length 1/s_t against the gradient, where s_t is the strength and all curvatures so
    far, then back into the ball. Inside the ball and without curvature it plays what `FTRL` plays.

    With gradients ∇_t of the losses where they were played and hints m_t, the regret against u is
    at most γ/2 ‖u - w_1‖² + Σ ‖∇_t - m_t‖²/(2 s_t); for curved losses that holds without
    hints (Zinkevich 2003; Bartlett, Hazan and Rakhlin 2007; Rakhlin and Sridharan 2013). Noise n_t
    on the linear parts with sums N_t adds ‖n_t‖² to ‖∇_t‖² if the n_t are independent, and
    otherwise, by summation by parts, at most 2R‖N_T‖ + Σ ‖N_t‖ ‖∇_t + n_t‖/γ.
    """

    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        if noise is None:
            return 0.5 * n_steps * gradient_norm**2, 0.0
        increments, sums = noise.increments[:n_steps], noise.sums[:n_steps]
        if noise.is_independent:
            return 0.5 * float(np.sum(gradient_norm**2 + increments**2)), 0.0
        noisy_norms = gradient_norm + increments
        variation = float(np.sum(0.5 * noisy_norms**2 + sums * noisy_norms))
        return variation, 2.0 * radius * float(sums[-1])

    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer:
        return _Player(start, radius, strength)


class _Player(WeightPlayer):
    def __init__(self, start: FloatArray, radius: float, strength: float) -> None:
        self._radius = radius
        self._squared_radius = radius**2
        self._weights = start.copy()
        self._played = self._weights
        self._strength = strength

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        if hint is None:
            self._played = self._weights
            return self._weights.copy()
        self._played = self._step(hint)
        return self._played.copy()

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        if curvature < 0.0:
            raise ValueError(f"curvature must be at least 0, got {curvature!r}.")
        if curvature:
            away = self._played if center is None else self._played - center
            linear = linear + curvature * away
            self._strength += curvature
        self._weights = self._played = self._step(linear)

    def _step(self, gradient: FloatArray) -> FloatArray:
        weights: FloatArray = gradient * (-1.0 / self._strength)
        weights += self._weights
        squared_norm = weights.dot(weights)
        if squared_norm > self._squared_radius:
            weights *= self._radius / math.sqrt(squared_norm)
        return weights
