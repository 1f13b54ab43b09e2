"""Exponential weights that hear only of the group they drew."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.learners._checks import positive, whole
from sklearn_dpwg.learners.group_player import GroupPlayer


class EXP3(GroupPlayer):
    """Exponential weights with bandit feedback: λ_i falls by exp(-η ℓ/λ_i) for the group drawn.

    Parameters
    ----------
    prior : array-like of shape (n_groups,)
        Weights before the first round, positive; they are made to add up to 1.
    rate : float
        Step size η, at least 0; `planned_rate` has the best one.
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
        self.ceiling = positive(ceiling, "ceiling")

    @staticmethod
    def planned_rate(n_groups: int, n_steps: int, root_mean_square: float) -> float:
        """Return the rate that makes the regret bound least for a uniform prior.

        Parameters
        ----------
        n_groups : int
            Number of groups p.
        n_steps : int
            Rounds T.
        root_mean_square : float
            Bound on the root mean square of a loss; the ceiling always is one.

        Returns
        -------
        float
            √(2 log p/(p T c²)) with that bound as c; 0 for one group.
        """
        n_groups, n_steps = whole(n_groups, "n_groups"), whole(n_steps, "n_steps")
        bound = positive(root_mean_square, "root_mean_square")
        return math.sqrt(2.0 * math.log(n_groups) / (n_groups * n_steps)) / bound

    def regret_bound(self, n_steps: int, root_mean_square: float | None = None) -> np.ndarray:
        """Return the bound on the expected regret against each group.

        Parameters
        ----------
        n_steps : int
            Rounds T.
        root_mean_square : float, optional
            Bound on the root mean square of a loss; the default None is the ceiling.

        Returns
        -------
        ndarray of shape (n_groups,)
            Bounds on the sum over all rounds; infinite at rate 0 with more than one group.
        """
        n_steps = whole(n_steps, "n_steps")
        bound = self.ceiling if root_mean_square is None else root_mean_square
        surprise = -np.log(self.prior)
        with np.errstate(divide="ignore", invalid="ignore"):
            start = np.where(surprise > 0.0, surprise / self.rate, 0.0)
        return start + 0.5 * self.rate * self.n_groups * n_steps * bound**2

    def update(self, group: int, loss: float) -> None:
        """Hear the loss of the group that was drawn.

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
