"""Does GDA play the game that its page states, step by step, and learn?"""

import math

import numpy as np
import pytest

from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import GDA, MGR, descent
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data
from tests.helpers.reference import nearest_distribution, paper_points
from tests.helpers.replay import Instead, silent, wrap

BUDGET = Budget(1.0, 1e-6)


# --- the loop, step by step --------------------------------------------------------------------


def run_paper(problem, data, solver):
    plan = solver.plan(problem, BUDGET)
    return plan.schedule, solver.run(plan, data, silent())


@pytest.fixture
def small():
    problem = make_problem((4, 9, 2), radius=2.0, n_features=3)
    return problem, make_data(problem, *random_data(problem, 0))


def error_of_paper_loop(small, ridge=0.7):
    problem, data = small
    schedule, result = run_paper(problem, data, GDA(9, schedule="paper", ridge=ridge))
    points = paper_points(data, problem, schedule)
    expected = np.mean([w for w, _ in points], axis=0), np.mean([m for _, m in points], axis=0)
    return max(
        np.abs(result.weights - expected[0]).max(), np.abs(result.group_weights - expected[1]).max()
    )


@pytest.mark.parametrize("ridge", [0.05, 0.7, 20.0])
def test_without_noise_it_is_the_loop_in_plain_arithmetic(small, ridge):
    assert error_of_paper_loop(small, ridge) < 1e-6


def regulariser_twice(honest, plan, data, weights, *others):
    """Count the regulariser among what is released, and once more after it."""
    result = honest(plan, data, weights, *others)
    return result._replace(gradient=result.gradient + plan.schedule.ridge * weights)


def gradient_after_ascent(honest, plan, data, weights, dual, *others):
    """Let the weights see where the group weights have moved to: alternating steps."""
    first = honest(plan, data, weights, dual, *others)
    after = nearest_distribution(dual + first.risks)
    return first._replace(gradient=honest(plan, data, weights, after, *others).gradient)


def risks_after_descent(honest, plan, data, weights, dual, *others):
    first = honest(plan, data, weights, dual, *others)
    after = weights - first.gradient
    return first._replace(risks=honest(plan, data, after, dual, *others).risks)


def ascent_downhill(honest, *given):
    result = honest(*given)
    return result._replace(risks=-result.risks)


def regulariser_noised(honest, plan, data, weights, *others):
    """Hand its gradient over for noise too: the test of what is handed over sees it."""

    def with_ridge(at, **facts):
        losses, gradients = data.sums(at, **facts)
        return losses, gradients + 0.7 * weights * np.array(plan.problem.group_sizes)[:, None]

    return honest(plan, Instead(data, sums=with_ridge), weights, *others)


@pytest.mark.parametrize(
    "fault",
    [
        regulariser_twice,
        gradient_after_ascent,
        risks_after_descent,
        ascent_downhill,
        regulariser_noised,
    ],
)
def test_planted_faults_of_the_loop_are_caught(fault, small, monkeypatch):
    wrap(monkeypatch, descent, "release_full_pass", fault)
    assert error_of_paper_loop(small) > 1e-3


# --- plans -------------------------------------------------------------------------------------


def test_the_papers_schedule_is_its_formulas():
    problem = make_problem((100, 150), radius=1.0)
    plan = GDA(schedule="paper").plan(problem, BUDGET)
    schedule = plan.schedule
    assert schedule.n_averaged == plan.n_steps + 1 == math.ceil(250 ** (2 / 3)) == 40
    assert schedule.prior == (0.5, 0.5)
    assert "least constant that keeps the budget" in str(schedule)
    constant = float(str(schedule).rpartition(": ")[2])
    lipschitz = max(
        2.5 * problem.lipschitz + 2.0 * schedule.ridge,
        2.5 * problem.loss_range + math.sqrt(2.0) * schedule.ridge,
    )
    sigma = plan.releases[0].noise_multiplier * schedule.gradient_diameter / 100
    log_delta = math.log(1e6)
    assert sigma == pytest.approx(constant * lipschitz * math.sqrt(40 * log_delta) / 250, rel=5e-3)


@pytest.mark.parametrize("sizes", [(250,), (100, 150, 300)])
def test_the_bound_of_the_paper_is_the_one_proved(sizes):
    """Regrets of noisy steps, what comparators that saw the noise gain by it, and the bias."""
    problem, p, steps = make_problem(sizes, radius=1.5), len(sizes), 40
    plan = GDA(steps, schedule="paper").plan(problem, BUDGET)
    s = plan.schedule
    rho, noise = s.ridge, plan.releases[0].noise_multiplier * s.gradient_diameter / sizes[0]
    squares = (problem.lipschitz + 3.0 * rho) ** 2 + problem.n_weights * noise**2
    seen, bias = 1.5 * math.sqrt(problem.n_weights * steps), 1.5**2 * rho / 2
    if p > 1:
        middle = problem.loss_range / 2 * math.sqrt(p)
        squares += (middle + math.sqrt(2) * rho) ** 2 + p * noise**2
        seen, bias = seen + math.sqrt(2 * steps * math.log(p)), bias + rho / 2
    total = (1 + math.log(steps)) / (2 * rho) * squares + noise * seen + steps * bias
    assert plan.predicted_excess == pytest.approx(total / steps)


def test_one_group_is_mgr_with_one_group():
    """Without a second player both are the same noisy steps, and release the same."""
    problem = make_problem((400,), n_features=3)
    data = make_data(problem, *random_data(problem, 0))
    result = []
    for solver in (GDA(n_steps=12), MGR(n_steps=12, centring=False)):
        plan = solver.plan(problem, BUDGET)
        result.append((plan.releases, solver.run(plan, data, silent()).weights))
    assert result[0][0] == result[1][0]
    np.testing.assert_allclose(result[0][1], result[1][1], atol=1e-12)
