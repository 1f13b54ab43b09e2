"""The method behind Newton's: within its proved cap on every data set, and inside the ball."""

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.saddle_point import (
    RegularisedObjective,
    accelerated_gradient,
    iteration_cap,
    project_to_ball,
    solve_saddle_point,
)
from tests.helpers.group_data import hard_rows, make_risks

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3))
RADIUS = 2.0
SIZES = (12, 5, 1)


def case(loss, kind="plain", *, mu_weights, mu_groups, length=0.0):
    rng = np.random.default_rng(0)
    rows = hard_rows(kind, rng, sum(SIZES))
    noise = 0.0 if kind == "separable" else 1.0
    risks = make_risks(loss, SIZES, rows=rows, label_noise=noise)
    problem = Problem(loss, SIZES, 3, RADIUS, (0.2, 0.3, 0.5), 1.0)
    center = np.zeros(risks.n_weights)
    center[0] = length
    objective = RegularisedObjective(
        risks, RADIUS, np.array(problem.prior), mu_weights, mu_groups, center
    )
    return objective, {"lipschitz": problem.lipschitz, "smoothness": problem.smoothness}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(
    ("kind", "mu_weights", "mu_groups", "length"),
    [("separable", 0.1, 0.05, 10.0), ("collinear", 30.0, 0.1, 1.0), ("one row", 0.1, 1e6, 0.0),
     ("plain", 0.1, 0.05, 10.0)],
)  # fmt: skip
def test_reaches_the_tolerance_within_the_cap(loss, kind, mu_weights, mu_groups, length):
    objective, constants = case(
        loss, kind, mu_weights=mu_weights, mu_groups=mu_groups, length=length
    )
    start = project_to_ball(np.random.default_rng(1).normal(size=objective.risks.n_weights), RADIUS)
    tolerance = 1e-11
    at, n_steps = accelerated_gradient(objective, start, tolerance, **constants)
    assert at.gap <= tolerance
    assert at.gap == objective.evaluate(at.weights).gap
    assert n_steps <= iteration_cap(objective, tolerance, **constants)


FACTS = {"radius": RADIUS, "prior": np.array([0.2, 0.3, 0.5]), "mu_weights": 0.1, "mu_groups": 0.1}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_solver_falls_back_to_it(loss):
    objective, constants = case(loss, mu_weights=0.1, mu_groups=0.1)
    facts = FACTS | {"tolerance": 1e-11}
    newton = solve_saddle_point(objective.risks, **facts)
    first_order = solve_saddle_point(objective.risks, max_newton_steps=0, **facts, **constants)
    assert (newton.n_first_order_steps, first_order.n_newton_steps) == (0, 0)
    assert 0 < first_order.n_first_order_steps <= iteration_cap(objective, 1e-11, **constants)
    assert first_order.gap <= 1e-11
    np.testing.assert_allclose(first_order.weights, newton.weights, atol=5e-5)
    alone = solve_saddle_point(objective.risks, max_newton_steps=0, **facts)
    assert alone.gap > 1e-11
    assert alone.n_first_order_steps == 0
