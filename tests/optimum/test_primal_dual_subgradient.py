"""Algorithm 4 keeps its proved rate and goes where Newton's method goes."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.saddle_point import (
    RegularisedObjective,
    primal_dual_subgradient,
)
from tests.helpers.group_data import make_risks

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3))
SIZES, RADIUS = (15, 6, 2), 1.5


def case(loss, mu_weights=0.3, mu_groups=0.2):
    risks = make_risks(loss, SIZES, 2, seed=1)
    prior = np.array([0.5, 0.3, 0.2])
    center = np.full(risks.n_weights, 0.4)
    return RegularisedObjective(risks, RADIUS, prior, mu_weights, mu_groups, center)


def lagrangian(objective, weights, group_weights):
    values = objective.risks.risks(weights)
    divergence = np.sum(group_weights * np.log(group_weights / objective.prior))
    quadratic = 0.5 * objective.mu_weights * np.sum((weights - objective.center) ** 2)
    return group_weights @ values + quadratic - objective.mu_groups * divergence


def exact_gap(objective, weights, group_weights):
    """The best responses of both players, that of the weights by SLSQP."""

    def value_and_slope(v):
        gradients = objective.risks.risks_and_gradients(v)[1]
        slope = group_weights @ gradients + objective.mu_weights * (v - objective.center)
        return lagrangian(objective, v, group_weights), slope

    ball = {"type": "ineq", "fun": lambda v: RADIUS**2 - v @ v, "jac": lambda v: -2 * v}
    response = minimize(
        value_and_slope, weights, jac=True, method="SLSQP", constraints=ball,
        options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    assert response.success
    return objective.evaluate(weights).value - response.fun


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gap_falls_at_the_proved_rate(loss):
    objective = case(loss)
    problem = Problem(loss, SIZES, 2, RADIUS, tuple(objective.prior), 1.0)
    slope = problem.lipschitz + 0.3 * (RADIUS + np.linalg.norm(objective.center))
    gaps = {}
    for n_steps in (1, 10, 100, 600):
        weights, group_weights = primal_dual_subgradient(objective, n_steps)
        gaps[n_steps] = exact_gap(objective, weights, group_weights)
        bound = slope**2 * (1 + math.log(n_steps)) / (2 * 0.3 * n_steps)
        assert -1e-7 <= gaps[n_steps] <= bound
        assert np.linalg.norm(weights) <= RADIUS * (1 + 1e-12)
        assert group_weights.sum() == pytest.approx(1.0)
    # within a constant of log N / N: sixty times the steps, a fifteenth of the gap at most
    assert gaps[600] <= gaps[10] / 15
    assert gaps[600] < 8e-3
