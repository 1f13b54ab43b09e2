"""Noisy gradient descent on the group that looks worst off."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.ags import releases
from sklearn_dpwg.solvers.ags.paper import paper_plan
from sklearn_dpwg.solvers.ags.parameters import RULES, AGSParameters
from sklearn_dpwg.solvers.ags.planning import least_bound_plan
from sklearn_dpwg.solvers.ags.schedule import AGSSchedule
from sklearn_dpwg.solvers.heavy_ball import HeavyBall
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver


class AGS(AGSParameters, Solver):
    """Noisy gradient descent on the group that looks worst off, by released risks.

    Every step releases the risks of all groups with noise, takes the group that looks worst off,
    and moves the weights against the noisy gradient of that group alone. ``None`` means planned
    from public facts. Measured, it is nowhere better than `MGR` (``benchmarks/ags.py``); it is
    here as the paper's.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: that of the least bound, at most `max_passes`. No more than
        `visits` times the number of groups are taken.
    selection : {"smoothed", "latest"}, default="smoothed"
        Whether the group is taken by the running mean of all released risks or, as in the paper,
        by the last ones alone.
    visits : int, optional
        Largest number V of steps that take any one group. A record pays for the gradients of its
        own group alone, so noise on these is that of V draws. Planned: T, as fewer would forbid
        what one group that is always the worst off needs.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rate and noise from Zhou and Bassily's Theorems 13 and 14 with their
        constant set to 1 (the noise's larger where 1 would break the budget), the last risks with
        Laplace noise, no handicap and the average of all iterates.
    sharpness : float, optional
        θ: a group of prior weight π_i is taken as if its risk were smaller by ``log(1/π_i)/θ``;
        infinity leaves that out. Planned: the least of the planning bound.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: as `MGR`'s.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a share
        of the radius.
    step_size : float, optional
        A fixed plain step size without momentum, instead of the planned rule.
    averaging : float, default=2/3
        Share of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, default=150
        Largest number of steps, of one pass over the rows each.

    Notes
    -----
    A record moves the vector of the group risks in one coordinate, and the gradient only in steps
    that take its group, at most V. Which group a step takes follows from earlier releases, so
    μ² = V/z_w² + T/z_λ² exactly. The noise source is told whose gradient it is and refuses the
    group's draw V + 1. `docs/theory/ags.md` proves this.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 5, Theorems 13 and 14.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import AGS
    >>> AGS(n_steps=50, visits=25)
    AGS(n_steps=50, visits=25)
    """

    name: ClassVar[str] = "ags"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, max_passes=self.max_passes)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, AGSSchedule)
        weights = np.zeros(problem.n_weights)
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
        choice = GroupChoice(schedule)
        ball, total = HeavyBall(schedule, len(weights)), np.zeros_like(weights)
        for t in range(schedule.n_steps):
            released = releases.from_pass(plan, data, weights, choice.take, noise)
            move = ball.push(released.gradient, released.noise_std)
            weights = project_to_ball(weights + move, problem.radius)
            if t >= schedule.n_steps - schedule.averaged:
                total += weights
        return Solution(total / schedule.averaged, choice.shares, schedule.n_steps)


class GroupChoice:
    """The group that each step takes, from released risks and public facts alone."""

    def __init__(self, schedule: AGSSchedule) -> None:
        self._memory, self._most = schedule.memory, schedule.visits
        self._handicap = -np.log(np.asarray(schedule.prior)) / schedule.sharpness
        self._mean = np.zeros(len(schedule.prior))
        self._n_heard = 0
        self.visits = np.zeros(len(schedule.prior), dtype=int)

    def take(self, risks: FloatArray) -> int:
        """Return the group that a step with these released risks takes.

        It is that of the largest mean among the groups that may still be taken, or of equals the
        first.
        """
        self._n_heard += 1
        self._mean = self._mean + (risks - self._mean) / min(self._n_heard, self._memory)
        score = np.where(self.visits < self._most, self._mean - self._handicap, -np.inf)
        group = int(np.argmax(score))
        self.visits[group] += 1
        return group

    @property
    def shares(self) -> FloatArray:
        """Return the share of the steps that each group was taken in."""
        return np.asarray(self.visits / self.visits.sum())
