"""Is the online-to-batch solver the algorithm that docs/theory/online-to-batch.md states?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy.prefix_sums import PrefixSumStream
from sklearn_dpwg.solvers import OnlineToBatch, Solution, online_to_batch
from sklearn_dpwg.solvers.learners import FTRL, LEARNERS, OptimisticFTRL, ParameterFree
from tests.helpers.cases.stream import BATCH_FAULTS, BUDGET, LOSSES
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_records
from tests.helpers.reference import algorithm_1, plain_gradient
from tests.helpers.replay import silent, wrap
from tests.solvers.oco.test_oco import Listed


def silent_game(solver, problem, data, source=None):
    """Return a game that was played on records in their order, and the losses that were told."""
    plan = solver.plan(problem, BUDGET)
    game = solver.begin(plan, silent() if source is None else source)
    facts, real = [], game._player

    class Told:
        def update(self, *loss):
            facts.append(loss)
            real.update(*loss)

        def predict(self):
            return real.predict()

    game._player = Told()
    game.advance(Listed(data), problem.group_sizes)
    return game, plan, facts


def batches_of(data, n_rounds):
    """Return the records in their order, dealt evenly."""
    oracle = Listed(data)
    ends = np.arange(n_rounds + 1) * data.group_sizes[0] // n_rounds
    return [oracle.draw(0, int(size)) for size in np.diff(ends)]


def is_algorithm_1(loss=None, *, power=1.0, learner=None, noise="toeplitz") -> bool:
    """Whether a game plays and hears what the algorithm does, line by line."""
    problem = make_problem((50,), loss=loss or BinaryLogLoss())
    learner = learner or FTRL(strength=2.0)
    solver = OnlineToBatch(learner, power=power, n_rounds=10, noise=noise)
    data = make_data(problem, *random_records(problem, np.random.default_rng(5)))
    game, _, facts = silent_game(solver, problem, data)
    weights, active = algorithm_1(
        problem,
        batches_of(data, 10),
        power=power,
        strength=learner.strength,
        optimistic=isinstance(learner, OptimisticFTRL),
    )
    scale = max(float(np.abs(active).max()), 1.0)
    return bool(
        np.allclose([loss[0] for loss in facts], active, rtol=1e-8, atol=1e-9 * scale)
        and np.allclose(game.finish().weights, weights, rtol=1e-8, atol=1e-10)
    )


@pytest.mark.parametrize(
    ("loss", "power", "kind"),
    [
        (loss, (0.0, 1.0, 3.0)[index % 3], (FTRL, OptimisticFTRL)[index % 2])
        for index, loss in enumerate(LOSSES)
    ],
)
def test_a_game_is_algorithm_1(loss, power, kind):
    assert is_algorithm_1(loss, power=power, learner=kind(strength=2.0))


@pytest.mark.parametrize("sizes", [(40,), (31, 5, 4)])
def test_paper_rounds_read_one_record(sizes):
    """Groups take turns, and the run is Algorithm 1 on the records in that order."""
    problem = make_problem(sizes)
    data = make_data(problem, *random_records(problem, np.random.default_rng(5)))
    drawn = []

    class Watched(Listed):
        def draw(self, group, size):
            drawn.append((group, super().draw(group, size)))
            return drawn[-1][1]

    solver = OnlineToBatch(FTRL(strength=2.0), schedule="paper")
    game = solver.begin(solver.plan(problem, BUDGET), silent())
    assert game.advance(Watched(data), sizes) == 39
    assert [len(targets) for _, (_, targets) in drawn] == [1] * 39
    for end in range(1, 40):  # at any time as many of each group as its fraction, but for one
        counts = np.bincount([group for group, _ in drawn[:end]], minlength=len(sizes))
        assert (abs(counts - end * np.array(sizes) / 40) <= 1.0).all()
    weights, _ = algorithm_1(problem, [record for _, record in drawn], power=1.0, strength=2.0)
    np.testing.assert_allclose(game.finish().weights, weights, rtol=1e-8, atol=1e-10)


def differences_of_noisy_sums(patch):
    """What `OCO` would hand the learner."""

    def differences(real, self, difference, sensitivity):
        noisy = real(self, difference, sensitivity=sensitivity)
        before = getattr(self, "before", np.zeros_like(noisy))
        self.before = noisy
        return noisy - before

    wrap(patch, PrefixSumStream, "add", differences)


def a_wrong_sign(patch):
    def plus(real, problem, rows, targets, here, before):
        return real(problem, rows, targets, here, (-before[0], before[1]))

    wrap(patch, online_to_batch, "difference_sum", plus)


def gradients_where_the_learner_is(patch):
    """At w_t, as in plain online-to-batch, not at the average x_t."""

    def move(real, self):
        real(self)
        self._average = self._weights

    wrap(patch, online_to_batch.OnlineToBatchGame, "_move", move)


def one_weight_too_late(patch):
    wrap(patch, online_to_batch, "round_weight", lambda real, step, power: real(step + 1, power))


@pytest.mark.parametrize(
    "plant",
    [
        differences_of_noisy_sums,
        BATCH_FAULTS["the wrong batch in the difference"],
        a_wrong_sign,
        gradients_where_the_learner_is,
        one_weight_too_late,
    ],
    ids=lambda plant: plant.__name__,
)
def test_planted_fault_is_another_algorithm(plant, monkeypatch):
    plant(monkeypatch)
    assert not is_algorithm_1()


@pytest.mark.parametrize("mixture", [None, (0.2, 0.5, 0.3)])
def test_a_mixture_weighs_the_groups(mixture):
    """Sums over public rates, all records read, whatever the sizes; also fewer than rounds."""
    problem = make_problem((70, 5, 20), prior=(0.5, 0.1, 0.4))
    data = make_data(problem, *random_records(problem, np.random.default_rng(2)))
    fractions = None if mixture is None else np.array(mixture)
    start = Solution(np.zeros(problem.n_weights), fractions, 0)
    for n_rounds in (10, 1):
        solver = OnlineToBatch(power=0.0, n_rounds=n_rounds)
        plan, source, oracle = solver.plan(problem, BUDGET), silent(), Listed(data)
        assert solver.run(plan, oracle, source, start=start).n_iter == n_rounds
        assert list(oracle.next) == list(data.records.starts[1:])
    expected, oracle = 0.0, Listed(data)
    for group, weight in enumerate(mixture or problem.prior):
        batch = oracle.draw(group, problem.group_sizes[group])
        expected = expected + weight * plain_gradient(problem, *batch, np.zeros(3))
    assert np.allclose(source.asked[0].value, expected)


@pytest.mark.parametrize("learner", sorted(LEARNERS))
@pytest.mark.parametrize("convexity", [0.0, 0.05])
def test_without_noise_the_risk_of_the_mixture_is_minimised(learner, convexity):
    """All learners, also with the regulariser, whose own optimum it is then."""
    problem = make_problem((400, 200), radius=4.0)
    rng = np.random.default_rng(3)
    rows, targets = random_records(problem, rng)
    targets = np.where(rows[:, 0] > 0, targets.max(), targets.min())
    data = make_data(problem, rows, targets)
    made = LEARNERS[learner]()
    batch = 10
    if isinstance(made, ParameterFree):
        made, batch = ParameterFree(strength=600.0, wealth=1.0), 1
    else:
        made.strength = 3.0
    solver = OnlineToBatch(made, convexity=convexity, n_rounds=600 // batch, batch_size=batch)
    plan = solver.plan(problem, BUDGET)
    # neither noise nor sampling is there, which betting would regularise for
    quiet = replace(plan.schedule, multiplier=0.0, effective_batch=math.inf)
    plan = replace(plan, schedule=quiet)
    result = solver.run(plan, data, silent()).weights

    def risk(weights):
        return float(np.asarray(problem.prior) @ data.risks(weights)) + 0.5 * convexity * (
            weights @ weights
        )

    one = make_problem((600,), radius=4.0)
    best = worst_group_optimum(make_data(one, rows, targets), radius=4.0).weights
    at_zero = risk(np.zeros(problem.n_weights))
    assert risk(result) - risk(best) < 0.25 * (at_zero - risk(best))
    if convexity:
        assert np.linalg.norm(result) < np.linalg.norm(best)
