"""Small problems, bad neighbours and planted faults for the phased solver."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    MultinomialLogLoss,
    Quantile,
    SquaredError,
)
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import PhasedERM, Plan, Solution
from sklearn_dpwg.solvers.rounds.schedule import PhasedERMSchedule
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.mgr_cases import bad_rows, random_data, random_targets
from tests.helpers.planted import wrap

LOSSES = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    MultinomialLogLoss(3),
    SquaredError(),
    Hinge(),
    AbsoluteError(),
    Quantile(0.2),
)


class PhasedCase(NamedTuple):
    """Two neighbouring data sets, and where a run on them starts."""

    plan: Plan
    solver: PhasedERM
    data: GroupRisks
    neighbour: GroupRisks
    start: Solution


def phased_plans(seed: int, n_plans: int, **parameters):
    """Yield plans of random problems and the solvers that made them."""
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        n_phases = int(rng.integers(1, 4))
        n_groups = int(rng.integers(1, 4))
        sizes = np.maximum(rng.choice([1, 2, 3, 4, 25], size=n_groups), n_phases)
        problem = make_problem(
            sizes,
            loss=LOSSES[index % len(LOSSES)],
            n_features=int(rng.integers(1, 4)),
            radius=float(rng.choice([0.2, 1.0, 3.0, 20.0])),
            prior=rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups,
            scaling=float(rng.choice([0.0, 0.5, 1.0])),
        )
        smooth = problem.row_norm**2  # of the order of the smoothness of all these losses
        solver = PhasedERM(
            n_phases,
            mu_weights=float(rng.choice([1e-2, 1.0, 30.0, 300.0])) * smooth,
            mu_groups=float(rng.choice([np.inf, problem.loss_range, problem.loss_range / 30])),
            sharpening=float(rng.choice([1.0, 2.0])),
            risk_share=0.3,
            smoothing_width=float(rng.choice([0.05, 1.0])),
        ).set_params(**parameters)
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def bad_phased_case(plan: Plan, solver: PhasedERM, seed: int) -> PhasedCase:
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
    return PhasedCase(
        plan,
        solver,
        make_data(problem, rows, targets),
        make_data(problem, other_rows, other_targets),
        Solution(weights, None, 0),
    )


def change_phases(patch: pytest.MonkeyPatch, **factors: float) -> None:
    """Multiply what a run takes from its phases, such as their sensitivity."""

    def changed(real, *args) -> Any:
        phase = real(*args)
        return phase._replace(**{name: getattr(phase, name) * by for name, by in factors.items()})

    wrap(patch, PhasedERMSchedule, "phase", changed)
