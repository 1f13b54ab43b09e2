"""Exponential weights with bandit feedback."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from sklearn_dpwg._checks import positive_finite
from sklearn_dpwg.learners.group_player import GroupPlayer


class EXP3(GroupPlayer):
    """Exponential weights with bandit feedback: λ_i falls by exp(-η ℓ/λ_i) for the group drawn.

    Parameters
    ----------
    prior : array-like of shape (n_groups,)
        Weights before the first round, positive; they are made to add up to 1.
    rate : float
        Step size η, at least 0; with a uniform prior √(2 log p/(p T c²)) makes the bound least.
    ceiling : float
        Feedback is clipped to [0, ceiling].

    Notes
    -----
    ℓ/λ_i for the group drawn and 0 elsewhere is an unbiased estimate of all losses. Against group
    i, the expected regret over T rounds is at most log(1/π_i)/η + (η/2) Σ_t Σ_j ℓ_{t,j}², so at
    most log(1/π_i)/η + η p T c²/2 for losses in [0, c] (Auer et al. 2002). Zhou and Bassily's
    Algorithm 2 has the ceiling 2U.

    Examples
    --------
    >>> from sklearn_dpwg.learners import EXP3
    >>> player = EXP3([0.5, 0.5], rate=0.1, ceiling=2.0)
    >>> player.update(0, 1.0)
    >>> player.group_weights.round(4)
    array([0.4502, 0.5498])
    """

    def __init__(self, prior: ArrayLike, rate: float, ceiling: float) -> None:
        super().__init__(prior, rate)
        self.ceiling = positive_finite(ceiling, "ceiling")

    def update(self, group: int, loss: float) -> None:
        """Take the loss of the group that was drawn.

        Parameters
        ----------
        group : int
            The group.
        loss : float
            Its loss, public or released; clipped to [0, ceiling].

        Raises
        ------
        ValueError
            If the loss is NaN.
        """
        if loss != loss:
            raise ValueError("loss must be a number, got NaN.")
        if loss <= 0.0:
            return
        weight = self._log_weights.weight(group)
        amount = self.rate * min(loss, self.ceiling)
        self._log_weights.lower(group, amount / weight if weight else math.inf)
