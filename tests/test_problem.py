"""The public facts: sizes, norms and constants in the weights."""

import math

import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError


def make_problem(loss=BinaryLogLoss(), **changes):  # noqa: B008
    facts = {
        "loss": loss,
        "group_sizes": (30, 10, 60),
        "n_features": 4,
        "radius": 3.0,
        "prior": (0.3, 0.1, 0.6),
        "intercept_scaling": 0.5,
    }
    return Problem(**(facts | changes))


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError(2.0), MultinomialLogLoss(4)])
@pytest.mark.parametrize("intercept", [0.0, 0.5, 2.0])
def test_constants_hold_for_rows_with_the_intercept(loss, intercept):
    problem = make_problem(loss, intercept_scaling=intercept)
    norm = math.sqrt(1 + intercept**2)
    stated = loss.constants(3.0 * norm)
    assert problem.row_norm == pytest.approx(norm)
    assert problem.constants == stated
    assert problem.lipschitz == pytest.approx(norm * stated.lipschitz)
    assert problem.gradient_diameter == pytest.approx(norm * stated.gradient_diameter)
    assert problem.smoothness == pytest.approx(norm**2 * stated.smoothness)
    assert problem.loss_range == stated.loss_range
    assert problem.gradient_diameter <= 2 * problem.lipschitz
