"""MGR with every loss: its plan for kinks, its releases, and what it reaches."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Quantile,
    SmoothedHinge,
    SquaredHinge,
)
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.steps import step_and_momentum
from tests.helpers.plan_check import assert_releases_match

KINKED = (Hinge(), AbsoluteError(), Quantile(0.8))
LOSSES = (*KINKED, SmoothedHinge(), SquaredHinge(), Huber())

parametrize_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def make_problem(loss, sizes, radius=3.0):
    shares = np.array(sizes) / sum(sizes)
    return Problem(loss, tuple(sizes), 2, radius, tuple(shares.tolist()), 0.5)


def make_data(problem, seed=0):
    """Two features that matter alike in all groups, and another threshold in each."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(problem.n_groups), problem.group_sizes)
    angle = rng.uniform(0, 2 * np.pi, size=len(codes))
    rows = np.column_stack([np.cos(angle), np.sin(angle)])
    signal = rows @ [0.6, -0.4] + 0.1 * codes
    noisy = np.clip(signal + 0.1 * rng.normal(size=len(codes)), -1, 1)
    targets = np.where(noisy > 0, 1.0, -1.0) if problem.loss.task == "binary" else noisy
    records = RecordEncoder(problem.n_groups, 1.0).encode(rows, targets, codes)
    return GroupRisks(records, problem.loss, problem.intercept_scaling)


@pytest.mark.parametrize("loss", KINKED, ids=repr)
def test_steps_of_a_loss_with_kinks(loss):
    problem = make_problem(loss, (300, 900))
    plan = MGR(n_steps=50, aim=0.4).plan(problem, Budget(1.0, 1e-6))
    longest = 0.4 * 3.0 / (problem.lipschitz * math.sqrt(50))
    assert plan.schedule.step_size == pytest.approx(longest)
    assert plan.schedule.max_momentum == 0.0
    assert step_and_momentum(plan.schedule, 1e-9) == (pytest.approx(longest), 0.0)
    loud = 100.0 * problem.lipschitz
    step, momentum = step_and_momentum(plan.schedule, loud)
    assert step == pytest.approx(plan.schedule.step_share * 0.4 * 3.0 / (loud * math.sqrt(50)))
    assert momentum == 0.0


def test_price_of_kinks_in_the_bound():
    """Without noise the bound is the textbook's: aim L/√T, beside the group player's share."""
    loss = AbsoluteError()
    for n_steps in (25, 100):
        problem = make_problem(loss, (10**9,))
        plan = MGR(n_steps=n_steps).plan(problem, Budget(100.0, 1e-6))
        textbook = 0.3 * problem.radius * problem.lipschitz / math.sqrt(n_steps)
        assert plan.predicted_excess == pytest.approx(textbook, rel=1e-3)


@parametrize_loss
def test_more_of_anything_never_predicts_worse(loss):
    sizes = [(30 * scale, 90 * scale) for scale in (1, 10, 1000, 10**5)]
    budgets = [Budget(epsilon, 1e-6) for epsilon in (0.01, 1.0, 100.0)]
    excess = np.array(
        [
            [MGR(n_steps=40).plan(make_problem(loss, n), budget).predicted_excess for n in sizes]
            for budget in budgets
        ]
    )
    assert np.isfinite(excess).all()
    assert (np.diff(excess, axis=1) <= 1e-6 * excess[:, 1:]).all()
    assert (np.diff(excess, axis=0) <= 1e-6 * excess[1:]).all()
    steps = [
        MGR(n_steps=t).plan(make_problem(loss, (300, 900)), budgets[1]).predicted_excess
        for t in (1, 3, 20, 200)
    ]
    assert steps == sorted(steps, reverse=True)


@parametrize_loss
def test_a_large_budget_comes_near_the_optimum(loss):
    problem = make_problem(loss, (2000, 1000))
    data = make_data(problem)
    solver = MGR(n_steps=150)
    plan = solver.plan(problem, Budget(50.0, 1e-6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noise = NoiseSource(0, plan.releases)
    found = solver.run(plan, data, noise)
    assert_releases_match(noise, plan)
    best = worst_group_optimum(data, radius=3.0)
    excess = data.risks(found.weights).max() - data.risks(best.weights).max()
    nothing = data.risks(np.zeros(3)).max() - data.risks(best.weights).max()
    assert -best.gap - 1e-12 <= excess <= 0.1 * nothing


@pytest.mark.parametrize("loss", [Hinge(), Quantile(0.8)], ids=repr)
def test_the_paper_plans_them_too(loss):
    plan = MGR(schedule="paper").plan(make_problem(loss, (300, 900)), Budget(1.0, 1e-6))
    assert 0 < plan.schedule.step_size < math.inf
    assert plan.guarantee.epsilon <= 1.0


def test_smooth_losses_keep_their_steps():
    problem = make_problem(BinaryLogLoss(), (300, 900))
    schedule = MGR(n_steps=50).plan(problem, Budget(1.0, 1e-6)).schedule
    assert schedule.step_size == pytest.approx(1 / problem.smoothness)
    assert schedule.max_momentum == pytest.approx(0.9)
    assert schedule.longest_step == pytest.approx(8 / problem.smoothness)
