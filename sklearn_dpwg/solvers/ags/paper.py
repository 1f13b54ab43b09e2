"""Plan with steps, rate and noise as in Zhou and Bassily's theorems."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.ags.planning import plan_of_schedule
from sklearn_dpwg.solvers.ags.releases import GRADIENT, RISKS
from sklearn_dpwg.solvers.ags.schedule import AGSSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity


def paper_plan(problem: Problem, budget: Budget, *, max_passes: int) -> Plan:
    """Plan with the paper's formulas, at most `max_passes` steps, and account for them exactly.

    The constant of both noises is 1, or the least that exact accounting allows;
    docs/theory/ags.md, section 5, has the formulas. (Zhou and Bassily 2024, Theorems 13 and 14)
    """
    n, d, p = min(problem.group_sizes), problem.n_weights, problem.n_groups
    lipschitz, loss_range, diameter = problem.lipschitz, problem.loss_range, problem.diameter
    log_delta = math.log(1.0 / budget.delta)
    scale = n * budget.epsilon
    steps = diameter * lipschitz * scale / (16.0 * loss_range * math.sqrt(log_delta))
    n_steps = max(1, min(max_passes, math.floor(steps)))
    sigma = lipschitz * math.sqrt(n_steps * math.log(n * p / budget.delta) * log_delta) / scale
    tau = loss_range * math.sqrt(n_steps * log_delta) / scale
    # σ and τ are those of the smallest group; a larger one needs less in proportion to its size
    sums = SumSensitivity.of(problem, ceiling=problem.constants.supremum)
    releases: Sequence[Release] = [
        Release(GRADIENT, "gaussian", sigma * n / sums.gradient_diameter, n_steps)
    ]
    if p > 1:
        releases = [*releases, Release(RISKS, "laplace", tau * n / sums.loss_range, n_steps)]
    true_epsilon = PrivacyGuarantee.from_releases(releases, budget.delta).epsilon
    constant = 1.0
    if true_epsilon > budget.epsilon:
        affordable = calibrate(releases, budget)
        constant = affordable[0].noise_multiplier / releases[0].noise_multiplier
        releases, sigma, tau = affordable, sigma * constant, tau * constant
    step_size = diameter / math.sqrt(n_steps * (lipschitz**2 + d * sigma**2))
    schedule = AGSSchedule(
        n_steps=n_steps,
        visits=n_steps,
        memory=1,
        sharpness=math.inf,
        prior=(1.0 / p,) * p,
        gradient_multiplier=releases[0].noise_multiplier,
        risk_multiplier=releases[1].noise_multiplier if p > 1 else 0.0,
        gradient_diameter=sums.gradient_diameter,
        ceiling=problem.constants.supremum,
        feedback_range=sums.loss_range,
        grid=sums.grid,
        aim=0.0,
        step_size=step_size,
        longest_step=step_size,
        max_momentum=0.0,
        averaged=n_steps,
        step_share=1.0,
        remark=(
            f"the paper's noise with constant 1 costs epsilon = {true_epsilon:.4g}; "
            f"constant used: {constant:.4g}"
        ),
    )
    # the bound in the proof of Theorem 14: regret, and twice the largest noise on a risk
    excess = diameter * math.sqrt((lipschitz**2 + d * sigma**2) / n_steps)
    if p > 1:
        excess += 16.0 * tau * math.log(p * n * n_steps / 2.0)
    return plan_of_schedule(problem, budget, releases, schedule, np.full(p, excess))
