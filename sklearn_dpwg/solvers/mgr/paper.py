"""Plan with steps, rates and noise as in Zhou and Bassily's theorems."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.mgr.planning import plan_of_schedule
from sklearn_dpwg.solvers.mgr.releases import GRADIENT, RISKS
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity


def paper_plan(problem: Problem, budget: Budget, *, max_passes: int) -> Plan:
    """Plan with the paper's formulas, at most `max_passes` steps, and account for them exactly.

    T - 1 steps average ``w_1, …, w_T``, from T = 2 on. The constant that Theorem 9 leaves open is
    1, or the smallest that exact accounting allows; docs/theory/mgr.md, section 7, has the
    formulas. (Zhou and Bassily 2024, Theorems 9 and 10 and the proof in Appendix C.1)
    """
    n, d, p = min(problem.group_sizes), problem.n_weights, problem.n_groups
    lipschitz, loss_range, diameter = problem.lipschitz, problem.loss_range, problem.diameter
    n_steps, sigma, tau = _steps_and_noise(problem, budget, max_passes)
    # σ and τ are those of the smallest group; a larger one needs less in proportion to its size
    sums = SumSensitivity.of(problem, ceiling=problem.constants.supremum)
    taken = n_steps - 1
    releases: Sequence[Release] = [
        Release(GRADIENT, "gaussian", sigma * n / sums.gradient_diameter, taken)
    ]
    if p > 1:
        releases = [*releases, Release(RISKS, "laplace", tau * n / sums.loss_range, taken)]
    true_epsilon = PrivacyGuarantee.from_releases(releases, budget.delta).epsilon
    constant = 1.0
    if true_epsilon > budget.epsilon:
        affordable = calibrate(releases, budget)
        constant = affordable[0].noise_multiplier / releases[0].noise_multiplier
        releases, sigma, tau = affordable, sigma * constant, tau * constant
    feedback_bound = loss_range
    if p > 1:
        feedback_bound += 8.0 * tau * max(0.0, math.log(p * n * n_steps / 2.0))
    step_size = diameter / math.sqrt(n_steps * (lipschitz**2 + d * sigma**2))
    schedule = MGRSchedule(
        step="sampled",
        n_steps=taken,
        gradient_multiplier=releases[0].noise_multiplier,
        risk_multiplier=releases[1].noise_multiplier if p > 1 else 0.0,
        gradient_diameter=sums.gradient_diameter,
        ceiling=problem.constants.supremum,
        feedback_range=sums.loss_range,
        grid=sums.grid,
        prior=(1.0 / p,) * p,
        group_rate=math.sqrt(math.log(p) / (n_steps * feedback_bound**2)),
        noise_correction=(0.0,) * p,
        aim=0.0,
        step_size=step_size,
        longest_step=step_size,
        max_momentum=0.0,
        averaged=n_steps,
        remark=(
            f"the paper's noise with constant 1 costs epsilon = {true_epsilon:.4g}; "
            f"constant used: {constant:.4g}"
        ),
    )
    # the regret bounds in the proof of Theorem 10
    excess = diameter * math.sqrt((lipschitz**2 + d * sigma**2) / n_steps)
    excess += 2.0 * feedback_bound * math.sqrt(math.log(p) / n_steps)
    return plan_of_schedule(problem, budget, releases, schedule, np.full(p, excess))


def _steps_and_noise(problem: Problem, budget: Budget, max_passes: int) -> tuple[int, float, float]:
    """Return T, σ and τ with the universal constant 1; at least one step is taken."""
    n, d = min(problem.group_sizes), problem.n_weights
    lipschitz, loss_range = problem.lipschitz, problem.loss_range
    log_delta = math.log(1.0 / budget.delta)
    steps = (problem.diameter * lipschitz + loss_range * math.sqrt(math.log(problem.n_groups))) * (
        n**2 * budget.epsilon**2 / (lipschitz * loss_range * d * log_delta)
    )
    n_steps = max(2, min(max_passes + 1, math.floor(steps)))
    sigma = (
        lipschitz
        * math.sqrt(n_steps * math.log(n_steps / budget.delta) * log_delta)
        / (n * budget.epsilon)
    )
    return n_steps, sigma, loss_range * math.sqrt(n_steps * log_delta) / (n * budget.epsilon)
