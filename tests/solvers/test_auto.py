"""Does the choice between solvers follow from public facts, and is the choice what runs?"""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sklearn_dpwg.solvers.auto as auto_module
from sklearn_dpwg.datasets import dataset_names
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, Huber, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, Auto, PhasedERM
from sklearn_dpwg.solvers.auto import BACKENDS, MOST_WEIGHTS_OF_PHASES
from sklearn_dpwg.solvers.moments.moments import MOST_WEIGHTS_OF_MOMENTS
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-5)
LOSSES = st.sampled_from([BinaryLogLoss(), SquaredError(), Hinge(), MultinomialLogLoss(3)])
SIZES = st.lists(st.integers(20, 20_000), min_size=1, max_size=4).map(tuple)


def without_remark(plan):
    return dataclasses.replace(plan, remark="")


def wide(size):
    return make_problem((size, 2 * size), n_features=20, radius=20.0)


def learned(problem):
    """The problem with the loss that is learned with."""
    return dataclasses.replace(problem, loss=problem.loss.with_bounded_slope())


@pytest.mark.parametrize(("size", "name"), [(300, "phased-erm"), (100_000, "mgr")])
def test_each_backend_is_chosen_where_its_bound_is_less(size, name):
    problem = wide(size)
    plan = Auto().plan(problem, BUDGET)
    names = [name for name in BACKENDS if name != "moments"]
    plans = {name: BACKENDS[name]().plan(learned(problem), BUDGET) for name in names}
    assert plan.solver == name
    assert plan.predicted_excess == min(other.predicted_excess for other in plans.values())
    assert without_remark(plan) == plans[name]


def test_a_preview_says_what_was_chosen_over_what():
    plan = Auto().plan(wide(300), BUDGET)
    other = MGR().plan(learned(wide(300)), BUDGET)
    said = (
        f"chosen by 'auto': its bound is {plan.predicted_excess:.3g}, against "
        f"{other.predicted_excess:.3g} of 'mgr'; 'auto' learns with "
        "BinaryLogLoss(largest_slope=0.85)"
    )
    assert str(plan).splitlines()[1] == said


def test_equal_bounds_choose_the_same_every_time(monkeypatch):
    monkeypatch.setitem(BACKENDS, "phased-erm", MGR)
    assert Auto().plan(wide(300), BUDGET).solver == "mgr"


def test_many_weights_are_not_for_phases():
    few, many = (
        make_problem((100, 100), n_features=n_features, scaling=0.0)
        for n_features in (MOST_WEIGHTS_OF_PHASES, MOST_WEIGHTS_OF_PHASES + 1)
    )
    assert Auto().plan(few, BUDGET).solver == "phased-erm"
    plan = Auto().plan(many, BUDGET)
    assert plan.solver == "mgr"
    assert plan.remark.startswith("chosen by 'auto': phases are for at most 500 weights; 'auto' le")


def test_moments_are_for_the_squared_error_with_few_weights():
    sizes = (2_000, 1_000)
    few, many = (
        make_problem(sizes, loss=SquaredError(), n_features=n_features, scaling=0.0)
        for n_features in (MOST_WEIGHTS_OF_MOMENTS, MOST_WEIGHTS_OF_MOMENTS + 1)
    )
    assert Auto().plan(few, BUDGET).solver == "moments"
    plan = Auto().plan(many, BUDGET)
    assert plan.solver != "moments"
    assert "'moments'" not in plan.remark
    assert Auto().plan(make_problem(sizes, loss=SquaredError()), BUDGET).solver == "moments"
    for loss in (BinaryLogLoss(), Huber()):
        plan = Auto().plan(make_problem(sizes, loss=loss), BUDGET)
        assert plan.solver != "moments"
        assert "'moments'" not in plan.remark


@given(LOSSES, SIZES, st.integers(1, 60), st.floats(-2, 3), st.floats(1, 5))
@settings(deadline=None, max_examples=15)
def test_more_records_or_budget_never_predict_more_excess(loss, sizes, n_features, log_eps, more):
    budget = Budget(2.0**log_eps, 1e-6)
    problem = make_problem(sizes, loss=loss, n_features=n_features)
    excess = Auto().plan(problem, budget).predicted_excess
    larger = dataclasses.replace(problem, group_sizes=tuple(math.ceil(more * n) for n in sizes))
    richer = Budget(more * budget.epsilon, 1e-6)
    assert Auto().plan(larger, budget).predicted_excess <= excess * (1 + 1e-6)
    assert Auto().plan(problem, richer).predicted_excess <= excess * (1 + 1e-6)


@pytest.mark.parametrize(("size", "backend"), [(300, PhasedERM()), (30_000, MGR())])
def test_the_run_is_that_of_the_chosen_backend(size, backend):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, size=(3 * size, 20))
    problem = wide(size)
    targets = np.where(rows[:, 0] > 0, 1.0, -1.0)
    found = []
    for solver, stated in ((Auto(), problem), (backend, learned(problem))):
        plan = solver.plan(stated, BUDGET)
        assert plan.solver == backend.plan(learned(problem), BUDGET).solver
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
        Auto().run(plan, make_data(other, np.zeros((900, 20)), np.ones(900)), noise)
    assert noise.draws == ()


def test_an_infinite_budget_is_refused():
    with pytest.raises(ValueError, match=r"^solver 'auto' adds noise and needs a finite epsilon"):
        Auto().plan(make_problem((5, 5)), Budget(math.inf, 1e-6))


def test_the_rule_knows_no_data_set():
    text = Path(auto_module.__file__).read_text(encoding="utf-8")
    assert [name for name in dataset_names() if name in text] == []
