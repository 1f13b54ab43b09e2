"""The rounds of the online solver."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import EXP3, Hedge, Learner, PrivatePlayer
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.oracles import SampleOracle
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers.fresh import Game
from sklearn_dpwg.solvers.oco.schedule import OCOSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution


class OCOGame(Game):
    """Two online learners play against each other on fresh records.

    Parameters
    ----------
    plan : Plan
        With an `OCOSchedule`.
    learner : Learner
        Who plays the weights.
    noise : NoiseSource
        Source of the plan's releases.
    start : Solution, optional
        First weights and group weights; zero and the prior by default.
    """

    def __init__(
        self, plan: Plan, learner: Learner, noise: NoiseSource, start: Solution | None
    ) -> None:
        schedule = plan.schedule
        assert isinstance(schedule, OCOSchedule)
        self._schedule, self._problem, self._noise = schedule, plan.problem, noise
        problem = plan.problem
        gradient_release, *feedback_releases = plan.releases
        self._feedback_release: Release | None = next(iter(feedback_releases), None)
        prior = np.asarray(schedule.prior)
        self._first = np.zeros(problem.n_weights)
        if start is not None:
            self._first = project_to_ball(start.weights, problem.radius)
            if start.group_weights is not None:
                prior = np.maximum(start.group_weights, 1e-300)
        weighted = schedule.play == "weighted"
        self._groups: Hedge | EXP3 = (
            Hedge(prior, schedule.group_rate)
            if weighted
            else EXP3(prior, schedule.group_rate, 2.0 * schedule.feedback_bound)
        )
        self._influence = 1.0 / np.asarray(schedule.weight_rates)
        self._largest = float((prior / prior.sum() * self._influence).max())
        if not weighted:
            self._largest = float(self._influence[0])
        self._strength_now = self._strength(self._largest)
        self._player = learner.start(
            problem.n_weights, problem.radius, self._strength_now, initial=self._first
        )
        self._gradient_release = gradient_release
        self._private: PrivatePlayer | None = None
        self._drawn: int | None = None
        self._n_played, self._total = 0, 0.0
        self._weights_sum = np.zeros(problem.n_weights)
        self._group_weights_sum = np.zeros(problem.n_groups)

    @property
    def is_over(self) -> bool:
        """Whether all planned rounds were played."""
        return self._n_played == self._schedule.n_rounds

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        """Play as many rounds as the records allow.

        Parameters
        ----------
        oracle : SampleOracle
            Draws encoded records of the groups 0, 1, ...
        available : sequence of float
            How many it has of each group.

        Returns
        -------
        int
            Rounds played. A sampled game stops when the drawn group has too few left, a weighted
            one when any group has.
        """
        before = self._n_played
        if self._schedule.play == "weighted":
            self._advance_weighted(oracle, available)
        else:
            self._advance_sampled(oracle, available)
        return self._n_played - before

    def finish(self) -> Solution:
        """Return the outcome so far.

        Returns
        -------
        Solution
            Averages over the rounds played, or where the game starts before the first.
        """
        if self._n_played == 0:
            return Solution(self._first.copy(), self._groups.prior, 0)
        return Solution(
            self._weights_sum / self._total, self._group_weights_sum / self._total, self._n_played
        )

    # --- rounds ------------------------------------------------------------------------------

    def _advance_sampled(self, oracle: SampleOracle, available: Sequence[float]) -> None:
        schedule, noise, groups = self._schedule, self._noise, self._groups
        assert isinstance(groups, EXP3)
        n_weight, n_feedback = int(schedule.weight_rates[0]), int(schedule.feedback_rates[0])
        size = n_weight + n_feedback
        left = [math.inf if count == math.inf else int(count) // size for count in available]
        loss, release, bound = self._problem.loss, self._feedback_release, schedule.feedback_bound
        unit = schedule.feedback_range / n_feedback if n_feedback else 0.0
        several = self._problem.n_groups > 1
        while self._n_played < schedule.n_rounds:
            if self._drawn is None:
                self._drawn = groups.sample(noise.rng) if several else 0
            group = self._drawn
            # the group that was drawn stays drawn: a later call goes on with it
            if left[group] < 1:
                return
            left[group] -= 1
            self._drawn = None
            rows, targets = oracle.draw(group, size)
            weights = self._player.predict()
            scores = self._scores(rows, weights)
            values, slopes = loss.value_and_derivative(scores, np.asarray(targets))
            self._count(weights)
            # roles are fixed by position: the first records for the weights, the others for groups
            self._hear(self._gradient_sum(rows[:n_weight], slopes[:n_weight]) / n_weight)
            if release is not None:
                total = float(np.minimum(values[n_weight:], schedule.ceiling).sum())
                mean = total / n_feedback - schedule.infimum
                noisy = noise.laplace(mean, sensitivity=unit, release=release)
                groups.update(group, min(max(bound - float(noisy), 0.0), 2.0 * bound))

    def _advance_weighted(self, oracle: SampleOracle, available: Sequence[float]) -> None:
        schedule, problem = self._schedule, self._problem
        rates = np.add(schedule.weight_rates, schedule.feedback_rates)
        n_rounds = schedule.n_rounds - self._n_played
        n_rounds = int(min(n_rounds, np.floor((np.asarray(available) / rates) * (1 + 1e-9)).min()))
        if n_rounds < 1:
            return
        # each group's records are dealt evenly to the rounds, and in each first to the weights
        weight_ends, feedback_ends = [], []
        steps = np.arange(n_rounds + 1)
        for group in range(problem.n_groups):
            n_used = min(available[group], math.ceil(n_rounds * rates[group] * (1 - 1e-9)))
            n_weight = round(n_used * schedule.weight_rates[group] / rates[group])
            weight_ends.append(steps * int(n_weight) // n_rounds)
            feedback_ends.append(steps * int(n_used - n_weight) // n_rounds)
        weight_sizes = np.diff(np.array(weight_ends), axis=1).T.tolist()
        feedback_sizes = np.diff(np.array(feedback_ends), axis=1).T.tolist()
        for sizes, others in zip(weight_sizes, feedback_sizes, strict=True):
            self._play_weighted(oracle, sizes, others)

    def _play_weighted(
        self, oracle: SampleOracle, weight_sizes: list[int], feedback_sizes: list[int]
    ) -> None:
        schedule, loss, groups = self._schedule, self._problem.loss, self._groups
        assert isinstance(groups, Hedge)
        weights, group_weights = self._player.predict(), groups.group_weights
        gradient = np.zeros_like(weights)
        losses = np.zeros(len(weight_sizes))
        for group, (n_weight, n_feedback) in enumerate(
            zip(weight_sizes, feedback_sizes, strict=True)
        ):
            if n_weight + n_feedback == 0:
                continue
            rows, targets = oracle.draw(group, n_weight + n_feedback)
            values, slopes = loss.value_and_derivative(
                self._scores(rows, weights), np.asarray(targets)
            )
            share = group_weights[group] / schedule.weight_rates[group]
            gradient += share * self._gradient_sum(rows[:n_weight], slopes[:n_weight])
            if n_feedback:
                clipped = np.minimum(values[n_weight:], schedule.ceiling) - schedule.infimum
                losses[group] = clipped.sum() / schedule.feedback_rates[group]
        self._count(weights)
        influence = float((group_weights * self._influence).max())
        if influence > self._largest:
            self._largest = influence
        strength = self._strength(self._largest)
        raised, self._strength_now = strength - self._strength_now, strength
        self._hear(gradient, raised, self._sensitivity(self._largest))
        if self._feedback_release is not None:
            heard = np.asarray(feedback_sizes) > 0
            units = np.where(heard, schedule.feedback_range / self._feedback_rates, 0.0)
            noisy = self._noise.laplace(losses, sensitivity=units, release=self._feedback_release)
            correction = np.where(heard, schedule.noise_correction, 0.0)
            rate = schedule.group_rate
            groups.update(-noisy + (correction / rate if rate else 0.0))

    # --- pieces ------------------------------------------------------------------------------

    def _hear(
        self, gradient: FloatArray, raised: float = 0.0, sensitivity: float | None = None
    ) -> None:
        """Let the weights player hear a gradient through the noisy sums, begun with the first."""
        if self._private is None:
            mechanism = make_prefix_sums(
                self._schedule.noise,
                n_steps=self._schedule.n_rounds,
                n_dimensions=self._problem.n_weights,
            )
            # in a weighted game the sensitivity of a round follows the group weights
            fixed = self._sensitivity(self._largest) if sensitivity is None else None
            stream = mechanism.open(self._noise, self._gradient_release, sensitivity=fixed)
            self._private = PrivatePlayer(self._player, stream)
        self._private.update(gradient, raised, self._first, sensitivity=sensitivity)

    @property
    def _feedback_rates(self) -> FloatArray:
        return np.maximum(self._schedule.feedback_rates, 1e-300)

    def _sensitivity(self, influence: float) -> float:
        return self._schedule.gradient_diameter * influence

    def _strength(self, influence: float) -> float:
        schedule = self._schedule
        multiplier = schedule.gradient_multiplier * schedule.worst_std
        return schedule.strength_rule.strength(multiplier * self._sensitivity(influence))

    def _scores(self, rows: FloatArray, weights: FloatArray) -> FloatArray:
        scaling, n_outputs = self._problem.intercept_scaling, self._problem.loss.n_outputs
        if n_outputs == 1:
            if scaling > 0:
                return np.asarray(rows @ weights[:-1] + scaling * weights[-1])
            return np.asarray(rows @ weights)
        matrix = weights.reshape(n_outputs, -1)
        if scaling > 0:
            return np.asarray(rows @ matrix[:, :-1].T + scaling * matrix[:, -1])
        return np.asarray(rows @ matrix.T)

    def _gradient_sum(self, rows: FloatArray, slopes: FloatArray) -> FloatArray:
        scaling, n_outputs = self._problem.intercept_scaling, self._problem.loss.n_outputs
        if n_outputs == 1:
            if scaling == 0:
                return np.asarray(slopes @ rows)
            gradient = np.empty(rows.shape[1] + 1)
            gradient[:-1] = slopes @ rows
            gradient[-1] = scaling * slopes.sum()
            return gradient
        matrix = slopes.T @ rows
        if scaling > 0:
            matrix = np.column_stack([matrix, scaling * slopes.sum(axis=0)])
        return np.asarray(matrix.ravel())

    def _count(self, weights: FloatArray) -> None:
        """Add what is played now to the averages."""
        self._n_played += 1
        share = float(self._n_played) ** self._schedule.averaging
        self._total += share
        self._weights_sum += share * weights
        self._group_weights_sum += share * self._groups.group_weights
