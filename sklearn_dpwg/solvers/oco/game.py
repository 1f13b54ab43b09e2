"""Base of both games of the online solver: players, strength, averages."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import GroupPlayer, Learner
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.solvers.batch_sums import batch_losses
from sklearn_dpwg.solvers.fresh import Game
from sklearn_dpwg.solvers.oco.releases import GradientSums
from sklearn_dpwg.solvers.oco.schedule import OCOSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution


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
        self._player = learner.start(
            problem.n_weights, problem.radius, self._strength, initial=self._first
        )
        self._sums = GradientSums(
            self._player, schedule, noise, gradient_release, sensitivity=self._fixed_sensitivity()
        )
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

    @abstractmethod
    def _fixed_sensitivity(self) -> float | None:
        """Return by how much a record moves a gradient; None where each round states its own."""

    def _sensitivity(self, influence: float) -> float:
        return self._schedule.gradient_diameter * influence

    def _strength_for(self, influence: float) -> float:
        schedule = self._schedule
        multiplier = schedule.gradient_multiplier * schedule.worst_std
        return schedule.strength_rule.strength(multiplier * self._sensitivity(influence))

    def _losses(
        self, rows: FloatArray, targets: ArrayLike, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the losses of a batch and their slopes in the scores."""
        return batch_losses(self._problem, rows, targets, weights)

    def _count(self, weights: FloatArray) -> None:
        """Add what is played now to the averages."""
        self._n_played += 1
        share = float(self._n_played) ** self._schedule.averaging
        self._total += share
        self._weights_sum += share * weights
        self._group_weights_sum += share * self._groups.group_weights
