"""Does a run of the phased solver release what its plan says, and the plan spend the budget?"""

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.optimum.saddle_point import attainable_gap
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import PhasedERM
from sklearn_dpwg.solvers import rounds as releases
from sklearn_dpwg.solvers.rounds import rounding_of_minimiser, sensitivities
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


def test_the_paper_keeps_the_budget_where_its_noise_does_not():
    problem = make_problem((900, 700), radius=20.0, scaling=0.0)
    for epsilon in (0.1, 1.0, 10.0, 1e3, 1e5):
        plan = PhasedERM(schedule="paper").plan(problem, Budget(epsilon, 1e-6))
        assert plan.guarantee.epsilon <= epsilon
        assert [release.part for release in plan.releases] == list(range(plan.n_steps))
        stated = float(plan.schedule.remark.split("= ")[1].split(";")[0])
        factor = float(plan.schedule.remark.rsplit(": ")[1])
        assert (factor > 1.0) == (stated > epsilon)
        if factor == 1.0:
            assert plan.guarantee.epsilon == pytest.approx(stated, rel=1e-3)


def test_a_phase_that_is_not_solved_is_an_error(monkeypatch):
    problem, solver = make_problem((40, 9), radius=3.0), PhasedERM(1)
    data, plan = make_data(problem, *random_data(problem, 0)), solver.plan(problem, BUDGET)
    solve = releases.solve_saddle_point
    monkeypatch.setattr(
        releases,
        "solve_saddle_point",
        lambda *args, **named: dataclasses.replace(solve(*args, **named), gap=math.nan),
    )
    noise = seeded(0, plan.releases)
    with pytest.raises(ArithmeticError, match="bug"):
        solver.run(plan, data, noise)
    assert noise.draws == ()


@pytest.mark.parametrize("size", [1, 100, 10**6])
def test_tolerances_are_public_and_their_slack_is_paid_for(size):
    """The slack of the solver is a hundredth, or as little as floating point can show."""
    problem = make_problem((size, 2 * size), loss=BinaryLogLoss(), radius=20.0)
    schedule = PhasedERM().plan(problem, BUDGET).schedule
    phase = schedule.phase(0, np.asarray(problem.prior))
    (exact,) = sensitivities(
        problem, problem.prior, mu_weights=[phase.mu_weights], mu_groups=phase.mu_groups
    )
    slack = 2 * math.sqrt(2 * phase.tolerance / phase.mu_weights)
    # and what rounding of the certificate lets two solutions be apart
    rounding = rounding_of_minimiser(
        problem, mu_weights=phase.mu_weights, mu_groups=phase.mu_groups
    )
    assert phase.sensitivity == pytest.approx(min(exact + slack + rounding, 40.0), rel=1e-12)
    assert phase.sensitivity >= min(exact + slack + rounding, 40.0)
    attainable = attainable_gap(20.0, problem.lipschitz, phase.mu_weights, 20.0)
    assert slack == pytest.approx(0.01 * exact) or phase.tolerance <= attainable
    assert slack <= max(0.01 * exact, rounding) * (1 + 1e-12)
    assert phase.sensitivity == 40.0 or rounding < 1e-3 * exact
