"""What was tried for phased ERM, and what it is worth.

Mean excess worst-group risk over the reference optimum, ε = 1, δ = 1e-5, five seeds (planned
variants) or three (trials), beside the default plan. The trials below the line are not private as
they stand: they are given something for free, so that what they could gain is not understated.

- *shaped noise*: one phase on rows multiplied by a power of the inverse second moments, which cost
  nothing here, clipped at the 95 % quantile of their norms, which costs nothing either; so noise
  and regularisation have the shape of the data. *isotropic* is the same with power 0.
- *objective perturbation*: the noise is a random linear term in the objective of one phase with
  fixed group weights, as large as a Gaussian release of the gradient and 15 % more, with nothing
  spent on the change of volume, which costs log(1 + H/(K μ_w)) of ε.

Trials take the best regularisation of a grid, chosen by looking at the result.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from common import DELTA, EPSILON, excess_table, row, unit_risks

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.rows import whole_rows
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.optimum.saddle_point import project_to_ball, solve_saddle_point
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.solvers import PhasedERM

NAMES = ("adult", "law-school", "compas", "german-credit")
N_SEEDS, N_TRIALS = 5, 3
SCALING, RADIUS = 0.5, 20.0
STRENGTHS = np.geomspace(1e-5, 3e-2, 8)

PLANNED = {
    "default": {},
    "one phase": {"n_phases": 1},
    "two phases": {"n_phases": 2},
    "four phases": {"n_phases": 4},
    "eight phases": {"n_phases": 8},
    "equal, last two thirds": {"sharpening": 1.0, "averaging": 2 / 3},
    "equal, last alone": {"sharpening": 1.0, "averaging": 0.01},
    "twice as strong each time": {"sharpening": 2.0},
    "saddle points, μ_λ = 30": {"n_phases": 16, "mu_groups": 30.0},
    "saddle points, μ_λ = 3": {"n_phases": 16, "mu_groups": 3.0},
}


def problem_of(risks: GroupRisks, scaling: float = SCALING) -> Problem:
    """Return the problem of a data set, with the prior proportional to group sizes."""
    sizes = np.array(risks.group_sizes)
    n_features = risks.n_weights - (scaling > 0)
    prior = tuple(sizes / sizes.sum())
    return Problem(risks.loss, risks.group_sizes, n_features, RADIUS, prior, scaling)


def solve(risks: GroupRisks, problem: Problem, mu_weights: float, center: np.ndarray) -> np.ndarray:
    """Return the minimiser of the prior-weighted risk."""
    told = {"radius": RADIUS, "prior": np.array(problem.prior), "mu_groups": np.inf}
    told |= {"center": center, "start": np.zeros(risks.n_weights)}
    told |= {"tolerance": 1e-9, "max_newton_steps": 50}
    return solve_saddle_point(risks, mu_weights=mu_weights, **told).weights


def excess(risks: GroupRisks, weights: np.ndarray, data: Any) -> float:
    """Return the excess of weights for rows with a constant column of SCALING."""
    weights[-1] *= SCALING
    return float(risks.risks(weights).max() - data.entry.reference_optimum)


def objective_perturbation(data: Any, mu_weights: float, seed: int) -> float:
    """Return the excess of one phase with a random linear term."""
    reference = unit_risks(data)
    risks = GroupRisks(reference.records, reference.loss, SCALING)
    problem = problem_of(risks)
    std = 1.15 * problem.gradient_diameter / problem.n_records / gdp_mu(EPSILON, DELTA)
    noise = std * np.random.default_rng(seed).standard_normal(problem.n_weights)
    # μ/2 ‖w‖² + <noise, w> is μ/2 ‖w + noise/μ‖² but for a constant
    weights = solve(risks, problem, mu_weights, center=-noise / mu_weights)
    return excess(reference, weights, data)


def shaped(power: float, data: Any, mu_weights: float, seed: int) -> float:
    """Return the excess of one phase whose noise has the shape of the data."""
    reference = unit_risks(data)
    records = reference.records
    rows = np.column_stack([records.rows.astype(float), np.full(len(records.rows), SCALING)])
    values, basis = np.linalg.eigh(rows.T @ rows / len(rows))
    values = np.maximum(values, 1e-3 * values.max())
    transform = (basis * (values / values.max()) ** (-power / 2)) @ basis.T
    moved = rows @ transform
    norms = np.linalg.norm(moved, axis=1)
    limit = np.quantile(norms, 0.95) if power else np.hypot(1.0, SCALING)
    moved *= (np.minimum(norms, limit) / norms / limit)[:, None]
    risks = GroupRisks(
        GroupedRecords(whole_rows(moved, 1.0), records.targets, records.starts),
        reference.loss,
        0.0,
    )
    problem = problem_of(risks, 0.0)
    std = problem.gradient_diameter / problem.n_records / mu_weights / gdp_mu(EPSILON, DELTA)
    noise = std * np.random.default_rng(seed).standard_normal(risks.n_weights)
    weights = transform @ (solve(risks, problem, mu_weights, np.zeros(risks.n_weights)) + noise)
    weights = project_to_ball(weights / limit, RADIUS)
    return excess(reference, weights, data)


def best_of_grid(trial) -> float:
    """Return the least mean excess over the strengths."""
    return min(
        float(np.mean([trial(strength, seed) for seed in range(N_TRIALS)]))
        for strength in STRENGTHS
    )


TRIALS = {
    "isotropic noise": partial(shaped, 0.0),
    "shaped noise, power 1/4": partial(shaped, 0.25),
    "shaped noise, power 1/2": partial(shaped, 0.5),
    "shaped noise, power 1": partial(shaped, 1.0),
    "objective perturbation": objective_perturbation,
}

if __name__ == "__main__":
    planned = {title: {"solver": PhasedERM(**each)} for title, each in PLANNED.items()}
    excess_table("excess", planned, NAMES, N_SEEDS)
    print("-" * 118)
    for title, trial in TRIALS.items():
        found = [best_of_grid(partial(trial, load_dataset(name))) for name in NAMES]
        row(title, [f"{value:.4f}" for value in found], first=30)
