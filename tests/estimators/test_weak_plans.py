"""Warnings of plans that promise too little name the groups, and records that would do."""

import re
import warnings

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import GeneratorOracle
from sklearn_dpwg.estimators.planning import hopeless_groups
from sklearn_dpwg.exceptions import WeakPlanWarning
from sklearn_dpwg.solvers import MGR, OCO, Moments, OnlineToBatch, PhasedERM

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning")


def make(epsilon=1.0, solver="auto", kind=DPWorstGroupClassifier, delta=1e-6):
    bounds = {"target_bounds": (-1.0, 1.0)} if kind is DPWorstGroupRegressor else {}
    return kind(epsilon, delta, data_norm=1.0, random_state=0, solver=solver, **bounds)


def fit_with(model, sizes):
    """Fit to groups of these sizes, of public labels; return what was warned of."""
    labels = np.repeat([f"g{i}" for i in range(len(sizes))], sizes)
    X = np.full((len(labels), 2), 0.5)
    y = np.arange(len(labels)) % 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y, groups=labels)
    return [str(one.message) for one in seen if one.category is WeakPlanWarning]


def records_that_do(message):
    (found,) = re.findall(r"bring about ([\d,]+) records", message)
    return int(found.replace(",", ""))


@pytest.mark.parametrize("size", [1, 30])
@pytest.mark.parametrize(
    "model",
    [
        make(4.0, MGR(n_steps=20)),
        make(1.0, PhasedERM()),
        make(kind=DPWorstGroupRegressor),
        make(0.5, Moments(), DPWorstGroupRegressor),
    ],
    ids=["mgr", "phased-erm", "regression", "moments"],
)
def test_what_is_said_to_do_does(model, size):
    (message,) = fit_with(model, [3000, size])
    assert message.startswith(f"group 'g1' has {size} record(s), which may be too few to learn")
    enough = records_that_do(message)
    cost = model.plan_.problem.constants.zero_score
    better = model.plan(group_sizes=[3000, enough], n_features=2)
    assert better.predicted_excess_if_worst[1] < cost
    assert f"{better.predicted_excess_if_worst[1]:.3g}" in message
    # and not many times too many
    fewer = model.plan(group_sizes=[3000, max(1, int(enough / 3))], n_features=2)
    assert fewer.predicted_excess_if_worst[1] >= cost
    assert fit_with(model, [3000, enough]) == []


def test_every_hopeless_group_is_named_and_no_other():
    model, sizes = make(8.0, "mgr"), [30_000, 2, 15_000, 5, 9]
    (message,) = fit_with(model, sizes)
    bounds = model.plan_.predicted_excess_if_worst
    hopeless = hopeless_groups(model.plan_)
    assert {1, 3, 4} <= set(hopeless) < {0, 1, 2, 3, 4}
    assert message.startswith(f"{len(hopeless)} groups may have too few records")
    for i, (size, bound) in enumerate(zip(sizes, bounds, strict=True)):
        assert (f"'g{i}' ({size:,} record(s), bound {bound:.3g})" in message) == (i in hopeless)
    enough = records_that_do(message)
    plan = model.plan(group_sizes=[max(size, enough) for size in sizes], n_features=2)
    assert hopeless_groups(plan) == []


@pytest.mark.parametrize("sizes", [[30, 20], [200_000, 5_000, 1]])
@pytest.mark.parametrize("kind", [DPWorstGroupClassifier, DPWorstGroupRegressor])
def test_a_weak_plan_says_how_many_records_a_group_would_do(sizes, kind):
    """One record makes the plan of 205,000 weak: it is the group that is told to grow."""
    model = make(0.5, MGR(n_steps=20), kind)
    (message,) = fit_with(model, sizes)
    (number,) = re.findall(r" ([\d,]+) records in each group would do \(fewer are in", message)
    enough = int(number.replace(",", ""))
    plan = model.plan(group_sizes=[max(size, enough) for size in sizes], n_features=2)
    assert not plan.is_weak
    assert hopeless_groups(plan) == []
    assert f"then above {max(plan.predicted_excess_if_worst):.3g}" in message
    fewer = model.plan(group_sizes=[max(size, enough // 2) for size in sizes], n_features=2)
    assert hopeless_groups(fewer)
    assert "for every group" in message
    if len(sizes) == 3:
        assert enough < 5_000
        assert "fewer are in 'g2' (1 record(s)" in message


def test_many_hopeless_groups_are_counted_and_few_kinds_of_them_named():
    model = make(4.0, MGR(n_steps=20))
    (message,) = fit_with(model, [20_000] + [3] * 30)
    assert message.startswith("30 groups may have too few records")
    assert "'g1' (3 record(s), bound" in message
    assert message.count("'g") == 3
    assert "and 27 more of 3 record(s), bound" in message
    (message,) = fit_with(model.set_params(epsilon=8.0), [20_000, *range(1, 31)])
    assert len(hopeless_groups(model.plan_)) == 31
    assert message.partition("(fewer are in ")[2].count("'g") == 20
    assert ", and 10 more)" in message
    assert fit_with(make(4.0), [3000, 2000]) == []


@pytest.mark.parametrize("n_tiny", [1, 30])
def test_groups_that_alone_make_a_plan_weak_are_named_with_what_cures_them(n_tiny):
    model = make(solver="mgr")
    (message,) = fit_with(model, [3000, 2000] + [1] * n_tiny)
    assert message.count("misspelt label") == 1
    assert "larger epsilon" not in message
    if n_tiny == 1:
        assert "group 'g2' alone makes it weak, with 1 record(s): merge it into another" in message
    else:
        assert "30 groups alone make it weak, 'g10' (1 record(s)) among them: merge" in message
        assert message.count("'g") == 4
    assert not hopeless_groups(model.plan(group_sizes=[3000, 2000], n_features=2))
    (other,) = fit_with(model, [30, 20])
    assert "alone" not in other
    assert "larger epsilon" in other


def test_no_number_is_told_where_the_solver_refuses_so_many():
    class Choosy(MGR):
        def _plan(self, problem, budget):
            if min(problem.group_sizes) > 1:
                raise ValueError("too many")
            return super()._plan(problem, budget)

    (message,) = fit_with(make(4.0, Choosy(n_steps=20)), [3000, 1])
    assert "bring about" not in message
    assert "merge it or leave it out" in message


def test_without_an_end_of_records_no_group_is_to_blame():
    """Groups without an end are never hopeless; a round of them may be too small all the same."""

    def simulate(group, size, rng):
        X = rng.uniform(-0.5, 0.5, size=(size, 2))
        return X, X[:, 0] > 0.0

    model = make(solver=OnlineToBatch(n_rounds=5, batch_size=2))
    with pytest.warns(WeakPlanWarning) as seen:
        model.fit_oracle(
            GeneratorOracle(simulate),
            group_labels=["a", "b"],
            group_sizes=[np.inf, np.inf],
            n_features=2,
            classes=[False, True],
        )
    (said,) = [str(one.message) for one in seen if one.category is WeakPlanWarning]
    assert re.search(r"predicting nothing costs at most 0\.693: more records in a round, ", said)


def test_numbers_beyond_which_plans_take_long_are_not_tried():
    planned = []

    class Long(OCO):
        def _plan(self, problem, budget):
            planned.append(problem.n_records)
            return super()._plan(problem, budget)

    model = make(1e-3, Long(schedule="paper"), delta=1e-9)
    (message,) = fit_with(model, [30, 20])
    assert "would do" not in message
    assert sum(n > 200_000 for n in planned) == 1
