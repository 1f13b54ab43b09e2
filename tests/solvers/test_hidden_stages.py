"""What is fixed before hidden groups are counted, what stands for their sizes, who refuses."""

import dataclasses

import numpy as np
import pytest

from sklearn_dpwg.data.problem import HiddenGroups, Problem
from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.solvers import (
    MGR,
    OCO,
    SOLVERS,
    Auto,
    Moments,
    OnlineToBatch,
    PhasedERM,
)
from sklearn_dpwg.solvers.counts import CountStage, whole_sizes
from tests.helpers.group_data import make_data
from tests.helpers.neighbours import hidden_problem, neighbours
from tests.helpers.replay import silent
from tests.helpers.selections import Listed, with_records

BUDGET = Budget(1.0, 1e-6)


def planned(index=1):
    """Return a plan for hidden groups and its solver."""
    problem = hidden_problem(np.random.default_rng(index), BinaryLogLoss(), n_groups=3)
    solver = MGR(n_steps=3)
    return solver.plan(problem, BUDGET), solver


def test_sizes_add_up_and_are_large_enough():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n_groups, n_records = int(rng.integers(2, 9)), int(rng.integers(1, 300))
        noisy = rng.normal(n_records / n_groups, rng.choice([0.1, 30.0]), size=n_groups)
        sizes = np.array(whole_sizes(noisy, n_records=n_records, floor=1))
        assert abs(np.maximum(sizes, 0).sum() - n_records) <= n_groups  # by rounding and the floor
        floored = np.array(whole_sizes(noisy, n_records=n_records, floor=20))
        assert (floored == np.maximum(sizes, min(20, n_records))).all()
    assert whole_sizes(np.array([60.2, 39.8, -50.0]), n_records=100, floor=5) == (60, 40, 5)
    # noise so large that the total is lost in its rounding
    assert whole_sizes(np.array([1e21, -3e20]), n_records=60, floor=100) == (60, 60)


def gaussian(multiplier, count=1, **more):
    return Release("gradient", "gaussian", multiplier, count, **more)


def test_a_second_stage_may_not_cost_more_than_was_fixed():
    counts = Release("group counts", "gaussian", 20.0, 1)
    stage = CountStage(counts, (gaussian(2.0),), BUDGET)
    assert stage.covers([gaussian(4.0, 4)])
    assert not stage.covers([gaussian(4.0, part=0), gaussian(4.0, part=1)])
    assert not stage.covers([gaussian(4.0, 5)])
    assert not stage.covers([gaussian(4.0, 4), gaussian(1e3)])
    assert not stage.covers([gaussian(9.0, sampling_rate=0.5)])
    assert not stage.covers([Release("gradient", "laplace", 1e3, 1)])
    sampled = CountStage(counts, (gaussian(9.0, sampling_rate=0.5),), BUDGET)
    assert sampled.covers([gaussian(9.0, sampling_rate=0.5)])
    assert not sampled.covers([gaussian(9.1, sampling_rate=0.5)])
    plan, _ = planned()
    with pytest.raises(PlanExceededError, match="must release their counts first"):
        dataclasses.replace(plan, counts=stage)
    with pytest.raises(PlanExceededError, match="no more than what was fixed"):
        dataclasses.replace(plan, releases=(counts, gaussian(1.0)), counts=stage)


def test_what_is_sampled_follows_from_no_size():
    hidden = HiddenGroups(3_000_000, 30.0)
    result = set()
    for sizes in ((2_990_000, 10_000), (1_500_000, 1_500_000), (120, 2_999_880)):
        prior = tuple(size / 3_000_000 for size in sizes)
        problem = Problem(BinaryLogLoss(), sizes, 20, 20.0, prior, 0.5, hidden)
        plan = MGR(sampling_rate=0.05).plan(problem, BUDGET)
        result.add(plan.releases)
    (releases,) = result  # the same for all sizes
    assert releases[-1].sampling_rate < 1.0


def test_every_other_solver_refuses_in_one_sentence():
    problem = hidden_problem(np.random.default_rng(0), BinaryLogLoss(), n_groups=2)
    for name, make in SOLVERS.items():
        if make in (MGR, Moments, OCO, OnlineToBatch, PhasedERM, Auto):
            make()._check_problem(problem)
        elif name != "exact":
            with pytest.raises(ValueError, match=rf"^solver '{name}' needs neighbours=.*\.$"):
                make().plan(problem, BUDGET)
    for solver, needed in (
        (MGR(schedule="paper"), "schedule of MGR must be 'planned' unless"),
        (PhasedERM(schedule="paper"), "schedule of PhasedERM must be 'planned' unless"),
        (OCO(schedule="paper"), "neighbours='replace-one-within-group'"),
        (OCO(play="sampled"), "play of OCO must be 'weighted'"),
        (OnlineToBatch(schedule="paper"), "neighbours='replace-one-within-group'"),
    ):
        with pytest.raises(ValueError, match=needed):
            solver.plan(problem, BUDGET)


def test_a_plan_for_hidden_groups_refuses_others_without_telling_sizes():
    plan, solver = planned()
    pair = neighbours(plan.problem, 0)
    data = with_records(pair.data, places=None)
    with pytest.raises(ValueError, match="groups are hidden"):
        solver.run(plan, data, None)
    fewer = pair.data.part(Listed([]))
    with pytest.raises(ValueError, match="records, groups, loss, weights"):
        solver.run(plan, fewer, None)


def test_groups_that_may_be_empty_are_not_learned_for():
    """The risk of an empty group is that of the centre, which no model lowers."""
    problem = Problem(
        BinaryLogLoss(),
        (900, 100, 10),
        2,
        3.0,
        (0.9, 0.09, 0.01),
        0.5,
        HiddenGroups(1000, 3.5),
    )
    rng = np.random.default_rng(0)
    rows, codes = rng.standard_normal((1000, 2)), (np.arange(1000) < 100).astype(int)
    data = make_data(problem, rows, np.where(rows[:, 0] > 0, 1.0, -1.0), codes)
    for solver in (MGR(n_steps=60), PhasedERM(4), OCO(), OnlineToBatch()):
        plan = solver.plan(problem, Budget(1e4, 1e-6))
        assert problem.is_active.tolist() == [True, True, False]
        solution = solver.run(plan, data, silent())
        scores = rows @ solution.weights[:2] + 0.5 * solution.weights[2]
        assert np.mean((scores > 0) == (rows[:, 0] > 0)) > 0.9
        if solution.group_weights is not None:
            assert solution.group_weights[2] < 0.1
