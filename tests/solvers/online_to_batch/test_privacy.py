"""Does the online-to-batch solver release what its plan says, as sensitive as it says?

Neighbours play on one and the same transcript: what they hand over for noise may differ in one
round, by no more than is stated. docs/theory/online-to-batch.md, sections 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource, gdp_mu
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, make_prefix_sums
from sklearn_dpwg.solvers import OnlineToBatch, Solution
from sklearn_dpwg.solvers.stream import games as game_module
from sklearn_dpwg.solvers.stream.games import OnlineToBatchGame
from sklearn_dpwg.solvers.stream.learners import Learner
from sklearn_dpwg.solvers.stream.releases import DifferenceSums, difference_sum
from sklearn_dpwg.solvers.stream.schedule import DifferenceSensitivity, round_weight
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.o2b_cases import BUDGET, LOSSES, is_caught, papers_node_std, play_both
from tests.helpers.oco_cases import random_records
from tests.helpers.plan_check import assert_releases_match
from tests.helpers.planted import wrap
from tests.helpers.replay import silent
from tests.helpers.sources import seeded


def test_no_neighbour_moves_more_than_one_round():
    """Tiny groups, one record, huge and tiny balls, all learners, mechanisms and both schedules."""
    worst = 0.0
    for seed in range(1000):
        found, leaks = play_both(seed)
        assert not leaks, seed
        assert found.worst <= 1.0 + 1e-9, (seed, found)
        worst = max(worst, found.sums)
    assert worst > 0.9  # the attack is strong enough to mean something


def test_with_independent_noise_one_vector_moves_at_most():
    assert {play_both(seed, "independent")[0].n_rows for seed in range(150)} == {0, 1}


# --- planted faults ------------------------------------------------------------------------------


def wrong_batch_in_the_difference(patch):
    """The gradient at the point before is that of the batch before: a record moves two rounds."""
    seen = {}

    def other_batch(real, problem, rows, targets, here, before):
        found = real(problem, rows, targets, here, (0.0, before[1]))
        if before[0] and "last" in seen:
            found = found - real(problem, *seen["last"], before, (0.0, before[1]))
        if not before[0]:
            seen.clear()
        seen["last"] = rows, targets
        return found

    wrap(patch, game_module, "difference_sum", other_batch)


def no_smoothness(patch):
    def without(real, self, weight, before, moved):
        return real(self, weight, before, 0.0)

    wrap(patch, DifferenceSensitivity, "of_round", without)


def half_the_diameter(patch):
    def half(real, self, weight, before, moved):
        return real(self, weight, before, moved) / 2.0

    wrap(patch, DifferenceSensitivity, "of_round", half)


def no_weight_for_the_first_round_of_all(patch):
    """0^0 = 1: the first difference would have nothing but the gradients' change."""

    def power_of_zero(real, step, power):
        return float(step) ** power

    def nothing_at_first(real, self, weight, before, moved):
        return real(self, weight, before if before else weight, moved)

    wrap(patch, game_module, "round_weight", power_of_zero)
    wrap(patch, DifferenceSensitivity, "of_round", nothing_at_first)


def batch_not_divided(patch):
    def undivided(real, problem, rows, *others):
        return len(rows) * real(problem, rows, *others)

    wrap(patch, game_module, "difference_sum", undivided)


def the_mean_influence(patch):
    def mean(real, self, *arguments):
        real(self, *arguments)
        self._influence = float(self._shares.mean())

    wrap(patch, OnlineToBatchGame, "__init__", mean)


def the_planned_mixture_for_another(patch):
    def planned(real, self, plan, schedule, *others):
        real(self, plan, schedule, *others)
        shares = np.asarray(schedule.mixture) / np.asarray(schedule.rates)
        self._influence = float(shares.max())

    wrap(patch, OnlineToBatchGame, "__init__", planned)


def an_exact_sum_teaches(patch):
    def exact(real, self, difference, sensitivity):
        self.exact = getattr(self, "exact", 0.0) + difference
        real(self, difference, sensitivity)
        return self.exact

    wrap(patch, DifferenceSums, "release", exact)


def an_exact_difference_leaks(patch):
    def leaking(real, self, difference, sensitivity):
        return real(self, difference, sensitivity) + 1e-9 * difference

    wrap(patch, DifferenceSums, "release", leaking)


def a_start_outside_the_ball(patch):
    def start(real, learner, n_weights, radius, strength, **named):
        return real(learner, n_weights, 9 * radius, strength, **named)

    wrap(patch, game_module, "project_to_ball", lambda real, weights, radius: weights)
    wrap(patch, Learner, "start", start)


PLANTED = [
    wrong_batch_in_the_difference,
    no_smoothness,
    half_the_diameter,
    no_weight_for_the_first_round_of_all,
    batch_not_divided,
    the_mean_influence,
    the_planned_mixture_for_another,
    an_exact_sum_teaches,
    an_exact_difference_leaks,
    a_start_outside_the_ball,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_fault_is_caught(plant, monkeypatch):
    plant(monkeypatch)
    assert is_caught()


# --- the sensitivity -----------------------------------------------------------------------------


def numbers_of(problem, batch=1.0):
    mechanism = make_prefix_sums("toeplitz", n_steps=8, n_dimensions=problem.n_weights)
    return DifferenceSensitivity.of(problem, mechanism, np.full(problem.n_groups, batch))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_sensitivity_holds_for_all_records_and_points(loss):
    """Differences of random pairs of records at random pairs of points, near and far."""
    rng = np.random.default_rng(0)
    for radius in (0.3, 3.0, 30.0):
        problem = make_problem((9,), loss=loss, radius=radius, n_features=3)
        numbers, largest = numbers_of(problem), 0.0
        for _ in range(150):
            rows, targets = random_records(problem, rng)
            rows = rows[:2] / np.maximum(1.0, np.linalg.norm(rows[:2], axis=1))[:, None]
            if rng.random() < 0.5:
                rows[1] = -rows[0] if rng.random() < 0.7 else 0.0
            here, before = rng.normal(size=(2, problem.n_weights))
            here *= radius * rng.random() / np.linalg.norm(here)
            before *= radius * rng.random() / np.linalg.norm(before)
            before = here + 10.0 ** rng.uniform(-6, 0) * (before - here)
            step, power = int(rng.integers(1, 20)), float(rng.choice([0.0, 1.0, 3.0]))
            weight, last = round_weight(step, power), round_weight(step - 1, power)
            stated = numbers.of_round(weight, last, float(np.linalg.norm(here - before)))
            one, other = (
                difference_sum(
                    problem, rows[i : i + 1], targets[i : i + 1], (weight, here), (last, before)
                )
                for i in (0, 1)
            )
            largest = max(largest, float(np.linalg.norm(one - other)) / stated)
        assert 0.2 < largest <= 1.0, radius


def one_smoothness_is_stated(problem, numbers) -> bool:
    """Whether two records of which one curves and one does not move by just what is stated."""
    here, before = np.array([0.5, 0.0]), np.array([0.1, 0.0])
    rows = np.array([[1.0, 0.0], [0.0, 0.0]])
    one, other = (
        difference_sum(problem, rows[i : i + 1], np.ones(1), (1.0, here), (1.0, before))
        for i in (0, 1)
    )
    moved = float(np.linalg.norm(one - other))
    assert moved == pytest.approx(problem.smoothness * 0.4)
    return moved <= numbers.of_round(1.0, 1.0, 0.4) <= moved * (1.0 + 1e-9)


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (2.0, False), (0.5, False)])
def test_one_smoothness_is_needed_and_enough(factor, holds):
    """Planted: two H for one would be twice the noise, half of it too little."""
    problem = make_problem((9,), loss=SquaredError(), radius=2.0, scaling=0.0)
    numbers = replace(numbers_of(problem), smoothness=factor * problem.smoothness)
    assert one_smoothness_is_stated(problem, numbers) == holds


def test_one_diameter_is_needed_and_enough():
    """The first round: two opposite records, at the point where the diameter is attained."""
    problem = make_problem((9,), loss=BinaryLogLoss(), radius=20.0, scaling=0.0)
    numbers, best = numbers_of(problem), 0.0
    for angle in np.linspace(0.0, 1.5, 60):
        rows = np.array([[math.sin(angle), math.cos(angle)], [math.sin(angle), -math.cos(angle)]])
        here = np.array([20.0, 0.0])
        one, other = (
            difference_sum(problem, rows[i : i + 1], -np.ones(1), (1.0, here), (0.0, here))
            for i in (0, 1)
        )
        best = max(best, float(np.linalg.norm(one - other)))
    assert 0.99 * numbers.of_round(1.0, 0.0, 0.0) < best <= numbers.of_round(1.0, 0.0, 0.0)


def test_the_sensitivity_is_the_one_written_down():
    problem = make_problem((9, 5), radius=4.0)
    numbers, diameter = numbers_of(problem), problem.gradient_diameter
    curve = problem.smoothness
    for weight, before, moved in [(1.0, 0.0, 3.0), (5.0, 4.0, 0.2), (5.0, 4.0, 1e9), (1.0, 1.0, 0)]:
        change = min(curve * moved, 2.0 * diameter) if before else 0.0
        exact = (weight - before) * diameter + before * change
        found = numbers.of_round(weight, before, moved)
        assert exact <= found <= exact * (1.0 + 1e-9) + 1e-10


def test_weights_of_rounds():
    """β_0 is 0 for every power, also 0."""
    for power in (0.0, 0.5, 1.0, 3.0):
        assert round_weight(0, power) == 0.0
        assert [round_weight(t, power) for t in (1, 4)] == [1.0, 4.0**power]


@pytest.mark.parametrize("power", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("batch", [1, 4])
def test_stated_noise_is_far_below_the_papers(power, batch):
    """What the paper's formula asks is at least twice as much, node by node."""
    problem = make_problem((64,), radius=3.0)
    found = {}
    for schedule in ("planned", "paper"):
        solver = OnlineToBatch(
            "ftrl", noise="tree", power=power, n_rounds=15, batch_size=batch, schedule=schedule
        )
        plan, source = solver.plan(problem, BUDGET), silent()
        data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
        game = solver.begin(plan, source)
        game.advance(data.as_oracle(np.random.default_rng(0)), problem.group_sizes)
        found[schedule] = np.array([float(asked.sensitivity) for asked in source.asked])
        farthest, rho = game._farthest, 1.0 / plan.schedule.multiplier
    largest = papers_node_std(
        problem, rho=rho, power=power, n_total=16, step=15 if power > 1 else 1, farthest=farthest
    )
    multiplier = plan.schedule.multiplier
    assert multiplier * found["paper"].max() <= largest / batch * (1 + 1e-9)
    if power == 1.0:
        assert multiplier * found["paper"].max() > 0.8 * largest / batch
        assert 2.0 * found["planned"].max() < found["paper"].max()


# --- what is drawn is what was planned -----------------------------------------------------------


@pytest.mark.parametrize("sizes", [(40,), (30, 60, 20)])
@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("schedule", ["planned", "paper"])
def test_a_run_releases_what_was_planned(sizes, seed, schedule):
    problem = make_problem(sizes)
    solver = OnlineToBatch(n_rounds=7, schedule=schedule)
    plan = solver.plan(problem, BUDGET)
    noise = NoiseSource(None, plan.releases) if seed is None else seeded(seed, plan.releases)
    data = make_data(problem, *random_records(problem, np.random.default_rng(1)))
    solution = solver.run(plan, data, noise)
    assert_releases_match(noise, plan)
    assert not plan.early_stop
    assert solution.n_iter == plan.n_steps == 7
    assert np.linalg.norm(solution.weights) <= problem.radius * (1 + 1e-12)
    assert solution.group_weights is None
    with pytest.raises(PlanExceededError, match="all were made"):
        solver.run(plan, data, noise)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_sums_are_one_release_for_the_whole_budget(epsilon):
    plan = OnlineToBatch().plan(make_problem((300, 500)), Budget(epsilon, 1e-6))
    (sums,) = plan.releases
    assert math.isclose(1.0 / sums.noise_multiplier, gdp_mu(epsilon, 1e-6), rel_tol=1e-5)
    assert (sums.max_count, sums.part) == (1, None)
    assert epsilon * (1 - 1e-4) < plan.guarantee.epsilon <= epsilon


class Listens:
    """A player that stays where it is, and keeps the last loss."""

    def update(self, linear):
        self.heard = linear[0]

    def predict(self):
        return np.zeros(1)


@pytest.mark.parametrize("name", sorted(PREFIX_SUMS))
def test_noise_of_the_sums_has_the_scale_of_the_plan(name):
    """Records without gradients, so what is heard is noise; one group, batches of ten."""
    problem = make_problem((80,), loss=SquaredError(), radius=1e-9, scaling=0.0, n_features=1)
    solver = OnlineToBatch("ftrl", noise=name, n_rounds=8)
    plan = solver.plan(problem, BUDGET)
    heard = []
    for seed in range(200):
        game = solver.begin(plan, seeded(seed, plan.releases))
        oracle = make_data(problem, np.zeros((80, 1)), np.zeros(80)).as_oracle(
            np.random.default_rng(0)
        )
        game._player = Listens()
        game.advance(oracle, problem.group_sizes)
        heard.append(game._player.heard)
    deviation = make_prefix_sums(name, n_steps=8, n_dimensions=1).standard_deviations()[7]
    unit = plan.schedule.multiplier * problem.gradient_diameter / 10.0
    assert 0.85 < np.std(heard) / (unit * deviation) < 1.15


def test_what_is_released_does_not_depend_on_the_records():
    problem = make_problem((40, 80, 30))
    solver = OnlineToBatch(n_rounds=6)
    plan = solver.plan(problem, BUDGET)
    kinds = []
    for seed in range(4):
        noise = seeded(3, plan.releases)
        rows, targets = random_records(problem, np.random.default_rng(seed))
        solver.run(plan, make_data(problem, 10.0**seed * rows, targets), noise)
        kinds.append([(draw.release.name, draw.shape) for draw in noise.draws])
    assert all(kind == kinds[0] for kind in kinds)


def test_records_of_other_groups_are_refused():
    solver = OnlineToBatch()
    plan = solver.plan(make_problem((30, 60)), BUDGET)
    other = make_problem((31, 59))
    data = make_data(other, *random_records(other, np.random.default_rng(1)))
    noise = NoiseSource(None, plan.releases)
    with pytest.raises(ValueError, match=r"^The plan is for other records"):
        solver.run(plan, data, noise)
    assert noise.draws == ()


def test_a_mixture_of_the_start_is_paid_for():
    """Another mixture than the planned one has its own largest share."""
    problem = make_problem((30, 60))
    solver = OnlineToBatch(n_rounds=3, noise="independent")
    plan, source = solver.plan(problem, BUDGET), silent()
    data = make_data(problem, *random_records(problem, np.random.default_rng(1)))
    start = Solution(np.zeros(problem.n_weights), np.array([0.75, 0.25]), 0)
    solver.run(plan, data, source, start=start)
    first = plan.schedule.sensitivity.of_round(1.0, 0.0, 0.0)
    assert source.asked[0].sensitivity == pytest.approx(0.75 / 10.0 * first)
