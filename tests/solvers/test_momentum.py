"""Do steps shorten where gradients ask for it, on released numbers alone, and only then?"""

import dataclasses

import numpy as np
import pytest

from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.descent import BOLDNESS, SHORTER, Momentum
from tests.helpers.group_data import make_problem
from tests.helpers.reference import step_and_momentum


def schedule_of(**parameters):
    return (
        MGR(n_steps=100, centring=False, **parameters)
        .plan(make_problem((40, 90)), Budget(1.0, 1e-6))
        .schedule
    )


def test_a_ball_that_rolls_uphill_stops_and_takes_shorter_steps():
    schedule = schedule_of()
    ball = Momentum(schedule, 3)
    down = np.array([0.0, 2.0, 0.0])
    first = ball.push(down, 1e-6)
    assert ball.longest == schedule.longest_step == pytest.approx(BOLDNESS * schedule.step_size)
    step, momentum = step_and_momentum(schedule, 1e-6, longest=ball.longest)
    np.testing.assert_allclose(first, -step * (1.0 + momentum) * down)
    # the gradient now points along the velocity: the valley has been crossed
    second = ball.push(-down, 1e-6)
    # crossed with curvature 2/step, where steps beyond 4/(3h) diverge, which is less than 0.9 of it
    assert ball.longest == pytest.approx(min(SHORTER * schedule.longest_step, 2.0 / 3.0 * step))
    step, momentum = step_and_momentum(schedule, 1e-6, longest=ball.longest)
    # nothing is left of the first velocity
    np.testing.assert_allclose(second, step * (1.0 + momentum) * down)


@pytest.mark.parametrize("curvature", [1.0, 0.3, 0.01])
def test_a_quadratic_of_any_curvature_is_solved(curvature):
    """With curvature at the bound steps of 8/H would diverge; below it, steps of 1/H crawl."""
    problem = make_problem((400, 900), loss=SquaredError(), n_features=1, radius=5.0)
    schedule = MGR(n_steps=200, centring=False).plan(problem, Budget(1e4, 1e-6)).schedule
    schedule = dataclasses.replace(schedule, max_momentum=0.9)
    reached = []
    for boldness in (8.0, 1.0):
        bold = dataclasses.replace(schedule, longest_step=boldness * schedule.step_size)
        ball, weight = Momentum(bold, 1), 0.0
        for _ in range(200):
            gradient = curvature * problem.smoothness * (weight - 2.0)
            weight += float(ball.push(np.array([gradient]), 1e-9)[0])
        reached.append(abs(weight - 2.0))
    assert reached[0] < 0.02
    assert curvature == 1.0 or reached[0] <= reached[1]
