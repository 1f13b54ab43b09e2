"""A ceiling of losses that follows the level of the released ones."""

from __future__ import annotations

from collections import deque

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.mgr.limits import Limits, PlannedLimits
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule

# Steps whose released risks tell the level; a level is raised by so many standard deviations of
# its noise.
WINDOW, DEVIATIONS = 10, 2.0

# Losses count at least up to this share of the planned ceiling.
LEAST_CEILING = 1e-3


class LossLevel(PlannedLimits):
    """A ceiling that follows the mean loss, of all records or under the group weights.

    Losses count up to a multiple of what was released of it, and never up to more than planned.
    """

    def __init__(self, schedule: MGRSchedule, problem: Problem) -> None:
        super().__init__(schedule)
        self._shares = np.asarray(problem.group_sizes) / sum(problem.group_sizes)
        self._levels: deque[FloatArray] = deque(maxlen=WINDOW)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        shares = np.array([self._shares, group_weights])
        self._levels.append(np.array([shares @ risks, shares**2 @ variances]))

    @property
    def level(self) -> float:
        """What the larger of the two mean losses is at most, but for rare noise."""
        if not self._levels:
            return np.inf
        means, variances = np.mean(self._levels, axis=0)
        deviations = np.sqrt(variances / len(self._levels))
        return float((np.maximum(means, 0.0) + DEVIATIONS * deviations).max())

    def limits(self, unit: float) -> Limits:
        schedule = self.schedule
        least, most = LEAST_CEILING * schedule.ceiling, schedule.ceiling
        ceiling = float(np.clip(schedule.ceiling_of_level * self.level, least, most))
        # what rounding adds to the range does not shrink with it
        return Limits(ceiling, schedule.feedback_range - (most - ceiling), unit)
