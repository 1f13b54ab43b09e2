"""How much of the averaged weights to keep, by what released risks say of the worst-off group."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray

# A group's mean risk is believed to be lower than released by so many deviations of its noise.
DEVIATIONS = 0.5


class Shrinkage:
    """The drops of the risks from those of weights of 0, over the steps that are averaged.

    A group that has dropped by d_i, where that under the group weights has dropped by D, has its
    least risk at the share ``(1 + d_i/D)/2`` of the weights (docs/theory/mgr.md, section 4b). The
    worst-off group decides, and at least half is kept.
    """

    def __init__(self, risk_of_nothing: float, n_groups: int) -> None:
        self._risk_of_nothing, self._n_steps = risk_of_nothing, 0
        self._risks, self._variances = np.zeros(n_groups), np.zeros(n_groups)
        self._weighted_risk = 0.0

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""
        self._n_steps += 1
        self._risks += risks
        self._variances += variances
        self._weighted_risk += float(group_weights @ risks)

    @property
    def kept(self) -> float:
        """Share of the weights to keep, between a half and 1."""
        if self._n_steps == 0:
            return 1.0
        drop = self._risk_of_nothing - self._weighted_risk / self._n_steps
        if drop <= 0.0:
            return 0.5
        stds = np.sqrt(self._variances) / self._n_steps
        drops = self._risk_of_nothing - self._risks / self._n_steps + DEVIATIONS * stds
        return 0.5 * (1.0 + min(max(0.0, float(drops.min())) / drop, 1.0))
