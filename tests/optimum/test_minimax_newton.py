"""Newton's method for the largest risk: few passes, any curvature, and a gap that holds."""

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.saddle_point import SaddlePoint
from sklearn_dpwg.optimum.worst_group import first_point, minimax_newton
from tests.helpers.convex_programs import mixture as least_of_mixture
from tests.helpers.group_data import make_risks

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3))
SIZES = {1: (120,), 4: (90, 1, 60, 40)}


def solve(risks, radius=4.0, **settings):
    common = {"radius": radius, "tolerance": 1e-9, "max_steps": 50}
    return minimax_newton(risks, first_point(risks), **common | settings)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gap_is_that_of_any_pair(loss):
    risks = make_risks(loss, (18, 7, 9), 2, seed=4, label_noise=2.0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        weights = rng.normal(size=risks.n_weights)
        weights *= 2.0 / np.linalg.norm(weights)
        mixture = rng.dirichlet(np.ones(3))
        pair = SaddlePoint(weights, mixture, np.inf, 0)
        gap = minimax_newton(risks, pair, 3.0, tolerance=0.0, max_steps=0).gap
        response = least_of_mixture(
            risks, mixture, radius=3.0, mu_weights=0.0, center=np.zeros(risks.n_weights)
        )
        assert risks.risks(weights).max() - response.value <= gap + 1e-7


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


def test_a_hessian_of_other_records_is_read_instead():
    """The same records twice: the second copy gives all the Hessians there are."""
    risks, copy = (make_risks(BinaryLogLoss(), (400, 300), seed=8) for _ in range(2))
    plain = make_risks(BinaryLogLoss(), (400, 300), seed=8)
    hessians = []
    plain_hessian = plain.hessian
    plain.hessian = lambda *at: hessians.append(at) or plain_hessian(*at)
    expected = solve(plain)
    found = solve(risks, curvature=copy)
    assert found.gap <= 1e-9
    # with curvature of its own each poor step asks for a new Hessian, with another's none does
    assert 1 <= copy.n_passes <= len(hessians)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-3)
