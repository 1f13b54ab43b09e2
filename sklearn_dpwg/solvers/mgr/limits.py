"""Limits on what a record counts for in a step, as planned or as earlier releases ask for."""

from __future__ import annotations

from typing import NamedTuple

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule


class Limits(NamedTuple):
    """How much a record may count for in a step."""

    ceiling: float  # its loss counts up to this
    # it moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    unit: float  # of gradients: it moves them by at most the plan's diameter times this


def planned_limits(schedule: MGRSchedule, unit: float = 1.0) -> Limits:
    """Return the limits of the plan, for gradients in a unit."""
    return Limits(schedule.ceiling, schedule.feedback_range, unit)


class PlannedLimits:
    """Limits of the plan in every step; the base of limits that follow releases."""

    # whether the risks that were pushed last are for the group player
    is_heard = True

    def __init__(self, schedule: MGRSchedule) -> None:
        self.schedule = schedule

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""

    def limits(self, unit: float) -> Limits:
        """Return the limits of the next step, for gradients in a unit."""
        return planned_limits(self.schedule, unit)
