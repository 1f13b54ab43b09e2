"""Does a game release what its plan says, with the sensitivity that it says?

Neighbours play on one and the same transcript: what they hand over for noise may differ in one
step of one role, by no more than is stated. docs/theory/oco.md, sections 2 to 5.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sklearn_dpwg.data.oracles.base import RecordOracle
from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import Budget, NoiseSource, gdp_mu
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers import OCO, Solution
from sklearn_dpwg.solvers.stream import games as game_module
from sklearn_dpwg.solvers.stream.games import OCOGame, SampledGame, WeightedGame
from sklearn_dpwg.solvers.stream.learners import Learner
from sklearn_dpwg.solvers.stream.releases import release_losses
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.oco_cases import (
    BUDGET,
    Case,
    Fault,
    bad_case,
    batch_not_divided,
    gradients_of_both_roles,
    play_both,
    random_records,
)
from tests.helpers.plan_check import assert_releases_match
from tests.helpers.sources import seeded

ROUNDING = 1e-9
PLAYS = ("weighted", "sampled")


# --- the replay ----------------------------------------------------------------------------------


@pytest.mark.parametrize("play", PLAYS)
def test_no_neighbour_moves_more_than_one_step_of_one_role(play):
    worst_sums = worst_losses = 0.0
    for seed in range(480):
        found, leaks = play_both(bad_case(seed, play), seed)
        assert not leaks, seed
        assert found.worst <= 1.0 + ROUNDING, (seed, found)
        worst_sums = max(worst_sums, found.sums)
        worst_losses = max([worst_losses, *found.losses])
    # the attack is strong enough to mean something
    assert worst_sums > 0.9
    assert worst_losses > 0.9


@pytest.mark.parametrize("play", PLAYS)
def test_with_independent_noise_one_vector_moves_at_most(play):
    counts = set()
    for seed in range(60):
        found, _ = play_both(bad_case(seed, play, "independent"), seed)
        counts.add(found.n_rows)
    assert counts == {0, 1}


def losses_of_both_roles(fault):
    fault.wrap("clipped_losses", lambda real, schedule, values, n_weight: real(schedule, values, 0))


def no_ceiling(fault):
    fault.wrap("clipped_losses", lambda real, schedule, values, n_weight: values[n_weight:])


def half_the_sensitivity(fault):
    fault.wrap("_sensitivity", lambda real, *args: real(*args) / 2, OCOGame)


def no_diameter(fault):
    fault.wrap("_sensitivity", lambda real, game, influence: influence, OCOGame)


def the_mean_influence(fault):
    def mean(real, game, group_weights):
        return float((group_weights / np.asarray(game._schedule.weight_rates)).mean())

    fault.wrap("_influence", mean, WeightedGame)


def the_first_influence_for_ever(fault):
    def first(real, game, group_weights):
        return vars(game).setdefault("first_influence", real(game, group_weights))

    fault.wrap("_influence", first, WeightedGame)


def loss_not_divided(fault):
    def undivided(real, clipped, schedule, noise, release):
        unit = schedule.feedback_range / int(schedule.feedback_rates[0])
        value = float(clipped.sum()) - schedule.infimum
        return float(noise.laplace(value, sensitivity=unit, release=release))

    fault.wrap("release_mean_loss", undivided)


def losses_not_divided(fault):
    def undivided(real, sums, *others):
        return real(sums * np.asarray(others[1].feedback_rates), *others)

    fault.wrap("release_losses", undivided)


class HalfTheSensitivity:
    """A source that is told half the sensitivity of the losses."""

    def __init__(self, noise):
        self.noise = noise

    def laplace(self, value, *, sensitivity, release):
        return self.noise.laplace(value, sensitivity=sensitivity / 2, release=release)


def half_the_sensitivity_of_a_loss(fault):
    def half(real, clipped, schedule, noise, release):
        return real(clipped, schedule, HalfTheSensitivity(noise), release)

    fault.wrap("release_mean_loss", half)


def half_the_sensitivity_of_the_losses(fault):
    def half(real, sums, is_read, schedule, noise, release):
        return real(sums, is_read, schedule, HalfTheSensitivity(noise), release)

    fault.wrap("release_losses", half)


def an_exact_loss_moves_the_groups(fault):
    def exact(real, clipped, schedule, *others):
        real(clipped, schedule, *others)
        return float(clipped.mean()) - schedule.infimum

    fault.wrap("release_mean_loss", exact)


def exact_losses_move_the_groups(fault):
    def exact(real, sums, is_read, schedule, *others):
        real(sums, is_read, schedule, *others)
        return sums / np.asarray(schedule.feedback_rates)

    fault.wrap("release_losses", exact)


def an_exact_sum_leaks(fault):
    seen = []

    def remember(real, *args):
        seen.append(real(*args))
        return seen[-1]

    def count(real, game, weights):
        real(game, weights + 1e-9 * seen[-1] if seen else weights)
        if game.is_over:
            seen.clear()

    fault.wrap("gradient_sum", remember)
    fault.wrap("_count", count, OCOGame)


def play_ends_on_a_target(fault):
    def play_round(real, game, oracle, group):
        draw, drawn = oracle.draw, []

        def watched(*args):
            drawn.append(draw(*args))
            return drawn[-1]

        with pytest.MonkeyPatch.context() as watching:
            watching.setattr(oracle, "draw", watched)
            real(game, oracle, group)
        game.has_ended = drawn[0][1][0] > 0

    over = OCOGame.is_over.fget
    fault.wrap("_play_round", play_round, SampledGame)
    fault.patch.setattr(
        OCOGame, "is_over", property(lambda game: getattr(game, "has_ended", False) or over(game))
    )


def a_start_outside_the_ball(fault):
    def start(real, learner, n_weights, radius, strength, **named):
        return real(learner, n_weights, 9 * radius, strength, **named)

    fault.wrap("project_to_ball", lambda real, weights, radius: weights, game_module)
    fault.wrap("start", start, Learner)


PLANTED = [
    ("sampled", gradients_of_both_roles),
    ("weighted", gradients_of_both_roles),
    ("sampled", losses_of_both_roles),
    ("weighted", losses_of_both_roles),
    ("sampled", batch_not_divided),
    ("weighted", batch_not_divided),
    ("sampled", half_the_sensitivity),
    ("weighted", half_the_sensitivity),
    ("sampled", no_diameter),
    ("weighted", the_mean_influence),
    ("weighted", the_first_influence_for_ever),
    ("sampled", no_ceiling),
    ("weighted", no_ceiling),
    ("sampled", loss_not_divided),
    ("weighted", losses_not_divided),
    ("sampled", half_the_sensitivity_of_a_loss),
    ("weighted", half_the_sensitivity_of_the_losses),
    ("sampled", an_exact_loss_moves_the_groups),
    ("weighted", exact_losses_move_the_groups),
    ("sampled", an_exact_sum_leaks),
    ("weighted", an_exact_sum_leaks),
    ("sampled", play_ends_on_a_target),
    ("sampled", a_start_outside_the_ball),
]


@pytest.mark.parametrize(
    ("play", "plant"), PLANTED, ids=lambda each: getattr(each, "__name__", each)
)
def test_planted_fault_is_caught(play, plant, monkeypatch):
    plant(Fault(monkeypatch, play))
    for seed in range(480):
        found, leaks = play_both(bad_case(seed, play), seed)
        if leaks or found.worst > 1.0 + ROUNDING:
            return
    raise AssertionError("not caught")


def test_an_oracle_whose_order_follows_values_is_seen(monkeypatch):
    """The order is outside the game, so the attack sees it too: both roles move."""

    def sort_by_target(self, records, rng, real=RecordOracle.__init__):
        real(self, records, rng)
        self._order = [order[np.argsort(records.targets[order])] for order in self._order]

    monkeypatch.setattr(RecordOracle, "__init__", sort_by_target)
    for seed in range(480):
        found, leaks = play_both(bad_case(seed, "weighted"), seed)
        if leaks or found.worst > 1.0 + ROUNDING:
            return
    raise AssertionError("not caught")


def test_the_gradient_bound_is_nearly_attained():
    """All rows across the weights: opposite records move a vector by nearly the diameter."""
    problem = make_problem((2, 30), radius=20.0, scaling=0.0)
    rows, targets = random_records(problem, np.random.default_rng(0))
    angle = 0.2
    rows[:2], targets[:] = (math.sin(angle), math.cos(angle)), -1.0
    other = rows.copy()
    other[0] = math.sin(angle), -math.cos(angle)
    start = Solution(np.array([20.0, 0.0]), np.array([1 - 1e-9, 1e-9]), 0)
    solver = OCO(n_rounds=1, noise="independent")
    plan = solver.plan(problem, BUDGET)
    found = []
    for seed in range(8):
        case = Case(
            solver,
            plan,
            make_data(problem, rows, targets),
            make_data(problem, other, targets),
            start,
        )
        found.append(play_both(case, seed)[0].sums)
    assert 0.9 < max(found) <= 1.0 + ROUNDING


# --- what is drawn is what was planned -----------------------------------------------------------


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("sizes", [(40,), (30, 60, 20)])
@pytest.mark.parametrize("seed", [None, 0])
def test_a_run_releases_what_was_planned(play, sizes, seed):
    problem = make_problem(sizes)
    solver = OCO(play=play, n_rounds=7)
    plan = solver.plan(problem, BUDGET)
    noise = NoiseSource(None, plan.releases) if seed is None else seeded(seed, plan.releases)
    data = make_data(problem, *random_records(problem, np.random.default_rng(1)))
    solution = solver.run(plan, data, noise)
    assert_releases_match(noise, plan)
    assert plan.early_stop == (play == "sampled")
    assert 1 <= solution.n_iter <= 7
    assert (solution.n_iter == 7) or plan.early_stop
    assert np.linalg.norm(solution.weights) <= problem.radius * (1 + 1e-12)
    assert math.isclose(solution.group_weights.sum(), 1.0)


def test_a_source_with_less_refuses():
    problem = make_problem((30, 60))
    solver = OCO(n_rounds=5)
    plan = solver.plan(problem, BUDGET)
    data = make_data(problem, *random_records(problem, np.random.default_rng(1)))
    with pytest.raises(PlanExceededError, match="does not hold"):
        solver.run(plan, data, NoiseSource(None, plan.releases[:1]))
    noise = NoiseSource(None, plan.releases)
    solver.run(plan, data, noise)
    with pytest.raises(PlanExceededError, match="all were made"):
        solver.run(plan, data, noise)


@pytest.mark.parametrize("play", PLAYS)
def test_records_of_other_groups_are_refused(play):
    problem = make_problem((30, 60))
    solver = OCO(play=play)
    plan = solver.plan(problem, BUDGET)
    other = make_problem((31, 59))
    data = make_data(other, *random_records(other, np.random.default_rng(1)))
    noise = NoiseSource(None, plan.releases)
    with pytest.raises(ValueError, match=r"^The plan is for other records"):
        solver.run(plan, data, noise)
    assert noise.draws == ()


# --- the budgets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_each_player_has_the_whole_budget(epsilon):
    """Disjoint records: the two guarantees do not add up, and neither is wasted."""
    budget = Budget(epsilon, 1e-6)
    plan = OCO().plan(make_problem((300, 500)), budget)
    sums, losses = plan.releases
    assert math.isclose(1.0 / sums.noise_multiplier, gdp_mu(epsilon, 1e-6), rel_tol=1e-5)
    # one Laplace draw has delta(eps) = 1 - exp((eps - 1/multiplier)/2)
    pure = epsilon - 2.0 * math.log1p(-1e-6)
    assert math.isclose(1.0 / losses.noise_multiplier, pure, rel_tol=1e-5)
    assert (sums.part, losses.part) == (0, 1)
    assert losses.max_count == plan.n_steps
    assert losses.draws_per_record == 1
    assert epsilon * (1 - 1e-4) < plan.guarantee.epsilon <= epsilon
    assert len(plan.guarantee.events) == 2


def test_one_group_pays_for_its_gradients_only():
    plan = OCO().plan(make_problem((300,)), BUDGET)
    (sums,) = plan.releases
    assert sums.part is None
    assert sums.max_count == 1
    assert all(rate == 0.0 for rate in plan.schedule.feedback_rates)


@pytest.mark.parametrize("name", ["toeplitz", "honaker", "tree", "independent"])
def test_noise_of_the_sums_has_the_scale_of_the_plan(name):
    """Exact gradients are zero where all losses are flat, so what is played is noise."""
    problem = make_problem((400,), radius=1e6, scaling=0.0, n_features=1)
    solver = OCO("ftrl", noise=name, n_rounds=8, play="sampled", averaging=0.0)
    plan = solver.plan(problem, BUDGET)
    rows, targets = np.zeros((400, 1)), np.ones(400)
    played = []
    for seed in range(200):
        game = solver.begin(plan, seeded(seed, plan.releases))
        oracle = make_data(problem, rows, targets).as_oracle(np.random.default_rng(0))
        game.advance(oracle, problem.group_sizes)
        played.append(game._player.predict()[0])
    mechanism = make_prefix_sums(name, n_steps=8, n_dimensions=1)
    unit = plan.releases[0].noise_multiplier * plan.schedule.gradient_diameter
    unit /= plan.schedule.weight_rates[0] * game._strength
    expected = unit * mechanism.standard_deviations()[7]
    assert 0.85 < np.std(played) / expected < 1.15


def test_what_is_released_does_not_depend_on_the_records():
    problem = make_problem((40, 80, 30))
    solver = OCO(n_rounds=6)
    plan = solver.plan(problem, BUDGET)
    kinds = []
    for seed in range(4):
        noise = seeded(3, plan.releases)
        rows, targets = random_records(problem, np.random.default_rng(seed))
        solver.run(plan, make_data(problem, 10.0**seed * rows, targets), noise)
        kinds.append([(draw.release.name, draw.shape) for draw in noise.draws])
    assert all(kind == kinds[0] for kind in kinds)


def test_a_plan_is_made_from_a_problem_and_a_budget():
    problem = make_problem((40, 80), loss=BinaryLogLoss())
    assert OCO().plan(problem, BUDGET) == OCO().plan(make_problem((40, 80)), BUDGET)


def test_a_group_that_was_not_read_has_a_loss_of_zero_without_noise():
    plan = OCO(n_rounds=10).plan(make_problem((60, 90, 50)), BUDGET)
    losses = next(one for one in plan.releases if one.mechanism == "laplace")
    is_read, found = np.array([True, False, True]), []
    for seed in range(2):
        noise = seeded(seed, plan.releases)
        found.append(release_losses(np.zeros(3), is_read, plan.schedule, noise, losses))
        assert (found[-1] != 0.0).tolist() == is_read.tolist()
    assert np.all((found[0] != found[1]) == is_read)
