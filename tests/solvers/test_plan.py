"""The guarantee of a plan is that of its releases, whatever a solver or a caller would say."""

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.data.problem import PUBLIC_FACTS
from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    MultinomialLogLoss,
    SquaredError,
)
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee
from sklearn_dpwg.solvers import (
    MGR,
    SOLVERS,
    PhasedERM,
    Plan,
    Solver,
)
from sklearn_dpwg.solvers.plan import first_with_least_bound
from tests.helpers.group_data import make_problem

BUDGET = Budget(5.0, 1e-6)
CHEAP = Budget(0.01, 1e-6)
PRIVATE = [name for name in SOLVERS if name != "exact"]
EACH_PRIVATE = pytest.mark.parametrize("name", PRIVATE)


def plan_of(solver: Solver, budget: Budget = BUDGET) -> Plan:
    return solver.plan(make_problem((4000, 900), loss=SquaredError()), budget)


@EACH_PRIVATE
def test_the_guarantee_is_that_of_the_releases(name):
    plan = plan_of(SOLVERS[name]())
    result = PrivacyGuarantee.from_releases(plan.releases, BUDGET, public=PUBLIC_FACTS)
    assert plan.guarantee == result
    assert 0.9 * BUDGET.epsilon < plan.guarantee.epsilon <= BUDGET.epsilon


@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        *((name, SquaredError()) for name in PRIVATE if name != "auto"),
        (MGR(n_steps=30), MultinomialLogLoss(5)),
        (MGR(n_steps=30, step_size=0.2), Hinge()),
        (PhasedERM(2, mu_groups=1.0), BinaryLogLoss()),
        (PhasedERM(1), AbsoluteError()),
    ],
    ids=repr,
)
def test_more_records_or_a_larger_budget_never_predict_worse(solver, loss):
    solver = SOLVERS[solver]() if isinstance(solver, str) else solver
    excess = np.array(
        [
            [
                solver.plan(
                    make_problem((345 * factor, 70 * factor, 61 * factor), loss=loss),
                    Budget(epsilon, 1e-6),
                ).predicted_excess
                for factor in (1, 10, 1000)
            ]
            for epsilon in (0.1, 1.0, 10.0)
        ]
    )
    assert np.isfinite(excess).all()
    assert (excess > 0.0).all()
    slack = 1 + 1e-6  # of searches for a fraction
    assert (excess[:, 1:] <= excess[:, :-1] * slack).all()
    assert (excess[1:] <= excess[:-1] * slack).all()


def test_no_plan_can_be_given_a_guarantee():
    plan = plan_of(MGR())
    lie = PrivacyGuarantee.from_releases(plan_of(MGR(), CHEAP).releases, CHEAP)
    assert "guarantee" not in {field.name for field in dataclasses.fields(Plan)}
    with pytest.raises(TypeError, match="guarantee"):
        dataclasses.replace(plan, guarantee=lie)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.guarantee = lie
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.budget = CHEAP


def test_a_smaller_budget_beside_the_same_releases_is_refused():
    plan = plan_of(MGR())
    assert plan.guarantee.epsilon > 1.0  # what is cached does not come along
    cheaper = dataclasses.replace(plan, budget=CHEAP)
    with pytest.raises(PlanExceededError, match=r"above the budget of 0\.01"):
        cheaper.guarantee.epsilon  # noqa: B018
    with pytest.raises(PlanExceededError, match=r"above the budget of 0\.01"):
        str(cheaper)
    again = dataclasses.replace(plan, releases=plan.releases * 2)
    with pytest.raises(PlanExceededError):
        again.guarantee.epsilon  # noqa: B018


def test_a_plan_has_no_subclasses():
    with pytest.raises(TypeError, match="its guarantee is that of its releases"):
        type("Lenient", (Plan,), {})


class Planned(Solver):
    """Hands out what it is told to plan."""

    name = "planned"

    def __init__(self, plan=None):
        self.plan_to_hand_out = plan

    def _plan(self, problem, budget):
        return self.plan_to_hand_out

    def _run(self, plan, data, noise, start):
        raise AssertionError


def test_a_solver_that_plans_for_more_than_it_was_given_is_refused():
    expensive = plan_of(MGR())
    assert plan_of(Planned(expensive)) is expensive
    with pytest.raises(PlanExceededError, match=r"^solver 'planned' planned for Budget\(epsilon=5"):
        plan_of(Planned(expensive), CHEAP)
    with pytest.raises(PlanExceededError, match=r"above the budget of 0\.01"):
        plan_of(Planned(dataclasses.replace(expensive, budget=CHEAP)), CHEAP)


@pytest.mark.parametrize("name", ["mgr", "phased-erm"])
def test_many_groups_do_not_make_the_text_of_a_plan_long(name):
    def plan_for(*last):
        sizes = (*[100 + i % 7 for i in range(599)], *last)
        return SOLVERS[name]().plan(make_problem(sizes, loss=SquaredError()), BUDGET)

    plan = plan_for(100)
    assert len(repr(plan)) < 20_000
    assert "group_sizes=(100, 101, 102, " in repr(plan.problem)
    assert "105, ... 580 more)" in repr(plan.problem)
    assert plan.problem.group_sizes != plan_for(101).problem.group_sizes
    assert plan != plan_for(101)


def test_of_bounds_alike_but_for_rounding_the_first_is_taken():
    for bounds, expected in [
        ([1.0, 1.0 - 2e-16, 1.0 - 5e-10], 0),
        ([2.0, 1.0 + 1e-12, 1.0, 1.0 - 1e-12], 1),
        ([math.inf, math.inf, 3.0, 4.0], 2),
    ]:
        assert first_with_least_bound(range(len(bounds)), bounds.__getitem__) == expected
