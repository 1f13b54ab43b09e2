"""Small problems and bad neighbours for the best-response solver, and its bases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, BestResponse, Moments, PhasedERM, Plan, Solution
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.mgr_cases import bad_rows, random_data, random_targets
from tests.helpers.phased_cases import LOSSES

BASES = ("phased-erm", "mgr", "moments")
LOSSES_OF_STEPS = (BinaryLogLoss(), BinaryLogLoss(0.85), MultinomialLogLoss(3), SquaredError(0.3))


class ResponseCase(NamedTuple):
    """Two neighbouring data sets, and where a run on them starts."""

    plan: Plan
    solver: BestResponse
    data: GroupRisks
    neighbour: GroupRisks
    start: Solution


def random_base(rng, name, problem):
    """Return a base with whatever makes its sensitivity hard to keep."""
    smooth = problem.row_norm**2
    if name == "phased-erm":
        return PhasedERM(
            mu_weights=float(rng.choice([1e-2, 1.0, 300.0])) * smooth,
            sharpening=float(rng.choice([1.0, 2.0])),
            averaging=float(rng.choice([0.1, 1.0])),
            smoothing_width=float(rng.choice([0.05, 1.0])),
        )
    if name == "mgr":
        steps = {"step_size": 1.0} if rng.random() < 0.3 else {}
        return MGR(n_steps=4, averaging=float(rng.choice([0.1, 1.0])), **steps)
    return Moments(clip=float(rng.choice([0.1, 2.0])), ridge=float(rng.choice([0.0, 0.25])))


def response_plans(seed: int, n_plans: int, names=BASES):
    """Yield plans of random problems and the solvers that made them."""
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        name = names[index % len(names)]
        n_rounds, n_groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        sizes = rng.choice([1, 2, 3, 4, 25], size=n_groups)
        losses = {"phased-erm": LOSSES, "mgr": LOSSES_OF_STEPS}.get(name, (SquaredError(0.3),))
        problem = make_problem(
            sizes,
            loss=losses[int(rng.integers(len(losses)))],
            n_features=int(rng.integers(1, 4)),
            radius=float(rng.choice([0.2, 1.0, 3.0, 20.0])),
            prior=rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups,
            scaling=float(rng.choice([0.0, 0.5, 1.0])),
        )
        solver = BestResponse(
            random_base(rng, name, problem),
            n_rounds=n_rounds,
            risk_share=0.3,
        )
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def bad_response_case(plan: Plan, solver: BestResponse, seed: int) -> ResponseCase:
    """Return neighbours that differ in one record of one group, chosen to move much."""
    problem = plan.problem
    rng = np.random.default_rng([seed, 2])
    weights = rng.standard_normal(problem.n_weights)
    weights *= problem.radius * rng.choice([0.0, 0.5, 1.0, 1.0]) / np.linalg.norm(weights)
    group = int(rng.integers(problem.n_groups))
    rows, targets = random_data(problem, [seed, 3])
    other_rows, other_targets = rows.copy(), targets.copy()
    record = sum(problem.group_sizes[: group + 1]) - 1
    rows[record], other_rows[record] = bad_rows(problem, weights, rng)
    targets[record], other_targets[record] = random_targets(rng, problem.loss, 2)
    return ResponseCase(
        plan,
        solver,
        make_data(problem, rows, targets),
        make_data(problem, other_rows, other_targets),
        Solution(weights, None, 0),
    )
