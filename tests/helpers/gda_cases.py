"""Random problems for descent–ascent, and the loop in plain arithmetic."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import GDA
from tests.helpers.group_data import make_problem
from tests.helpers.mgr_cases import LOSSES


def planned_problems(seed: int, n_plans: int, **parameters):
    """Yield plans of random problems, extremes among them, and the solvers that made them."""
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        n_groups = int(rng.integers(1, 5))
        problem = make_problem(
            rng.choice([1, 2, 3, 4, 25], size=n_groups),
            loss=LOSSES[index % len(LOSSES)],
            n_features=int(rng.integers(1, 4)),
            radius=float(rng.choice([0.2, 1.0, 3.0, 20.0])),
            prior=rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups,
            scaling=float(rng.choice([0.0, 0.5, 1.0])),
        )
        low, high = problem.constants.infimum, problem.constants.supremum
        is_paper = index % 4 == 0
        ridge = float(rng.choice([1e-3, 0.1, 10.0]))
        solver = GDA(
            n_steps=3,
            schedule="paper" if is_paper else "planned",
            loss_ceiling=None if is_paper else rng.choice([None, np.inf, low + 0.1 * (high - low)]),  # type: ignore[list-item]
            weight_ridge=rng.choice([None, ridge]),  # type: ignore[list-item]
            group_ridge=rng.choice([None, ridge]),  # type: ignore[list-item]
            risk_share=None if is_paper else 0.3,
        ).set_params(**parameters)
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def nearest_distribution(point: np.ndarray) -> np.ndarray:
    """Project onto the simplex by bisection on the level, apart from the code's sorting."""
    low, high = point.min() - 1.0, point.max()
    for _ in range(200):
        middle = (low + high) / 2.0
        if np.maximum(point - middle, 0.0).sum() > 1.0:
            low = middle
        else:
            high = middle
    return np.maximum(point - high, 0.0)


def paper_points(data: GroupRisks, problem, schedule):
    """Return the points of the paper's loop without noise, from exact risks, one step at a time."""
    w, mixture = np.zeros(problem.n_weights), np.full(problem.n_groups, 1.0 / problem.n_groups)
    prior, points = mixture, []
    for t in range(1, schedule.n_steps + 1):
        points.append((w, mixture))
        risks, gradients = data.risks_and_gradients(w)
        of_w = mixture @ gradients + schedule.weight_ridge * w
        of_mixture = risks - schedule.group_ridge * (mixture - prior)
        w = w - of_w / (schedule.weight_ridge * t)
        w = w / max(1.0, np.linalg.norm(w) / problem.radius)
        mixture = nearest_distribution(mixture + of_mixture / (schedule.group_ridge * t))
    return points
