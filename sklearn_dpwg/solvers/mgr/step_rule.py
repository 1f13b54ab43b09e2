"""Step rule of a run: step sizes, momentum, ceiling and group rate before the noise is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.by_loss import by_loss
from sklearn_dpwg.solvers.group_player import loss_ceiling
from sklearn_dpwg.solvers.mgr.bound import RunNoise, best_sharpness, excess_bound_by_group
from sklearn_dpwg.solvers.mgr.parameters import MGRParameters
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity

# Heavy-ball momentum may remember at most a fifth of the run.
LONGEST_MEMORY = 0.2

# Steps of a smooth loss begin at most this many times as long as is safe for every data set. At
# epsilon = 1 nothing depends on it; at 4 steps of 1/H have 2.7 times the excess on the census, and
# 16/H does no better than 8/H (benchmarks/mgr_defaults.py BOLDNESS epsilon=4 census-income-kdd).
BOLDNESS = 8.0


@dataclass(frozen=True)
class StepRule:
    """Steps, their limits and the loss ceiling of a run; the bound follows from the noise."""

    problem: Problem
    n_steps: int  # steps T
    # a record's loss counts for at most this much in the group risks, and where it is raised
    ceiling: float
    raised_ceiling: float
    aim: float  # norm of the weights that step sizes are planned for
    step_size: float  # limits of the step rule
    longest_step: float
    max_momentum: float
    is_fixed: bool  # whether every step is `step_size`, whatever the noise
    group_rate: float | None  # step size of the group weights, where the user set it

    @classmethod
    def of(
        cls, problem: Problem, parameters: MGRParameters, n_steps: int, *, may_raise: bool = False
    ) -> StepRule:
        """Return what the parameters ask for; refuse a ceiling that no loss can be below."""
        ceiling = loss_ceiling(problem, parameters.loss_ceiling, "MGR")
        raised = ceiling
        if may_raise:
            constants, multiple = problem.constants, by_loss(problem.loss).raised_ceiling
            raised = max(ceiling, min(multiple * constants.zero_score, constants.supremum))
        aim = parameters.aim * problem.radius
        boldness = 1.0
        if parameters.step_size is not None:
            step_size, max_momentum = parameters.step_size, 0.0
        elif math.isinf(problem.smoothness):
            # the best step without noise against a comparator of norm aim; momentum would rest
            # on 1/H
            step_size, max_momentum = aim / (problem.lipschitz * math.sqrt(n_steps)), 0.0
        else:
            step_size = 1.0 / problem.smoothness
            boldness = BOLDNESS
            max_momentum = max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * n_steps))
        return cls(
            problem,
            n_steps,
            ceiling,
            raised,
            aim,
            step_size,
            boldness * step_size,
            max_momentum,
            parameters.step_size is not None,
            parameters.group_rate,
        )

    @cached_property
    def sums(self) -> SumSensitivity:
        """What one record moves of the sums of gradients, and of losses up to the ceiling."""
        return SumSensitivity.of(self.problem, ceiling=self.raised_ceiling)

    @property
    def feedback_range(self) -> float:
        """Range b of the losses that the group risks count, rounding included."""
        return self.sums.loss_range - (self.raised_ceiling - self.ceiling)

    def sharpness(self, noise: RunNoise) -> float:
        """Return θ = η_λ T of the user, or the best; 1 with one group, where it has no effect."""
        if self.problem.n_groups == 1:
            return 1.0
        if self.group_rate is not None:
            return self.group_rate * self.n_steps
        return best_sharpness(self.problem, noise, n_steps=self.n_steps)

    def group_rate_at(self, noise: RunNoise) -> float:
        """Return the step size η_λ = θ/T of the group weights; 0 with one group."""
        return self.sharpness(noise) / self.n_steps if self.problem.n_groups > 1 else 0.0

    def bound(self, noise: RunNoise) -> FloatArray:
        """Return the planning bound for each group as the worst-off one."""
        return excess_bound_by_group(
            self.problem,
            noise,
            n_steps=self.n_steps,
            aim=self.aim,
            step_size=self.longest_step,
            max_momentum=self.max_momentum,
            fixed_step=self.is_fixed,
            sharpness=self.sharpness(noise),
        )

    def excess(self, noise: RunNoise) -> float:
        """Return the prior average of the planning bound, by which plans are chosen."""
        return float(np.asarray(self.problem.prior) @ self.bound(noise))

    def best_share(self, noise_at: Callable[[float], RunNoise], share: float | None) -> float:
        """Return the share of the budget for the group risks: what the user set, or the best."""
        if self.problem.n_groups == 1:
            return 0.0
        if share is not None:
            return share
        found = minimize_scalar(
            lambda at: self.excess(noise_at(at)), bounds=(1e-3, 0.5), method="bounded"
        )
        return float(found.x)
