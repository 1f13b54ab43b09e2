"""Does a game release what its plan says, with the sensitivity that it says?

Neighbours play on one and the same transcript: what they hand over for noise may differ in one
step of one role, by no more than is stated. docs/theory/oco.md, sections 2 to 5.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sklearn_dpwg.exceptions import PlanExceededError, SeededNoiseWarning
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.oracles.records import RecordOracle
from sklearn_dpwg.privacy import Budget, NoiseSource, gdp_mu
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers import OCO, Solution
from tests.helpers.oco_cases import (
    BUDGET,
    Case,
    bad_case,
    make_data,
    make_problem,
    mutant,
    play_both,
    random_records,
)
from tests.helpers.plan_check import assert_releases_match

ROUNDING = 1e-9
PLAYS = ("weighted", "sampled")


def seeded(seed, releases):
    with pytest.warns(SeededNoiseWarning):
        return NoiseSource(seed, releases)


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


GRADIENT = "self._gradient_sum(rows[:n_weight], slopes[:n_weight])"
INFLUENCE = "(group_weights * self._influence).max()"
SENSITIVITY = "return self._schedule.gradient_diameter * influence"
SAMPLED_COUNT = "self._count(weights)\n            # roles"
WEIGHTED_COUNT = "self._count(weights)\n        influence"
DRAW = "rows, targets = oracle.draw(group, size)"
START = "problem.n_weights, problem.radius, self._strength_now"

PLANTED = [
    (
        "sampled",
        "gradients of both roles",
        [(f"{GRADIENT} / n_weight", "self._gradient_sum(rows, slopes) / len(rows)")],
    ),
    (
        "weighted",
        "gradients of both roles",
        [(f"share * {GRADIENT}", "share * self._gradient_sum(rows, slopes)")],
    ),
    (
        "sampled",
        "losses of both roles",
        [
            (
                "np.minimum(values[n_weight:], schedule.ceiling).sum()",
                "np.minimum(values, schedule.ceiling).sum()",
            )
        ],
    ),
    (
        "weighted",
        "losses of both roles",
        [("clipped = np.minimum(values[n_weight:]", "clipped = np.minimum(values")],
    ),
    ("sampled", "a batch is not divided", [(f"{GRADIENT} / n_weight", GRADIENT)]),
    (
        "weighted",
        "a batch is not divided",
        [("group_weights[group] / schedule.weight_rates[group]", "group_weights[group]")],
    ),
    ("sampled", "half the sensitivity", [(SENSITIVITY, f"{SENSITIVITY} / 2")]),
    ("weighted", "half the sensitivity", [(SENSITIVITY, f"{SENSITIVITY} / 2")]),
    ("sampled", "no diameter", [(SENSITIVITY, "return influence")]),
    (
        "weighted",
        "the mean influence",
        [
            (INFLUENCE, INFLUENCE.replace("max", "mean")),
            ("self._largest = float((prior", "self._largest = 1e-9 * float((prior"),
        ],
    ),
    ("weighted", "the first influence for ever", [("if influence > self._largest:", "if False:")]),
    (
        "sampled",
        "no ceiling",
        [("np.minimum(values[n_weight:], schedule.ceiling).sum()", "values[n_weight:].sum()")],
    ),
    (
        "weighted",
        "no ceiling",
        [("np.minimum(values[n_weight:], schedule.ceiling) -", "values[n_weight:] -")],
    ),
    ("sampled", "losses are not divided", [("mean = total / n_feedback", "mean = total")]),
    (
        "weighted",
        "losses are not divided",
        [("clipped.sum() / schedule.feedback_rates[group]", "clipped.sum()")],
    ),
    (
        "sampled",
        "half the loss's sensitivity",
        [
            (
                "schedule.feedback_range / n_feedback if",
                "schedule.feedback_range / n_feedback / 2 if",
            )
        ],
    ),
    (
        "weighted",
        "half the losses' sensitivity",
        [
            (
                "schedule.feedback_range / self._feedback_rates,",
                "schedule.feedback_range / self._feedback_rates / 2,",
            )
        ],
    ),
    ("sampled", "exact losses move the groups", [("bound - float(noisy)", "bound - mean")]),
    (
        "weighted",
        "exact losses move the groups",
        [("groups.update(-noisy", "groups.update(-losses")],
    ),
    (
        "sampled",
        "an exact sum leaks",
        [(SAMPLED_COUNT, SAMPLED_COUNT.replace("weights)", "weights + 1e-9 * slopes.sum())"))],
    ),
    (
        "weighted",
        "an exact sum leaks",
        [(WEIGHTED_COUNT, WEIGHTED_COUNT.replace("weights)", "weights + 1e-9 * gradient)"))],
    ),
    (
        "sampled",
        "play ends on a target",
        [(DRAW, f"{DRAW}\n            if targets[0] > 0:\n                return")],
    ),
    (
        "sampled",
        "a start outside the ball",
        [
            ("project_to_ball(start.weights, problem.radius)", "start.weights"),
            (START, START.replace("problem.radius", "9 * problem.radius")),
        ],
    ),
]


@pytest.mark.parametrize(
    ("play", "fault", "replacements"), PLANTED, ids=[" ".join(each[:2]) for each in PLANTED]
)
def test_planted_fault_is_caught(play, fault, replacements):
    game = mutant(*replacements)
    for seed in range(480):
        found, leaks = play_both(bad_case(seed, play), seed, game)
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
    unit /= plan.schedule.weight_rates[0] * game._strength_now
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
