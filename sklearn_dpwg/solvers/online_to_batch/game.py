"""Game of one learner on the gradients of a risk: Algorithm 1 of Zhang, Tran and Cutkosky."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import Learner
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.oracles import SampleOracle
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers.fresh import Game
from sklearn_dpwg.solvers.online_to_batch.releases import DifferenceSums, difference_sum
from sklearn_dpwg.solvers.online_to_batch.schedule import OnlineToBatchSchedule
from sklearn_dpwg.solvers.online_to_batch.sensitivity import round_weight
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution

# A parameter-free learner hears at most so many deviations of the norm of the noise.
CLIPPED_DEVIATIONS = 4.0


class OnlineToBatchGame(Game):
    """It pauses where any group has too few records left; all are used up together."""

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
        self._sums = DifferenceSums(schedule, noise, plan.releases[0])
        mechanism = make_prefix_sums(
            schedule.noise, n_steps=schedule.n_rounds, n_dimensions=problem.n_weights
        )
        self._row_norms = mechanism.standard_deviations()
        self._player = learner.start(
            problem.n_weights, problem.radius, schedule.strength, initial=self._first
        )
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
        rates = np.asarray(self._schedule.rates)
        n_rounds = self._schedule.n_rounds - (self._step - 1)
        n_rounds = int(min(n_rounds, np.floor((np.asarray(available) / rates) * (1 + 1e-9)).min()))
        if n_rounds < 1:
            return 0
        steps, ends = np.arange(n_rounds + 1), []
        for group, rate in enumerate(rates):
            n_used = min(available[group], math.ceil(n_rounds * rate * (1 - 1e-9)))
            ends.append(steps * int(n_used) // n_rounds)
        for sizes in np.diff(np.array(ends), axis=1).T.tolist():
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
            if size:
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
        std = schedule.multiplier * self._largest * self._row_norms[self._step - 1]
        noise_norm = math.sqrt(len(gradient)) * float(std)
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
