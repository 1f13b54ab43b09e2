"""Plans of the online solver: the written bound, the choice by it, the paper's numbers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers import OCO
from sklearn_dpwg.solvers.oco import (
    RISK_SPREAD,
    WEIGHT_FRACTIONS,
)
from tests.helpers.group_data import make_problem

BUDGET = Budget(1.0, 1e-6)
SIZES = (20_000, 3_000, 900)


@pytest.mark.parametrize("play", ["weighted", "sampled"])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), Hinge(), MultinomialLogLoss(3)], ids=repr)
def test_bound_is_the_one_written_down(play, loss):
    problem = make_problem(SIZES, loss=loss)
    plan = OCO(play=play, n_rounds=50).plan(problem, BUDGET)
    s = plan.schedule
    for i, size in enumerate(SIZES):
        own, other = s.weight_rates[i], s.feedback_rates[i]
        played = 50.0 if play == "weighted" else min(50.0, size / (own + other))
        std = s.gradient_multiplier * s.worst_std * s.gradient_diameter / own
        gamma = s.strength(std)
        moved = math.sqrt(0.35) * std / gamma
        bound = (0.4 * problem.radius) ** 2 * gamma / (2 * played)
        if math.isinf(problem.smoothness):
            bound += problem.lipschitz * moved + problem.lipschitz**2 / (2 * gamma)
        else:
            curved = 0.5 * problem.smoothness * loss.n_outputs * moved**2
            bound += min(problem.lipschitz * moved, curved)
        variance = 2.0 * (s.feedback_multiplier * s.loss_sensitivity / other) ** 2
        bound += -math.log(problem.prior[i]) / (s.group_rate * played)
        if play == "weighted":
            spread = (RISK_SPREAD * s.loss_sensitivity) ** 2
            bound += s.group_rate * (spread + 0.5 * variance * min(1.0, other))
        else:
            bound += s.group_rate * 0.5 * 3 * (s.feedback_bound**2 + variance)
        assert math.isclose(plan.predicted_excess_if_worst[i], bound, rel_tol=1e-9)
    average = float(np.array(problem.prior) @ plan.predicted_excess_if_worst)
    assert math.isclose(plan.predicted_excess, average)


@pytest.mark.parametrize("play", ["weighted", "sampled"])
def test_a_plan_is_the_best_of_what_is_tried(play):
    problem = make_problem(SIZES)
    best = OCO(play=play).plan(problem, BUDGET)
    for n_rounds in (10, 40, 128):
        for fraction in WEIGHT_FRACTIONS:
            tried = OCO(play=play, n_rounds=n_rounds, weight_fraction=fraction).plan(
                problem, BUDGET
            )
            assert best.predicted_excess <= tried.predicted_excess * (1 + 0.02)
    # the group player's rate is the best one for the average over the prior, without early ends
    rate = best.schedule.group_rate
    for factor in (0.8, 1.25):
        other = dataclasses.replace(best.schedule, group_rate=factor * rate)
        if play == "weighted":
            average = float(np.array(problem.prior) @ other.excess_by_group())
            assert best.predicted_excess <= average


def test_paper_schedule_is_the_papers():
    """Theorem 7: one record each, T = K/2, U and eta as printed, uniform, plain averages."""
    problem = make_problem((4_000, 2_000), loss=SquaredError(), radius=1.0)
    plan = OCO(schedule="paper", noise="tree").plan(problem, BUDGET)
    s, p, n_rounds = plan.schedule, 2, 3_000
    assert plan.n_steps == n_rounds
    assert (s.play, s.averaging, s.problem.prior) == ("sampled", 0.0, (0.5, 0.5))
    assert s.weight_rates == s.feedback_rates == (1.0, 1.0)
    assert s.loss_sensitivity == pytest.approx(problem.loss_range, rel=1e-10)
    assert s.loss_sensitivity > problem.loss_range
    bound = problem.loss_range * (1.0 + 2.0 / BUDGET.epsilon * math.log(n_rounds))
    assert math.isclose(s.feedback_bound, bound, rel_tol=1e-4)  # exact accounting saves a touch
    rate = math.sqrt(math.log(p) / (p * n_rounds)) / s.feedback_bound
    assert math.isclose(s.group_rate, rate)
    mechanism = make_prefix_sums("tree", n_steps=n_rounds, n_dimensions=3)
    noise = s.gradient_multiplier * problem.gradient_diameter * mechanism.standard_deviations()
    variation = 0.5 * n_rounds * problem.lipschitz**2
    variation += problem.lipschitz * math.sqrt(3) * noise[:-1].sum()
    assert math.isclose(s.fixed_strength, math.sqrt(2 * variation) / problem.radius)
    regret = math.sqrt(2 * variation) * problem.radius / n_rounds
    bandit = math.log(2) / (rate * n_rounds) + rate * 2 * 2 * s.feedback_bound**2
    assert math.isclose(plan.predicted_excess, regret + bandit)
    assert "the paper's parameters" in str(plan)


@pytest.mark.parametrize(
    ("parameters", "sizes", "epsilon", "message"),
    [
        ({"learner": 3}, SIZES, 1.0, "learner of OCO must be a name or a Learner"),
        ({}, SIZES, math.inf, "needs a finite epsilon"),
        ({}, (1, 30), 1.0, "OCO needs at least 2 records"),
        ({"batch_size": 1, "n_rounds": 1000}, (2, 100_000), 1.0, "OCO needs at least 2 records"),
        ({"n_rounds": 1}, (10**9, 10**9), 1.0, "rounding may show a record"),
    ],
)
def test_what_cannot_be_planned(parameters, sizes, epsilon, message):
    with pytest.raises((TypeError, ValueError), match=message):
        OCO(**parameters).plan(make_problem(sizes), Budget(epsilon, 1e-6))
