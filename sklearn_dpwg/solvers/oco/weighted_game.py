"""Game whose rounds read records of every group and weigh their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import Hedge
from sklearn_dpwg.oracles import SampleOracle
from sklearn_dpwg.solvers.batch_sums import gradient_sum
from sklearn_dpwg.solvers.oco.game import OCOGame
from sklearn_dpwg.solvers.oco.releases import clipped_losses, release_losses


class WeightedGame(OCOGame):
    """It pauses where any group has too few records left; all are used up together."""

    _groups: Hedge

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        schedule = self._schedule
        rates = np.add(schedule.weight_rates, schedule.feedback_rates)
        n_rounds = schedule.n_rounds - self._n_played
        n_rounds = int(min(n_rounds, np.floor((np.asarray(available) / rates) * (1 + 1e-9)).min()))
        if n_rounds < 1:
            return 0
        # each group's records are dealt evenly to the rounds, and in each first to the weights
        weight_ends, feedback_ends = [], []
        steps = np.arange(n_rounds + 1)
        for group in range(self._problem.n_groups):
            n_used = min(available[group], math.ceil(n_rounds * rates[group] * (1 - 1e-9)))
            n_weight = round(n_used * schedule.weight_rates[group] / rates[group])
            weight_ends.append(steps * int(n_weight) // n_rounds)
            feedback_ends.append(steps * int(n_used - n_weight) // n_rounds)
        weight_sizes = np.diff(np.array(weight_ends), axis=1).T.tolist()
        feedback_sizes = np.diff(np.array(feedback_ends), axis=1).T.tolist()
        for sizes, others in zip(weight_sizes, feedback_sizes, strict=True):
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
            values, slopes = self._losses(rows, targets, weights)
            share = group_weights[group] / schedule.weight_rates[group]
            gradient += share * gradient_sum(problem, rows, slopes, n_weight)
            if n_feedback:
                sums[group] = (clipped_losses(schedule, values, n_weight) - schedule.infimum).sum()
        self._count(weights)
        self._largest = max(self._largest, self._influence(group_weights))
        before, self._strength = self._strength, self._strength_for(self._largest)
        self._sums.release(
            gradient,
            self._strength - before,
            self._first,
            sensitivity=self._sensitivity(self._largest),
        )
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

    def _fixed_sensitivity(self) -> None:
        return None
