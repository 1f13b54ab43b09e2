"""Do runs on centred rows solve the problem in the ball of rows, where it binds?"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import GDA, MGR, Exact, PhasedERM, Solution
from sklearn_dpwg.solvers.centring import Centring
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.sources import seeded

WAYS = ("none", "columns", "matrix")


def centring_of(way, d, rng):
    center = rng.normal(size=d)
    center *= rng.uniform(0.0, 1.0) / np.linalg.norm(center)
    if way == "none":
        return Centring(center, 0.6, np.full(d, 3.0))
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    factors = rng.uniform(0.05, 4.0, d)
    whitening = factors if way == "columns" else (axes * factors) @ axes.T
    return Centring(center, 0.6, whitening)


@pytest.mark.parametrize("way", WAYS)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([1, 3]))
def test_the_projection_is_the_nearest_point_of_the_ball(way, seed, d, k):
    """It is in the ball, and what is left points out of it: along A'A times the point."""
    rng = np.random.default_rng(seed)
    loss = BinaryLogLoss() if k == 1 else MultinomialLogLoss(k)
    problem = make_problem((9, 9), loss=loss, n_features=d, radius=1.3, scaling=0.35)
    centring = centring_of(way, d, rng)
    weights = 10.0 ** rng.uniform(-1, 4) * rng.normal(size=k * (d + 1))
    result = centring.project(weights, problem)
    rows = centring.from_centred(result, problem)
    if np.linalg.norm(centring.from_centred(weights, problem)) <= 1.3:
        np.testing.assert_array_equal(result, weights)
        return
    assert np.linalg.norm(rows) == pytest.approx(1.3, rel=1e-9)
    units = np.eye(len(weights))
    matrix = np.column_stack([centring.from_centred(unit, problem) for unit in units])
    outwards, left = matrix.T @ rows, weights - result
    multiplier = left @ outwards / (outwards @ outwards)
    assert multiplier > 0.0
    scale = np.linalg.norm(weights)
    np.testing.assert_allclose(left, multiplier * outwards, rtol=0, atol=1e-7 * scale)


@pytest.fixture(scope="module")
def off_centre():
    """Return a problem and records whose mean row is far from 0, by loss and radius."""
    made = {}

    def make(loss, radius):
        key = type(loss), radius
        if key not in made:
            problem = make_problem(
                (1500, 700), loss=loss, n_features=3, radius=radius, scaling=0.35
            )
            rng = np.random.default_rng(0)
            codes = np.repeat([0, 1], problem.group_sizes)
            rows = 0.5 + 0.2 * rng.normal(size=(len(codes), 3)) * [1.0, 0.3, 0.1]
            score = 12.0 * (rows[:, 0] - 0.5) + 2.0 * codes * (rows[:, 1] - 0.5) + 0.5
            noisy = score + rng.logistic(size=len(codes))
            targets = np.clip(noisy / 8.0, -1.0, 1.0)
            if loss.task == "binary":
                targets = np.where(noisy > 0.0, 1.0, -1.0)
            if loss.task == "multiclass":
                targets = np.digitize(noisy, [-1.0, 1.5])
            made[key] = problem, make_data(problem, rows, targets)
        return made[key]

    return make


LOSSES = (BinaryLogLoss(), MultinomialLogLoss(3), SquaredError(1.0))


@pytest.mark.parametrize(
    ("solver", "loss", "starts"),
    [
        *((MGR(150), loss, starts) for loss in LOSSES for starts in (False, True)),
        (MGR(150, whitening=False), LOSSES[0], True),
        (MGR(150, centring=False), LOSSES[2], True),
        (GDA(), LOSSES[1], False),
        (PhasedERM(), LOSSES[2], False),
    ],
    ids=repr,
)
def test_a_ball_that_binds_is_that_of_the_rows(solver, loss, starts, off_centre):
    problem, data = off_centre(loss, 1.0 if loss.task != "regression" else 0.5)
    exact = Exact()
    of_rows = exact.run(exact.plan(problem, Budget(math.inf, 1e-6)), data, NoiseSource(None, ()))
    least = data.risks(of_rows.weights).max()
    assert np.linalg.norm(of_rows.weights) > 0.99 * problem.radius
    plan = solver.plan(problem, Budget(1e5, 1e-6))
    start = Solution(-0.5 * of_rows.weights, None, 0) if starts else None
    result = solver.run(plan, data, seeded(0, plan.releases), start=start)
    assert np.linalg.norm(result.weights) <= problem.radius * (1.0 + 1e-9)
    assert data.risks(result.weights).max() - least < 0.003
