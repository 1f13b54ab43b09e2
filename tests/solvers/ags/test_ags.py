"""The run is the algorithm that docs/theory/ags.md states, and its plan keeps what it bounds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from sklearn_dpwg.losses import Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import AGS, Solution
from sklearn_dpwg.solvers.ags import ChoiceRule, GroupChoice, of_choice
from sklearn_dpwg.solvers.steps import GainOfGroups
from tests.helpers.group_data import make_data, make_problem, naive
from tests.helpers.neighbours import random_data
from tests.helpers.reference import step_and_momentum
from tests.helpers.replay import recorded
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


def of_records(problem):
    """Return the game on the records, all of which is played."""
    return replace(problem, optimism_correction=0.0)


def chooser(schedule):
    problem = make_problem((5,) * len(schedule.prior))
    return GroupChoice(schedule, GainOfGroups(problem, adapts=False))


def stated(plan, data, answers, first, visits):
    """Return weights, visits and groups taken, in plain arithmetic for given releases."""
    problem, schedule = plan.problem, plan.schedule
    weights, velocity = first.copy(), np.zeros_like(first)
    sizes = np.array(problem.group_sizes)
    heard, taken, kept = [], np.zeros(len(sizes), dtype=int), []
    answers = iter(answers)
    for _ in range(schedule.n_steps):
        risks, gradients, _ = naive(data, weights, schedule.ceiling)
        if len(sizes) > 1:
            asked = next(answers)
            np.testing.assert_allclose(asked.value, risks * sizes, rtol=1e-7)
            heard.append(asked.answer / sizes)
        scores = np.zeros(len(sizes))
        if heard:
            mean = np.mean(heard, axis=0) if schedule.memory > 1 else heard[-1]
            scores = mean + np.log(np.array(schedule.prior)) / schedule.sharpness
        scores[taken >= visits] = -np.inf
        group = int(np.argmax(scores))
        taken[group] += 1
        asked = next(answers)
        np.testing.assert_allclose(asked.value, gradients[group], rtol=1e-5, atol=1e-6)
        std = plan.releases[0].noise_multiplier * schedule.gradient_diameter / sizes[group]
        step, momentum = step_and_momentum(schedule, std)
        velocity = momentum * velocity - step * asked.answer
        move = momentum * velocity - step * asked.answer
        weights = project_to_ball(weights + move, problem.radius)
        kept.append(weights)
    if not schedule.aim:  # Algorithm 5: w_1, ..., w_T after T - 1 steps
        return np.mean([first, *kept], axis=0), taken
    return np.mean(kept[-round(len(kept) / 2) :], axis=0), taken


@pytest.mark.parametrize("loss", [MultinomialLogLoss(3), SquaredError(), Hinge()])
@pytest.mark.parametrize(
    ("solver", "visits"),
    [
        (AGS(n_steps=9), 9),
        (AGS(n_steps=9, visits=4), 4),
        (AGS(n_steps=9, sharpness=5.0), 9),
        (AGS(schedule="paper", max_passes=9), 9),
    ],
)
@pytest.mark.parametrize("sizes", [(30,), (30, 50, 9)])
def test_a_run_is_the_stated_algorithm(loss, solver, visits, sizes):
    problem = of_records(make_problem(sizes, loss=loss, n_features=3, radius=4.0))
    plan = solver.plan(problem, Budget(60.0, 1e-6))
    assert plan.n_steps == (9 if len(sizes) > 1 else visits)
    data = make_data(problem, *random_data(problem, 1))
    for first in (np.zeros(problem.n_weights), np.full(problem.n_weights, 5.0)):
        noise = recorded(seeded(2, plan.releases))
        found = solver.run(plan, data, noise, start=Solution(first, None, 0))
        inside = project_to_ball(first, problem.radius)
        weights, taken = stated(plan, data, noise.asked, inside, visits)
        np.testing.assert_allclose(found.weights, weights, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.group_weights, taken / taken.sum())


def test_groups_are_taken_with_the_probability_in_closed_form():
    sizes, n_draws = np.array([40, 60, 25]), 3000
    problem = make_problem(sizes, prior=(0.2, 0.5, 0.3))
    solver = AGS(n_steps=n_draws, sharpness=4.0, risk_share=0.5)
    plan = solver.plan(problem, Budget(60.0, 1e-6))
    schedule, release = replace(plan.schedule, memory=1), plan.releases[1]
    means = np.array([0.62, 0.60, 0.55])
    stds = release.noise_multiplier * schedule.feedback_range / sizes
    scores = means + np.log([0.2, 0.5, 0.3]) / 4.0
    noise, choice = seeded(0, plan.releases), chooser(schedule)
    counts = np.zeros(3)
    for _ in range(n_draws):
        noisy = noise.gaussian(means * sizes, sensitivity=schedule.feedback_range, release=release)
        counts[choice.take(noisy / sizes, stds**2)] += 1

    def density(x, i):
        others = [stats.norm.cdf((x - scores[j]) / stds[j]) for j in range(3) if j != i]
        return stats.norm.pdf(x, scores[i], stds[i]) * math.prod(others)

    expected = [
        integrate.quad(density, scores[i] - 12 * stds[i], scores[i] + 12 * stds[i], (i,))[0]
        for i in range(3)
    ]
    assert sum(expected) == pytest.approx(1.0)
    assert min(expected) > 0.05
    assert stats.chisquare(counts, n_draws * np.array(expected)).pvalue > 1e-3
    wrong = stats.norm.cdf(scores - scores.mean())
    assert stats.chisquare(counts, n_draws * wrong / wrong.sum()).pvalue < 1e-6


def test_ties_go_to_the_first_group_and_means_run():
    plan = AGS(n_steps=6, visits=2, sharpness=math.inf).plan(make_problem((5, 5, 5)), BUDGET)
    choice = chooser(plan.schedule)
    assert [choice.take(np.ones(3), np.ones(3)) for _ in range(6)] == [0, 0, 1, 1, 2, 2]
    assert choice.shares == pytest.approx(np.full(3, 1 / 3))
    heard = [np.array([9.0, 0.0]), np.array([0.0, 4.0]), np.array([0.0, 4.0])]
    plan = AGS(n_steps=3).plan(make_problem((50, 50)), BUDGET)
    for memory, groups in ((3, [0, 0, 0]), (1, [0, 1, 1])):
        choice = chooser(replace(plan.schedule, memory=memory))
        assert [choice.take(risks, np.ones(2)) for risks in heard] == groups


def test_groups_are_taken_as_far_as_the_game_is_played():
    """With nothing to gain as often as they are large, else about as often as a mixture says."""
    problem = make_problem((1000, 8000, 1000))
    schedule = AGS(n_steps=50, sharpness=math.inf).plan(problem, BUDGET).schedule
    for risks, least in ((np.full(3, 0.5), 0.0), (np.array([0.62, 0.45, 0.45]), 0.5)):
        gain = GainOfGroups(problem)
        choice = GroupChoice(schedule, gain)
        for _ in range(50):
            choice.take(risks, np.full(3, 1e-8))
        assert least <= gain.share <= 0.5 * (1.0 + np.sign(least))
        mixture = gain.share * np.eye(3)[0] + (1.0 - gain.share) * np.array(problem.prior)
        np.testing.assert_allclose(choice.shares, mixture, atol=2 / 50)


# --- planning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_keeps_its_bound(seed):
    """E (L_i - L of the group taken) for the last risks alone is at most what is stated."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 8))
    prior = rng.dirichlet(np.ones(p)) * 0.99 + 0.01 / p
    problem = make_problem(rng.integers(3, 400, size=p), prior=prior)
    rule = ChoiceRule(problem, AGS(), 10)
    noise = rule.noise_of_passes(1.0, 0.4)
    stds = np.sqrt(noise.risk)
    near = 0
    for sharpness in (rule.sharpness(noise), 1.0, 30.0):
        bound = of_choice(prior, noise.risk, sharpness)
        for risks in (np.zeros(p), rng.uniform(0, 2, p), *(2 * np.eye(p)), *(-2 * np.eye(p))):
            noisy = risks + stds * rng.standard_normal((4000, p))
            taken = np.argmax(noisy + np.log(prior) / sharpness, axis=1)
            gaps = risks[:, None] - risks[taken].mean()
            error = 4 * risks[taken].std() / math.sqrt(4000)
            assert (gaps[:, 0] <= bound + error).all()
            near = max(near, (gaps[:, 0] / bound).max())
    assert near > 0.1


def test_the_bound_is_the_one_written_down():
    problem = make_problem((40, 160), prior=(0.3, 0.7), n_features=4)
    solver = AGS(n_steps=50, visits=30, risk_share=0.25, sharpness=7.0)
    plan = solver.plan(problem, BUDGET)
    schedule, mu, sizes = plan.schedule, BUDGET.mu, np.array([40, 160])
    aim, share = 0.3 * problem.radius, schedule.step_share
    std = math.sqrt(30 / 0.75) * schedule.gradient_diameter / (sizes * mu)
    reach = 50 / problem.smoothness / 0.1
    total = np.minimum(share * aim * math.sqrt(50) / std, reach)
    variances = (schedule.feedback_range * math.sqrt(50 / 0.25) / (sizes * mu)) ** 2 / 50
    choice = np.log(1 / np.array([0.3, 0.7])) / 7
    choice += math.log(np.dot([0.3, 0.7], np.exp(49 * variances / 2))) / 7
    expected = aim**2 / (2 * total) + total * problem.n_weights * std**2 / 100 + choice
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
        assert risks.noise_multiplier * schedule.feedback_range / n / tau == pytest.approx(factor)
        as_printed = [
            Release("g", "gaussian", sigma * n / schedule.gradient_diameter, t - 1),
            Release("r", "laplace", tau * n / schedule.feedback_range, t - 1),
        ]
        costs = PrivacyGuarantee.from_releases(as_printed, 1e-6).epsilon
        assert (costs > epsilon) == (factor > 1 + 1e-9)
        assert f"constant 1 costs epsilon = {rounded_up(costs)}" in schedule.remark
        step = diameter / math.sqrt(t * (lipschitz**2 + d * (factor * sigma) ** 2))
        assert schedule.step_size == pytest.approx(step)
        assert (schedule.memory, schedule.sharpness, schedule.averaged) == (1, math.inf, t)
        assert schedule.prior == (0.5, 0.5)
        excess = diameter * math.sqrt((lipschitz**2 + d * (factor * sigma) ** 2) / t)
        excess += 16 * factor * tau * math.log(p * n * t / 2)
        assert plan.predicted_excess == pytest.approx(excess)
        assert f"average of the start and all {t - 1} iterates" in str(plan)
