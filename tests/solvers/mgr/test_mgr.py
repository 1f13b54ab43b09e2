"""Does MGR compute what it says, and does it hold up where numbers are extreme?"""

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.losses import (
    SquaredError,
)
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, Solution
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data
from tests.helpers.replay import fixed_transcript, silent
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


def paper_run(plan, data, answers, drawn):
    """Algorithm 3 of the paper in plain arithmetic; answers and drawn groups are given."""
    schedule, problem = plan.schedule, plan.problem
    sizes = np.array(problem.group_sizes, dtype=float)
    weights, group_weights = np.zeros(problem.n_weights), np.array(schedule.prior)
    path, group_path, answers = [weights], [group_weights], iter(answers)
    for group in drawn:
        risks, gradients = data.risks_and_gradients(weights, loss_clip=schedule.loss_clip)
        gradient, released = next(answers), next(answers)
        np.testing.assert_allclose(gradient.value, gradients[group], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(released.value, sizes * risks, rtol=1e-9)
        weights = weights - schedule.step_size * gradient.answer
        weights = weights * min(1.0, problem.radius / np.linalg.norm(weights))
        group_weights = group_weights * np.exp(schedule.group_rate * released.answer / sizes)
        group_weights = group_weights / group_weights.sum()
        path.append(weights)
        group_path.append(group_weights)
    return np.mean(path, axis=0), np.mean(group_path, axis=0)


def test_a_sampled_run_is_the_stated_algorithm():
    solver, problem = MGR(schedule="paper"), make_problem((4, 9, 30))
    plan = solver.plan(problem, Budget(20.0, 1e-6))
    data = make_data(problem, *random_data(problem, 0))
    source = silent()
    result = solver.run(plan, data, source)
    sensitivities = [float(asked.sensitivity) for asked in source.asked[::2]]
    of_group = plan.schedule.gradient_diameter / np.array(problem.group_sizes)
    drawn = [int(np.argmin(abs(of_group - one))) for one in sensitivities]
    np.testing.assert_allclose(sensitivities, of_group[drawn], rtol=1e-12)
    assert len(set(drawn)) > 1
    weights, group_weights = paper_run(plan, data, source.asked, drawn)
    np.testing.assert_allclose(result.weights, weights, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.group_weights, group_weights, rtol=1e-9)


def test_groups_are_drawn_from_their_weights():
    problem = make_problem((4, 9, 30))
    solver = MGR(schedule="paper", max_passes=1500)
    plan = solver.plan(problem, Budget(60.0, 1e-6))
    n_steps = plan.n_steps
    still = dataclasses.replace(plan.schedule, prior=(0.5, 0.3, 0.2), group_rate=0.0)
    plan = dataclasses.replace(plan, schedule=still)
    source = silent()
    solver.run(plan, make_data(problem, *random_data(problem, 0)), source)
    sensitivities = np.array([float(asked.sensitivity) for asked in source.asked[::2]])
    for size, fraction in zip(problem.group_sizes, still.prior, strict=True):
        drawn = np.isclose(sensitivities, plan.schedule.gradient_diameter / size).mean()
        assert abs(drawn - fraction) < 6 * math.sqrt(fraction * (1 - fraction) / n_steps)


# --- shapes and extremes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "solver"), [(1e6, MGR(n_steps=25)), (1e100, MGR(schedule="paper"))]
)
def test_wild_answers_leave_no_nan(scale, solver):
    problem = make_problem((1, 2, 30))
    plan = solver.plan(problem, BUDGET)
    data = make_data(problem, *random_data(problem, 1))
    source = fixed_transcript(3, {"gradient": scale, "group risks": scale})
    result = solver.run(plan, data, source)
    assert np.linalg.norm(result.weights) <= problem.radius * (1 + 1e-12)
    assert result.group_weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert all(np.all(asked.sensitivity > 0.0) for asked in source.asked)


@pytest.mark.parametrize("least", [1e-300, 0.0])
def test_tiny_group_weights_recover(least):
    """In log space a weight of 1e-300 grows back; it is not stuck and not NaN."""
    problem = make_problem((5, 5))
    plan = MGR(n_steps=40, averaging=0.01).plan(problem, BUDGET)
    plan = dataclasses.replace(
        plan, schedule=dataclasses.replace(plan.schedule, adapts=False, group_rate=100.0)
    )
    start = Solution(np.zeros(problem.n_weights), np.array([least, 1.0 - least]), 0)
    source = silent()
    source.answer_with = lambda release, value, _: (
        np.array([1.0, 0.0]) if release.name == "group risks" else value
    )
    data = make_data(problem, *random_data(problem, 0))
    result = MGR().run(plan, data, source, start=start)
    assert result.group_weights[0] == pytest.approx(1.0)


# --- it learns ---------------------------------------------------------------------------------


def easy_regression(sizes, radius=2.0):
    rng = np.random.default_rng(0)
    problem = make_problem(sizes, loss=SquaredError(), n_features=3, radius=radius)
    rows = rng.standard_normal((problem.n_records, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    slopes = np.array([[0.9, 0.2, 0.0], [0.2, 0.9, 0.0], [0.5, 0.5, 0.3]])[groups]
    targets = np.einsum("ij,ij->i", rows, slopes) + 0.1 * rng.uniform(-1, 1, len(rows))
    return problem, make_data(problem, rows, np.clip(targets, -1, 1))


@pytest.mark.parametrize("epsilon", [10.0, 1e5])
def test_the_planned_rule_keeps_what_it_predicts(epsilon):
    """The planned rates trust nobody and are slow without noise, but the prediction says so.

    It is about the game on the records, where nobody corrects for optimism.
    """
    problem, data = easy_regression((3000, 400, 100))
    problem = dataclasses.replace(problem, optimism_correction=0.0)
    risks = data.risks(worst_group_optimum(data, radius=problem.radius).weights)
    solver = MGR(n_steps=300)
    plan = solver.plan(problem, Budget(epsilon, 1e-6))
    result = data.risks(solver.run(plan, data, seeded(0, plan.releases)).weights)
    assert (result - risks.max() <= plan.predicted_excess_if_worst).all()
