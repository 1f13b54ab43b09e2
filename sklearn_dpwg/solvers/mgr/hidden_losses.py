"""A ceiling of losses that is raised once releases show that it hides a group."""

from __future__ import annotations

from collections import deque

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.mgr.limits import Limits, PlannedLimits
from sklearn_dpwg.solvers.mgr.schedule import PROBE_EVERY, MGRSchedule

# The last of the steps that tried the raised ceiling, at least three of them, are compared with the
# last of the others.
FEWEST_PROBES, MOST_PROBES, OTHERS = 3, 15, 40

# A group is hidden where its losses above the ceiling, and its risk, stand out by so many standard
# deviations of their noise.
DEVIATIONS = 3.0


class HiddenLosses(PlannedLimits):
    """A ceiling that stays raised once a group is seen to be worse off than it looked.

    A group is hidden by the ceiling if its losses above it exceed those under the group weights,
    and its risk under the raised ceiling does so too: the first alone may be true of a group that
    is well off. Risks under the raised ceiling are for the group player once it stays raised.
    """

    def __init__(self, schedule: MGRSchedule) -> None:
        super().__init__(schedule)
        self.is_raised, self._n_steps = False, 0
        self._probes: deque[FloatArray] = deque(maxlen=MOST_PROBES)
        self._others: deque[FloatArray] = deque(maxlen=OTHERS)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        is_probe = self._is_probe
        self.is_heard = self.is_raised or not is_probe
        self._n_steps += 1
        if self.is_raised:
            return
        (self._probes if is_probe else self._others).append(np.array([risks, variances]))
        if is_probe and len(self._probes) >= FEWEST_PROBES:
            self.is_raised = self._hides(group_weights)

    def limits(self, unit: float) -> Limits:
        if not (self.is_raised or self._is_probe):
            return super().limits(unit)
        return Limits(self.schedule.raised_ceiling, self.schedule.raised_range, unit)

    @property
    def _is_probe(self) -> bool:
        """Whether the next step tries the raised ceiling."""
        return self._n_steps % PROBE_EVERY == PROBE_EVERY // 2

    def _hides(self, group_weights: FloatArray) -> bool:
        """Return whether released risks show a group that the ceiling hides."""
        raised, of_raised = np.mean(self._probes, axis=0)
        usual, of_usual = np.mean(self._others, axis=0)
        hidden = raised - usual
        variances = of_raised / len(self._probes) + of_usual / len(self._others)
        # of a group's number less their mean under the group weights
        variances = (1.0 - 2.0 * group_weights) * variances + group_weights**2 @ variances
        least = DEVIATIONS * np.sqrt(variances)
        # a wrong size moves a risk by its relative error times how far the centre is, in all steps
        schedule = self.schedule
        shift = schedule.center_of(schedule.raised_ceiling) - schedule.center_of(schedule.ceiling)
        if shift:
            least = least + DEVIATIONS * shift * np.asarray(schedule.ratio_stds)
        is_hidden = hidden - group_weights @ hidden > least
        return bool((is_hidden & (raised - group_weights @ raised > least)).any())
