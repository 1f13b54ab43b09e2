"""The rule for new people without privacy: its estimates by closed forms, its choice at limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.problem import Cells, Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import Exact, Moments
from sklearn_dpwg.solvers.auto import make_solver
from sklearn_dpwg.solvers.exact import shrinker
from sklearn_dpwg.solvers.steps import FIRST_STEPS, GainOfGroups
from tests.helpers.group_data import dense, make_data, make_problem, make_risks
from tests.helpers.sources import seeded

INFINITE = Budget(math.inf, 1e-6)
SIZES = (30, 14, 1, 25)


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3)])
@pytest.mark.parametrize("groups", [((0,), (1,), (2,), (3,)), ((0, 2), (1, 2, 3), (3,))])
def test_optimism_is_takeuchis_by_cell(loss, groups):
    cells, rng = Cells(SIZES, groups), np.random.default_rng(0)
    risks = make_risks(loss, SIZES)
    weights, fractions = rng.normal(size=risks.n_weights), rng.dirichlet(np.ones(len(groups)))
    sizes, membership = np.array(SIZES), cells.membership.toarray()
    root = rng.normal(size=(risks.n_weights,) * 2)
    inverse, of_records, of_cells = root @ root.T, fractions / cells.group_sizes @ membership, []
    for cell in range(len(SIZES)):
        rows, targets = dense(risks, cell)
        scores = rows @ weights.reshape(loss.n_outputs, -1).T
        values, slopes = loss.value_and_derivative(
            scores if loss.n_outputs > 1 else scores[:, 0], targets
        )
        gradients = np.einsum("nk,nd->nkd", slopes.reshape(len(values), -1), rows)
        centred = gradients.reshape(len(values), -1)
        centred = centred - centred.mean(axis=0)
        trace = np.einsum("ni,ij,nj->", centred, inverse, centred)
        of_cells.append((values.sum(), ((values - values.mean()) ** 2).sum(), trace))
    sums, squares, traces = np.array(of_cells).T
    squares, traces = (each + each.sum() / (sizes - 1).sum() for each in (squares, traces))
    n = np.array(cells.group_sizes)
    result = risks.overlapping(cells).optimism(weights, fractions, root)
    assert result[0] == pytest.approx(membership @ sums / n)
    assert result[1] == pytest.approx(membership @ squares / n**2)
    assert result[2] == pytest.approx(membership @ (of_records * traces) / n)


def test_shrinking_is_that_of_paule_and_mandel():
    risks = np.array([0.3, 0.5, 0.9, 0.4])
    matrix = shrinker(risks, np.full(4, 0.01))  # τ² is then the variance less that of sampling
    kept = 1.0 - 0.01 / risks.var(ddof=1)
    assert matrix @ risks == pytest.approx(kept * risks + (1.0 - kept) * risks.mean())
    variances = np.array([1.0, 2.0, 4.0, 4.0])  # what differs is by chance: τ² is 0
    mean = risks @ (1.0 / variances) / 2.0
    assert shrinker(risks, variances) @ risks == pytest.approx(np.full(4, mean))
    assert shrinker(risks, np.zeros(4)) @ risks == pytest.approx(risks)


def test_all_weight_moves_where_groups_differ_and_records_are_many():
    y = np.repeat([0.0, 1.0], [30_000, 6_000]) + np.tile([-0.1, 0.1], 18_000)
    model = DPWorstGroupRegressor(math.inf, data_norm=1.0)
    model.fit(np.zeros((36_000, 1)), y, y > 0.5)
    assert model.predict([[0.0]]) == pytest.approx([0.5], abs=1e-3)
    assert model.group_weights_ == pytest.approx([0.5, 0.5], abs=1e-2)
    units = (2.0 / (y.max() - y.min())) ** 2 / 2.0
    # the mean loses (5/6)² of the small group, the middle ½²
    assert model.group_gain_ == pytest.approx(units * (25 / 36 - 1 / 4), rel=1e-2)
    assert 0.0 < model.group_gain_std_ < 0.02


def alike(seed, few=40, scale=0.1):
    """Return two groups of one truth, of which the small one is harder to tell."""
    rng = np.random.default_rng(seed)
    codes = np.repeat([0, 1], [4_000, few])
    X = rng.normal(size=(len(codes), 15)) / 8.0 * np.where(codes, scale, 1.0)[:, None]
    return X, rng.random(len(X)) < expit(8.0 * X[:, 0]), codes


def test_no_weight_moves_to_a_group_that_nothing_helps():
    weights, gains = [], []
    for seed in range(5):
        records = alike(seed)
        model = DPWorstGroupClassifier(math.inf, data_norm=1.0).fit(*records)
        exact = DPWorstGroupClassifier(math.inf, data_norm=1.0, solver="exact").fit(*records)
        weights.append((model.group_weights_[1], exact.group_weights_[1]))
        gains.append((model.group_gain_, model.group_gain_std_))
    ours, least_favourable = np.median(weights, axis=0)
    assert least_favourable > 0.7
    assert ours == pytest.approx(40 / 4_040)
    assert all(0.0 <= gain <= std for gain, std in gains)


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3)])
@pytest.mark.parametrize("radius", [0.5, 50.0])
def test_a_fit_is_the_optimum_of_what_it_learns_from(loss, radius):
    sizes = (60, 40, 20)
    problem = Problem(loss, sizes, 3, radius, (0.5, 0.3, 0.2), 1.0)
    risks, solver = make_risks(loss, sizes), make_solver("auto", epsilon=math.inf)
    plan, result = solver.plan(problem, INFINITE), []
    cells = Cells(sizes, ((0,), (1,), (2,)))
    for each in (problem, replace(problem, cells=cells)):
        plan = solver.plan(each, INFINITE)
        result.append(solver.run(plan, risks, NoiseSource(None, ())))
    first, second = result
    assert first.weights == pytest.approx(second.weights, abs=1e-6)
    assert np.linalg.norm(first.weights) <= radius * (1.0 + 1e-9)
    _, gradients = risks.risks_and_gradients(first.weights)
    # the ridge and the ball both pull straight to 0
    slope, pull = first.group_weights @ gradients, first.weights / np.linalg.norm(first.weights)
    assert slope - (slope @ pull) * pull == pytest.approx(np.zeros(len(slope)), abs=1e-6)
    assert slope @ pull <= 0.0
    assert first.group_weights.sum() == pytest.approx(1.0)
    exact = Exact().run(Exact().plan(problem, INFINITE), risks, NoiseSource(None, ()))
    assert risks.risks(first.weights).max() >= risks.risks(exact.weights).max() - 1e-6


# --- private runs ------------------------------------------------------------------------------


def gain_of(sizes, risks, *, correction=1.0, std=1e-4, n_steps=FIRST_STEPS + 5):
    problem = replace(make_problem(sizes, scaling=1.0), optimism_correction=correction)
    gain = GainOfGroups(problem)
    for _ in range(n_steps):
        gain.push(np.array(risks), np.full(len(risks), std**2))
    return gain


def test_the_fraction_of_the_game_is_what_a_group_gains_over_what_its_weight_costs():
    loud = gain_of((5000, 1000), (0.45, 0.62))
    assert 0.5 < loud.fraction < 1.0
    assert gain_of((5000, 1000), (0.45, 0.47)).fraction < loud.fraction
    assert gain_of((5000, 60), (0.45, 0.62)).fraction < loud.fraction
    assert gain_of((50_000, 10_000), (0.45, 0.62)).fraction > loud.fraction
    assert gain_of((5000, 1000), (0.45, 0.62), std=0.6).fraction < 0.1  # it may be noise
    assert gain_of((5000, 1000), (0.45, 0.62), correction=0.0).fraction == 1.0
    assert gain_of((5000, 1000), (0.5, 0.5), correction=0.0).fraction == 1.0
    assert gain_of((5000, 1000), (0.5, 0.5)).fraction == 0.0


def run(solver, problem, data):
    plan = solver.plan(problem, Budget(8.0, 1e-6))
    return solver.run(plan, data, seeded(0, plan.releases))


def test_moments_play_what_they_show_that_a_group_gains():
    """Of groups alike the mean is learned, of groups that differ about the game is."""
    rng, sizes = np.random.default_rng(0), (40_000, 20_000)
    problem = make_problem(sizes, loss=SquaredError(), n_features=2, radius=4.0)
    rows, codes = rng.uniform(-0.5, 0.5, (60_000, 2)), np.repeat([0, 1], sizes)
    for slope, gains in ((0.0, False), (1.2, True)):
        noise = 0.1 * rng.standard_normal(60_000)
        data = make_data(problem, rows, 0.5 * rows[:, 0] + slope * codes * rows[:, 1] + noise)
        result = run(Moments(), problem, data)
        game = run(Moments(), replace(problem, optimism_correction=0.0), data)
        weights, of_game = result.group_weights, game.group_weights
        fraction = (weights[1] - 1 / 3) / (of_game[1] - 1 / 3)
        assert fraction == pytest.approx(1.0 if gains else 0.0, abs=0.1)
        assert (result.group_gain > 0.001) == gains
