"""The phased solver with the constants of Zhou and Bassily."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sklearn_dpwg.privacy import (
    Budget,
    PrivacyGuarantee,
    Release,
    calibrate,
    lemma3_sensitivity,
)
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.phased_erm.planning import (
    WEIGHTS,
    plan_of_releases,
    releases_of,
)
from sklearn_dpwg.solvers.phased_erm.schedule import PhasedERMSchedule, solved_phase
from sklearn_dpwg.solvers.plan import Plan

# Width of the parabola in place of a kink; the paper assumes a solver for any convex loss.
DEFAULT_WIDTH = 0.05


def paper_plan(problem: Problem, budget: Budget, *, smoothing_width: float | None = None) -> Plan:
    """Plan with the paper's formulas and account for their noise exactly.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    smoothing_width : float, optional
        For a loss with kinks: half the width of the parabolas in their place.

    Returns
    -------
    Plan
        Its guarantee is what the noise really costs, at most the budget.

    Notes
    -----
    With n the smallest group and K = p n: ``T = ⌊log₂ n⌋`` phases, each on ``n_t = ⌊n/T⌋`` records
    of every group, the prior uniform, ``D = max(L, B)``, ``M = 2R``,
    ``η = (M/D) min{ε/√(72 d log n log(1/δ)), √p/(log^{3/4}K √K)}``, ``η_t = η 2^{-t}``,
    ``μ_w = 1/(η_t n_t)``, ``μ_λ = 1/(η n)`` and noise of standard deviation
    ``6 D √(2 log₂n log(1/δ) η η_t)/ε``. Logarithms that vanish for a single record are those of 2.

    The noise over the proved sensitivity decides what a phase costs. Where that is more than the
    budget, as the paper's bound on the noise allows at large ε, the phase gets the least noise that
    keeps it. The schedule states what the paper's noise costs.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 1 and Theorem 2.
    """
    width = 0.0
    solved = problem
    if not problem.loss.smooth:
        width = DEFAULT_WIDTH if smoothing_width is None else smoothing_width
        solved = replace(problem, loss=problem.loss.smoothed(width))
    n, d, p = min(problem.group_sizes), problem.n_weights, problem.n_groups
    n_phases = max(1, int(math.log2(n)))
    n_read = n // n_phases
    total = p * n
    log_n, log_total = math.log(max(n, 2)), math.log(max(total, 2))
    log_delta = math.log(1.0 / budget.delta)
    scale = max(solved.lipschitz, solved.loss_range)
    eta = (problem.diameter / scale) * min(
        budget.epsilon / math.sqrt(72.0 * d * log_n * log_delta),
        math.sqrt(p) / (log_total**0.75 * math.sqrt(total)),
    )
    etas = [eta * 2.0**-t for t in range(1, n_phases + 1)]
    mu_weights = [1.0 / (eta_t * n_read) for eta_t in etas]
    mu_groups = 1.0 / (eta * n) if p > 1 else math.inf
    stds = [
        6.0
        * scale
        * math.sqrt(2.0 * math.log2(max(n, 2)) * log_delta * eta * eta_t)
        / budget.epsilon
        for eta_t in etas
    ]
    sizes = (n_read,) * p
    prior = (1.0 / p,) * p
    phases = [
        solved_phase(solved, sizes, prior, mu_weights=mu_w, mu_groups=mu_groups)
        for mu_w in mu_weights
    ]
    papers = [std / phase.sensitivity for std, phase in zip(stds, phases, strict=True)]
    least = calibrate([Release(WEIGHTS, "gaussian", 1.0, 1)], budget)[0].noise_multiplier
    multipliers = tuple(max(each, least) for each in papers)
    true_epsilon = PrivacyGuarantee.from_releases(
        [Release(WEIGHTS, "gaussian", min(papers), 1)], budget.delta
    ).epsilon
    schedule = PhasedERMSchedule(
        composition="parallel",
        sizes=(sizes,) * n_phases,
        solved=solved,
        smoothing_width=width,
        prior=prior,
        weights_multipliers=multipliers,
        risks_multiplier=0.0,
        mu_groups=(mu_groups,) * n_phases,
        averaged=1,
        mu_weights=tuple(mu_weights),
        remark=(
            f"the paper's noise costs epsilon = {true_epsilon:.4g}; largest factor on it to keep "
            f"the budget: {max(np.divide(multipliers, papers)):.4g}"
        ),
    )
    # the terms of the proof of Theorem 2, with the constants that it leaves out set to 1
    distances = [problem.diameter, *(std * math.sqrt(d) for std in stds)]
    excess = solved.lipschitz * distances[-1]
    for mu_w, distance in zip(mu_weights, distances[:-1], strict=True):
        excess += mu_w * distance**2 / 2.0
        excess += solved.loss_range * math.sqrt(math.log(max(p * n, 2)) / n_read)
        if p > 1:
            excess += mu_groups * math.log(p)
            excess += solved.lipschitz * lemma3_sensitivity(
                group_sizes=sizes,
                lipschitz=solved.lipschitz,
                loss_range=solved.loss_range,
                strong_convexity=mu_w,
                entropy_weight=mu_groups,
            )
    bounds = np.full(p, excess)
    return plan_of_releases(problem, budget, schedule, releases_of(schedule), bounds)
