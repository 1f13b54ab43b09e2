"""Follow the regularised leader, with the last loss as the guess of the next."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners.ftrl import FTRL
from sklearn_dpwg.learners.learner import WeightPlayer
from sklearn_dpwg.learners.sum_noise import SumNoise


class OptimisticFTRL(FTRL):
    """Follow the regularised leader, as if the next loss had the last one's linear part.

    `FTRL` with a hint of its own: where none is given, it is the linear part that came last. So
    only what changes between rounds counts in the regret.

    The bound of `FTRL` with the hints m_t = ℓ_{t-1}: the regret against u is at most
    γ/2 ‖u - w_1‖² + Σ ‖∇_t - ℓ_{t-1}‖²/(2 s_t). For losses of which nothing is known but their
    norm L that is four times the variation of `FTRL`. (Chiang et al. 2012; Rakhlin and Sridharan
    2013)
    """

    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        # the first round has no hint, later ones one that may be its opposite
        variation = (0.5 + 2.0 * (n_steps - 1)) * gradient_norm**2
        if noise is not None:
            moved = noise.sums[: n_steps - 1] + noise.increments[: n_steps - 1]
            variation += gradient_norm * float(np.sum(moved))
        return variation, 0.0

    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer:
        return _Player(super()._make_player(start, radius, strength))


class _Player(WeightPlayer):
    def __init__(self, player: WeightPlayer) -> None:
        self._player = player
        self._last: FloatArray | None = None

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        return self._player.predict(self._last if hint is None else hint)

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        self._player.update(linear, curvature, center)
        self._last = linear.copy()
