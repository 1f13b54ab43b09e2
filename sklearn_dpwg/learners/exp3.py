"""Exponential weights with bandit feedback."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from sklearn_dpwg._checks import positive_finite
from sklearn_dpwg.learners.group_player import GroupPlayer


class EXP3(GroupPlayer):
    """Exponential weights with bandit feedback: λ_i falls by exp(-η ℓ/λ_i) for the group drawn.

    ℓ/λ_i for the group drawn and 0 elsewhere is an unbiased estimate of all losses. Against group
    i, the expected regret over T rounds is at most log(1/π_i)/η + (η/2) Σ_t Σ_j ℓ_{t,j}², so at
    most log(1/π_i)/η + η p T c²/2 for losses in [0, c] (Auer et al. 2002). Zhou and Bassily's
    Algorithm 2 has the ceiling 2U. With a uniform prior η = √(2 log p/(p T c²)) makes that least.
    """

    def __init__(self, prior: ArrayLike, rate: float, ceiling: float) -> None:
        super().__init__(prior, rate)
        self.ceiling = positive_finite(ceiling, "ceiling")

    def update(self, group: int, loss: float) -> None:
        """Take the loss of the group that was drawn, clipped to [0, ceiling]."""
        if loss != loss:
            raise ValueError("loss must be a number, got NaN.")
        if loss <= 0.0:
            return
        weight = self._log_weights.weight(group)
        amount = self.rate * min(loss, self.ceiling)
        self._log_weights.lower(group, amount / weight if weight else math.inf)
