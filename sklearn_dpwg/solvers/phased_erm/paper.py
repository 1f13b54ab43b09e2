"""Plan of the phased solver with the constants of Zhou and Bassily."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from sklearn_dpwg.solvers.phased_erm.releases import WEIGHTS, plan_of_releases, releases_of
from sklearn_dpwg.solvers.phased_erm.schedule import Phase, PhasedERMSchedule, solved_phase
from sklearn_dpwg.solvers.plan import Plan

# Width of the parabola in place of a kink; the paper assumes a solver for any convex loss.
DEFAULT_WIDTH = 0.05


def paper_plan(problem: Problem, budget: Budget, *, smoothing_width: float | None = None) -> Plan:
    """Return the plan of the paper's formulas, whose noise is accounted for exactly.

    docs/theory/phased-erm.md, section 4, has the formulas. Where what a phase costs is more than
    the budget, as the paper's bound on the noise allows at large ε, it gets the least noise that
    keeps it. Logarithms that vanish for a single record are those of 2. That of η is of base 2, as
    the proof needs. (Zhou and Bassily 2024, Algorithm 1 and Theorem 2)
    """
    width, solved = 0.0, problem
    if not problem.loss.smooth:
        width = DEFAULT_WIDTH if smoothing_width is None else smoothing_width
        solved = replace(problem, loss=problem.loss.smoothed(width))
    n, p = min(problem.group_sizes), problem.n_groups
    n_phases = max(1, int(math.log2(n)))
    n_read = n // n_phases
    eta = _first_step(solved, budget)
    etas = [eta * 2.0**-t for t in range(1, n_phases + 1)]
    stds = [_noise_std(solved, budget, eta, eta_t) for eta_t in etas]
    mu_weights = [1.0 / (eta_t * n_read) for eta_t in etas]
    mu_groups = 1.0 / (eta * n) if p > 1 else math.inf
    sizes, prior = (n_read,) * p, (1.0 / p,) * p
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
    bounds = np.full(p, _excess(solved, sizes, phases, stds))
    return plan_of_releases(problem, budget, schedule, releases_of(schedule), bounds)


def _first_step(solved: Problem, budget: Budget) -> float:
    """Return η of Theorem 2."""
    n, d, p = min(solved.group_sizes), solved.n_weights, solved.n_groups
    total = p * n
    log2_n, log_total = math.log2(max(n, 2)), math.log(max(total, 2))
    log_delta = math.log(1.0 / budget.delta)
    return (solved.diameter / max(solved.lipschitz, solved.loss_range)) * min(
        budget.epsilon / math.sqrt(72.0 * d * log2_n * log_delta),
        math.sqrt(p) / (log_total**0.75 * math.sqrt(total)),
    )


def _noise_std(solved: Problem, budget: Budget, eta: float, eta_t: float) -> float:
    """Return the noise of a phase in Algorithm 1."""
    log2_n = math.log2(max(min(solved.group_sizes), 2))
    log_delta = math.log(1.0 / budget.delta)
    scale = max(solved.lipschitz, solved.loss_range)
    return 6.0 * scale * math.sqrt(2.0 * log2_n * log_delta * eta * eta_t) / budget.epsilon


def _excess(
    solved: Problem, sizes: Sequence[int], phases: Sequence[Phase], stds: Sequence[float]
) -> float:
    """Return the terms of Theorem 2's proof, the constants that it leaves out set to 1."""
    n, d, p = min(solved.group_sizes), solved.n_weights, solved.n_groups
    distances = [solved.diameter, *(std * math.sqrt(d) for std in stds)]
    excess = solved.lipschitz * distances[-1]
    for phase, distance in zip(phases, distances[:-1], strict=True):
        excess += phase.mu_weights * distance**2 / 2.0
        excess += solved.loss_range * math.sqrt(math.log(max(p * n, 2)) / sizes[0])
        if p > 1:
            excess += phase.mu_groups * math.log(p)
            excess += solved.lipschitz * lemma3_sensitivity(
                group_sizes=sizes,
                lipschitz=solved.lipschitz,
                loss_range=solved.loss_range,
                strong_convexity=phase.mu_weights,
                entropy_weight=phase.mu_groups,
            )
    return excess
