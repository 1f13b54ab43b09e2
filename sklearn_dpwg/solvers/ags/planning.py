"""Plans of least planning bound, calibrated to a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.ags.parameters import AGSParameters
from sklearn_dpwg.solvers.ags.releases import GRADIENT, RISKS
from sklearn_dpwg.solvers.ags.schedule import AGSSchedule
from sklearn_dpwg.solvers.by_loss import by_loss
from sklearn_dpwg.solvers.group_player import loss_ceiling
from sklearn_dpwg.solvers.plan import Plan, first_of_least, predict_seconds
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity

# Heavy-ball momentum may remember at most a fifth of the run.
LONGEST_MEMORY = 0.2

# For predicting time: what a fit plans, and what a step takes on top of its pass and its noise.
SECONDS_TO_PLAN, SECONDS_TO_PLAN_A_GROUP, SECONDS_A_STEP = 0.02, 1e-5, 2e-4

# A planned θ is at most the first where risks are smoothed, as a running mean lags behind what it
# is the mean of, which no bound here knows (benchmarks/ags.py sharpness); and else at most the
# second, beyond which no group is handicapped by anything that matters.
SHARPEST_OF_MEANS, SHARPEST = 10.0, 1e6

# Shares of μ² for the risks by which so many numbers of steps are compared.
SHARES, N_TRIED = (0.03, 0.1, 0.3, 0.6), 30


@dataclass(frozen=True)
class Course:
    """Steps, visits and limits of a run; the bound follows once the share of the risks is known."""

    problem: Problem
    mu: float  # of the budget
    parameters: AGSParameters  # what was asked for
    n_steps: int  # steps T
    visits: int  # largest number V of steps that take any one group

    @classmethod
    def of(cls, problem: Problem, mu: float, parameters: AGSParameters, n_steps: int) -> Course:
        """Return a run of at most so many steps, fewer where all groups run out of visits."""
        most = n_steps if parameters.visits is None else parameters.visits
        n_steps = min(n_steps, most * problem.n_groups)
        return cls(problem, mu, parameters, n_steps, min(most, n_steps))

    @property
    def ceiling(self) -> float:
        """What a record's loss counts for at most."""
        return loss_ceiling(self.problem, self.parameters.loss_ceiling, "AGS")

    @cached_property
    def sums(self) -> SumSensitivity:
        """What one record moves of the sums."""
        return SumSensitivity.of(self.problem, ceiling=self.ceiling)

    @property
    def memory(self) -> int:
        """How many steps the mean of the released risks runs over."""
        return self.n_steps if self.parameters.selection == "smoothed" else 1

    @property
    def aim(self) -> float:
        """Distance from the first weights that step sizes are planned for."""
        return self.parameters.aim * self.problem.radius

    @property
    def longest_step(self) -> float:
        """Longest plain step: 1/H, or the best without noise where a loss is not smooth."""
        if self.parameters.step_size is not None:
            return self.parameters.step_size
        if math.isinf(self.problem.smoothness):
            return self.aim / (self.problem.lipschitz * math.sqrt(self.n_steps))
        return 1.0 / self.problem.smoothness

    @property
    def max_momentum(self) -> float:
        """Largest momentum."""
        if self.parameters.step_size is not None or math.isinf(self.problem.smoothness):
            return 0.0
        return max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * self.n_steps))

    def of_weights(self, share: float) -> FloatArray:
        """Return the part of the bound that is the weights', for each group as the worst off."""
        sizes = np.asarray(self.problem.group_sizes, dtype=float)
        of_sum = math.sqrt(self.visits / (1.0 - share)) * self.sums.gradient_diameter
        std = of_sum / (sizes * self.mu)
        reach = self.n_steps * self.longest_step / (1.0 - self.max_momentum)
        planned = by_loss(self.problem.loss).step_share * self.aim * math.sqrt(self.n_steps) / std
        total = np.minimum(planned, reach)
        if self.parameters.step_size is not None:
            total = np.full_like(std, reach)
        square = self.problem.n_weights * std**2
        if math.isinf(self.problem.smoothness):
            square = square + self.problem.lipschitz**2
        return np.asarray(self.aim**2 / (2.0 * total) + total * square / (2.0 * self.n_steps))

    def risk_variances(self, share: float) -> FloatArray:
        """Return the variance of the noise on what groups are taken by."""
        sizes = np.asarray(self.problem.group_sizes, dtype=float)
        stds = self.sums.loss_range * math.sqrt(self.n_steps / share) / (sizes * self.mu)
        return np.asarray(stds**2 / self.memory)

    def of_choice(self, share: float, sharpness: float) -> FloatArray:
        """Return the part that is the choice's: log(1/π_i)/θ + log Σ_j π_j exp(θ² v_j/2) / θ."""
        return _of_choice(np.asarray(self.problem.prior), self.risk_variances(share), sharpness)

    def sharpness(self, share: float) -> float:
        """Return θ of the user, or that of the least prior average of the bound."""
        if self.parameters.sharpness is not None:
            return min(self.parameters.sharpness, SHARPEST)
        if self.problem.n_groups == 1:
            return SHARPEST
        most = SHARPEST_OF_MEANS if self.parameters.selection == "smoothed" else SHARPEST
        prior, variances = np.asarray(self.problem.prior), self.risk_variances(share)
        found = minimize_scalar(
            lambda at: float(prior @ _of_choice(prior, variances, math.exp(at))),
            bounds=(math.log(1e-6), math.log(most)),
            method="bounded",
        )
        return math.exp(found.x)

    def bound(self, share: float) -> FloatArray:
        """Return the planning bound for each group as the worst-off one."""
        if self.problem.n_groups == 1:
            return self.of_weights(0.0)
        return self.of_weights(share) + self.of_choice(share, self.sharpness(share))

    @cached_property
    def best_share(self) -> float:
        """Share of μ² for the group risks: what the user set, or that of the least bound."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.risk_share is not None:
            return self.parameters.risk_share
        found = minimize_scalar(self._excess, bounds=(1e-3, 0.9), method="bounded")
        return float(found.x)

    def _excess(self, share: float) -> float:
        return float(np.asarray(self.problem.prior) @ self.bound(share))

    @property
    def excess(self) -> float:
        """Prior average of the planning bound, nearly, by which numbers of steps are compared."""
        return min(map(self._excess, SHARES))


def _of_choice(prior: FloatArray, variances: FloatArray, sharpness: float) -> FloatArray:
    logs = np.log(prior)
    exponents = logs + sharpness**2 * variances / 2.0
    most = exponents.max()
    return np.asarray((most + math.log(np.exp(exponents - most).sum()) - logs) / sharpness)


def least_bound_plan(problem: Problem, budget: Budget, parameters: AGSParameters) -> Plan:
    """Plan by minimising the bound over whatever the parameters leave open."""
    most = parameters.max_passes
    numbers = [most]  # where risks are smoothed the bound knows no price of a step
    if parameters.n_steps is not None:
        numbers = [parameters.n_steps]
    elif parameters.selection == "latest":
        numbers = sorted({round(float(number)) for number in np.geomspace(1, most, N_TRIED)})
    courses = [Course.of(problem, budget.mu, parameters, number) for number in numbers]
    course = first_of_least(courses, lambda each: each.excess)
    share, n_steps, visits = course.best_share, course.n_steps, course.visits
    some = visits if visits < n_steps else None
    wanted = math.sqrt(visits / (1.0 - share))
    releases = [Release(GRADIENT, "gaussian", wanted, n_steps, draws_per_record=some)]
    if problem.n_groups > 1:
        releases.append(Release(RISKS, "gaussian", math.sqrt(n_steps / share), n_steps))
    calibrated = calibrate(releases, budget)
    is_fixed = parameters.step_size is not None
    schedule = AGSSchedule(
        n_steps=n_steps,
        visits=visits,
        memory=course.memory,
        sharpness=math.inf if parameters.sharpness == math.inf else course.sharpness(share),
        prior=problem.prior,
        gradient_multiplier=calibrated[0].noise_multiplier,
        risk_multiplier=calibrated[1].noise_multiplier if problem.n_groups > 1 else 0.0,
        gradient_diameter=course.sums.gradient_diameter,
        ceiling=course.ceiling,
        feedback_range=course.sums.loss_range,
        grid=course.sums.grid,
        aim=0.0 if is_fixed else course.aim,
        step_size=course.longest_step,
        longest_step=course.longest_step,
        max_momentum=course.max_momentum,
        averaged=max(1, round(parameters.averaging * n_steps)),
        step_share=by_loss(problem.loss).step_share,
    )
    return plan_of_schedule(problem, budget, calibrated, schedule, course.bound(share))


def plan_of_schedule(
    problem: Problem,
    budget: Budget,
    releases: Sequence[Release],
    schedule: AGSSchedule,
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule."""
    n_steps, several = schedule.n_steps, problem.n_groups > 1
    n_coordinates = problem.n_weights + (problem.n_groups if several else 0)
    seconds = predict_seconds(
        problem, n_steps, n_draws=n_steps * (1 + several), n_coordinates=n_steps * n_coordinates
    )
    return Plan.of(
        "ags",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=n_steps,
        seconds=seconds + n_steps * SECONDS_A_STEP,
        seconds_to_plan=SECONDS_TO_PLAN + problem.n_groups * SECONDS_TO_PLAN_A_GROUP,
    )
