"""What a record pays for: draws of its group, rounds, both players of a game."""

import math

import numpy as np
import pytest

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.solvers import (
    GDA,
)
from tests.helpers.group_data import make_problem
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


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
        noise.gaussian_in_units([1.0], units=[1.0], sensitivity=1.0, release=some)
    assert noise.draws == ()
    for payer in (0, np.int64(1), 0, 1):
        noise.gaussian([1.0], sensitivity=1.0, release=some, payer=payer)
    for payer in (0, 1, np.int64(0)):
        with pytest.raises(PlanExceededError, match="pays for 2 draws of 'g' by a group"):
            noise.gaussian(1.0, sensitivity=1.0, release=some, payer=payer)
    assert len(noise.draws) == 4
    noise.gaussian(1.0, sensitivity=1.0, release=some, payer=2)
    noise.gaussian(1.0, sensitivity=1.0, release=Release("all", "gaussian", 2.0, 2))


# --- passes and rounds -------------------------------------------------------------------------


def test_both_players_of_the_paper_are_paid_for():
    """Theorem 1 lets each spend half of the epsilon and adds nothing up; here both are added."""
    plan = GDA(n_steps=30, schedule="paper").plan(make_problem((50, 90)), BUDGET)
    one, other = plan.releases
    schedule, smallest = plan.schedule, 50
    sigma = one.noise_multiplier * schedule.gradient_diameter / smallest
    assert other.noise_multiplier * schedule.loss_sensitivity / smallest == pytest.approx(sigma)
    moved = math.hypot(schedule.gradient_diameter, schedule.loss_sensitivity) / smallest
    assert sigma == pytest.approx(math.sqrt(29) * moved / BUDGET.mu, rel=1e-5)
