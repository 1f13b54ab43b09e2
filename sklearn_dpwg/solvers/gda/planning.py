"""Plans of least planning bound, calibrated to a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.by_loss import by_loss
from sklearn_dpwg.solvers.centring.problem import (
    CentredProblem,
    centred_problem,
    check_centring,
    in_words,
    is_worth_centring,
    least_unit,
)
from sklearn_dpwg.solvers.centring.releases import centring_releases
from sklearn_dpwg.solvers.gda.parameters import GDAParameters
from sklearn_dpwg.solvers.gda.releases import GRADIENT, RISKS
from sklearn_dpwg.solvers.gda.schedule import GDASchedule
from sklearn_dpwg.solvers.group_player import loss_ceiling, risk_spread
from sklearn_dpwg.solvers.plan import Plan, predict_seconds
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity

# As in the solver with multiplicative weights: momentum remembers at most a fifth of the run, and
# steps of a smooth loss begin at most this many times as long as is safe for every data set.
LONGEST_MEMORY, BOLDNESS = 0.2, 8.0

# For predicting time: what a step takes on top of its pass, whatever the records.
SECONDS_A_STEP = 4e-4


@dataclass(frozen=True)
class StepRule:
    """Steps and their limits before the noise is known, and the bound once it is."""

    problem: Problem  # public facts of what is learned on: centred rows, where rows are centred
    parameters: GDAParameters  # what the user set
    n_steps: int  # steps T
    sums: SumSensitivity  # what one record moves of the sums
    ceiling: float  # a record's loss counts for at most this much in the group risks

    @property
    def aim(self) -> float:
        """Norm of the weights that step sizes are planned for."""
        return self.parameters.aim * self.problem.radius

    @property
    def step_size(self) -> float:
        """Longest plain step that is safe for every data set.

        For a loss that is not smooth, the best step without noise; both players' curvature counts.
        """
        ridge = self.parameters.weight_ridge or 0.0
        if math.isinf(self.problem.smoothness):
            return self.aim / (
                (self.problem.lipschitz + ridge * self.aim) * math.sqrt(self.n_steps)
            )
        return 1.0 / (self.problem.smoothness + ridge)

    @property
    def longest_step(self) -> float:
        """Longest plain step that is tried."""
        return self.step_size * (1.0 if math.isinf(self.problem.smoothness) else BOLDNESS)

    @property
    def max_momentum(self) -> float:
        """Largest momentum; none where the loss is not smooth, as it would rest on 1/H."""
        if math.isinf(self.problem.smoothness):
            return 0.0
        return max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * self.n_steps))

    def stds(self, mu: float, risk_share: float) -> tuple[FloatArray, FloatArray]:
        """Return the noise of a step's gradient, all weight on one group, and of its risks."""
        unit = math.sqrt(self.n_steps) / (mu * np.asarray(self.problem.group_sizes, dtype=float))
        of_gradient = unit * self.problem.gradient_diameter / math.sqrt(1.0 - risk_share)
        if self.problem.n_groups == 1:
            return of_gradient, np.zeros(1)
        return of_gradient, unit * self.sums.loss_range / math.sqrt(risk_share)

    def spread(self, risk_stds: FloatArray) -> float:
        """Return the square of a step's group gradient that counts: what groups differ by."""
        return self.problem.n_groups * risk_spread(self.problem) ** 2 + float(risk_stds @ risk_stds)

    def group_step(self, risk_stds: FloatArray) -> float:
        """Return the step of least regret of the group weights, or what the user set."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.group_step is not None:
            return self.parameters.group_step
        prior = np.asarray(self.problem.prior)
        return math.sqrt((1.0 - prior @ prior) / (self.n_steps * self.spread(risk_stds)))

    def bound(self, gradient_stds: FloatArray, risk_stds: FloatArray) -> FloatArray:
        """Return the planning bound for each group as the worst-off one: the regrets of both.

        For group i it is ``aim²/(2τ) + τ d s_i²/(2T)`` with τ the total step as planned, as far as
        steps reach, plus ``‖e_i - π‖²/(2ηT) + η (p q² + Σ_j s_j²)/2`` with the step η and the
        assumed spread q, and the bias of the regularisers.
        """
        problem, parameters, n_steps = self.problem, self.parameters, self.n_steps
        reach = n_steps * self.longest_step / (1.0 - self.max_momentum)
        mean_std = gradient_stds / math.sqrt(n_steps)
        total = np.minimum(by_loss(problem.loss).step_share * self.aim / mean_std, reach)
        bound = self.aim**2 / (2.0 * total) + total * problem.n_weights * mean_std**2 / 2.0
        if math.isinf(problem.smoothness):
            bound += total * problem.lipschitz**2 / (2.0 * n_steps)
        bound += (parameters.weight_ridge or 0.0) * self.aim**2 / 2.0
        if problem.n_groups > 1:
            prior = np.asarray(problem.prior)
            distance = 1.0 - 2.0 * prior + prior @ prior
            step = self.group_step(risk_stds)
            bound += distance / (2.0 * step * n_steps) + step * self.spread(risk_stds) / 2.0
            bound += (parameters.group_ridge or 0.0) * distance / 2.0
        return np.asarray(bound)

    def best_share(self, mu: float) -> float:
        """Return the share of the budget for the group risks: what the user set, or the best."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.risk_share is not None:
            return self.parameters.risk_share
        prior = np.asarray(self.problem.prior)
        found = minimize_scalar(
            lambda share: float(prior @ self.bound(*self.stds(mu, share))),
            bounds=(1e-3, 0.5),
            method="bounded",
        )
        return float(found.x)


def least_bound_plan(problem: Problem, budget: Budget, parameters: GDAParameters) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the parameters leave open."""
    learned = problem
    if _is_centred(problem, parameters):
        learned = centred_problem(problem, unit=least_unit(problem.loss))
    n_steps = parameters.max_passes if parameters.n_steps is None else parameters.n_steps
    ceiling = loss_ceiling(learned, parameters.loss_ceiling, "GDA")
    rule = StepRule(
        learned, parameters, n_steps, SumSensitivity.of(learned, ceiling=ceiling), ceiling
    )
    before = centring_releases(math.sqrt(n_steps)) if isinstance(learned, CentredProblem) else ()
    left = 1.0 - sum(1.0 / release.noise_multiplier**2 for release in before) / n_steps
    mu = math.sqrt(left) * budget.mu
    risk_share = rule.best_share(mu)
    releases = [Release(GRADIENT, "gaussian", 1.0 / math.sqrt(left * (1.0 - risk_share)), n_steps)]
    if problem.n_groups > 1:
        releases.append(Release(RISKS, "gaussian", 1.0 / math.sqrt(left * risk_share), n_steps))
    calibrated = calibrate([*before, *releases], budget)
    gradient_stds, risk_stds = rule.stds(mu, risk_share)
    schedule = GDASchedule(
        n_steps=n_steps,
        gradient_multiplier=calibrated[len(before)].noise_multiplier,
        gradient_diameter=rule.sums.gradient_diameter,
        ceiling=ceiling,
        feedback_range=rule.sums.loss_range,
        grid=rule.sums.grid,
        prior=problem.prior,
        weight_ridge=parameters.weight_ridge or 0.0,
        group_ridge=parameters.group_ridge or 0.0,
        is_paper=False,
        group_step=rule.group_step(risk_stds),
        aim=rule.aim,
        step_size=rule.step_size,
        longest_step=rule.longest_step,
        max_momentum=rule.max_momentum,
        step_share=by_loss(learned.loss).step_share,
        first_averaged=n_steps + 2 - max(1, round(parameters.averaging * n_steps)),
        last_averaged=n_steps + 1,
        centring=in_words(learned.loss) if isinstance(learned, CentredProblem) else "",
    )
    return plan_of_schedule(
        problem, budget, calibrated, schedule, rule.bound(gradient_stds, risk_stds)
    )


def _is_centred(problem: Problem, parameters: GDAParameters) -> bool:
    """Return whether rows are centred: as asked for, or where it is worth its price."""
    if parameters.centring:
        check_centring(problem, "GDA")
    return is_worth_centring(problem) if parameters.centring is None else parameters.centring


def plan_of_schedule(
    problem: Problem,
    budget: Budget,
    releases: tuple[Release, ...],
    schedule: GDASchedule,
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule."""
    n_steps, has_risks = schedule.n_steps, problem.n_groups > 1
    return Plan.of(
        "gda",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=n_steps,
        seconds=n_steps * SECONDS_A_STEP
        + predict_seconds(
            problem,
            n_steps,
            n_draws=n_steps * (1 + has_risks),
            n_coordinates=n_steps * (problem.n_weights + has_risks * problem.n_groups),
        ),
    )
