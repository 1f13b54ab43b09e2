"""Limits on what a record counts for in a step: planned, or by the level of released losses."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.centring.problem import largest_clip, least_unit
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule
from sklearn_dpwg.solvers.plan import Plan

# Steps whose released risks tell the level; a level is raised by so many standard deviations of
# its noise, and rounded to quarters of a power of two, as new limits cost a pass.
WINDOW, DEVIATIONS, ROUNDED_TO = 10, 2.0, 0.25

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
    """Limits that follow the mean loss, of all records or under the group weights, as released.

    Losses count up to a multiple of it, and gradients up to a multiple of the residual that would
    have it, times the root mean square of rows. Neither is ever above what was planned, so that a
    record counts for no more than the plan pays for in units of the limits.

    Parameters
    ----------
    plan : Plan
        Of full passes.
    root_mean_square : float or None
        Of centred rows, as released; None where rows are not centred.
    """

    def __init__(self, plan: Plan, root_mean_square: float | None) -> None:
        assert isinstance(plan.schedule, MGRSchedule)
        self.schedule, self.loss = plan.schedule, plan.problem.loss
        self.root_mean_square = root_mean_square
        self._shares = np.asarray(plan.problem.group_sizes) / plan.problem.n_records
        self._levels: deque[FloatArray] = deque(maxlen=WINDOW)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""
        shares = np.array([self._shares, group_weights])
        self._levels.append(np.array([shares @ risks, shares**2 @ variances]))

    @property
    def level(self) -> float:
        """What the larger of the two mean losses is at most, but for rare noise; rounded."""
        means, variances = np.mean(self._levels, axis=0)
        deviations = np.sqrt(variances / len(self._levels))
        found = float((np.maximum(means, 0.0) + DEVIATIONS * deviations).max())
        return float(2.0 ** (ROUNDED_TO * np.rint(np.log2(max(found, 1e-12)) / ROUNDED_TO)))

    def limits(self, unit: float) -> Limits:
        """Return the limits of the next step; `unit` is that of the planned limit on gradients."""
        schedule, level = self.schedule, self.level
        least, most = LEAST_CEILING * schedule.ceiling, schedule.ceiling
        ceiling = float(np.clip(schedule.ceiling_of_level * level, least, most))
        # what rounding adds to the range does not shrink with it
        feedback_range = schedule.feedback_range - (schedule.ceiling - ceiling)
        if self.root_mean_square is not None:
            wanted = schedule.clip_of_level * math.sqrt(2.0 * level) * self.root_mean_square
            least = least_unit(self.loss)
            unit = float(np.clip(wanted / largest_clip(self.loss), least, max(unit, least)))
        return Limits(ceiling, feedback_range, unit)
