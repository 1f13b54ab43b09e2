"""What a record pays for: visits, rounds, both players of a game; noise of sums, step by step."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.privacy.noise.source import PaidDraws
from sklearn_dpwg.solvers import (
    AGS,
    GDA,
    OCO,
    OnlineToBatch,
    Solution,
)
from tests.helpers.cases import descent
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data
from tests.helpers.replay import recorded
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


# --- visits ------------------------------------------------------------------------------------


def one_group_is_worst(visits):
    """Return plan, data and solver where the second of three groups is always the worst."""
    problem = dataclasses.replace(make_problem((40, 60, 50)), optimism_correction=0.0)
    solver = AGS(n_steps=12, visits=visits, sharpness=math.inf, loss_ceiling=math.inf)
    rows, targets = random_data(problem, 0)
    rows[:] = np.array([1.0, 0.0])
    targets[:] = 1.0
    targets[40:70], targets[:40] = -1.0, 1.0  # every second record of the group contradicts
    plan = solver.plan(problem, Budget(1e6, 1e-6))
    # so that no other group wins once this one has been taken
    plan = dataclasses.replace(plan, schedule=dataclasses.replace(plan.schedule, memory=12))
    return plan, make_data(problem, rows, targets), solver


ALONG = Solution(np.array([2.0, 0.0, 0.0]), None, 0)


def test_the_source_refuses_the_visit_that_the_loop_forgets(monkeypatch):
    plan, data, solver = one_group_is_worst(4)
    descent.AGS_FAULTS["visits not enforced"](monkeypatch)
    noise = seeded(0, plan.releases)
    with pytest.raises(PlanExceededError, match=r"pays for 4 draws of .* by a group, and group 1"):
        solver.run(plan, data, noise, start=ALONG)
    assert [draw.release.name for draw in noise.draws].count(descent.TAKEN) == 4
    # a source that forgets it too, and what would have become of the promise
    monkeypatch.setattr(PaidDraws, "_check_payer", lambda *_: None)
    noise = recorded(seeded(0, plan.releases))
    solver.run(plan, data, noise, start=ALONG)
    assert Counter(noise.payers)[1] == 12


def test_a_source_is_told_who_pays():
    some = Release("g", "gaussian", 2.0, 6, draws_per_record=2)
    noise = seeded(0, [some, Release("all", "gaussian", 2.0, 2)])
    with pytest.raises(PlanExceededError, match="each must name its payer, got None"):
        noise.gaussian([1.0], sensitivity=1.0, release=some)
    for wrong, error in ((True, TypeError), (1.5, TypeError), (-1, ValueError)):
        with pytest.raises(error, match="payer must be"):
            noise.gaussian([1.0], sensitivity=1.0, release=some, payer=wrong)
    with pytest.raises(PlanExceededError, match="name its payer"):
        noise.gaussian_rows((2, 2), release=some)
    with pytest.raises(PlanExceededError, match="name its payer"):
        noise.shared_gaussian([1.0], units=[1.0], sensitivities=[1.0], releases=[some])
    assert noise.draws == ()
    for payer in (0, np.int64(1), 0, 1):
        noise.gaussian([1.0], sensitivity=1.0, release=some, payer=payer)
    for payer in (0, 1, np.int64(0)):
        with pytest.raises(PlanExceededError, match="pays for 2 draws of 'g' by a group"):
            noise.gaussian(1.0, sensitivity=1.0, release=some, payer=payer)
    assert len(noise.draws) == 4
    noise.gaussian(1.0, sensitivity=1.0, release=some, payer=2)
    noise.gaussian(1.0, sensitivity=1.0, release=Release("all", "gaussian", 2.0, 2))


@pytest.mark.parametrize("visits", [None, 1, 5, 20, 300])
@pytest.mark.parametrize("sizes", [(50,), (40, 70), (5, 5, 90)])
def test_a_record_pays_for_its_groups_visits(visits, sizes):
    plan = AGS(n_steps=20, visits=visits).plan(make_problem(sizes), BUDGET)
    n_steps = 20 if visits is None else min(20, visits * len(sizes))
    paid = n_steps if visits is None else min(visits, n_steps)
    assert plan.n_steps == n_steps
    gradient, *risks = plan.releases
    assert (gradient.max_count, gradient.paid_count) == (n_steps, paid)
    spent = paid / gradient.noise_multiplier**2
    spent += sum(n_steps / release.noise_multiplier**2 for release in risks)
    assert 0.99999 < spent / gdp_mu(1.0, 1e-6) ** 2 <= 1.0
    assert plan.guarantee.epsilon <= 1.0
    quiet = [dataclasses.replace(release, draws_per_record=None) for release in plan.releases]
    assert (PrivacyGuarantee.from_releases(quiet, 1e-6).epsilon > 1.001) == (paid < n_steps)
    assert not plan.early_stop


# --- passes and rounds -------------------------------------------------------------------------


def test_both_players_of_the_paper_are_paid_for():
    """Theorem 1 lets each spend half of the epsilon and adds nothing up; here both are added."""
    plan = GDA(n_steps=30, schedule="paper").plan(make_problem((50, 90)), BUDGET)
    one, other = plan.releases
    schedule, smallest = plan.schedule, 50
    sigma = one.noise_multiplier * schedule.gradient_diameter / smallest
    assert other.noise_multiplier * schedule.feedback_range / smallest == pytest.approx(sigma)
    moved = math.hypot(schedule.gradient_diameter, schedule.feedback_range) / smallest
    assert sigma == pytest.approx(math.sqrt(30) * moved / BUDGET.mu, rel=1e-5)


# --- games -------------------------------------------------------------------------------------


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


def test_a_group_that_was_not_read_has_a_loss_of_zero_without_noise():
    """The second group has fewer records than there are rounds."""
    problem, solver = make_problem((60, 5)), OCO(n_rounds=10)
    plan = solver.plan(problem, BUDGET)
    noise = recorded(seeded(0, plan.releases))
    solver.run(plan, make_data(problem, *random_data(problem, 0)), noise)
    losses = [asked for asked in noise.asked if asked.release.mechanism == "laplace"]
    is_read = np.array([asked.sensitivity[1] > 0.0 for asked in losses])
    assert 0 < is_read.sum() < 5
    assert ([asked.answer[1] != 0.0 for asked in losses] == is_read).all()
    assert all(asked.answer[0] != asked.value[0] for asked in losses)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_sums_are_one_release_for_the_whole_budget(epsilon):
    plan = OnlineToBatch().plan(make_problem((300, 500)), Budget(epsilon, 1e-6))
    (sums,) = plan.releases
    assert math.isclose(1.0 / sums.noise_multiplier, gdp_mu(epsilon, 1e-6), rel_tol=1e-5)
    assert (sums.max_count, sums.part) == (1, None)
    assert epsilon * (1 - 1e-4) < plan.guarantee.epsilon <= epsilon
