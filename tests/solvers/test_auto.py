"""Does the choice between solvers follow from public facts, and is the choice what runs?"""

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, Auto, Exact, Moments
from sklearn_dpwg.solvers.auto import CLEAR_MOMENTS, make_solver
from sklearn_dpwg.solvers.solver import SLOPES_BIND
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-5)


def without_remark(plan):
    return dataclasses.replace(plan, remark="")


def wide(size):
    return make_problem((size, 2 * size), n_features=20, radius=20.0)


def learned(problem, budget=BUDGET):
    """The problem with the loss that is learned with."""
    if budget.mu * problem.typical_size >= SLOPES_BIND:
        return problem
    return dataclasses.replace(problem, loss=problem.loss.with_bounded_slope())


@pytest.mark.parametrize("epsilon", [0.25, 8.0])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), Hinge(), MultinomialLogLoss(3)], ids=repr)
def test_classes_are_learned_by_mgr(loss, epsilon):
    problem, budget = dataclasses.replace(wide(3_000), loss=loss), Budget(epsilon, 1e-5)
    plan = Auto().plan(problem, budget)
    assert plan.solver == "mgr"
    assert without_remark(plan) == MGR().plan(learned(problem, budget), budget)


@pytest.mark.parametrize("n_features", [4, 20])
def test_numbers_are_learned_by_moments_where_records_are_many(n_features):
    problem = make_problem((1, 1), loss=SquaredError(), n_features=n_features)
    least = CLEAR_MOMENTS * problem.n_columns**1.5 / BUDGET.mu
    for size, name in ((0.99 * least, "mgr"), (1.01 * least, "moments")):
        sizes = (round(size), round(size))
        plan = Auto().plan(dataclasses.replace(problem, group_sizes=sizes), BUDGET)
        assert plan.solver == name
        assert "did b" in plan.remark


@pytest.mark.parametrize("backend", [MGR(), Moments()], ids=repr)
def test_the_run_is_that_of_the_chosen_backend(backend):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, size=(9_000, 3))
    loss, epsilon = (
        (SquaredError(), 8.0) if isinstance(backend, Moments) else (BinaryLogLoss(), 2.0)
    )
    problem = make_problem((3_000, 6_000), loss=loss, n_features=3, radius=20.0)
    budget = Budget(epsilon, 1e-5)
    targets = np.where(rows[:, 0] > 0, 1.0, -1.0)
    result = []
    for solver, stated in ((Auto(), problem), (backend, learned(problem, budget))):
        plan = solver.plan(stated, budget)
        assert plan.solver == type(backend).name
        noise = seeded(7, plan.releases)
        result.append(solver.run(plan, make_data(stated, rows, targets), noise))
        assert len(noise.draws) == sum(release.max_count for release in plan.releases)
    assert result[0].weights.tolist() == result[1].weights.tolist()


# --- by name -----------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "mgr", "exact", MGR(n_steps=3)])
def test_without_a_budget_the_exact_solver_stands_in(solver):
    assert isinstance(make_solver(solver, epsilon=math.inf), Exact)
