"""What a run takes from released risks: group weights, limits of steps, shrinkage, averages."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.optimum.objective import log_sum_exp
from sklearn_dpwg.solvers.descent.rule import PROBE_EVERY, USUAL_STEPS, MGRSchedule
from sklearn_dpwg.solvers.steps import (
    CLEAR_DEVIATIONS,
    CORRECTION,
    best_rate,
    least_worst_shares,
    normalised,
)

# The assumed spread of the group risks counts like so many released ones; a step later each counts
# for this share of what it did; and the spread that is gone by is at least this share of the
# assumed.
ASSUMED_STEPS, REMEMBERED, LEAST_SPREAD = 10.0, 0.9, 1.0 / 30.0

# Momentum lasts longer in longer runs, in which a fast player of the groups would circle.
LARGEST_SPREAD = 0.1


def least_spread(n_steps: int) -> float:
    """Return the least spread that is gone by, over the assumed, in a run of so many steps."""
    return min(LEAST_SPREAD * max(1.0, n_steps / USUAL_STEPS) ** 2, LARGEST_SPREAD)


# What group weights can gain is seen along one ray, that from the weights of all to 0; all directions
# together have so many times as much.
DIRECTIONS = 3.0

# Steps that the mean of released risks runs over, and steps after which its gain counts.
RUNNING_STEPS, FIRST_STEPS = 80, 40

# Variance of a loss from record to record, as a share of the square of what predicting nothing
# costs; how many times that of the noise counts; and the least drop of the mean risk, as a share.
LOSS_VARIANCE, NOISE_COUNTS, LEAST_DROP = 0.2, 3.0, 0.04


def variance_between(means: FloatArray, variances: FloatArray) -> float:
    """Return the variance τ² of what groups' true numbers are drawn with, by Paule and Mandel.

    It is that for which ``Σ (x_i - m)²/(τ² + v_i)``, m the mean by these weights, is the number of
    groups less 1; 0 where noise explains all of it.
    """
    between = 0.0
    for _ in range(100):
        precisions = 1.0 / (between + variances)
        squares = (means - precisions @ means / precisions.sum()) ** 2
        excess = float(precisions @ squares) - (len(means) - 1)
        step = excess / float(precisions**2 @ squares) if excess else 0.0
        if between + step <= 0.0:
            return 0.0
        between += step
        if abs(step) < 1e-9 * between:
            break
    return between


class GainOfGroups:
    """How much weights on groups can gain, by released risks, and which share of the game it pays.

    A group whose risk is above that of all by a gap g, where learning has lowered the risk of all
    by D, can gain about ``E = g²/(4D)``: along the weights of all that is exact for quadratic
    risks. To learn d weights from its own n records costs it ``d/(2n)``. So the game has the share
    ``1/(1 + d/(2 n DIRECTIONS E))`` in the weights that are played, and the groups' shares of the
    records have the rest. Risks are means of late steps, drawn together as far as noise and
    sampling explain what they differ by; the largest gain that was seen counts, as playing makes
    risks alike. (docs/theory/people.md)
    """

    def __init__(self, problem: Problem, schedule: MGRSchedule) -> None:
        self._sizes = np.asarray(problem.group_sizes, dtype=float)
        self._prior, self._nothing = np.asarray(schedule.prior), problem.constants.zero_score
        self._costs = problem.n_weights / (2.0 * self._sizes)
        self._total, self._variances = np.zeros((2, len(self._sizes)))
        self._count, self._n_steps = 0.0, 0
        self.gain, self.error, self.share = 0.0, 0.0, 0.5

    def push(self, risks: FloatArray, variances: FloatArray) -> None:
        """Take in the released risks of a step, and the variances of their noise."""
        kept = 1.0 - 1.0 / RUNNING_STEPS
        self._n_steps += 1
        self._total = kept * self._total + risks
        self._variances = kept**2 * self._variances + variances
        self._count = kept * self._count + 1.0
        noise = NOISE_COUNTS * self._variances / self._count**2
        noise = noise + LOSS_VARIANCE * self._nothing**2 / self._sizes
        means = self._total / self._count
        of_all = float(self._prior @ means)
        between = variance_between(means, noise)
        gaps = between / (between + noise) * (means - of_all)
        gaps -= self._prior @ gaps
        drop = 4.0 * max(self._nothing - of_all, LEAST_DROP * self._nothing) / DIRECTIONS
        worst = int(gaps.argmax())
        gain = float(gaps[worst] ** 2 / drop)
        if self._n_steps <= FIRST_STEPS or gain > self.gain:
            self.gain, self.error = gain, float(2.0 * gaps[worst] * np.sqrt(noise[worst]) / drop)
            self.share = gain / (gain + self._costs[worst]) if gain else 0.0


class GroupWeights:
    """Hedge on released risks, whose rate and reach follow from them.

    Where the schedule adapts, weights after t steps are those of follow the regularised leader,

        argmax_λ  Σ_s η_s (r_s · λ - max_i λ_i u_i) - Σ_s c_s · λ - KL(λ ‖ π),

    where η_t is the rate that would have been planned had the spread of the risks been known that
    was released shortly before, c_t is the noise correction, and u_i is what the uncertainty of
    group i costs if all weight is on it: of its gradient by noise, and of its risk by sampling
    (`MGRSchedule.uncertainty`).
    Where it forgets, each sum, and the log of π, is less by 1/T of itself a step (by 1/150 in
    shorter runs): what is long gone by holds no weight on a group for good. That and the correction
    keep risks apart that should be equal, so both are less where there is little noise
    (`MGRSchedule.quiet`). Otherwise they are plain Hedge at the planned rate.
    """

    def __init__(
        self,
        schedule: MGRSchedule,
        log_weights: FloatArray,
        uncertainty: FloatArray,
        gain: GainOfGroups | None = None,
    ) -> None:
        self.schedule, self._log_weights, self._uncertainty = schedule, log_weights, uncertainty
        self._gain = gain
        self.current = self._weights(0.0)
        self._total_rate = 0.0
        # of squared spreads that are remembered: how many, and their sum
        self._remembered = ASSUMED_STEPS
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
            self.current = self._weights(0.0)
            return
        if self._gain is not None:
            self._gain.push(risks, variances)
        weights = self.current
        # before the step is known, as its noise correction asks for
        rate = self._rate(variances)
        spread = float(weights @ (risks - weights @ risks) ** 2)
        spread -= float((weights * (1.0 - weights)) @ variances)
        self._spread = REMEMBERED * self._spread + spread
        self._remembered = REMEMBERED * self._remembered + 1.0
        self._total_rate = schedule.kept * self._total_rate + rate
        self._log_weights = schedule.kept * self._log_weights + rate * risks
        for_noise = CORRECTION / schedule.quiet * self._log_mean_exp(rate, variances)
        self._log_weights = self._log_weights - for_noise
        self.current = self._weights(self._total_rate)

    def _weights(self, price: float) -> FloatArray:
        """Return the weights of the exponents, which pay so many times the uncertainty."""
        if price == 0.0:
            found = normalised(self._log_weights)
        else:
            found = priced_weights(self._log_weights, self._uncertainty, price=price)
        if self._gain is None:
            return found
        share = self._gain.share
        return share * found + (1.0 - share) * np.asarray(self.schedule.prior)

    def _rate(self, variances: FloatArray) -> float:
        """Return θ/T with θ² = H(π) / (q²/T + mean_i v_i/2) for the spread q of late."""
        horizon = self.schedule.n_steps
        least = (least_spread(horizon) * self.schedule.assumed_spread) ** 2
        spread = max(self._spread / self._remembered, least)
        noise = float(variances.mean()) / 2.0
        return best_rate(self._entropy, (spread + noise) / horizon) / horizon

    def _log_mean_exp(self, rate: float, variances: FloatArray) -> FloatArray:
        """Return log E exp of what noise and coins add to the exponents at a rate."""
        batches = self.schedule.batches
        if batches is None:
            return rate**2 * variances / 2.0
        found = batches.log_mean_exp_of_coins(rate) + (rate * batches.risk_stds) ** 2 / 2.0
        if self.schedule.heard:  # groups that are not have the variances of the mean
            found = np.where(self.schedule.heard, found, rate**2 * variances / 2.0)
        return found


def priced_weights(log_weights: FloatArray, noise: FloatArray, *, price: float) -> FloatArray:
    """Return the maximiser over the simplex of ``λ·l + entropy(λ) - price max_i λ_i s_i``, s > 0.

    With m the maximum, ``λ_i ≤ m n_i`` for ``n_i = 1/s_i``. In falling order of
    ``a_i = l_i + log s_i`` the first k are at that bound, with k the least for which
    ``Σ_{i≤k} n_i (a_i - a_{k+1}) ≥ price`` (all of them, and λ proportional to n, where there is
    none); the others are proportional to exp(l). With N_k the sum of n_i over the first k, the
    derivative in m is 0 where
    ``log((1 - m N_k)/m) = (price - Σ_{i≤k} n_i a_i)/N_k + log Σ_{i>k} exp(l_i)``.
    """
    room, advantage = 1.0 / noise, log_weights + np.log(noise)
    order = np.argsort(-advantage, kind="stable")
    room, advantage = room[order], advantage[order]
    total, gained = np.cumsum(room), np.cumsum(room * advantage)
    is_enough = gained[:-1] - total[:-1] * advantage[1:] >= price
    found = np.empty(len(order))
    if not is_enough.any():
        found[order] = room / total[-1]
        return found
    last = int(np.argmax(is_enough))
    rest = log_weights[order][last + 1 :]
    of_rest = log_sum_exp(rest)
    odds = (price - gained[last]) / total[last] + of_rest - np.log(total[last])
    found[order[: last + 1]] = expit(-odds) * room[: last + 1] / total[last]
    found[order[last + 1 :]] = expit(odds) * np.exp(rest - of_rest)
    return found


# Limits on what a record counts for in a step, as planned or as earlier releases ask for.


class Limits(NamedTuple):
    """How much a record may count for in a step."""

    ceiling: float  # its loss counts up to this
    # it moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    unit: float  # of gradients: it moves them by at most the plan's diameter times this
    center: float  # losses are taken relative to this: 0 where groups are public


class PlannedLimits:
    """Limits of the plan in every step; the base of limits that follow releases."""

    # whether the risks that were pushed last are for the group player
    counts_for_players = True

    def __init__(self, schedule: MGRSchedule, unit: float = 1.0) -> None:
        self.schedule, ceiling = schedule, schedule.ceiling
        center = schedule.center_of(ceiling)
        self.planned = Limits(ceiling, schedule.feedback_range, unit, center)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""

    def limits(self) -> Limits:
        """Return the limits of the next step."""
        return self.planned


# The last of the steps that tried the raised ceiling, at least three of them, are compared with the
# last of the others.
FEWEST_PROBES, MOST_PROBES, OTHERS = 3, 15, 40

# A group is hidden where its losses above the ceiling stand out by so many standard deviations of
# their noise, and its risk by so many: the ceiling is what keeps such a risk from growing further.
RAISE_DEVIATIONS, WORSE_DEVIATIONS = 3.0, 1.0


class RaisedCeiling(PlannedLimits):
    """A ceiling that stays raised once a group is seen to be worse off than it looked.

    A group is hidden by the ceiling if its losses above it exceed those under the group weights,
    and its risk under the raised ceiling does so too: the first alone may be true of a group that
    is well off. Risks under the raised ceiling are for the group player once it stays raised.
    """

    def __init__(self, schedule: MGRSchedule, unit: float = 1.0) -> None:
        super().__init__(schedule, unit)
        ceiling = schedule.raised_ceiling
        self.raised = Limits(ceiling, schedule.raised_range, unit, schedule.center_of(ceiling))
        self.is_raised, self._n_steps = False, 0
        self._probes: deque[FloatArray] = deque(maxlen=MOST_PROBES)
        self._others: deque[FloatArray] = deque(maxlen=OTHERS)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        is_probe = self._is_probe
        self.counts_for_players = self.is_raised or not is_probe
        self._n_steps += 1
        if self.is_raised:
            return
        (self._probes if is_probe else self._others).append(np.array([risks, variances]))
        if is_probe and len(self._probes) >= FEWEST_PROBES:
            self.is_raised = self._hides(group_weights)

    def limits(self) -> Limits:
        return self.raised if self.is_raised or self._is_probe else self.planned

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
        stds = np.sqrt(variances)
        # a wrong size moves a risk by its relative error times how far the centre is, in all steps
        shift = self.raised.center - self.planned.center
        if shift:
            stds = stds + shift * np.asarray(self.schedule.ratio_stds)
        is_hidden = hidden - group_weights @ hidden > RAISE_DEVIATIONS * stds
        is_worse = raised - group_weights @ raised > WORSE_DEVIATIONS * stds
        return bool((is_hidden & is_worse).any())


# Steps whose released risks tell the level; a level is raised by so many standard deviations of
# its noise.
WINDOW, DEVIATIONS = 10, 2.0

# Losses count at least up to this share of the planned ceiling.
LEAST_CEILING = 1e-3


class LossLevel(PlannedLimits):
    """A ceiling that follows the mean loss, of all records or under the group weights.

    Losses count up to a multiple of what was released of it, and never up to more than planned.
    """

    def __init__(self, schedule: MGRSchedule, problem: Problem, unit: float = 1.0) -> None:
        super().__init__(schedule, unit)
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
        return Limits(ceiling, feedback_range, self.planned.unit, schedule.center_of(ceiling))


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

    def instead(self, risks: FloatArray, variances: FloatArray, weighted_risk: float) -> None:
        """Take these means in place of all that was pushed."""
        self._n_steps, self._weighted_risk = 1, weighted_risk
        self._risks, self._variances = risks, variances

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


# Which iterates are averaged: all alike, or those whose released risks are least together.

# Parts of a run that are averaged by themselves, and the fewest iterates of one.
N_BLOCKS, FEWEST = 24, 4


class BestAverage:
    """The mean of the last iterates, with shares of blocks of them that released risks decide.

    Losses are convex, so a group's risk at a mean of iterates is at most the mean of its risks
    there, whatever their shares: the shares that make the largest of these least serve the worst
    group. While players circle, or arrive late, that is far less than for equal shares. Moving a
    share away from its equal part has to gain `CLEAR_DEVIATIONS` of the noise in a block's risks,
    so where noise is loud shares are equal. All of it reads released numbers. (docs/theory/mgr.md,
    section 4c)
    """

    def __init__(self, n_iterates: int, n_weights: int, uncertainty: FloatArray) -> None:
        n_groups = len(uncertainty)
        # what a group player pays for weight on each group, as `GroupWeights` knows it
        self._n_iterates, self._uncertainty = n_iterates, uncertainty
        self.total, self.mixture_total = np.zeros(n_weights), np.zeros(n_groups)
        self._n_pushed = 0
        # of each block: how many points were heard, their sum, and that of their mixtures, risks
        # and variances
        n_blocks = N_BLOCKS if n_groups > 1 and n_iterates >= FEWEST * N_BLOCKS else 0
        self._counts = np.zeros(n_blocks)
        self._points = np.zeros((n_blocks, n_weights))
        self._mixtures, self._risks, self._variances = np.zeros((3, n_blocks, n_groups))
        self._weighted_risks = np.zeros(n_blocks)
        self._ceilings: set[float] = set()

    def push(self, weights: FloatArray, mixture: FloatArray) -> None:
        """Take in what equal shares average: weights and group weights after a step."""
        self.total += weights
        self.mixture_total += mixture
        self._n_pushed += 1

    def hear(
        self,
        point: FloatArray,
        mixture: FloatArray,
        risks: FloatArray,
        variances: FloatArray,
        ceiling: float,
    ) -> None:
        """Take in the risks that the last step released at a point, under its group weights."""
        if not len(self._counts):
            return
        block = (self._n_pushed - 1) * len(self._counts) // self._n_iterates
        self._counts[block] += 1
        self._points[block] += point
        self._mixtures[block] += mixture
        self._risks[block] += risks
        self._variances[block] += variances
        self._weighted_risks[block] += float(mixture @ risks)
        self._ceilings.add(ceiling)

    def shares(self) -> FloatArray | None:
        """Return the shares of the blocks, or None where they are equal.

        They are where not all risks were counted up to one ceiling, as they cannot be compared.
        """
        counts = self._counts
        if len(counts) < 2 or not counts.all() or len(self._ceilings) != 1:
            return None
        risks = self._risks / counts[:, None]
        variances = self._variances / counts[:, None] ** 2
        played = self._mixtures / counts[:, None]
        noise = float(np.sqrt((played * variances).sum(axis=1).mean()))
        # each group alone, and the mixtures that were played: what they pay is less
        mixtures = np.concatenate([np.eye(len(self._uncertainty)), played])
        costs = (mixtures * self._uncertainty).max(axis=1)
        return least_worst_shares(risks @ mixtures.T - costs, CLEAR_DEVIATIONS * noise)

    def mean_with(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the means of points and of group weights with shares of the blocks."""
        of_points = shares / self._counts
        return of_points @ self._points, of_points @ self._mixtures

    def risks_with(self, shares: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return the mean risks, the variances of their noise and the mean weighted risk."""
        of_points = shares / self._counts
        return (
            of_points @ self._risks,
            of_points**2 @ self._variances,
            float(of_points @ self._weighted_risks),
        )
