"""Game whose rounds read one group, drawn from the group weights: Algorithm 2 of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import EXP3
from sklearn_dpwg.oracles import SampleOracle
from sklearn_dpwg.solvers.batch_sums import gradient_sum
from sklearn_dpwg.solvers.oco.game import OCOGame
from sklearn_dpwg.solvers.oco.releases import clipped_losses, release_mean_loss


class SampledGame(OCOGame):
    """It ends early where the drawn group has too few records left."""

    _groups: EXP3
    _drawn: int | None = None

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        before, size = self._n_played, self._n_weight + self._n_feedback
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
        problem, schedule, n_weight = self._problem, self._schedule, self._n_weight
        rows, targets = oracle.draw(group, n_weight + self._n_feedback)
        weights = self._player.predict()
        values, slopes = self._losses(rows, targets, weights)
        self._count(weights)
        self._sums.release(gradient_sum(problem, rows, slopes, n_weight) / n_weight)
        if self._feedback_release is not None:
            noisy = release_mean_loss(
                clipped_losses(schedule, values, n_weight),
                schedule,
                self._noise,
                self._feedback_release,
            )
            bound = schedule.feedback_bound
            self._groups.update(group, min(max(bound - noisy, 0.0), 2.0 * bound))

    def _make_groups(self, prior: FloatArray) -> EXP3:
        return EXP3(prior, self._schedule.group_rate, 2.0 * self._schedule.feedback_bound)

    def _influence(self, group_weights: FloatArray) -> float:
        return 1.0 / self._schedule.weight_rates[0]

    def _fixed_sensitivity(self) -> float:
        return self._sensitivity(self._largest)

    @property
    def _n_weight(self) -> int:
        """Records of a round for the weights."""
        return int(self._schedule.weight_rates[0])

    @property
    def _n_feedback(self) -> int:
        """Records of a round for the groups."""
        return int(self._schedule.feedback_rates[0])
