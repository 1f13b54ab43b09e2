"""Plan with steps, length and noise as Kang et al. have them."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.gda.parameters import GDAParameters
from sklearn_dpwg.solvers.gda.planning import plan_of_schedule
from sklearn_dpwg.solvers.gda.releases import GRADIENT, RISKS
from sklearn_dpwg.solvers.gda.schedule import GDASchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity


def paper_plan(problem: Problem, budget: Budget, parameters: GDAParameters) -> Plan:
    """Plan with the paper's formulas, and the least constant that exact accounting allows.

    docs/theory/gda.md, section 4, has the formulas, and what the paper says otherwise. Its ρ is
    that of its losses, which it assumes strongly convex-concave. Ours are not, so ρ is added; where
    nobody sets it, it is the one of least bound (`strong_gap_bound`).
    """
    sizes = np.asarray(problem.group_sizes, dtype=float)
    n_records, smallest = problem.n_records, float(sizes.min())
    n_steps = math.ceil(n_records ** (2 / 3)) if parameters.n_steps is None else parameters.n_steps
    sums = SumSensitivity.of(problem, ceiling=problem.constants.supremum)
    # one standard deviation for both: multipliers in proportion to 1/Γ and 1/b
    wanted = [Release(GRADIENT, "gaussian", 1.0 / sums.gradient_diameter, n_steps)]
    if problem.n_groups > 1:
        wanted.append(Release(RISKS, "gaussian", 1.0 / sums.loss_range, n_steps))
    releases = calibrate(wanted, budget)
    sigma = releases[0].noise_multiplier * sums.gradient_diameter / smallest
    set_by_user = [
        each for each in (parameters.weight_ridge, parameters.group_ridge) if each is not None
    ]
    ridge = set_by_user[0] if set_by_user else best_ridge(problem, n_steps, sigma)
    lipschitz = max(
        n_records / smallest * problem.lipschitz + problem.diameter * ridge,
        n_records / smallest * problem.loss_range + math.sqrt(2.0) * ridge,
    )
    with_constant_1 = (
        lipschitz * math.sqrt(n_steps * math.log(1.0 / budget.delta)) / (n_records * budget.epsilon)
    )
    schedule = GDASchedule(
        n_steps=n_steps,
        gradient_multiplier=releases[0].noise_multiplier,
        gradient_diameter=sums.gradient_diameter,
        ceiling=problem.constants.supremum,
        feedback_range=sums.loss_range,
        grid=sums.grid,
        prior=(1.0 / problem.n_groups,) * problem.n_groups,
        weight_ridge=ridge,
        group_ridge=ridge,
        is_paper=True,
        group_step=0.0,
        aim=0.0,
        step_size=1.0 / ridge,
        longest_step=1.0 / ridge,
        max_momentum=0.0,
        step_share=0.0,
        first_averaged=1,
        last_averaged=n_steps,
        remark=(
            f"the paper's noise for both players, {sigma:.3g} a coordinate, with the least "
            f"constant that keeps the budget: {sigma / with_constant_1:.3g}"
        ),
    )
    bound = strong_gap_bound(problem, n_steps, sigma, ridge)
    return plan_of_schedule(problem, budget, releases, schedule, np.full(problem.n_groups, bound))


def strong_gap_bound(problem: Problem, n_steps: int, sigma: float, ridge: float) -> float:
    """Bound the expected strong gap of the group game, the regularisers' bias included.

    It is ``(1 + ln T)/(2 T ρ) [(L + 2Rρ)² + d σ² + (b√p/2 + √2 ρ)² + p σ²] + ρ R²/2 + ρ/2``: the
    regrets of both players with steps 1/(ρt), noise included, of which the projection onto the
    simplex sees no constant, so that losses count from the middle of their range.
    """
    p = problem.n_groups
    of_weights = (problem.lipschitz + problem.diameter * ridge) ** 2 + problem.n_weights * sigma**2
    of_groups = 0.0
    if p > 1:
        gradient = problem.loss_range * math.sqrt(p) / 2.0 + math.sqrt(2.0) * ridge
        of_groups = gradient**2 + p * sigma**2
    regret = (1.0 + math.log(n_steps)) / (2.0 * n_steps * ridge) * (of_weights + of_groups)
    return regret + ridge * problem.radius**2 / 2.0 + (ridge / 2.0 if p > 1 else 0.0)


def best_ridge(problem: Problem, n_steps: int, sigma: float) -> float:
    """Return the ρ of least bound."""
    found = minimize_scalar(
        lambda log_ridge: strong_gap_bound(problem, n_steps, sigma, math.exp(log_ridge)),
        bounds=(-30.0, 30.0),
        method="bounded",
    )
    return math.exp(float(found.x))
