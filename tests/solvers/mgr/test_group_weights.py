"""Do group weights that adapt maximise what they say, and do limits follow the level of losses?"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SmoothedHinge, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.mgr import (
    MIN_LOSS_CLIP,
    GroupWeights,
    LossLevel,
    Shrinkage,
)
from sklearn_dpwg.solvers.steps import GainOfGroups, SumSensitivity
from tests.helpers.group_data import make_problem

BUDGET = Budget(1.0, 1e-6)


def adapting(sizes=(50, 400, 3000), loss=None, **parameters):
    problem = make_problem(sizes, loss=loss or SquaredError(1.0), scaling=1.0)
    if "schedule" not in parameters:
        parameters = {"centring": True} | parameters
    return problem, MGR(n_steps=50, **parameters).plan(problem, BUDGET)


@settings(deadline=None)  # the first example plans
@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_regret_is_at_most_what_the_page_states(n, seed):
    """Theorem 2a without noise, for every group as the one to compare with."""
    rng = np.random.default_rng(seed)
    problem, plan = adapting(sizes=(20,) * n)
    result = GroupWeights(plan.schedule, np.log(problem.prior), GainOfGroups(problem, adapts=False))
    gained, allowed = np.zeros(n), -np.log(problem.prior)
    for _ in range(30):
        before, risks = result.group_weights, rng.random(n)
        result.push(risks, np.zeros(n))
        rate = result.rate
        gained = gained + rate * (risks - before @ risks)
        allowed = allowed + rate**2 / 8.0
    assert (gained <= allowed + 1e-9).all()


@pytest.mark.parametrize("mean", [-1.0, 0.0, 1e-6, 0.003, 0.02, 5.0, 1e9])
def test_the_ceiling_follows_the_level_and_is_never_above_the_planned(mean):
    problem, plan = adapting()
    schedule, result = plan.schedule, LossLevel(plan.schedule, problem)
    for _ in range(20):
        result.push(np.full(3, mean), np.full(3, 1e-12), np.full(3, 1 / 3))
    loss_clip = result.loss_clip
    least = MIN_LOSS_CLIP * schedule.loss_clip
    assert loss_clip == pytest.approx(np.clip(6.0 * mean, least, schedule.loss_clip), rel=1e-2)
    assert least <= loss_clip <= schedule.loss_clip
    # the range at the lower clip, as it would have been planned, and no less
    of_ceiling = SumSensitivity.of(problem, loss_clip=loss_clip).loss_range
    of_run = schedule.loss_sensitivity - (schedule.loss_clip - loss_clip)
    assert of_ceiling * (1.0 - 1e-15) <= of_run <= of_ceiling + 1e-6


def test_a_group_that_carries_weight_raises_the_level_however_small():
    """Limits by the mean of all records would hide the losses of the group that counts."""
    problem, plan = adapting()
    result = LossLevel(plan.schedule, problem)
    risks = np.array([0.08, 0.001, 0.001])  # 50 of 3,450 records
    result.push(risks, np.zeros(3), np.array([0.9, 0.05, 0.05]))
    assert result.loss_clip == pytest.approx(6.0 * 0.072, rel=0.1)
    alone = LossLevel(plan.schedule, problem)
    alone.push(risks, np.zeros(3), np.array([0.0, 0.5, 0.5]))
    assert alone.loss_clip == pytest.approx(6.0 * (risks @ [50, 400, 3000]) / 3450, rel=0.1)


SIZES = (3000, 1500, 200)
FOLLOWED = ("adapts", "follows_level", "shrinks")


@pytest.mark.parametrize(
    ("loss", "parameters", "expected"),
    [
        (BinaryLogLoss(), {}, {"adapts", "shrinks"}),
        (BinaryLogLoss(), {"loss_clip": 1.5}, {"adapts", "shrinks"}),
        (BinaryLogLoss(), {"sampling_rate": 0.5}, {"adapts", "shrinks"}),
        (BinaryLogLoss(), {"schedule": "paper"}, set()),
        (MultinomialLogLoss(2), {}, {"adapts", "shrinks"}),
        (SquaredError(), {}, {"adapts", "follows_level"}),
        (SquaredError(), {"loss_clip": 0.25}, {"adapts"}),
        (SquaredError(), {"schedule": "paper"}, set()),
        (SmoothedHinge(), {}, {"adapts"}),
    ],
    # a set has no order that the processes of a run would share
    ids=lambda value: repr(sorted(value) if isinstance(value, set) else value),
)
def test_a_run_follows_releases_where_nobody_says_otherwise(loss, parameters, expected):
    problem = make_problem(SIZES, loss=loss, radius=20.0, scaling=1.0)
    schedule = MGR(**parameters).plan(problem, BUDGET).schedule
    assert {name for name in FOLLOWED if getattr(schedule, name)} == expected


# --- learned weights shrink where the worst-off group gained less -----------------------------

LOG_2 = math.log(2.0)


def kept(risks, *, group_weights, variance=0.0, n_steps=10):
    shrinkage = Shrinkage(LOG_2, len(risks))
    for _ in range(n_steps):
        shrinkage.push(np.array(risks), np.full(len(risks), variance), np.array(group_weights))
    return shrinkage.factor


@pytest.mark.parametrize("drops", [(0.3, 0.3), (0.3, 0.1), (0.3, 0.45), (0.3, 0.0), (0.3, -0.1)])
def test_the_fraction_is_where_the_worst_parabola_is_least(drops):
    of_mean = drops[0]  # all weight is on the first group
    risks = [LOG_2 - drop for drop in drops]
    result = kept(risks, group_weights=(1.0, 0.0))
    alphas = np.linspace(0.5, 1.0, 5001)
    curvature = 2.0 * of_mean
    parabolas = [-(drop + curvature / 2) * alphas + curvature * alphas**2 / 2 for drop in drops]
    worst = parabolas[int(np.argmin(drops))]
    assert result == pytest.approx(alphas[worst.argmin()], abs=1e-3)
