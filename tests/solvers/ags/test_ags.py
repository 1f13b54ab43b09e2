"""The run is the algorithm that docs/theory/ags.md states, and its plan keeps what it bounds."""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import AGS, Solution
from sklearn_dpwg.solvers.ags import ChoiceRule
from tests.helpers.group_data import make_data, make_problem, naive
from tests.helpers.neighbours import random_data
from tests.helpers.reference import Ball
from tests.helpers.replay import recorded
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


def stated(plan, data, answers, first):
    """Return weights and groups taken, in plain arithmetic for given releases."""
    problem, schedule = plan.problem, plan.schedule
    weights, ball = first.copy(), Ball.at_rest(schedule, len(first))
    sizes = np.array(problem.group_sizes)
    active, taken, kept = [], np.zeros(len(sizes), dtype=int), []
    answers = iter(answers)
    for _ in range(schedule.n_steps):
        risks, gradients, _ = naive(data, weights, schedule.loss_clip)
        if len(sizes) > 1:
            asked = next(answers)
            np.testing.assert_allclose(asked.value, risks * sizes, rtol=1e-7)
            active.append(asked.answer / sizes)
        mean = np.zeros(len(sizes))
        for number, risks in enumerate(active, 1):
            mean = mean + (risks - mean) / min(number, schedule.memory)
        group = int(np.argmax(mean))
        taken[group] += 1
        asked = next(answers)
        np.testing.assert_allclose(asked.value, gradients[group], rtol=1e-5, atol=1e-6)
        std = plan.releases[0].noise_multiplier * schedule.gradient_diameter / sizes[group]
        ball = ball.pushed(schedule, asked.answer, std)
        weights = project_to_ball(weights + ball.move, problem.radius)
        kept.append(weights)
    if not schedule.initial_distance:  # Algorithm 5: w_1, ..., w_T after T - 1 steps
        return np.mean([first, *kept], axis=0), taken
    return np.mean(kept[-round(len(kept) / 2) :], axis=0), taken


@pytest.mark.parametrize("loss", [MultinomialLogLoss(3), SquaredError(), Hinge()])
@pytest.mark.parametrize("solver", [AGS(n_steps=9), AGS(schedule="paper", max_passes=9)])
@pytest.mark.parametrize("sizes", [(30,), (30, 50, 9)])
def test_a_run_is_the_stated_algorithm(loss, solver, sizes):
    problem = make_problem(sizes, loss=loss, n_features=3, radius=4.0)
    plan = solver.plan(problem, Budget(60.0, 1e-6))
    assert plan.n_steps == 9
    data = make_data(problem, *random_data(problem, 1))
    for first in (np.zeros(problem.n_weights), np.full(problem.n_weights, 5.0)):
        noise = recorded(seeded(2, plan.releases))
        result = solver.run(plan, data, noise, start=Solution(first, None, 0))
        inside = project_to_ball(first, problem.radius)
        weights, taken = stated(plan, data, noise.asked, inside)
        np.testing.assert_allclose(result.weights, weights, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(result.group_weights, taken / taken.sum())


# --- planning ----------------------------------------------------------------------------------


def test_the_choice_keeps_its_bound():
    """E (L_i - L of the group taken) for the last risks alone is at most what is stated."""
    rng, near = np.random.default_rng(0), 0.0
    for p in (2, 3, 4, 5, 7):
        rule = ChoiceRule(make_problem(rng.integers(3, 400, size=p)), AGS(), 1)
        noise = rule.noise_of_passes(1.0, 0.4)
        stds, bound = np.sqrt(noise.risk), rule.group_regret(noise)
        for units in (np.zeros(p), rng.uniform(0, 2, p), *np.eye(p), *(-np.eye(p))):
            risks = stds.max() * units
            taken = np.argmax(risks + stds * rng.standard_normal((4000, p)), axis=1)
            gaps = risks - risks[taken].mean()
            assert (gaps <= bound + 4 * risks[taken].std() / math.sqrt(4000)).all()
            near = max(near, (gaps / bound).max())
    assert near > 0.1


def test_the_bound_is_the_one_written_down():
    problem = make_problem((40, 160), prior=(0.3, 0.7), n_features=4)
    plan = AGS(n_steps=50, risk_fraction=0.25).plan(problem, BUDGET)
    schedule, mu, sizes = plan.schedule, BUDGET.mu, np.array([40, 160])
    initial_distance = 0.3 * problem.radius
    std = problem.gradient_diameter / (sizes * mu) / math.sqrt(0.75)
    reach = 50 * schedule.longest_step / 0.1
    total = np.minimum(schedule.step_fraction * initial_distance / std, reach)
    loudest = (schedule.loss_sensitivity / (40 * mu)) ** 2 / 0.25 * 50 / schedule.memory
    expected = initial_distance**2 / (2 * total) + total * problem.n_weights * std**2 / 2
    expected = expected + math.sqrt(2 * math.log(2) * loudest)
    assert plan.predicted_excess_if_worst == pytest.approx(expected)


def test_paper_schedule_is_the_papers():
    problem = make_problem((400, 900), radius=3.0, n_features=5, prior=(0.2, 0.8))
    n, d, p, diameter = 400, problem.n_weights, 2, 6.0
    lipschitz, b = problem.lipschitz, problem.loss_range
    for epsilon in (0.3, 1.0, 30.0):
        plan = AGS(schedule="paper").plan(problem, Budget(epsilon, 1e-6))
        log = math.log(1e6)
        steps = math.floor(diameter * lipschitz * n * epsilon / (16 * b * math.sqrt(log)))
        t, schedule = min(151, max(2, steps)), plan.schedule
        assert plan.n_steps == t - 1
        sigma = lipschitz * math.sqrt(t * math.log(n * p * 1e6) * log) / (n * epsilon)
        tau = b * math.sqrt(t * log) / (n * epsilon)
        gradient, risks = plan.releases
        assert risks.mechanism == "laplace"
        assert gradient.paid_count == t - 1
        factor = gradient.noise_multiplier * schedule.gradient_diameter / n / sigma
        assert factor >= 1 - 1e-9
        assert risks.noise_multiplier * schedule.loss_sensitivity / n / tau == pytest.approx(factor)
        as_printed = [
            Release("g", "gaussian", sigma * n / schedule.gradient_diameter, t - 1),
            Release("r", "laplace", tau * n / schedule.loss_sensitivity, t - 1),
        ]
        costs = PrivacyGuarantee.from_releases(as_printed, 1e-6).epsilon
        assert (costs > epsilon) == (factor > 1 + 1e-9)
        assert f"constant 1 costs epsilon = {rounded_up(costs)}" in schedule.remark
        step = diameter / math.sqrt(t * (lipschitz**2 + d * (factor * sigma) ** 2))
        assert schedule.step_size == pytest.approx(step)
        assert (schedule.memory, schedule.n_averaged) == (1, t)
        assert schedule.prior == (0.5, 0.5)
        excess = diameter * math.sqrt((lipschitz**2 + d * (factor * sigma) ** 2) / t)
        excess += 16 * factor * tau * math.log(p * n * t / 2)
        assert plan.predicted_excess == pytest.approx(excess)
