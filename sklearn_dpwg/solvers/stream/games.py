"""The games of the stream: their players, what each round reads, and what is averaged."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.oracles.base import RecordOracle, SampleOracle
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Game, Solution
from sklearn_dpwg.solvers.steps import batch_losses, gradient_sum, heard
from sklearn_dpwg.solvers.stream.learners import EXP3, GroupPlayer, Hedge, Learner
from sklearn_dpwg.solvers.stream.releases import (
    NoisySums,
    clipped_losses,
    difference_sum,
    of_records,
    release_losses,
    release_mean_loss,
    sums_by_group,
)
from sklearn_dpwg.solvers.stream.schedule import OCOSchedule, OnlineToBatchSchedule, round_weight


def _rounds_left(
    available: Sequence[float], rates: FloatArray, most: int
) -> tuple[int, list[float]]:
    """Return how many rounds there are records for, and the records of each group that they use."""
    n_rounds = int(min(most, np.floor((np.asarray(available) / rates) * (1 + 1e-9)).min()))
    n_rounds = max(0, n_rounds)
    of_all = [math.ceil(n_rounds * rate * (1 - 1e-9)) for rate in rates]
    return n_rounds, [min(*pair) for pair in zip(available, of_all, strict=True)]


def _dealt(used: Sequence[float], n_rounds: int) -> list[list[int]]:
    """Return how many records of each group each round gets, evenly and in whole numbers."""
    steps = np.arange(n_rounds + 1)
    ends = [steps * int(n) // max(1, n_rounds) for n in used]
    return np.diff(np.array(ends), axis=1).T.tolist()


def _in_turn(used: Sequence[float], n_rounds: int, n_read: int) -> list[list[int]]:
    """Return the same where groups take turns, so that all rounds read as many records.

    Each group's records are spread evenly over the run; which come when follows from counts alone.
    """
    sizes = [int(n) for n in used]
    places = np.concatenate([(np.arange(n) + 0.5) / n for n in sizes])
    groups = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(places, kind="stable")][:n_read]
    rounds = np.arange(len(groups)) * n_rounds // max(1, len(groups))
    counts = np.bincount(rounds * len(sizes) + groups, minlength=n_rounds * len(sizes))
    return counts.reshape(n_rounds, len(sizes)).tolist()


class OCOGame(Game):
    """Two online learners that play against each other on fresh records."""

    _groups: GroupPlayer

    def __init__(
        self,
        plan: Plan,
        schedule: OCOSchedule,
        learner: Learner,
        noise: NoiseSource,
        start: Solution | None,
    ) -> None:
        problem = plan.problem
        self._schedule, self._problem, self._noise = schedule, problem, noise
        gradient_release, *feedback_releases = plan.releases
        self._feedback_release: Release | None = next(iter(feedback_releases), None)
        prior = np.asarray(schedule.prior)
        self._first = np.zeros(problem.n_weights)
        if start is not None:
            self._first = project_to_ball(start.weights, problem.radius)
            if start.group_weights is not None:
                prior = np.maximum(start.group_weights, 1e-300)
        self._groups = self._make_groups(prior)
        self._largest = self._influence(prior / prior.sum())
        self._strength = self._strength_for(self._largest)
        self._player = learner.start(self._first, problem.radius, self._strength)
        self._sums = NoisySums(schedule, noise, gradient_release)
        self._n_played, self._total = 0, 0.0
        self._weights_sum = np.zeros(problem.n_weights)
        self._group_weights_sum = np.zeros(problem.n_groups)

    @property
    def is_over(self) -> bool:
        return self._n_played == self._schedule.n_rounds

    def finish(self) -> Solution:
        if self._n_played == 0:
            return Solution(self._first.copy(), self._groups.prior, 0)
        return Solution(
            self._weights_sum / self._total, self._group_weights_sum / self._total, self._n_played
        )

    @abstractmethod
    def _make_groups(self, prior: FloatArray) -> GroupPlayer:
        """Return the player of groups."""

    @abstractmethod
    def _influence(self, group_weights: FloatArray) -> float:
        """Return the largest factor of a record's gradient in that of a round."""

    def _strength_for(self, influence: float) -> float:
        schedule = self._schedule
        sensitivity = schedule.gradient_diameter * influence
        multiplier = schedule.gradient_multiplier * schedule.worst_std
        return schedule.strength_rule.strength(multiplier * sensitivity)

    def _release_gradient(self, gradient: FloatArray, weights: FloatArray) -> None:
        """Count what was played, and tell the weights player what the noisy sum rose by."""
        group_weights, schedule = self._groups.group_weights, self._schedule
        self._n_played += 1
        share = float(self._n_played) ** schedule.averaging
        self._total += share
        self._weights_sum += share * weights
        self._group_weights_sum += share * group_weights
        self._largest = max(self._largest, self._influence(group_weights))
        before, self._strength = self._strength, self._strength_for(self._largest)
        linear = self._sums.rise(gradient, schedule.gradient_diameter * self._largest)
        self._player.update(linear, self._strength - before, self._first)


class SampledGame(OCOGame):
    """Rounds read one group, drawn from the group weights: Algorithm 2 of Zhou and Bassily.

    The game ends early where the drawn group has too few records left.
    """

    _groups: EXP3
    _drawn: int | None = None

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        before, schedule = self._n_played, self._schedule
        size = int(schedule.weight_rates[0] + schedule.feedback_rates[0])
        left = [math.inf if count == math.inf else int(count) // size for count in available]
        while not self.is_over:
            if self._drawn is None:
                several = self._problem.n_groups > 1
                self._drawn = self._groups.sample(self._noise.rng) if several else 0
            group = self._drawn
            # the group that was drawn stays drawn: a later call goes on with it
            if left[group] < 1:
                break
            left[group] -= 1
            self._drawn = None
            self._play_round(oracle, group)
        return self._n_played - before

    def _play_round(self, oracle: SampleOracle, group: int) -> None:
        problem, schedule = self._problem, self._schedule
        n_weight = int(schedule.weight_rates[0])
        rows, targets = oracle.draw(group, n_weight + int(schedule.feedback_rates[0]))
        weights = self._player.predict()
        values, slopes = batch_losses(problem, rows, targets, weights)
        self._release_gradient(gradient_sum(problem, rows, slopes, n_weight) / n_weight, weights)
        if self._feedback_release is not None:
            clipped = clipped_losses(schedule, values, n_weight)
            noisy = release_mean_loss(clipped, schedule, self._noise, self._feedback_release)
            bound = schedule.feedback_bound
            self._groups.update(group, min(max(bound - noisy, 0.0), 2.0 * bound))

    def _make_groups(self, prior: FloatArray) -> EXP3:
        return EXP3(prior, self._schedule.group_rate, 2.0 * self._schedule.feedback_bound)

    def _influence(self, group_weights: FloatArray) -> float:
        return 1.0 / self._schedule.weight_rates[0]


class WeightedGame(OCOGame):
    """Rounds read records of every group and weigh their gradients.

    The game pauses where any group has too few records left; all are used up together.
    """

    _groups: Hedge

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        schedule = self._schedule
        rates = np.add(schedule.weight_rates, schedule.feedback_rates)
        n_rounds, used = _rounds_left(available, rates, schedule.n_rounds - self._n_played)
        # each group's records are dealt evenly to the rounds, and in each first to the weights
        to_weights = [
            round(n * own / both)
            for n, own, both in zip(used, schedule.weight_rates, rates, strict=True)
        ]
        to_groups = [n - own for n, own in zip(used, to_weights, strict=True)]
        dealt = _dealt(to_weights, n_rounds), _dealt(to_groups, n_rounds)
        for sizes, others in zip(*dealt, strict=True):
            self._play_round(oracle, sizes, others)
        return n_rounds

    def _play_round(
        self, oracle: SampleOracle, weight_sizes: list[int], feedback_sizes: list[int]
    ) -> None:
        problem, schedule = self._problem, self._schedule
        weights, group_weights = self._player.predict(), self._groups.group_weights
        gradient, sums = np.zeros_like(weights), np.zeros(problem.n_groups)
        for group, (n_weight, n_feedback) in enumerate(
            zip(weight_sizes, feedback_sizes, strict=True)
        ):
            if n_weight + n_feedback == 0:
                continue
            rows, targets = oracle.draw(group, n_weight + n_feedback)
            values, slopes = batch_losses(problem, rows, targets, weights)
            share = group_weights[group] / schedule.weight_rates[group]
            gradient += share * gradient_sum(problem, rows, slopes, n_weight)
            if n_feedback:
                sums[group] = (clipped_losses(schedule, values, n_weight) - schedule.center).sum()
        self._release_gradient(gradient, weights)
        self._update_groups(sums, np.asarray(feedback_sizes) > 0)

    def _update_groups(self, sums: FloatArray, is_read: NDArray[np.bool_]) -> None:
        """Update the group weights with the noisy losses of the groups that were read."""
        if self._feedback_release is None:
            return
        schedule = self._schedule
        noisy = release_losses(sums, is_read, schedule, self._noise, self._feedback_release)
        correction = np.where(is_read, schedule.noise_correction, 0.0)
        rate = schedule.group_rate
        self._groups.update(-noisy + (correction / rate if rate else 0.0))

    def _make_groups(self, prior: FloatArray) -> Hedge:
        return Hedge(prior, self._schedule.group_rate)

    def _influence(self, group_weights: FloatArray) -> float:
        return float((group_weights * (1.0 / np.asarray(self._schedule.weight_rates))).max())


# Standard deviation that hidden groups' risks are expected to have, as a share of what predicting
# nothing can cost: what noisy sums say counts as far as it is more than noise.
EXPECTED_SPREAD = 0.05


class PlacesGame(WeightedGame):
    """The same where groups are hidden: rounds read places, whatever groups are in them.

    What a record counts for follows from its group; which round it is in does not. Both players
    hear noisy prefix sums of all records. Losses count from the middle of their range: a record
    that changes its group moves two sums by half of what it else moves one.
    """

    _loss_sums: NoisySums | None = None
    _exponents: FloatArray | float = 0.0

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        assert isinstance(oracle, RecordOracle)
        rates = np.array([self._schedule.places])
        left = self._schedule.n_rounds - self._n_played
        n_rounds, used = _rounds_left(available, rates, left)
        for (n_places,) in _dealt(used, n_rounds):
            self._play_places(*oracle.draw_places(n_places))
        return n_rounds

    def _play_places(self, rows: FloatArray, targets: FloatArray, codes: NDArray[np.intp]) -> None:
        problem, schedule = self._problem, self._schedule
        weights, group_weights = self._player.predict(), self._groups.group_weights
        values, slopes = batch_losses(problem, rows, targets, weights)
        slopes = of_records((group_weights / schedule.weight_rates)[codes], slopes)
        gradient = gradient_sum(problem, rows, slopes, len(rows))
        losses = clipped_losses(schedule, values, 0) - schedule.center
        sums = sums_by_group(losses, codes, problem.n_groups)
        self._release_gradient(gradient, weights)
        if self._feedback_release is not None:
            self._hear(sums, self._feedback_release)

    def _hear(self, sums: FloatArray, release: Release) -> None:
        """Bring the group weights to what all noisy sums so far say, and not their noise."""
        schedule, problem, moved = self._schedule, self._problem, self._schedule.feedback_range
        if self._loss_sums is None:
            self._loss_sums = NoisySums(schedule, self._noise, release)
        released, rates = self._loss_sums.release(sums, moved), np.array(schedule.feedback_rates)
        stds = schedule.feedback_multiplier * self._loss_sums.unit_std * moved / rates
        risks, variances = heard(released / rates, stds**2, problem)
        expected = (self._n_played * EXPECTED_SPREAD * problem.constants.zero_score) ** 2
        counted = schedule.group_rate * expected / (expected + variances)
        exponents = counted * (risks - self._groups.prior @ risks) - counted**2 * variances / 2.0
        self._groups.update((self._exponents - exponents) / schedule.group_rate)
        self._exponents = exponents


# A parameter-free learner hears at most so many deviations of the norm of the noise.
CLIPPED_DEVIATIONS = 4.0


class OnlineToBatchGame(Game):
    """One learner on the gradients of a risk: Algorithm 1 of Zhang, Tran and Cutkosky.

    The game pauses where any group has too few records left; all are used up together.
    """

    def __init__(
        self,
        plan: Plan,
        schedule: OnlineToBatchSchedule,
        learner: Learner,
        noise: NoiseSource,
        start: Solution | None,
    ) -> None:
        problem = plan.problem
        self._schedule, self._problem = schedule, problem
        mixture = np.asarray(schedule.mixture)
        self._first = np.zeros(problem.n_weights)
        if start is not None:
            self._first = project_to_ball(start.weights, problem.radius)
            if start.group_weights is not None:  # public or released, like the weights
                mixture = start.group_weights / start.group_weights.sum()
        # what a record of each group counts for in a round
        self._shares: FloatArray = mixture / np.asarray(schedule.rates)
        self._influence = float(self._shares.max())
        self._sums = NoisySums(schedule, noise, plan.releases[0])
        self._player = learner.start(self._first, problem.radius, schedule.strength)
        self._step, self._total = 0, 0.0  # t and β_{1:t}
        self._here = self._before = self._first  # x_t and x_{t-1}
        self._weights = self._first  # w_t
        self._farthest = 0.0  # largest ‖w_i - x_{i-1}‖
        self._largest = 0.0  # largest sensitivity stated so far
        self._move()

    @property
    def is_over(self) -> bool:
        return self._step > self._schedule.n_rounds

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        rates = self._schedule.queue_rates
        left = self._schedule.n_rounds - (self._step - 1)
        n_rounds, used = _rounds_left(available, rates, left)
        dealt = _dealt(used, n_rounds)
        if self._schedule.papers_factor:
            dealt = _in_turn(used, n_rounds, round(n_rounds * rates.sum()))
        for sizes in dealt:
            self._play_round(oracle, sizes)
        return n_rounds

    def finish(self) -> Solution:
        return Solution(self._here.copy(), None, self._step - 1)

    def _play_round(self, oracle: SampleOracle, sizes: list[int]) -> None:
        problem, power = self._problem, self._schedule.power
        here = round_weight(self._step, power), self._here
        before = round_weight(self._step - 1, power), self._before
        # known before any record of the round is read
        self._largest = max(self._largest, self._sensitivity(here[0], before[0]))
        difference = np.zeros(problem.n_weights)
        for group, size in enumerate(sizes):
            if size and isinstance(oracle, RecordOracle) and problem.hidden is not None:
                rows, values, codes = oracle.draw_places(size)
                factors = self._shares[codes]
                difference += difference_sum(problem, rows, values, here, before, factors)
            elif size:
                rows, targets = oracle.draw(group, size)
                batch = difference_sum(problem, rows, np.asarray(targets), here, before)
                difference += self._shares[group] * batch
        gradient = self._sums.release(difference, self._largest)
        self._teach(gradient, here[0])
        self._move()

    def _sensitivity(self, weight: float, before: float) -> float:
        """Return by how much a record can move the difference of this round."""
        schedule = self._schedule
        moved = float(np.linalg.norm(self._here - self._before))
        sensitivity = schedule.sensitivity.of_round(weight, before, moved)
        if schedule.papers_factor:
            papers = schedule.papers_sensitivity(self._step, self._farthest)
            sensitivity = max(sensitivity, papers)
        return self._influence * sensitivity

    def _teach(self, gradient: FloatArray, weight: float) -> None:
        """Tell the learner the loss of the round, of which all is released or public."""
        schedule, first = self._schedule, self._first
        if schedule.regulariser is not None:
            self._bet(gradient, weight)
            return
        if not schedule.convexity:
            self._player.update(gradient)
            return
        # the regulariser's gradient at x_t is public; half of its convexity goes to the learner
        strength = weight * schedule.convexity
        self._player.update(gradient + strength * (self._here - first), strength / 2.0, self._here)

    def _bet(self, gradient: FloatArray, weight: float) -> None:
        """Tell a parameter-free learner the loss of the round, shortened and regularised."""
        schedule, away = self._schedule, self._weights - self._first
        assert schedule.regulariser is not None
        std = schedule.multiplier * self._largest * self._sums.unit_std
        noise_norm = math.sqrt(len(gradient)) * std
        longest = weight * schedule.lipschitz + CLIPPED_DEVIATIONS * noise_norm
        norm = float(np.linalg.norm(gradient))
        if norm > longest:
            gradient = gradient * (longest / norm)
        slope, curve = schedule.regulariser.of_round(self._step, schedule.power, noise_norm)
        convexity = weight * schedule.convexity
        linear = gradient + convexity * (self._here - self._first)
        distance = float(np.linalg.norm(away))
        if distance > 0.0:
            linear = linear + slope / distance * away
        self._player.update(linear, 2.0 * curve, self._first)

    def _move(self) -> None:
        """Go on to the next round: w_t, and x_t as the average with it."""
        self._step += 1
        weight = round_weight(self._step, self._schedule.power)
        self._total += weight
        self._weights = self._player.predict()
        away = self._weights - self._here
        self._farthest = max(self._farthest, float(np.linalg.norm(away)))
        self._before = self._here
        # an average of points in the ball, which rounding must not take out of it
        self._here = project_to_ball(
            self._here + (weight / self._total) * away, self._problem.radius
        )
