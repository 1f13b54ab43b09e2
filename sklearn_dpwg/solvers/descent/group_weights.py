"""What a run takes from released risks: group weights, limits of steps, shrinkage."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.solvers.descent.rule import MGRSchedule
from sklearn_dpwg.solvers.steps import GainOfGroups, best_rate, normalised

# The assumed spread of the group risks counts like so many released ones, and the spread that is
# gone by is at least this share of the assumed.
ASSUMED_STEPS, LEAST_SPREAD = 10.0, 1.0 / 30.0

# A group leads another by at most this and log p in its exponent. Without it one that led for half
# of a run leads for the other half too, whatever becomes of the others: .15 on one task.
LARGEST_LEAD = 4.0


class GroupWeights:
    """Hedge on released risks, whose rate and reach follow from them.

    Where the schedule adapts, the rate of a step is the one that would have been planned had the
    spread of the risks been known that was released so far, and what is played is the
    share of these weights that `GainOfGroups` says. Otherwise they are plain Hedge at the planned
    rate.
    """

    def __init__(self, schedule: MGRSchedule, log_weights: FloatArray, gain: GainOfGroups) -> None:
        self.schedule, self._log_weights, self._gain = schedule, log_weights, gain
        self.current = gain.played(normalised(log_weights))
        # squared spreads: how many, and their sum
        self._n_spreads = ASSUMED_STEPS
        self._spread = ASSUMED_STEPS * schedule.assumed_spread**2
        # the prior's: a start may have all weight on one group
        prior = np.asarray(schedule.prior)
        self._entropy = -float(prior @ np.log(prior))

    def push(self, risks: FloatArray, variances: FloatArray) -> None:
        """Take in the released risks of a step, and the variances of their noise and coins."""
        schedule = self.schedule
        if not schedule.adapts:
            correction = np.asarray(schedule.noise_correction)
            self._log_weights = self._log_weights + schedule.group_rate * risks - correction
            self.current = normalised(self._log_weights)
            return
        self._gain.push(risks, variances)
        weights = self.current
        # before the step is known
        rate = self._rate(variances)
        spread = float(weights @ (risks - weights @ risks) ** 2)
        spread -= float((weights * (1.0 - weights)) @ variances)
        self._spread += spread
        self._n_spreads += 1.0
        exponents = self._log_weights + rate * risks
        lead = LARGEST_LEAD + np.log(len(risks))
        self._log_weights = np.maximum(exponents, exponents.max() - lead)
        self.current = self._gain.played(normalised(self._log_weights))

    def _rate(self, variances: FloatArray) -> float:
        """Return θ/T with θ² = H(π) / (q²/T + mean_i v_i/2) for the spread q so far."""
        horizon = self.schedule.n_steps
        least = (LEAST_SPREAD * self.schedule.assumed_spread) ** 2
        spread = max(self._spread / self._n_spreads, least)
        noise = float(variances.mean()) / 2.0
        return best_rate(self._entropy, (spread + noise) / horizon) / horizon


# Limits on what a record counts for in a step, as planned or as earlier releases ask for.


class Limits(NamedTuple):
    """How much a record may count for in a step."""

    ceiling: float  # its loss counts up to this
    # it moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    center: float  # losses are taken relative to this: 0 where groups are public


class PlannedLimits:
    """Limits of the plan in every step; the base of limits that follow releases."""

    def __init__(self, schedule: MGRSchedule) -> None:
        self.schedule, ceiling = schedule, schedule.ceiling
        self.planned = Limits(ceiling, schedule.feedback_range, schedule.center_of(ceiling))

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""

    def limits(self) -> Limits:
        """Return the limits of the next step."""
        return self.planned


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

    def limits(self) -> Limits:
        schedule = self.schedule
        least, most = LEAST_CEILING * schedule.ceiling, schedule.ceiling
        ceiling = float(np.clip(schedule.ceiling_of_level * self.level, least, most))
        # what rounding adds to the range does not shrink with it
        feedback_range = schedule.feedback_range - (most - ceiling)
        return Limits(ceiling, feedback_range, schedule.center_of(ceiling))


# A group's mean risk is believed to be lower than released by so many deviations of its noise.
SHRINK_DEVIATIONS = 0.5


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
        drops = self._risk_of_nothing - self._risks / self._n_steps + SHRINK_DEVIATIONS * stds
        return 0.5 * (1.0 + min(max(0.0, float(drops.min())) / drop, 1.0))
