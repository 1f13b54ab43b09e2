"""Plans of the online-to-batch solver: the written bound, the choice by it, the paper's numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers import OnlineToBatch
from tests.helpers.group_data import make_problem
from tests.helpers.reference import papers_node_std

BUDGET = Budget(1.0, 1e-6)


@pytest.mark.parametrize(
    ("loss", "power", "convexity"),
    [(BinaryLogLoss(), 1.0, 0.01), (BinaryLogLoss(), 2.0, 0.0), (MultinomialLogLoss(3), 2.0, 0.01)],
    ids=str,
)
def test_bound_is_the_one_written_down(loss, power, convexity):
    sizes, n_rounds = (6_000, 2_000), 40
    problem = make_problem(sizes, loss=loss, radius=5.0, n_features=6)
    plan = OnlineToBatch(
        power=power, convexity=convexity, n_rounds=n_rounds, initial_distance=0.5
    ).plan(problem, BUDGET)
    schedule, initial_distance = plan.schedule, 2.5
    mechanism = make_prefix_sums("toeplitz", n_steps=n_rounds, n_dimensions=problem.n_weights)
    beta = np.arange(1.0, n_rounds + 2) ** power
    total = np.cumsum(beta)
    stds, largest = [], 0.0
    for t in range(1, n_rounds + 1):
        before = beta[t - 2] if t > 1 else 0.0
        moved = initial_distance / (power + 2.0) * beta[t - 1] / total[t - 1]
        change = min(problem.smoothness * moved, 2.0 * problem.gradient_diameter)
        unit = (beta[t - 1] - before) * problem.gradient_diameter + before * change
        largest = max(largest, unit / 200.0)  # the prior is proportional: 8,000 records over 40
        stds.append(schedule.multiplier * largest * mechanism.standard_deviations()[t - 1])
    gamma, strength = schedule.strength, 0.0
    for t in range(2, n_rounds + 2):
        curved = gamma + 0.5 * convexity * total[t - 2]
        strength += beta[t - 1] / total[-1] * sum(stds[: t - 1]) / curved
    std = 0.6 * strength
    curve = problem.smoothness * loss.n_outputs
    noise = 0.5 * min(curve, problem.n_weights * gamma / total[-1]) * std**2
    bound = gamma * initial_distance**2 / (2 * total[-1]) + min(noise, problem.lipschitz * std)
    bound += 0.5 * convexity * initial_distance**2
    assert plan.predicted_excess_if_worst == pytest.approx([bound / 0.75, bound / 0.25], rel=1e-6)
    assert gamma >= curve * (beta**2 / total).max()


def test_groups_without_end():
    problem = make_problem((math.inf, math.inf), prior=(0.3, 0.7))
    plan = OnlineToBatch(n_rounds=50, batch_size=10).plan(problem, BUDGET)
    assert plan.schedule.group_rates == pytest.approx((3.0, 7.0))
    assert plan.n_steps == 50
    paper = OnlineToBatch(n_rounds=50, schedule="paper").plan(problem, BUDGET)
    assert paper.schedule.group_rates == pytest.approx((0.3, 0.7))
    ends = make_problem((math.inf, 10, math.inf), prior=(0.2, 0.5, 0.3))
    paper = OnlineToBatch(n_rounds=50, schedule="paper").plan(ends, BUDGET)
    assert paper.schedule.group_rates == pytest.approx((0.32, 0.2, 0.48))
    for schedule in ("planned", "paper"):
        with pytest.raises(ValueError, match=r"^n_rounds of OnlineToBatch must be set where"):
            OnlineToBatch(schedule=schedule).plan(problem, BUDGET)


# --- the paper's numbers -------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["ftrl", "optimistic", "parameter-free"])
def test_paper_schedule_is_the_papers(learner):
    """One record a round, T = K of which the last reads none, the tree, k = 1 or 3."""
    problem = make_problem((3_000,), radius=2.0)
    plan = OnlineToBatch(learner, schedule="paper").plan(problem, BUDGET)
    s = plan.schedule
    power = 3.0 if learner == "parameter-free" else 1.0
    assert (plan.n_steps, s.noise, s.power, s.group_rates) == (2_999, "tree", power, (1.0,))
    # the noise of a node is that of (6), whatever the tree's own factor
    mechanism = make_prefix_sums("tree", n_steps=2_999, n_dimensions=3)
    for step, farthest in [(1, 0.0), (7, 1.3), (2_999, 4.0)]:
        node = s.multiplier * mechanism.column_norm * s.papers_sensitivity(step, farthest)
        papers = papers_node_std(
            problem, rho=BUDGET.mu, power=power, n_total=3_000, step=step, farthest=farthest
        )
        assert node == pytest.approx(papers, rel=2e-6)  # calibration rounds up
    assert "the paper's parameters" in str(plan)
    assert ("unstated" in str(plan)) == (learner == "parameter-free")


@pytest.mark.parametrize(
    ("power", "radius", "noise"),
    [(0.0, 1e-3, None), (0.5, 300.0, "toeplitz"), (3.0, 300.0, None), (3.0, 1e-3, "toeplitz")],
)
def test_paper_noise_is_stated_at_what_it_costs(power, radius, noise):
    """What a run states is never below Lemma 1's, and is not above it everywhere."""
    problem = make_problem((500,), radius=radius)
    solver = OnlineToBatch("ftrl", schedule="paper", power=power, noise=noise)
    plan = solver.plan(problem, BUDGET)
    s, diameter, closest = plan.schedule, problem.gradient_diameter, 0.0
    assert plan.releases[0].noise_multiplier == s.multiplier
    assert plan.guarantee.epsilon < (0.5 if power == 1.0 else 1.0) * BUDGET.epsilon
    beta = np.append(0.0, np.arange(1.0, 500.0) ** power)
    part = beta[1:] / np.cumsum(beta[1:])
    for distance in np.append(0.0, np.geomspace(1e-6, 1.0, 400)) * problem.diameter:
        change = np.minimum(problem.smoothness * part * distance, 2.0 * diameter)
        proved = np.abs(np.diff(beta)) * diameter + beta[:-1] * change
        stated = s.papers_sensitivity(1, distance) * np.arange(1.0, 500.0) ** (power - 1.0)
        closest = max(closest, (proved / stated).max())
    assert 0.98 < closest <= 1.0


def test_papers_bound_is_the_one_written_down():
    problem = make_problem((500,), radius=2.0)
    plan = OnlineToBatch("ftrl", schedule="paper").plan(problem, BUDGET)
    s, n = plan.schedule, plan.n_steps
    deviations = make_prefix_sums("tree", n_steps=n, n_dimensions=3).standard_deviations()
    regret = errors = squares = 0.0
    for t in range(1, n + 1):
        moved = 4.0 * t / (t * (t + 1) / 2)
        squares += (problem.lipschitz + (t - 1) * problem.smoothness * moved) ** 2
        noise = math.sqrt(3) * s.multiplier * s.papers_sensitivity(t, 4.0) * deviations[t - 1]
        errors += math.sqrt(squares) + noise
        regret += (t * problem.lipschitz + math.sqrt(squares) + noise) ** 2 / 2.0
    # what is heard after the round that reads nothing is the risk's gradient, without errors
    regret += ((n + 1) * problem.lipschitz) ** 2 / 2.0
    total = (n + 1) * (n + 2) / 2
    gamma = math.sqrt(2.0 * regret) / 2.0
    assert s.strength == pytest.approx(gamma)
    bound = (gamma * 2.0**2 / 2 + regret / gamma + 4.0 * errors) / total
    assert plan.predicted_excess == pytest.approx(bound)


def test_what_cannot_be_planned():
    with pytest.raises(ValueError, match=r"^batch_size or n_rounds of OnlineToBatch must be set"):
        OnlineToBatch(schedule="paper").plan(make_problem((10**9,)), BUDGET)
    with pytest.raises(ValueError, match=r"^loss must be smooth for solver 'online-to-batch'.*Hi"):
        OnlineToBatch().plan(make_problem((3_000,), loss=Hinge()), BUDGET)
    with pytest.raises(ValueError, match="needs a finite epsilon, got inf"):
        OnlineToBatch().plan(make_problem((3_000,)), Budget(math.inf, 1e-6))
