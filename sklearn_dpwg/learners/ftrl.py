"""Follow the regularised leader."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners.learner import Learner, WeightPlayer
from sklearn_dpwg.learners.sum_noise import SumNoise


class FTRL(Learner):
    """Follow the regularised leader: play what was best so far, regularised.

    The weights are the minimiser over the ball of the sum of all losses and γ/2 ‖w - w_1‖²:
    a point that depends on the *sum* of the linear parts alone, so noise on the sums enters once
    and does not accumulate.

    With s_t = γ + curvatures of the rounds up to t, gradients ∇_t of the losses where they were
    played and hints m_t, the regret against u is at most
    γ/2 ‖u - w_1‖² + Σ ‖∇_t - m_t‖²/(2 s_t). Noise N_t on the sum of the first t linear parts
    moves the weights of round t + 1 by at most ‖N_t‖/γ, so without hints it adds at most
    L Σ ‖N_t‖/γ (`docs/theory/online-learners.md`). (McMahan 2017, *A survey of algorithms and
    analysis for adaptive online learning*; Kairouz et al. 2021)
    """

    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        variation = 0.5 * n_steps * gradient_norm**2
        if noise is not None:
            # the last sum is never played
            variation += gradient_norm * float(np.sum(noise.sums[: n_steps - 1]))
        return variation, 0.0

    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer:
        return _Player(start, radius, strength)


class _Player(WeightPlayer):
    def __init__(self, start: FloatArray, radius: float, strength: float) -> None:
        self._radius = radius
        self._squared_radius = radius**2
        # all losses and the regulariser together are ⟨total, w⟩ + strength/2 ‖w‖² and a constant
        self._total = -strength * start
        self._strength = strength

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        total = self._total if hint is None else self._total + hint
        weights: FloatArray = total * (-1.0 / self._strength)
        squared_norm = weights.dot(weights)
        if squared_norm > self._squared_radius:
            weights *= self._radius / math.sqrt(squared_norm)
        return weights

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        if curvature < 0.0:
            raise ValueError(f"curvature must be at least 0, got {curvature!r}.")
        self._total += linear
        if curvature:
            self._strength += curvature
            if center is not None:
                self._total -= curvature * center
