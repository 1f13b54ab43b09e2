"""Is the online solver the algorithm that docs/theory/oco.md states?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.problem import HiddenGroups
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import OCO, Exact, OnlineToBatch, PhasedERM
from sklearn_dpwg.solvers.learners import FTRL
from tests.helpers.cases.stream import BUDGET
from tests.helpers.contract import compared
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import hidden_problem, neighbours, random_records
from tests.helpers.replay import fixed_transcript, silent

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")

LOSSES = [BinaryLogLoss(), SquaredError(), Hinge(), MultinomialLogLoss(3)]


class Listed(SampleOracle):
    """Hands out the records of each group in their order, and counts."""

    def __init__(self, data):
        records = data.records
        self.rows = records.rows.astype(float)
        self.targets, self.next = records.targets, list(records.starts[:-1])

    def draw(self, group, size):
        start = self.next[group]
        self.next[group] += size
        return self.rows[start : start + size], self.targets[start : start + size]


def batch(problem, rows, targets, weights):
    """Return losses and gradients, one record at a time."""
    matrix = weights.reshape(problem.loss.n_outputs, -1)
    values, gradients = [], []
    for row, target in zip(rows, targets, strict=True):
        full = np.append(row, problem.intercept_scaling) if problem.intercept_scaling else row
        scores = matrix @ full
        scores = scores if len(scores) == 1 else scores[None, :]
        value, slope = problem.loss.value_and_derivative(scores, np.array([target]))
        values.append(float(value[0]))
        gradients.append(np.outer(np.ravel(slope), full).ravel())
    return np.array(values), np.array(gradients)


def is_average_of(result, played, played_groups, power):
    fractions = (
        np.arange(1.0, len(played) + 1) ** power / (np.arange(1.0, len(played) + 1) ** power).sum()
    )
    np.testing.assert_allclose(result.weights, fractions @ played, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(
        result.group_weights, fractions @ played_groups, rtol=1e-8, atol=1e-12
    )
    return result.n_iter == len(played)


def softmax_of(exponents):
    powers = np.exp(exponents - exponents.max())
    return powers / powers.sum()


@pytest.mark.parametrize(
    ("loss", "noise"),
    [*zip(LOSSES, ["toeplitz", "tree", "independent", "toeplitz"], strict=True)],
    ids=str,
)
def test_a_sampled_game_is_algorithm_2(loss, noise):
    """Round by round: draw a group, two batches, noisy gradient sums, EXP3, averages."""
    problem = make_problem((60, 90, 50), loss=loss)
    solver = OCO(play="sampled", noise=noise, n_rounds=12, batch_size=3, averaging=1.0)
    plan = solver.plan(problem, BUDGET)
    schedule = plan.schedule
    data = make_data(problem, *random_records(problem, np.random.default_rng(5)))
    result = solver.run(plan, Listed(data), silent(3))

    coins, oracle = np.random.default_rng(3), Listed(data)
    b, c = 3, int(schedule.feedback_rates[0])
    log_weights = np.log(np.array(problem.prior))
    total, played, played_groups = np.zeros(problem.n_weights), [], []
    gamma = schedule.strength(
        schedule.gradient_multiplier * schedule.worst_std * schedule.gradient_diameter / b
    )
    for _ in range(12):
        group_weights = softmax_of(log_weights)
        weights = project_to_ball(-total / gamma, problem.radius)
        played.append(weights)
        played_groups.append(group_weights)
        drawn = int(np.searchsorted(np.cumsum(group_weights), coins.random(), side="right"))
        rows, targets = oracle.draw(drawn, b + c)
        values, gradients = batch(problem, rows, targets, weights)
        total += gradients[:b].mean(axis=0)
        active = np.minimum(values[b:], schedule.loss_clip).mean() - problem.constants.infimum
        unheard = np.clip(schedule.feedback_bound - active, 0.0, 2.0 * schedule.feedback_bound)
        log_weights[drawn] -= schedule.group_rate * unheard / group_weights[drawn]
    assert is_average_of(result, played, played_groups, 1.0)


@pytest.mark.parametrize(
    "solver", [OCO(n_rounds=4), OnlineToBatch(n_rounds=4), PhasedERM(4)], ids=repr
)
def test_a_record_of_a_later_call_moves_what_it_pays_for(solver):
    """Hidden groups in two calls, of which the second holds the record that changes its group."""
    worst = 0.0
    for seed in range(12):
        facts = hidden_problem(np.random.default_rng(seed), BinaryLogLoss(), n_groups=3)
        twice = HiddenGroups(2 * facts.n_records, facts.hidden.count_std, n_calls=2)
        plan = solver.plan(replace(facts, hidden=twice, fresh_calls=2), BUDGET)
        pair, runs = neighbours(facts, seed), []
        for last in (pair.data, pair.other):
            source = fixed_transcript(seed, {})
            game = solver.begin(plan, source, start=pair.start)
            for data in (pair.data, last):
                game.advance(data.as_oracle(source.rng), [facts.n_records])
            assert game.is_over or facts.n_records == 2
            runs.append((source, game.finish()))
        worst = max(worst, *compared(plan, *runs).values())
    assert 0.5 < worst <= 1.0 + 1e-6  # of a phase's certificate


def test_a_sampled_game_ends_when_the_drawn_group_has_run_out():
    problem = make_problem((8, 400), prior=(0.5, 0.5))
    solver = OCO(play="sampled", n_rounds=40, batch_size=2, weight_fraction=0.5)
    plan = solver.plan(problem, BUDGET)
    data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
    lengths = []
    for seed in range(30):
        oracle = Listed(data)
        game = solver.begin(plan, NoiseSource(seed, plan.releases))
        n_played = game.advance(oracle, problem.group_sizes)
        lengths.append(n_played)
        if n_played < 40:
            assert oracle.next[0] == 8  # two rounds of four records, and the third was too many
        assert game.finish().n_iter == n_played
    assert min(lengths) < 12 < 40


@pytest.mark.parametrize("make", [OCO, OnlineToBatch])
def test_parts_are_the_same_game(make):
    """Many calls with a few records each play on what one call with all plays on."""
    problem, solver = make_problem((60, 30)), make(n_rounds=6)
    plan = solver.plan(problem, BUDGET)
    data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
    whole, parts, short = (solver.begin(plan, NoiseSource(1, plan.releases)) for _ in range(3))
    whole.advance(Listed(data), (60, 30))
    oracle = Listed(data)
    for _ in range(3):
        assert parts.advance(oracle, (20, 10)) == 2
    assert parts.is_over
    assert parts.advance(oracle, (1000, 1000)) == 0
    np.testing.assert_array_equal(whole.finish().weights, parts.finish().weights)
    np.testing.assert_array_equal(whole.finish().group_weights, parts.finish().group_weights)
    oracle = Listed(data)  # what is left over is not used
    assert short.advance(oracle, (19, 30)) == 1
    assert short.advance(oracle, (9, 30)) == 0
    assert oracle.next == [10, 65]


@pytest.mark.parametrize(
    ("play", "learner"), [("weighted", "ftrl"), ("sampled", "optimistic"), ("weighted", FTRL(2.0))]
)
def test_without_noise_the_worst_group_is_found(play, learner):
    """A huge budget: close to the exact optimum of the records."""
    rng = np.random.default_rng(0)
    sizes = (30_000, 10_000)
    problem = make_problem(sizes, radius=2.0, scaling=0.0, n_features=2)
    rows = rng.normal(size=(40_000, 2))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    sign = np.repeat([1.0, -1.0], sizes)
    scores = rows[:, 0] + 0.4 * sign * rows[:, 1] + 0.2 * rng.normal(size=40_000)
    targets = np.where(scores > 0, 1.0, -1.0)
    data = make_data(problem, rows, targets)
    exact = Exact().run(
        Exact().plan(problem, Budget(math.inf, 1e-6)), data, NoiseSource(), start=None
    )
    best = data.risks(exact.weights).max()
    solver = OCO(learner, play=play, n_rounds=1000)
    plan = solver.plan(problem, Budget(200.0, 1e-6))
    result = solver.run(plan, data, NoiseSource(0, plan.releases))
    assert data.risks(result.weights).max() < best + 0.04
    assert data.risks(np.zeros(2)).max() > best + 0.2
