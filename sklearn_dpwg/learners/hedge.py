"""Exponential weights with full feedback."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.learners.group_player import GroupPlayer


class Hedge(GroupPlayer):
    """Exponential weights with full feedback: every λ_i falls by exp(-η ℓ_i).

    Against group i the regret over T rounds is at most log(1/π_i)/η + η T c²/8 for losses in an
    interval of length c, whatever the losses (Freund and Schapire 1997; Hoeffding's lemma);
    with a uniform prior η = √(8 log p/T)/c makes that least.
    """

    def update(self, losses: ArrayLike) -> None:
        """Take the losses of all groups, of either sign: who raises risks takes minus them."""
        values = np.asarray(losses, dtype=np.float64)
        if values.shape != self.prior.shape:
            raise ValueError(
                f"losses must have one entry a group, {self.n_groups}, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError("losses must be finite, got NaN or infinity.")
        self._log_weights.lower_all(self.rate * values)
