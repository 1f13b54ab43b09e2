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
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers import OCO, Exact, OnlineToBatch, PhasedERM
from sklearn_dpwg.solvers.learners import FTRL
from sklearn_dpwg.solvers.oco import EXPECTED_SPREAD
from sklearn_dpwg.solvers.steps import heard, log_mean_exp_laplace
from tests.helpers.cases.stream import BUDGET
from tests.helpers.contract import compared
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import hidden_problem, neighbours, random_records
from tests.helpers.replay import fixed_transcript

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")

LOSSES = [BinaryLogLoss(), SquaredError(), Hinge(), MultinomialLogLoss(3)]


class Silent:
    """A source of no noise: what is handed over comes back, with what is written down."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.losses, self.sensitivities = [], []

    def laplace(self, value, *, sensitivity, release):
        self.losses.append(np.array(value))
        return value

    def gaussian_rows(self, shape, *, release):
        source = self

        class Rows:
            seeded = False

            def add(self, row, sensitivity):
                source.sensitivities.append(sensitivity)
                return np.array(row)

        return Rows()


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


def averaged(values, power):
    shares = np.arange(1.0, len(values) + 1) ** power
    return (shares[:, None] * np.array(values)).sum(axis=0) / shares.sum()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("noise", ["toeplitz", "tree", "independent"])
def test_a_sampled_game_is_algorithm_2(loss, noise):
    """Round by round: draw a group, two batches, noisy gradient sums, EXP3, averages."""
    problem = make_problem((60, 90, 50), loss=loss)
    solver = OCO(play="sampled", noise=noise, n_rounds=12, batch_size=3, averaging=1.0)
    plan = solver.plan(problem, BUDGET)
    schedule = plan.schedule
    data = make_data(problem, *random_records(problem, np.random.default_rng(5)))
    source = Silent(3)
    game = solver.begin(plan, source)
    assert game.advance(Listed(data), problem.group_sizes) == 12
    found = game.finish()

    coins, oracle = np.random.default_rng(3), Listed(data)
    b, c = 3, int(schedule.feedback_rates[0])
    log_weights = np.log(np.array(schedule.prior))
    total, played, played_groups = np.zeros(problem.n_weights), [], []
    gamma = schedule.strength(
        schedule.gradient_multiplier * schedule.worst_std * schedule.gradient_diameter / b
    )
    for _ in range(12):
        group_weights = np.exp(log_weights - log_weights.max())
        group_weights /= group_weights.sum()
        weights = project_to_ball(-total / gamma, problem.radius)
        played.append(weights)
        played_groups.append(group_weights)
        drawn = int(np.searchsorted(np.cumsum(group_weights), coins.random(), side="right"))
        rows, targets = oracle.draw(drawn, b + c)
        values, gradients = batch(problem, rows, targets, weights)
        total += gradients[:b].mean(axis=0)
        heard = np.minimum(values[b:], schedule.ceiling).mean() - problem.constants.infimum
        unheard = np.clip(schedule.feedback_bound - heard, 0.0, 2.0 * schedule.feedback_bound)
        log_weights[drawn] -= schedule.group_rate * unheard / group_weights[drawn]
    assert np.allclose(found.weights, averaged(played, 1.0), rtol=1e-9, atol=1e-12)
    assert np.allclose(found.group_weights, averaged(played_groups, 1.0))
    assert found.n_iter == 12


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("sizes", [(60, 90, 50), (100, 7, 40), (80,)])
def test_a_weighted_game_is_the_stated_one(loss, sizes):
    """All groups in every round, also those with fewer records than rounds; all records used."""
    problem = make_problem(sizes, loss=loss)
    solver = OCO(n_rounds=10)
    plan = solver.plan(problem, BUDGET)
    schedule = plan.schedule
    data = make_data(problem, *random_records(problem, np.random.default_rng(6)))
    source = Silent()
    game = solver.begin(plan, source)
    oracle = Listed(data)
    assert game.advance(oracle, problem.group_sizes) == 10
    assert list(oracle.next) == list(data.records.starts[1:])  # nothing is left
    found = game.finish()

    listed, several = Listed(data), len(sizes) > 1
    own, other = np.array(schedule.weight_rates), np.array(schedule.feedback_rates)
    assert np.allclose((own + other) * 10, sizes)
    log_weights, influence = np.log(np.array(schedule.prior)), 0.0
    total, played, played_groups = np.zeros(problem.n_weights), [], []
    influence = (np.array(schedule.prior) / own).max()
    unit = schedule.gradient_multiplier * schedule.worst_std * schedule.gradient_diameter
    for t in range(10):
        group_weights = np.exp(log_weights - log_weights.max())
        group_weights /= group_weights.sum()
        gamma = schedule.strength(unit * influence)
        weights = project_to_ball(-total / gamma, problem.radius)
        played.append(weights)
        played_groups.append(group_weights)
        influence = max(influence, (group_weights / own).max())
        for i in range(len(sizes)):
            n_own, n_other = (
                (t + 1) * round(10 * rate) // 10 - t * round(10 * rate) // 10
                for rate in (own[i], other[i])
            )
            rows, targets = listed.draw(i, n_own + n_other)
            values, gradients = batch(problem, rows, targets, weights) if len(rows) else ([], [])
            if n_own:
                total += group_weights[i] / own[i] * gradients[:n_own].sum(axis=0)
            if several and n_other:
                clipped = np.minimum(values[n_own:], schedule.ceiling) - problem.constants.infimum
                log_weights[i] += schedule.group_rate * clipped.sum() / other[i]
                noise = schedule.group_rate * schedule.feedback_multiplier
                scale = np.array(noise * schedule.feedback_range / other[i])
                log_weights[i] -= log_mean_exp_laplace(scale)
    assert np.allclose(found.weights, averaged(played, 2.0), rtol=1e-8, atol=1e-12)
    assert np.allclose(found.group_weights, averaged(played_groups, 2.0))
    # what is stated for noise is the largest influence so far times the diameter
    assert np.all(np.diff(source.sensitivities) >= 0)
    first = (np.array(schedule.prior) / own).max()
    ratio = source.sensitivities[-1] / source.sensitivities[0]
    assert math.isclose(ratio, influence / first)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_game_of_places_is_the_stated_one(loss):
    """Where groups are hidden: places in a random order, weighed by what stands for sizes."""
    problem = replace(make_problem((60, 90, 9), loss=loss), hidden=HiddenGroups(160, 3.0))
    solver = OCO(n_rounds=10)
    plan = solver.plan(problem, Budget(1e3, 1e-6))
    schedule = plan.schedule
    rng = np.random.default_rng(6)
    rows, targets = random_records(replace(problem, hidden=HiddenGroups(160)), rng)
    codes = rng.integers(3, size=160)
    data = make_data(problem, rows, targets, codes)
    found = solver.run(plan, data, Silent(4))

    order = np.random.default_rng(4).permutation(160)
    rates = np.array(schedule.weight_rates)
    assert np.allclose(rates, [6.0, 9.0, 0.9])
    assert schedule.weight_rates == schedule.feedback_rates
    prior = np.array(schedule.prior)
    exponents, influence = np.zeros(3), (prior / rates).max()
    unit = schedule.gradient_multiplier * schedule.worst_std * schedule.gradient_diameter
    stds = make_prefix_sums("toeplitz", n_steps=10, n_dimensions=3).standard_deviations()
    total, sums, played, played_groups = np.zeros(problem.n_weights), np.zeros(3), [], []
    for t in range(10):
        group_weights = prior * np.exp(exponents)
        group_weights /= group_weights.sum()
        gamma = schedule.strength(unit * influence)
        weights = project_to_ball(-total / gamma, problem.radius)
        played.append(weights)
        played_groups.append(group_weights)
        influence = max(influence, (group_weights / rates).max())
        chosen = order[16 * t : 16 * t + 16]
        shortened = data.records.rows[np.argsort(data.records.places)[chosen]].astype(float)
        values, gradients = batch(problem, shortened, targets[chosen], weights)
        total += (group_weights / rates)[codes[chosen]] @ gradients
        center = (problem.constants.infimum + schedule.ceiling) / 2.0
        np.add.at(sums, codes[chosen], np.minimum(values, schedule.ceiling) - center)
        noise = schedule.feedback_multiplier * stds[t] * schedule.feedback_range / rates
        risks, variances = heard(sums / rates, noise**2, problem)
        believed = ((t + 1) * EXPECTED_SPREAD * problem.constants.zero_score) ** 2
        counted = schedule.group_rate * believed / (believed + variances)
        exponents = counted * (risks - prior @ risks) - counted**2 * variances / 2.0
    assert np.allclose(found.weights, averaged(played, 2.0), rtol=1e-8, atol=1e-12)
    assert np.allclose(found.group_weights, averaged(played_groups, 2.0))


@pytest.mark.parametrize(
    "solver", [OCO(n_rounds=4), OnlineToBatch(n_rounds=4), PhasedERM(4)], ids=repr
)
def test_a_record_of_a_later_call_moves_what_it_pays_for(solver):
    """Hidden groups in two calls, of which the second holds the record that changes its group."""
    worst = 0.0
    for seed in range(40):
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
    solver = OCO(play="sampled", n_rounds=40, batch_size=2, weight_share=0.5)
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


def test_parts_are_the_same_game():
    """Many calls with a few records each play on what one call with all plays on."""
    problem = make_problem((60, 30))
    solver = OCO(n_rounds=6)
    plan = solver.plan(problem, BUDGET)
    data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
    whole, parts, short = (solver.begin(plan, NoiseSource(1, plan.releases)) for _ in range(3))
    whole.advance(Listed(data), (60, 30))
    oracle = Listed(data)
    for _ in range(3):
        assert parts.advance(oracle, (20, 10)) == 2
    assert parts.is_over
    assert parts.advance(oracle, (1000, 1000)) == 0
    one, other = whole.finish(), parts.finish()
    assert np.array_equal(one.weights, other.weights)
    assert np.array_equal(one.group_weights, other.group_weights)
    oracle = Listed(data)  # what is left over is not used
    assert short.advance(oracle, (19, 30)) == 1
    assert short.advance(oracle, (9, 30)) == 0
    assert oracle.next == [10, 65]


@pytest.mark.parametrize("play", ["weighted", "sampled"])
@pytest.mark.parametrize("learner", ["ftrl", "optimistic", FTRL(strength=2.0)])
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
    found = solver.run(plan, data, NoiseSource(0, plan.releases))
    assert data.risks(found.weights).max() < best + 0.04
    assert data.risks(np.zeros(2)).max() > best + 0.2


def test_one_group_is_dp_ftrl():
    """The only player is the learner, and it has all records."""
    problem = make_problem((500,))
    solver = OCO(n_rounds=5)
    plan = solver.plan(problem, BUDGET)
    assert plan.schedule.weight_rates == (100.0,)
    data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
    oracle = Listed(data)
    noise = NoiseSource(0, plan.releases)
    game = solver.begin(plan, noise)
    game.advance(oracle, (500,))
    assert oracle.next == [500]
    assert game.finish().group_weights.tolist() == [1.0]
    assert [draw.release.name for draw in noise.draws] == ["gradient sums"]
