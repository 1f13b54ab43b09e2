"""Exponential weights with full feedback."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.learners.group_player import GroupPlayer


class Hedge(GroupPlayer):
    """Exponential weights with full feedback: every λ_i falls by exp(-η ℓ_i).

    Parameters
    ----------
    prior : array-like of shape (n_groups,)
        Weights before the first round, positive; they are made to add up to 1.
    rate : float
        Step size η, at least 0; with a uniform prior √(8 log p/T)/c makes the bound least.

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

    def update(self, losses: ArrayLike) -> None:
        """Take the losses of all groups.

        Parameters
        ----------
        losses : array-like of shape (n_groups,)
            Losses, public or released, finite and of either sign: a player that is to raise the
            weights of groups with high risk takes minus the risks.

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
