"""Is the plan what the theory page says, and does it keep the budget?"""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import (
    BinaryLogLoss,
    SquaredError,
)
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.batches import GRADIENT_SPREAD, Batches
from sklearn_dpwg.solvers.mgr import HedgeRule
from sklearn_dpwg.solvers.solver import by_loss
from sklearn_dpwg.solvers.steps import hedge, risk_spread
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


# --- the bound ---------------------------------------------------------------------------------


def written_out(problem, mu, fraction, n_steps, initial_distance, longest, b, theta):
    """Return the bound of docs/theory/mgr.md, section 6."""
    result = []
    loudest = (b / (min(problem.group_sizes) * mu)) ** 2 / fraction if fraction else 0.0
    for size, prior in zip(problem.group_sizes, problem.prior, strict=True):
        std = problem.gradient_diameter / (size * mu * math.sqrt(1 - fraction))
        total = min(by_loss(problem.loss).step_fraction * initial_distance / std, longest)
        descent = initial_distance**2 / (2 * total) + total * problem.n_weights * std**2 / 2
        hedge = 0.0
        if problem.n_groups > 1:
            variance = (b / (size * mu * math.sqrt(fraction))) ** 2
            hedge = (
                -math.log(prior) / theta
                + theta * risk_spread(problem) ** 2 / n_steps
                + theta * (variance + loudest) / 4
            )
        result.append(descent + hedge)
    return result


@pytest.mark.parametrize(
    ("sizes", "fraction", "mu"),
    [((40,), 0.05, 0.05), ((40, 500), 0.4, 0.5), ((3, 2000, 100), 0.05, 20.0)],
)
def test_bound_is_the_one_written_down(sizes, fraction, mu):
    problem = make_problem(sizes)
    fraction = fraction if len(sizes) > 1 else 0.0
    rule = HedgeRule(problem, MGR(), 50)
    noise = rule.noise_of_passes(mu, fraction)
    theta = hedge(problem, 50, noise.risk)[0] if len(sizes) > 1 else 0.0
    reach = 50 * rule.longest_step / (1 - rule.max_momentum)
    correct = written_out(
        problem, mu, fraction, 50, rule.initial_distance, reach, rule.sums.loss_range, theta
    )
    np.testing.assert_allclose(rule.bound(noise), correct, rtol=1e-6)


@pytest.mark.parametrize("sizes", [(400, 500), (30, 2000, 100), (5, 5, 5, 5000)])
def test_risk_fraction_is_nearly_the_best_of_a_grid(sizes):
    problem = make_problem(sizes)
    planned = MGR(n_steps=40).plan(problem, BUDGET).predicted_excess
    grid = [
        MGR(n_steps=40, risk_fraction=fraction).plan(problem, BUDGET).predicted_excess
        for fraction in np.linspace(0.01, 0.5, 50)
    ]
    assert planned <= min(grid) * (1 + 1e-4)


# --- the theorems behind it --------------------------------------------------------------------


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError()], ids=repr)
def test_the_theorem_holds_for_the_papers_schedule(loss):
    """Theorem 3 of docs/theory/mgr.md: expected risk of every group, with every constant."""
    problem = make_problem((40, 400), loss=loss, radius=2.0)
    data = make_data(problem, *random_data(problem, 0))
    solver = MGR(schedule="paper", max_passes=40)
    plan = solver.plan(problem, Budget(3.0, 1e-3))
    schedule, sizes = plan.schedule, np.array(problem.group_sizes)
    best = worst_group_optimum(data, radius=problem.radius)
    optimum = data.risks(best.weights).max()
    reached = np.array(
        [
            data.risks(solver.run(plan, data, seeded(seed, plan.releases)).weights)
            for seed in range(40)
        ]
    )
    gradient, risks = plan.releases
    std = gradient.noise_multiplier * schedule.gradient_diameter / sizes.min()
    scales = risks.noise_multiplier * schedule.loss_sensitivity / sizes
    eta, rate, steps = schedule.step_size, schedule.group_rate, plan.n_steps + 1
    bound = np.linalg.norm(best.weights) ** 2 / (2 * eta * steps)
    bound += eta * (problem.lipschitz**2 + problem.n_weights * std**2) / 2
    bound = bound + math.log(2) / (rate * steps) + rate * problem.loss_range**2 / 8
    # noise that is not corrected for
    bound = bound - math.log1p(-((rate * scales.max()) ** 2)) / rate
    error = 5 * reached.std(axis=0) / math.sqrt(len(reached))
    assert (reached.mean(axis=0) - optimum <= bound + error).all()


# --- the paper's schedule ----------------------------------------------------------------------


def theorem_9_and_10(problem, budget, max_passes):
    n, d, p = min(problem.group_sizes), problem.n_weights, problem.n_groups
    M, L, B = 2 * problem.radius, problem.lipschitz, problem.loss_range
    log_delta = math.log(1 / budget.delta)
    T = (M * L + B * math.sqrt(math.log(p))) * (n * budget.epsilon) ** 2 / (L * B * d * log_delta)
    T = max(2, min(max_passes + 1, int(T)))
    tau = B / (n * budget.epsilon) * math.sqrt(T * log_delta)
    sigma = math.sqrt(T * L**2 * math.log(T / budget.delta) * log_delta) / (n * budget.epsilon)
    return T, sigma, tau


@pytest.mark.parametrize(
    ("epsilon", "loss", "sizes"),
    [
        (0.1, SquaredError(), (30, 30)),
        (1.0, BinaryLogLoss(), (30, 500, 60)),
        (8.0, SquaredError(), (30,)),
        (20.0, BinaryLogLoss(), (30, 500, 60)),
    ],
    ids=repr,
)
def test_paper_schedule_is_the_papers(sizes, epsilon, loss):
    problem, budget = make_problem(sizes, loss=loss), Budget(epsilon, 1e-5)
    plan = MGR(schedule="paper", max_passes=60).plan(problem, budget)
    schedule = plan.schedule
    T, sigma, tau = theorem_9_and_10(problem, budget, 60)
    n, p = min(sizes), len(sizes)
    # Algorithm 3: T - 1 steps, and the average of w_1, ..., w_T
    assert plan.n_steps == schedule.n_steps == T - 1 <= 60
    assert schedule.n_averaged == T
    assert {release.max_count for release in plan.releases} == {T - 1}
    constant = plan.releases[0].noise_multiplier * problem.gradient_diameter / n / sigma
    assert constant >= 1.0 - 1e-7  # what rounding adds to the diameter
    assert f"factor on both noises: {constant:.4g}" in str(schedule)
    if p > 1:
        scale = plan.releases[1].noise_multiplier * problem.loss_range / n
        assert scale / tau == pytest.approx(constant)
        U = problem.loss_range + 8 * scale * max(0.0, math.log(p * n * T / 2))
        assert schedule.group_rate == pytest.approx(math.sqrt(math.log(p) / (T * U**2)))
    noise = problem.n_weights * (constant * sigma) ** 2
    step = 2 * problem.radius / math.sqrt(T * (problem.lipschitz**2 + noise))
    assert (schedule.step_size, schedule.initial_distance) == (pytest.approx(step), 0.0)
    assert schedule.step == "sampled"
    assert schedule.prior == (1 / p,) * p
    assert plan.guarantee.epsilon <= epsilon
    with_constant_one = [release.scaled(1.0 / constant) for release in plan.releases]
    cost = PrivacyGuarantee.from_releases(with_constant_one, budget.delta).epsilon
    if constant > 1.0 + 1e-9:
        assert cost > epsilon
        assert plan.guarantee.epsilon == pytest.approx(epsilon, rel=1e-3)
    else:
        assert cost <= epsilon * (1 + 1e-9)


# --- batches, section 8 ------------------------------------------------------------------------


def test_batches_state_what_the_theory_says():
    """With a multiplier of 7, and a fifth for the risks."""
    rule = HedgeRule(make_problem((300, 40, 5000)), MGR(), 60)
    batches = Batches(rule.problem, rule.sums, 0.3, 7.0, 0.2)
    problem, b = rule.problem, rule.sums.loss_range
    expected = 0.3 * np.array(problem.group_sizes)
    stds = 7.0 * 2 * problem.lipschitz / expected / math.sqrt(0.8)
    np.testing.assert_allclose(batches.gradient_stds, stds)
    np.testing.assert_allclose(batches.risk_stds, 7.0 * b / expected / math.sqrt(0.2))
    coins = (GRADIENT_SPREAD * problem.lipschitz) ** 2 * 0.7 / expected
    np.testing.assert_allclose(batches.sampling_variances, coins)
    assert batches.sums.center == pytest.approx((problem.constants.infimum + rule.loss_clip) / 2)
    noise = batches.noise_of_run(rule.problem.n_weights, rule.n_steps)
    np.testing.assert_allclose(noise.gradient, (problem.n_weights * stds**2 + coins) / 60)
    risks = batches.risk_stds**2 + b**2 / 4 * 0.7 / expected
    np.testing.assert_allclose(noise.risk, risks / 60)
