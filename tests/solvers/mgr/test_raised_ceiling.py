"""Is the ceiling raised where it hides a group, only there, and paid for at what it is?"""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.descent.group_weights import RaisedCeiling
from sklearn_dpwg.solvers.steps import SumSensitivity
from tests.helpers.group_data import make_data, make_problem
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


def test_what_is_plainly_hidden_need_not_be_plainly_worse():
    """As where who is out of work is learned: losses above the ceiling are seen before the risk."""
    found = [pushed([0.6, 0.6, 0.45], [0.6, 0.6, 0.75], variance)[0] for variance in (0.03, 0.3)]
    assert [limits.is_raised for limits in found] == [True, False]


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
