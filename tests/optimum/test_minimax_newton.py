"""Newton's method for the largest risk: few passes, any curvature, and a gap that holds."""

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.worst_group import first_point, minimax_newton
from tests.helpers.group_data import make_risks

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3))


def solve(risks, radius=4.0, **settings):
    common = {"radius": radius, "tolerance": 1e-9, "max_steps": 50}
    return minimax_newton(risks, first_point(risks), **common | settings)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("kind", ["other records", "one record", "rows of zeros"])
def test_curvature_that_misleads_costs_steps_only(loss, kind):
    risks = make_risks(loss, (150, 60, 90), seed=5)
    if kind == "other records":
        curvature = make_risks(loss, (20, 20, 20), seed=6, data_norm=0.2)
    elif kind == "one record":
        curvature = make_risks(loss, (1, 1, 1), seed=7)
    else:
        curvature = make_risks(loss, (5, 5, 5), rows=np.zeros((15, 3)))
    misled, plain = solve(risks, curvature=curvature), solve(risks)
    assert misled.gap <= 1e-9
    assert plain.gap <= 1e-9
    assert risks.risks(misled.weights).max() == pytest.approx(
        risks.risks(plain.weights).max(), abs=2e-9
    )
