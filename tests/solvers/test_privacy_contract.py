"""Does every solver release what its plan says, with the sensitivity that it says?

A case names plans, how near neighbours must come to what those pay for, and faults to plant
(`tests/helpers/cases`); a registered solver without one is refused.
"""

import dataclasses
import inspect
import math

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import PlanExceededError, SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource, Release
from sklearn_dpwg.solvers import (
    AGS,
    GDA,
    MGR,
    OCO,
    SOLVERS,
    Auto,
    Moments,
    OnlineToBatch,
    PhasedERM,
)
from tests.helpers.cases import CASES
from tests.helpers.contract import draws, moves_of_batches
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data
from tests.helpers.noise_checks import scale_faults
from tests.helpers.plan_check import assert_releases_match
from tests.helpers.relations import WITHIN_GROUP
from tests.helpers.replay import recorded
from tests.helpers.sources import seeded

EACH_CASE = pytest.mark.parametrize("name", CASES)
EACH_FAULT = [(name, fault) for name, case in CASES.items() for fault in case.faults]
WITHOUT_NOISE = {"exact"}
# Pairs that show what few others do, which are tried first.
SHOWN_BY = {
    ("mgr for overlapping groups", "the mean number of groups"): 161,
    ("ags for overlapping groups", "the root of m forgotten"): 50,
    ("phased-erm", "the first prior's sensitivity"): 130,
    ("phased-erm", "a smaller regularisation of the group weights"): 64,
    ("phased-erm", "two phases share a part"): 79,
    ("phased-erm", "parts by value"): 60,
    ("phased-erm", "every phase reads all records"): 60,
    ("phased-erm for overlapping groups", "the first prior's sensitivity"): 104,
    ("phased-erm for overlapping groups", "the root of m forgotten"): 84,
    ("phased-erm for overlapping groups", "phases as if groups were disjoint"): 44,
    ("phased-erm of moving weights for overlapping groups", "one group of a record alone"): 87,
    ("phased-erm on fresh records", "half the sensitivity of fresh risks"): 91,
    ("phased-erm on fresh records", "exact fresh risks move the prior"): 30,
    ("phased-erm on fresh records", "a phase that is left out on an exact risk"): 17,
    ("oco, weighted", "the first influence for ever"): 159,
    ("oco for hidden groups", "the first influence for ever"): 235,
    ("online-to-batch", "a start outside the ball"): 67,
    ("online-to-batch for hidden groups", "groups decide the order"): 617,
}


def test_every_registered_solver_has_a_case_and_a_run():
    private = {make for name, make in SOLVERS.items() if name not in WITHOUT_NOISE}
    assert private <= {case.solver for case in CASES.values()}
    assert private <= {type(solver) for solver in RUNS.values()}
    assert all(case.plans_of.keys() <= case.faults.keys() for case in CASES.values())


# --- neighbours on one transcript --------------------------------------------------------------


@pytest.mark.parametrize(("first", "end"), [(0, 1), pytest.param(1, 12, marks=pytest.mark.audit)])
@EACH_CASE
def test_no_neighbour_moves_a_release_by_more_than_is_paid(name, first, end):
    case = CASES[name]
    worst = case.worst(case.honest, range(first * case.n_pairs, end * case.n_pairs))
    assert max(worst.values()) <= 1.0 + case.rounding, worst
    seen = {release.name for plan, _ in case.honest for release in plan.releases}
    if case.moves is moves_of_batches:
        seen = {"replaced", "joined"}
    assert {each: worst.get(each) for each in seen if worst.get(each, 0.0) < case.strength} == {}


@pytest.mark.parametrize(("name", "fault"), EACH_FAULT)
def test_planted_fault_is_caught(name, fault, monkeypatch):
    case = CASES[name]
    honest = case.honest  # planned before the fault is there
    case.faults[fault](monkeypatch)
    plans = list(case.plans_of[fault]()) if fault in case.plans_of else honest
    seeds = [SHOWN_BY.get((name, fault), 0), *range(1200)]
    worst = case.worst(plans, seeds, until_caught=True)
    assert case.is_caught(worst), worst


# --- runs within their plans -------------------------------------------------------------------

RUNS = {
    "mgr": MGR(n_steps=7, risk_fraction=0.3, centring=False),
    "mgr on centred rows": MGR(n_steps=7, centring=True),
    "mgr on whitened rows": MGR(n_steps=7, centring=True, whitening=True),
    "mgr on batches": MGR(n_steps=7, sampling_rate=0.3),
    "mgr of the paper": MGR(schedule="paper", max_passes=7),
    "ags": AGS(n_steps=7, risk_fraction=0.3),
    "ags of the paper": AGS(schedule="paper", max_passes=7),
    "gda": GDA(n_steps=7),
    "gda of the paper": GDA(n_steps=7, schedule="paper"),
    "phased-erm": PhasedERM(3, mu_groups=1.0),
    "phased-erm of the paper": PhasedERM(schedule="paper"),
    "moments": Moments(2),
    "oco, weighted": OCO(n_rounds=7),
    "oco, sampled": OCO(play="sampled", n_rounds=7),
    "online-to-batch": OnlineToBatch(n_rounds=7),
    "online-to-batch of the paper": OnlineToBatch(n_rounds=7, schedule="paper"),
    "auto": Auto(),
}
EACH_RUN = pytest.mark.parametrize("name", RUNS)


def problem_of(name, sizes, **facts):
    loss = SquaredError() if "moments" in name else BinaryLogLoss()
    return make_problem(sizes, **{"loss": loss} | facts)


def budget_of(name):
    """Return a budget; the paper's schedule of MGR takes a step only of a large one."""
    return Budget(60.0 if name == "mgr of the paper" else 1.0, 1e-6)


def planned(name, sizes=(30, 60), **facts):
    """Return a solver and a plan."""
    return RUNS[name], RUNS[name].plan(problem_of(name, sizes, **facts), budget_of(name))


@pytest.mark.parametrize(("sizes", "seed"), [((40,), None), ((30, 60, 20), 3)])
@EACH_RUN
def test_a_run_releases_what_was_planned_whatever_the_records(name, sizes, seed):
    solver, plan = planned(name, sizes)
    transcripts = set()
    for size in (0.01, 1.0, 100.0) if seed else (1.0,):
        noise = NoiseSource(None, plan.releases) if seed is None else seeded(seed, plan.releases)
        rows, targets = random_data(plan.problem, int(size))
        result = solver.run(plan, make_data(plan.problem, size * rows, targets), noise)
        assert_releases_match(noise, plan)
        transcripts.add(tuple((draw.release, draw.shape) for draw in noise.draws))
        assert np.linalg.norm(result.weights) <= plan.problem.radius * (1 + 1e-9)
        assert 1 <= result.n_iter <= plan.n_steps
        if result.group_weights is not None:
            assert result.group_weights.sum() == pytest.approx(1.0)
            assert (result.group_weights >= 0.0).all()
        if not plan.early_stop:
            assert result.n_iter == plan.n_steps
            with pytest.raises(PlanExceededError):
                solver.run(plan, make_data(plan.problem, rows, targets), noise)
    assert plan.early_stop == (name == "oco, sampled")
    assert len(transcripts) == 1 or plan.early_stop


@EACH_RUN
def test_a_source_with_less_refuses(name):
    solver, plan = planned(name)
    data = make_data(plan.problem, *random_data(plan.problem, 0))
    for index, release in enumerate(plan.releases):
        others = [None, release.scaled(1.01), release.scaled(0.99)]
        others += [dataclasses.replace(release, part=7)]
        if release.max_count > 1 and release.draws_per_record is None:
            others += [dataclasses.replace(release, max_count=release.max_count - 1)]
        if release.sampling_rate < 1.0:
            others += [dataclasses.replace(release, sampling_rate=release.sampling_rate / 2)]
        for other in others:
            given = [*plan.releases[:index], *plan.releases[index + 1 :]]
            noise = seeded(0, given if other is None else [*given, other])
            with pytest.raises(PlanExceededError):
                solver.run(plan, data, noise)


def test_one_release_more_is_refused(monkeypatch):
    def twice(draw, value, stated, plan):
        draw(value, stated)
        return draw(value, stated)

    draws(MGR, "gradient", twice)(monkeypatch)
    solver, plan = planned("mgr")
    with pytest.raises(PlanExceededError, match="7 draws"):
        solver.run(
            plan, make_data(plan.problem, *random_data(plan.problem, 0)), seeded(0, plan.releases)
        )


@EACH_RUN
def test_records_of_another_problem_are_refused(name):
    solver, plan = planned(name)
    for other in (
        problem_of(name, (30, 59)),
        problem_of(name, (60, 30)),
        problem_of(name, (30, 60), loss=SquaredError(2.0)),
        problem_of(name, (30, 60), n_features=3),
        problem_of(name, (30, 60), scaling=1.0),
    ):
        noise = seeded(0, plan.releases)
        with pytest.raises(ValueError, match=r"^The plan is for other records"):
            solver.run(plan, make_data(other, *random_data(other, 0)), noise)
        assert noise.draws == ()


@pytest.mark.parametrize("seed", [None, 1])
@EACH_RUN
def test_noise_of_a_run_has_the_scale_of_the_plan(name, seed):
    solver = clone(RUNS[name])
    longer = {"n_steps": 40, "max_passes": 40}
    solver.set_params(**{key: longer[key] for key in longer.keys() & solver.get_params().keys()})
    problem = problem_of(name, (60, 400, 90), n_features=60)
    plan = solver.plan(problem, budget_of(name))
    noise = NoiseSource(None, plan.releases) if seed is None else seeded(seed, plan.releases)
    source = recorded(noise)
    solver.run(plan, make_data(plan.problem, *random_data(plan.problem, 0)), source)
    for release in plan.releases:
        units = [
            np.ravel((asked.answer - asked.value) / asked.noise_scale)
            for asked in source.asked
            if release in getattr(asked, "releases", [getattr(asked, "release", None)])
        ]
        # a sampled game may end before anything is released
        result = np.concatenate([np.zeros(0), *units])
        standard = Release("units", release.mechanism, 1.0, 1)
        assert len(result) < 20 or scale_faults(result, standard, sensitivity=1.0) == []


# --- plans hold public facts, and cost what they say -------------------------------------------


def test_a_plan_is_made_from_a_problem_and_a_budget():
    for make in SOLVERS.values():
        assert list(inspect.signature(make.plan).parameters) == ["self", "problem", "budget"]
    facts = {field.name for field in dataclasses.fields(Problem)}
    assert facts == {
        "loss", "group_sizes", "n_features", "radius", "prior", "intercept_scaling", "hidden",
        "optimism_correction", "cells", "fresh_calls",
    }  # fmt: skip


def test_plans_of_fits_are_those_of_the_public_facts():
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], [30, 50])
    plans = []
    for scale in (1e-3, 1.0, 1e3):
        X = scale * rng.standard_normal((80, 3))
        y = rng.permutation([0, 1] * 40)
        model = DPWorstGroupClassifier(
            delta=1e-3, solver=MGR(n_steps=5), random_state=0, data_norm=1.0, **WITHIN_GROUP
        )
        with pytest.warns((SeededNoiseWarning, WeakPlanWarning)):
            model.fit(X, y, groups=groups)
        plans.append(model.plan_)
        assert model.plan_ == model.plan(group_sizes=(30, 50), n_features=3)
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("sizes", [(40,), (30, 60, 20)])
@EACH_RUN
def test_releases_add_up_to_the_budget(name, sizes):
    _, plan = planned(name, sizes)
    epsilon = plan.budget.epsilon
    assert plan.guarantee.epsilon <= epsilon
    # these papers' formulas spend less
    if name.endswith("of the paper") and name != "gda of the paper":
        return
    assert plan.guarantee.epsilon > 0.999 * epsilon
    if all(
        release.mechanism == "gaussian" and release.sampling_rate == 1.0 and release.part is None
        for release in plan.releases
    ):
        spent = math.fsum(each.paid_count / each.noise_multiplier**2 for each in plan.releases)
        assert spent <= plan.budget.mu**2
        assert spent == pytest.approx(plan.budget.mu**2, rel=1e-5)
