"""Limits on what a record counts for in a step: planned, or by the level of released losses."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule
from sklearn_dpwg.solvers.plan import Plan

# Steps whose released risks tell the level; a level is raised by so many standard deviations of
# its noise.
WINDOW, DEVIATIONS = 10, 2.0

# Losses count at least up to this share of the planned ceiling.
LEAST_CEILING = 1e-3


class Limits(NamedTuple):
    """How much a record may count for in a step.

    Parameters
    ----------
    ceiling : float
        Its loss counts up to this.
    feedback_range : float
        It moves the sum of its group's losses by at most this, rounding included.
    unit : float
        Of gradients: it moves them by at most the plan's diameter times this.
    """

    ceiling: float
    feedback_range: float
    unit: float


def planned_limits(schedule: MGRSchedule, unit: float = 1.0) -> Limits:
    """Return the limits of the plan, for gradients in a unit."""
    return Limits(schedule.ceiling, schedule.feedback_range, unit)


class LossLevel:
    """A ceiling that follows the mean loss, of all records or under the group weights.

    Losses count up to a multiple of what was released of it, and never up to more than planned.

    Parameters
    ----------
    plan : Plan
        Of full passes.
    """

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.schedule, MGRSchedule)
        self.schedule = plan.schedule
        self._shares = np.asarray(plan.problem.group_sizes) / plan.problem.n_records
        self._levels: deque[FloatArray] = deque(maxlen=WINDOW)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""
        shares = np.array([self._shares, group_weights])
        self._levels.append(np.array([shares @ risks, shares**2 @ variances]))

    @property
    def level(self) -> float:
        """What the larger of the two mean losses is at most, but for rare noise."""
        means, variances = np.mean(self._levels, axis=0)
        deviations = np.sqrt(variances / len(self._levels))
        return float((np.maximum(means, 0.0) + DEVIATIONS * deviations).max())

    def limits(self, unit: float) -> Limits:
        """Return the limits of the next step, for gradients in a unit."""
        schedule = self.schedule
        least, most = LEAST_CEILING * schedule.ceiling, schedule.ceiling
        ceiling = float(np.clip(schedule.ceiling_of_level * self.level, least, most))
        # what rounding adds to the range does not shrink with it
        return Limits(ceiling, schedule.feedback_range - (most - ceiling), unit)
