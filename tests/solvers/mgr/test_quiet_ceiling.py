"""Is the ceiling higher where risks have little noise, only there, and paid for at what it is?"""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.by_loss import LOG_LOSS
from sklearn_dpwg.solvers.mgr.quiet_ceiling import quiet_ceiling
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity
from tests.helpers.group_data import make_problem
from tests.helpers.mgr_cases import bad_case
from tests.helpers.replay import Recorder, distances
from tests.helpers.sources import seeded
from tests.solvers.mgr.test_hidden_losses import hiding_data

QUIET, LOUD = (40_000, 30_000, 20_000), (400, 300, 200)
BUDGET = Budget(4.0, 1e-6)


def planned(sizes, loss=None, **parameters):
    problem = make_problem(sizes, loss=loss or BinaryLogLoss(), radius=20.0, scaling=1.0)
    return problem, MGR(**({"n_steps": 60} | parameters)).plan(problem, BUDGET)


@pytest.mark.parametrize("std", [1e-4, 1e-3, 3e-3, 1e-2, 0.1])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(4)], ids=repr)
def test_it_is_the_least_of_what_noise_and_hiding_add_up_to(loss, std):
    problem = make_problem((50, 60), loss=loss, radius=20.0)
    zero_score = problem.constants.zero_score
    usual = 2.16 * zero_score
    tried = np.linspace(usual, 2.0 * usual, 40_001)
    hidden = LOG_LOSS.hidden * zero_score
    hidden = hidden * np.exp(-LOG_LOSS.hidden_decay / zero_score * (tried - usual))
    best = tried[((std * tried / usual) ** 2 + hidden**2).argmin()]
    found = quiet_ceiling(problem, usual, np.array([2.0, 0.0]) * std**2)
    assert found == pytest.approx(best, abs=1e-4 * usual)


def test_it_never_leaves_its_range():
    problem = make_problem((50, 60), radius=20.0)
    assert quiet_ceiling(problem, 1.5, np.zeros(2)) == 3.0
    assert quiet_ceiling(problem, 1.5, np.full(2, 1e9)) == 1.5
    short = make_problem((50, 60), radius=0.5)
    highest = short.constants.supremum
    assert quiet_ceiling(short, highest, np.zeros(2)) == highest
    assert quiet_ceiling(short, 0.9 * highest, np.zeros(2)) == highest


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3)], ids=repr)
@pytest.mark.parametrize("centring", [False, None])
def test_quiet_plans_have_a_higher_one_and_state_its_range(loss, centring):
    problem, plan = planned(QUIET, loss, centring=centring)
    schedule = plan.schedule
    usual = 2.16 * problem.constants.zero_score
    assert 1.2 * usual < schedule.ceiling <= 2.0 * usual
    assert not schedule.may_raise
    if centring is False:
        sums = SumSensitivity.of(problem, ceiling=schedule.ceiling)
        assert schedule.feedback_range == sums.loss_range
    assert f"losses counted up to {schedule.ceiling:.3g}" in str(schedule)


def test_loud_plans_have_the_usual_one_and_may_raise_it():
    _, plan = planned(LOUD)
    assert plan.schedule.ceiling == pytest.approx(2.16 * math.log(2.0))
    assert plan.schedule.may_raise


@pytest.mark.parametrize(
    ("loss", "parameters"),
    [
        (None, {"loss_ceiling": 2.16 * math.log(2.0)}),
        (None, {"group_rate": 0.1}),
        (None, {"step": "sampled"}),
        (None, {"risk_noise": "laplace"}),
        (None, {"sampling_rate": 0.5}),
        (SquaredError(), {}),
    ],
)
def test_who_sets_the_game_gets_the_usual_one(loss, parameters):
    problem, plan = planned(QUIET, loss, **parameters)
    multiple = 1.0 if loss else 2.16
    usual = min(multiple * problem.constants.zero_score, problem.constants.supremum)
    assert plan.schedule.ceiling == pytest.approx(usual)


def test_it_shows_a_group_that_the_usual_one_hides_with_no_step_spent_on_trying():
    problem, data = hiding_data()
    worst = {}
    for ceiling in (None, 2.16 * math.log(2.0)):
        plan = MGR(loss_ceiling=ceiling).plan(problem, BUDGET)
        assert not plan.schedule.may_raise
        worst[ceiling] = data.risks(MGR().run(plan, data, seeded(0, plan.releases)).weights).max()
    assert worst[None] < 0.6 < 0.8 < worst[2.16 * math.log(2.0)], worst


def test_no_neighbour_moves_a_release_by_more_than_a_higher_ceiling_states():
    worst, solver = {}, MGR(centring=False)
    for seed in range(60):
        rng = np.random.default_rng([seed, 1])
        problem = make_problem((30, 20, 25)[: 2 + seed % 2], radius=20.0)
        # so large a budget that few records are quiet
        plan = MGR(n_steps=12, centring=False).plan(problem, Budget(1e5, 1e-6))
        assert plan.schedule.ceiling > 2.0
        case, asked = bad_case(plan, solver, seed), []
        draws = rng.standard_normal((40, 30))
        for data in (case.data, case.neighbour):
            answers = iter(draws)
            source = Recorder(
                lambda release, value, sensitivity, answers=answers: next(answers)[: value.size],
                rng=seed,
            )
            solver.run(plan, data, source, start=case.start)
            asked.append(source.asked)
        for name, distance in distances(*asked):
            worst[name] = max(worst.get(name, 0.0), distance)
    assert max(worst.values()) <= 1.0 + 1e-9, worst
    assert worst["group risks"] > 0.75, worst
