"""Exponential weights that hear of all groups."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.learners._checks import positive, whole
from sklearn_dpwg.learners.group_player import GroupPlayer


class Hedge(GroupPlayer):
    """Exponential weights with full feedback: every λ_i falls by exp(-η ℓ_i).

    Parameters
    ----------
    prior : array-like of shape (n_groups,)
        Weights before the first round, positive; they are made to add up to 1.
    rate : float
        Step size η, at least 0; `planned_rate` has the best one.

    Notes
    -----
    Against group i the regret over T rounds is at most log(1/π_i)/η + η T c²/8 for losses in an
    interval of length c, whatever the losses (Freund and Schapire 1997; Hoeffding's lemma).

    Examples
    --------
    >>> from sklearn_dpwg.learners import Hedge
    >>> player = Hedge([0.5, 0.5], rate=0.1)
    >>> player.update([1.0, 0.0])
    >>> player.group_weights.round(4)
    array([0.475, 0.525])
    """

    @staticmethod
    def planned_rate(n_groups: int, n_steps: int, loss_range: float) -> float:
        """Return the rate that makes the regret bound least for a uniform prior.

        Parameters
        ----------
        n_groups : int
            Number of groups p.
        n_steps : int
            Rounds T.
        loss_range : float
            Length c of an interval that holds all losses.

        Returns
        -------
        float
            √(8 log p/T)/c; 0 for one group.
        """
        n_groups, n_steps = whole(n_groups, "n_groups"), whole(n_steps, "n_steps")
        return math.sqrt(8.0 * math.log(n_groups) / n_steps) / positive(loss_range, "loss_range")

    def regret_bound(self, n_steps: int, loss_range: float) -> np.ndarray:
        """Return the bound on the regret against each group.

        Parameters
        ----------
        n_steps : int
            Rounds T.
        loss_range : float
            Length c of an interval that holds all losses.

        Returns
        -------
        ndarray of shape (n_groups,)
            Bounds on the sum over all rounds; infinite at rate 0 with more than one group.
        """
        n_steps, loss_range = whole(n_steps, "n_steps"), positive(loss_range, "loss_range")
        surprise = -np.log(self.prior)
        with np.errstate(divide="ignore", invalid="ignore"):
            start = np.where(surprise > 0.0, surprise / self.rate, 0.0)
        return start + self.rate * n_steps * loss_range**2 / 8.0

    def update(self, losses: ArrayLike) -> None:
        """Hear the losses of all groups.

        Parameters
        ----------
        losses : array-like of shape (n_groups,)
            Losses, public or released, finite and of either sign: a player that is to raise the
            weights of groups with high risk hears minus the risks.

        Raises
        ------
        ValueError
            If the losses have another shape, or one is NaN or infinite.
        """
        values = np.asarray(losses, dtype=np.float64)
        if values.shape != self.prior.shape:
            raise ValueError(
                f"losses must have one entry a group, {self.n_groups}, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError("losses must be finite, got NaN or infinity.")
        self._log_weights.lower_all(self.rate * values)
