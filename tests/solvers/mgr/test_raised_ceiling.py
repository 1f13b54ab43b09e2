"""Is the ceiling raised where it hides a group, only there, and paid for at what it is?"""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.descent import releases
from sklearn_dpwg.solvers.descent.group_weights import RaisedCeiling
from sklearn_dpwg.solvers.sums import SumSensitivity
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import neighbours
from tests.helpers.replay import Recorder, distances, wrap
from tests.helpers.sources import seeded

ROUNDING = 1e-9

BUDGET = Budget(1.0, 1e-6)
SIZES = (3000, 1500, 200)


def planned(loss=None, budget=BUDGET, **parameters):
    problem = make_problem(SIZES, loss=loss or BinaryLogLoss(), radius=20.0, scaling=1.0)
    return problem, MGR(**({"n_steps": 60} | parameters)).plan(problem, budget)


def pushed(usual, raised, variance, *, n_steps=60, weights=(0.6, 0.3, 0.1)):
    """Return limits after steps with these risks under the usual and the raised ceiling."""
    _, plan = planned()
    limits, group_weights = RaisedCeiling(plan.schedule, 0.7), np.array(weights)
    heard = []
    for _ in range(n_steps):
        is_high = limits.limits().ceiling > plan.schedule.ceiling
        limits.push(np.array(raised if is_high else usual), np.full(3, variance), group_weights)
        heard.append(limits.counts_for_players)
    return limits, heard


def test_a_group_that_looks_well_off_and_is_not_raises_the_ceiling_for_good():
    limits, heard = pushed([0.5, 0.5, 0.4], [0.55, 0.55, 1.1], 1e-4)
    assert limits.is_raised
    # steps 6, 16 and 26 try the raised ceiling; from then on all have it, and are heard
    assert [t for t, each in enumerate(heard) if not each] == [5, 15, 25]
    schedule = limits.schedule
    assert limits.limits() == (schedule.raised_ceiling, schedule.raised_range, 0.7, 0.0)


@pytest.mark.parametrize(
    ("raised", "variance"),
    [
        ([0.6, 0.6, 0.5], 1e-6),  # all hide as much
        ([0.55, 0.55, 0.54], 1e-6),  # the last hides more and is well off
        ([0.55, 0.55, 1.1], 0.5),  # noise may have done it
        ([0.5, 0.5, 0.4], 1e-12),  # nothing is hidden
    ],
)
def test_no_other_group_raises_it(raised, variance):
    limits, heard = pushed([0.5, 0.5, 0.4], raised, variance)
    assert not limits.is_raised
    assert [t for t, each in enumerate(heard) if not each] == [5, 15, 25, 35, 45, 55]


def test_noise_alone_seldom_raises_it():
    _, plan = planned(n_steps=150)
    rng, raised = np.random.default_rng(0), 0
    for _ in range(100):
        limits = RaisedCeiling(plan.schedule)
        for _ in range(150):
            limits.push(0.5 + rng.standard_normal(3), np.ones(3), np.full(3, 1 / 3))
        raised += limits.is_raised
    assert raised <= 8


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(5)], ids=repr)
def test_ranges_are_those_that_each_ceiling_would_have_been_planned_with(loss):
    problem, plan = planned(loss, centring=False)
    schedule = plan.schedule
    assert schedule.may_raise
    assert schedule.raised_ceiling == pytest.approx(
        6.5 * math.log(loss.n_outputs if loss.n_outputs > 1 else 2)
    )
    for ceiling, found in (
        (schedule.ceiling, schedule.feedback_range),
        (schedule.raised_ceiling, schedule.raised_range),
    ):
        of_ceiling = SumSensitivity.of(problem, ceiling=ceiling).loss_range
        assert of_ceiling * (1.0 - 1e-15) <= found <= of_ceiling + 1e-6


@pytest.mark.parametrize(
    ("loss", "parameters"),
    [
        (None, {"loss_ceiling": 1.5}),
        (None, {"group_rate": 0.1}),
        (None, {"schedule": "paper"}),
        (None, {"sampling_rate": 0.5}),
        (SquaredError(), {}),
    ],
)
def test_who_sets_the_game_gets_it(loss, parameters):
    _, plan = planned(loss, **parameters)
    assert not plan.schedule.may_raise
    assert "worse off than it looked" not in str(plan.schedule)


def test_a_plan_says_that_it_may_raise_the_ceiling():
    _, plan = planned()
    assert "every 10th step counts losses up to 4.5" in str(plan.schedule)


def hiding_data(seed=0):
    """Return data whose last group has few losses, most of them far above the usual ceiling.

    What nearly always means a yes in the other groups is a no for a quarter of the last.
    """
    sizes, rng = (4000, 2000, 1000), np.random.default_rng(seed)
    group = np.repeat(np.arange(3), sizes)
    rows = 0.2 * rng.standard_normal((len(group), 4))
    is_sure = (rng.random(len(group)) < 0.3) | (group == 2)
    rows[:, 0] = 0.8 * is_sure
    chance = np.where(is_sure, np.where(group == 2, 0.75, 0.99), 1 / (1 + np.exp(-3 * rows[:, 1])))
    problem = make_problem(sizes, n_features=4, radius=20.0, scaling=1.0)
    return problem, make_data(problem, rows, np.where(rng.random(len(group)) < chance, 1.0, -1.0))


def test_a_hidden_group_is_found_on_data():
    problem, data = hiding_data()
    found = {}
    for name, ceiling in (("follows", None), ("usual", 2.16 * math.log(2.0))):
        plan = MGR(loss_ceiling=ceiling).plan(problem, Budget(8.0, 1e-6))
        weights = MGR().run(plan, data, seeded(0, plan.releases)).weights
        found[name] = data.risks(weights)
    assert found["usual"].max() > 0.9  # what the ceiling hides, and the reason for raising it
    assert found["usual"].argmax() == 2
    assert found["follows"].max() < 0.62


# --- privacy ------------------------------------------------------------------------------------


def raising_transcript(seed, sizes):
    """Return a source whose answers make the ceiling rise, whatever the records."""
    rng, n_asked = np.random.default_rng([seed, 5]), iter(range(10**6))

    def answer(release, value, sensitivity):
        noise = 10.0 ** (seed % 3 - 3) * rng.standard_normal(value.shape)
        if release.name != releases.RISKS:
            return noise
        risks = np.full(len(sizes), 0.3)
        if next(n_asked) % 10 == 5:
            risks[seed % len(sizes)] = 1e9
        return sizes * risks + noise

    return Recorder(answer, rng=seed)


@pytest.fixture(scope="module")
def plans():
    rng, found = np.random.default_rng(0), []
    for index in range(12):
        sizes = rng.choice([1, 2, 3, 25], size=2 + index % 3)
        loss = (BinaryLogLoss(), MultinomialLogLoss(3))[index % 2]
        problem = make_problem(tuple(sizes), loss=loss, radius=20.0)
        found.append(MGR(n_steps=32, centring=False).plan(problem, Budget(8.0, 1e-6)))
    return found


def worst_of_raised_ceilings(seeds, plans):
    """Return the largest distance of each release, and how many runs raised their ceiling."""
    worst, n_raised = {}, 0
    for seed in seeds:
        plan, solver = plans[seed % len(plans)], MGR(centring=False)
        pair, asked, outputs = neighbours(plan.problem, seed), [], []
        for data in (pair.data, pair.other):
            source = raising_transcript(seed, np.array(plan.problem.group_sizes))
            outputs.append(solver.run(plan, data, source, start=pair.start))
            asked.append(source.asked)
        assert np.array_equal(outputs[0].weights, outputs[1].weights)
        of_risks = [float(each.sensitivity) for each in asked[0] if each.release.name != "gradient"]
        n_raised += of_risks[-2:] == [plan.schedule.raised_range] * 2
        for name, distance in distances(*asked):
            worst[name] = max(worst.get(name, 0.0), distance)
    return worst, n_raised


def test_no_neighbour_moves_a_release_by_more_than_a_raised_ceiling_states(plans):
    worst, n_raised = worst_of_raised_ceilings(range(120), plans)
    assert n_raised > 80
    assert max(worst.values()) <= 1.0 + ROUNDING, worst
    assert min(worst.values()) > 0.75, worst


def usual_range(honest, plan, data, weights, group_weights, noise, limits):
    """Count losses up to the raised ceiling, and state the usual range."""
    usual = limits._replace(feedback_range=plan.schedule.feedback_range)
    return honest(plan, data, weights, group_weights, noise, usual)


def test_a_raised_ceiling_with_the_usual_noise_is_seen(plans, monkeypatch):
    wrap(monkeypatch, releases, "from_pass", usual_range)
    worst, _ = worst_of_raised_ceilings(range(60), plans)
    assert worst["group risks"] > 1.0 + ROUNDING
