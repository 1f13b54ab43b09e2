"""Does the choice between solvers follow from public facts, and is the choice what runs?"""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sklearn_dpwg.solvers.auto as auto_module
from sklearn_dpwg.datasets import dataset_names
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, Huber, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, SOLVERS, Auto, Exact, Moments, Solver
from sklearn_dpwg.solvers.auto import CLEAR_MOMENTS, make_solver
from sklearn_dpwg.solvers.moments import MOST_WEIGHTS_OF_MOMENTS
from sklearn_dpwg.solvers.solver import SLOPES_BIND
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-5)
LOSSES = st.sampled_from([BinaryLogLoss(), SquaredError(), Hinge(), MultinomialLogLoss(3)])
SIZES = st.lists(st.integers(20, 20_000), min_size=1, max_size=4).map(tuple)


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


def test_slopes_are_bounded_where_that_saves_noise():
    for epsilon, is_bounded in ((1.0, True), (100.0, False)):
        plan = Auto().plan(wide(3_000), Budget(epsilon, 1e-5))
        assert (plan.problem.loss != BinaryLogLoss()) == is_bounded
        assert ("'auto' learns with BinaryLogLoss(largest_slope=0.85)" in plan.remark) == is_bounded


def test_moments_are_for_the_squared_error_with_few_weights():
    sizes = (4_000_000, 2_000_000)
    few, many = (
        make_problem(sizes, loss=SquaredError(), n_features=n_features, scaling=0.0)
        for n_features in (MOST_WEIGHTS_OF_MOMENTS, MOST_WEIGHTS_OF_MOMENTS + 1)
    )
    assert Auto().plan(few, BUDGET).solver == "moments"
    plan = Auto().plan(many, BUDGET)
    assert plan.solver != "moments"
    assert "'moments'" not in plan.remark
    for loss in (BinaryLogLoss(), Huber()):
        plan = Auto().plan(make_problem(sizes, loss=loss), BUDGET)
        assert plan.solver != "moments"
        assert "'moments'" not in plan.remark


def kind(plan):
    """What bounds are comparable within: they jump, by what is chosen between kinds of plans.

    Solvers are chosen by what they reach, not by their bounds; strengths compete in phased ERM
    where one phase is best, and nowhere else; and centring is by rule.
    """
    names = {release.name for release in plan.releases}
    return plan.solver, plan.n_steps == 1, "mean row" in names


@given(LOSSES, SIZES, st.integers(1, 60), st.floats(-2, 3), st.floats(1, 5))
@example(BinaryLogLoss(), (23, 23), 12, 2.0, 1.5)  # one phase, then two with a larger bound
@example(BinaryLogLoss(), (400, 900), 5, 0.0, 2.0)
@settings(max_examples=15)
def test_more_records_or_budget_never_predict_more_excess(loss, sizes, n_features, log_eps, more):
    budget = Budget(2.0**log_eps, 1e-6)
    problem = make_problem(sizes, loss=loss, n_features=n_features)
    plan = Auto().plan(problem, budget)
    larger = dataclasses.replace(problem, group_sizes=tuple(math.ceil(more * n) for n in sizes))
    richer = Budget(more * budget.epsilon, 1e-6)
    for better in (Auto().plan(larger, budget), Auto().plan(problem, richer)):
        if kind(better) == kind(plan):
            assert better.predicted_excess <= plan.predicted_excess * (1 + 1e-6)


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
    found = []
    for solver, stated in ((Auto(), problem), (backend, learned(problem, budget))):
        plan = solver.plan(stated, budget)
        assert plan.solver == type(backend).name
        noise = seeded(7, plan.releases)
        found.append(solver.run(plan, make_data(stated, rows, targets), noise))
        assert len(noise.draws) == sum(release.max_count for release in plan.releases)
    assert found[0].weights.tolist() == found[1].weights.tolist()


@pytest.mark.parametrize("loss", [SquaredError(), BinaryLogLoss(0.7)], ids=repr)
def test_records_of_another_loss_are_refused(loss):
    problem = wide(300)
    plan = Auto().plan(problem, BUDGET)
    other = dataclasses.replace(problem, loss=loss)
    noise = seeded(7, plan.releases)
    with pytest.raises(ValueError, match="The plan is for other records"):
        Auto().run(plan, make_data(other, np.zeros((9_000, 20)), np.ones(900)), noise)
    assert noise.draws == ()


def test_an_infinite_budget_is_refused():
    with pytest.raises(ValueError, match=r"^solver 'auto' adds noise and needs a finite epsilon"):
        Auto().plan(make_problem((5, 5)), Budget(math.inf, 1e-6))


def test_the_rule_knows_no_data_set():
    text = Path(auto_module.__file__).read_text(encoding="utf-8")
    assert [name for name in dataset_names() if name in text] == []


# --- by name -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_every_name_makes_its_solver(name):
    assert issubclass(SOLVERS[name], Solver)
    assert type(make_solver(name, epsilon=1.0)) is SOLVERS[name]


@pytest.mark.parametrize("solver", ["auto", "mgr", "exact", MGR(n_steps=3)])
def test_without_a_budget_the_exact_solver_stands_in(solver):
    assert isinstance(make_solver(solver, epsilon=math.inf), Exact)


def test_the_exact_solver_keeps_its_parameters():
    solver = Exact(tolerance=1e-3)
    assert make_solver(solver, epsilon=math.inf) is solver
