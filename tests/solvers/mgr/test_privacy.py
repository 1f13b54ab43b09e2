"""Does MGR release what its plan says, with the sensitivity that it says?

Sensitivities are attacked by running neighbours on one and the same transcript: the values that
`run` hands over for noise may differ by at most what it states. docs/theory/mgr.md, sections 2-5.
"""

import dataclasses
import inspect
import math

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import PlanExceededError, SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource, Release
from sklearn_dpwg.solvers import MGR, Solution
from sklearn_dpwg.solvers.descent import mgr as mgr_module
from sklearn_dpwg.solvers.descent import releases
from sklearn_dpwg.solvers.descent.mgr import paper_plan
from sklearn_dpwg.solvers.descent.planning import least_bound_plan
from sklearn_dpwg.solvers.steps import normalised
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.mgr_cases import LOSSES, bad_case, planned_problems, random_data
from tests.helpers.noise_checks import scale_faults
from tests.helpers.plan_check import assert_releases_match
from tests.helpers.replay import (
    Instead,
    distances,
    faulty,
    fixed_transcript,
    instead_of,
    misstated,
    recorded,
)
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)
ROUNDING = 1e-9


# --- sensitivity -------------------------------------------------------------------------------


def attack(case, seed):
    """Run both neighbours on one transcript; return distances, and whether the outputs differ."""
    rng = np.random.default_rng([seed, 4])
    scales = {
        "gradient": 10.0 ** rng.uniform(-3, 3),
        "group risks": 10.0 ** rng.uniform(-2, 4),
    }
    runs = []
    for data in (case.data, case.neighbour):
        source = fixed_transcript(seed, scales)
        solution = case.solver.run(case.plan, data, source, start=case.start)
        runs.append((source.asked, solution))
    (first, one), (second, other) = runs
    leaks = not (
        np.array_equal(one.weights, other.weights)
        and np.array_equal(one.group_weights, other.group_weights)
        and one.n_iter == other.n_iter
    )
    return distances(first, second), leaks


def worst_distances(solver_class, seeds, plans, *, until_caught=False):
    """Return the largest distance of each release over many cases, and the leaking outputs."""
    worst, n_leaks = {}, 0
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        found, leaks = attack(bad_case(plan, solver_class(**solver.get_params()), seed), seed)
        n_leaks += leaks
        for name, distance in found:
            worst[name] = max(worst.get(name, 0.0), distance)
        if until_caught and is_caught(worst, n_leaks):
            break
    return worst, n_leaks


def is_caught(worst, n_leaks):
    return n_leaks > 0 or max(worst.values()) > 1.0 + ROUNDING


@pytest.fixture(scope="module")
def plans():
    return list(planned_problems(0, 48))


@pytest.mark.parametrize("first", [0, pytest.param(1050, marks=pytest.mark.audit)])
def test_no_neighbour_moves_a_release_by_more_than_its_sensitivity(first, plans):
    worst, n_leaks = worst_distances(MGR, range(first, first + 1050), plans)
    assert n_leaks == 0  # the output follows from the transcript
    assert set(worst) == {"gradient", "group risks"}
    assert max(worst.values()) <= 1.0 + ROUNDING, worst
    # the attack is strong enough to mean something
    assert worst["gradient"] > 0.9, worst
    assert worst["group risks"] > 0.9, worst


def exact(plan, data, weights):
    """Return exact risks and gradients."""
    return data.risks_and_gradients(weights, ceiling=plan.schedule.ceiling)


def states(name, wrong, *, step=None):
    """Return a fault: a sensitivity is stated as ``wrong(schedule, sizes, weights, right)``."""

    def fault(honest, plan, data, weights, group_weights, noise, *unit):
        sizes = np.array(plan.problem.group_sizes, dtype=float)

        def change(release, value, stated):
            if release.name == name and step in (None, plan.schedule.step):
                stated = wrong(plan.schedule, sizes, group_weights, stated)
            return value, stated

        return honest(plan, data, weights, group_weights, misstated(noise, change), *unit)

    return fault


def weights_after(honest, plan, data, weights, group_weights, noise, *unit):
    """State the gradient for the group weights after an update by exact risks."""
    risks, _ = exact(plan, data, weights)
    logarithms = np.log(np.maximum(group_weights, 1e-300))
    after = normalised(logarithms + plan.schedule.group_rate * risks)
    fault = states("gradient", lambda s, n, _, __: diameter(s) * (after / n).max(), step="weighted")
    return fault(honest, plan, data, weights, group_weights, noise)


def no_ceiling(honest, plan, data, *others):
    def read(weights, *, ceiling, grid):
        return data.sums(weights, ceiling=np.inf, grid=grid)

    return honest(plan, Instead(data, sums=read), *others)


def worst_group_drawn(honest, plan, data, weights, group_weights, noise, *unit):
    risks, _ = exact(plan, data, weights)
    rng = Instead(noise.rng, choice=lambda *_, **__: int(risks.argmax()))
    return honest(plan, data, weights, group_weights, Instead(noise, rng=rng), *unit)


def exact_risks(honest, plan, data, weights, *others):
    found = honest(plan, data, weights, *others)
    return found._replace(risks=exact(plan, data, weights)[0])


def exact_gradient_leaks(honest, plan, data, weights, *others):
    found = honest(plan, data, weights, *others)
    return found._replace(gradient=found.gradient + 1e-9 * exact(plan, data, weights)[1][0])


def one_release_more(honest, plan, data, weights, group_weights, noise, *unit):
    found = honest(plan, data, weights, group_weights, noise, *unit)
    noise.gaussian(found.gradient, sensitivity=1.0, release=plan.releases[0])
    return found


class StoppedError(Exception):
    """A run ends early."""


def early_stop(run, plan, data, noise, start):
    def stopping(honest, plan, data, weights, *others):
        found = honest(plan, data, weights, *others)
        if exact(plan, data, weights)[0].max() > 2.0:
            raise StoppedError
        return found

    try:
        return instead_of(releases, "from_pass", stopping)(run, plan, data, noise, start)
    except StoppedError:
        return Solution(np.zeros(plan.problem.n_weights), np.array(plan.problem.prior), 3)


def last_risk_leaves(run, plan, data, noise, start):
    found = run(plan, data, noise, start)
    return dataclasses.replace(
        found, weights=found.weights + exact(plan, data, found.weights)[0].max()
    )


def diameter(schedule):
    return schedule.gradient_diameter


OF_RELEASES = {
    "half the gradient's sensitivity": states("gradient", lambda s, n, w, right: right / 2),
    "gradient without its diameter": states("gradient", lambda s, n, w, right: right / diameter(s)),
    "half the risks' sensitivity": states("group risks", lambda s, n, w, right: right / 2),
    "no ceiling": no_ceiling,
    "means with the range of sums": states("group risks", lambda s, n, w, right: right / n.sum()),
    "K for n_i in the gradient": states(
        "gradient", lambda s, n, w, right: diameter(s) / n.sum(), step="weighted"
    ),
    "the mean group": states(
        "gradient", lambda s, n, w, right: diameter(s) * (w / n).mean(), step="weighted"
    ),
    "the weighted mean group": states(
        "gradient", lambda s, n, w, right: diameter(s) * (w @ (w / n)), step="weighted"
    ),
    "the prior for the weights": states(
        "gradient",
        lambda s, n, w, right: diameter(s) * (np.array(s.prior) / n).max(),
        step="weighted",
    ),
    "the largest group drawn": states(
        "gradient", lambda s, n, w, right: diameter(s) / n.max(), step="sampled"
    ),
    "group weights after an update by exact risks": weights_after,
    "a draw that reads the risks": worst_group_drawn,
    "exact risks move the group weights": exact_risks,
    "the exact gradient leaks into the step": exact_gradient_leaks,
}
PLANTED = {
    **{name: instead_of(releases, "from_pass", fault) for name, fault in OF_RELEASES.items()},
    "early stop on an exact risk": early_stop,
    "an exact last risk": last_risk_leaves,
    "weights leave the ball": instead_of(
        mgr_module, "project_to_ball", lambda honest, weights, radius: weights
    ),
    "a warm start outside the ball": instead_of(
        releases, "project_to_ball", lambda honest, weights, radius: 2.0 * honest(weights, radius)
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_fault_is_caught(fault, plans):
    attacked = worst_distances(faulty(MGR, PLANTED[fault]), range(1200), plans, until_caught=True)
    assert is_caught(*attacked), attacked


def test_a_ceiling_above_the_planned_one_is_caught():
    wrong = []
    for plan, solver in planned_problems(0, 24, schedule="planned", loss_ceiling=None):
        supremum = plan.problem.constants.supremum
        if plan.problem.n_groups > 1 and plan.schedule.ceiling < supremum:
            higher = dataclasses.replace(plan.schedule, ceiling=supremum)
            wrong.append((dataclasses.replace(plan, schedule=higher), solver))
    attacked = worst_distances(MGR, range(600), wrong, until_caught=True)
    assert is_caught(*attacked), attacked


def directed_pair(problem, angle):
    """Return two rows at one angle to the axis of the weights, opposite across it."""
    along, across = np.eye(problem.n_features)[:2]
    return (
        np.sin(angle) * along + np.cos(angle) * across,
        np.sin(angle) * along - np.cos(angle) * across,
    )


@pytest.mark.parametrize(
    ("loss", "targets", "radius", "tightness"),
    [
        (BinaryLogLoss(), (-1.0, -1.0), 20.0, 0.99),
        (BinaryLogLoss(), (-1.0, -1.0), 3.0, 0.99),
        (BinaryLogLoss(), (-1.0, -1.0), 0.1, 0.99),
        (SquaredError(), (-1.0, -1.0), 2.0, 0.99),
        (MultinomialLogLoss(3), (0.0, 0.0), 20.0, 0.7),
    ],
)
def test_the_gradient_bound_is_nearly_attained(loss, targets, radius, tightness):
    """A group of one record, weights on the sphere: how much of the noise is needed."""
    problem = make_problem((1, 40), loss=loss, radius=radius, scaling=0.0)
    plan = MGR(n_steps=1, risk_share=0.1).plan(problem, BUDGET)
    rows, labels = random_data(problem, 0)
    # two classes of the multinomial loss pull against each other along the first axis
    weights = np.zeros((loss.n_outputs, 2))
    weights[:, 0] = {1: [radius], 3: np.array([-1.0, 1.0, 0.0]) * radius / math.sqrt(2)}[
        loss.n_outputs
    ]
    start = Solution(weights.ravel(), np.array([1.0, 0.0]), 0)
    best = 0.0
    for angle in np.linspace(0.0, np.pi / 2, 200):
        asked = []
        for row, target in zip(directed_pair(problem, angle), targets, strict=True):
            rows[0], labels[0] = row, target
            source = fixed_transcript(0, {})
            MGR().run(plan, make_data(problem, rows, labels), source, start=start)
            asked.append(source.asked)
        best = max(best, distances(*asked)[0][1])
    assert tightness < best <= 1.0 + ROUNDING


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_risk_bound_is_nearly_attained(loss):
    """One record, best against worst label at the end of the ball."""
    problem = make_problem((1, 40), loss=loss, radius=20.0, scaling=0.0)
    plan = MGR(n_steps=1, risk_share=0.5).plan(problem, BUDGET)
    rows, labels = random_data(problem, 0)
    weights = np.zeros((loss.n_outputs, 2))
    spread = np.full(loss.n_outputs, -1.0)
    spread[0] = max(loss.n_outputs - 1.0, 1.0)
    weights[:, 0] = 20.0 * spread / np.linalg.norm(spread)
    start = Solution(weights.ravel(), np.array([0.5, 0.5]), 0)
    first, second = {
        "log_loss": (1.0, -1.0) if loss.n_outputs == 1 else (0.0, 1.0),
        "squared_error": (-getattr(loss, "target_bound", 0.0), 0.0),
    }[loss.name]
    asked = []
    for row, target in ((1.0, first), (1.0 if loss.name == "log_loss" else 0.0, second)):
        rows[0], labels[0] = (row, 0.0), target
        source = fixed_transcript(0, {})
        MGR().run(plan, make_data(problem, rows, labels), source, start=start)
        asked.append(source.asked)
    distance = distances(*asked)[1][1]
    assert 0.99 < distance <= 1.0 + ROUNDING


# --- releases against the plan -----------------------------------------------------------------

SOLVERS = {
    "weighted": MGR(n_steps=7, risk_share=0.3),
    "paper": MGR(schedule="paper", max_passes=7),
}


def budget_of(solver):
    """Return a budget; the paper's schedule takes one step only where it is small."""
    return Budget(60.0, 1e-6) if solver.schedule == "paper" else BUDGET


EACH_SOLVER = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
SIZES = pytest.mark.parametrize("sizes", [(5,), (4, 9), (1, 2, 30)])


@SIZES
@EACH_SOLVER
def test_a_run_releases_what_was_planned(solver, sizes):
    problem = make_problem(sizes)
    plan = solver.plan(problem, budget_of(solver))
    noise = seeded(0, plan.releases)
    solver.run(plan, make_data(problem, *random_data(problem, 0)), noise)
    assert_releases_match(noise, plan)
    assert [release.name for release in plan.releases] == ["gradient", "group risks"][: len(sizes)]
    assert {release.max_count for release in plan.releases} == {plan.n_steps}
    assert not plan.early_stop


@SIZES
@EACH_SOLVER
def test_a_source_with_less_refuses(solver, sizes):
    problem = make_problem(sizes)
    plan = solver.plan(problem, budget_of(solver))
    data = make_data(problem, *random_data(problem, 0))
    for index, release in enumerate(plan.releases):
        fewer = list(plan.releases)
        fewer[index] = dataclasses.replace(release, max_count=release.max_count - 1)
        with pytest.raises(PlanExceededError):
            solver.run(plan, data, seeded(0, fewer))
        louder = list(plan.releases)
        louder[index] = release.scaled(1.01)
        with pytest.raises(PlanExceededError):
            solver.run(plan, data, seeded(0, louder))


def test_one_release_more_is_refused():
    extra = faulty(MGR, instead_of(releases, "from_pass", one_release_more))
    problem = make_problem((4, 9))
    plan = MGR(n_steps=3).plan(problem, BUDGET)
    with pytest.raises(PlanExceededError, match="3 draws"):
        extra().run(plan, make_data(problem, *random_data(problem, 0)), seeded(0, plan.releases))


@EACH_SOLVER
def test_records_of_another_problem_are_refused(solver):
    plan = solver.plan(make_problem((4, 9)), BUDGET)
    for other in (
        make_problem((4, 8)),
        make_problem((9, 4)),
        make_problem((4, 9), loss=SquaredError()),
        make_problem((4, 9), n_features=3),
        make_problem((4, 9), scaling=1.0),
    ):
        noise = seeded(0, plan.releases)
        with pytest.raises(ValueError, match="for other records"):
            solver.run(plan, make_data(other, *random_data(other, 0)), noise)
        assert noise.draws == ()


@EACH_SOLVER
def test_what_is_released_does_not_depend_on_the_records(solver):
    problem = make_problem((3, 9, 1))
    plan = solver.plan(problem, budget_of(solver))
    transcripts = set()
    for seed in range(25):
        noise = recorded(seeded(seed, plan.releases))
        rows, targets = random_data(problem, seed)
        solver.run(plan, make_data(problem, rows * seed, targets), noise)
        transcripts.add(tuple((asked.release, asked.value.shape) for asked in noise.asked))
    assert len(transcripts) == 1


@pytest.mark.parametrize("sizes", [(5,), (4, 9), (1, 2, 30)])
@EACH_SOLVER
def test_noise_of_a_run_has_the_scale_of_the_plan(solver, sizes):
    problem = make_problem(sizes, n_features=20)
    solver = MGR(**{**solver.get_params(), "max_passes": 400})
    if solver.schedule == "planned":
        solver.n_steps = 400
    plan = solver.plan(problem, budget_of(solver))
    assert plan.n_steps > 30
    noise = recorded(seeded(1, plan.releases))
    solver.run(plan, make_data(problem, *random_data(problem, 0)), noise)
    assert_scales(noise, plan)


def test_secure_noise_of_a_run_has_the_scale_of_the_plan():
    problem = make_problem((3, 9), n_features=60)
    plan = MGR(n_steps=40).plan(problem, BUDGET)
    noise = recorded(NoiseSource(None, plan.releases))
    MGR().run(plan, make_data(problem, *random_data(problem, 0)), noise)
    assert_scales(noise, plan)


def assert_scales(noise, plan):
    for release in plan.releases:
        draws = [asked for asked in noise.asked if asked.release == release]
        assert len(draws) == release.max_count
        units = np.concatenate(
            [np.ravel((asked.answer - asked.value) / asked.noise_scale) for asked in draws]
        )
        standard = Release("units", release.mechanism, 1.0, 1)
        assert scale_faults(units, standard, sensitivity=1.0) == []


# --- the plan holds public facts only ----------------------------------------------------------


def test_a_plan_is_made_from_a_problem_and_a_budget():
    assert list(inspect.signature(MGR.plan).parameters) == ["self", "problem", "budget"]
    assert list(inspect.signature(least_bound_plan).parameters) == [
        "problem", "budget", "parameters"
    ]  # fmt: skip
    assert list(inspect.signature(paper_plan).parameters) == ["problem", "budget", "max_passes"]
    facts = {field.name for field in dataclasses.fields(Problem)}
    assert facts == {
        "loss", "group_sizes", "n_features", "radius", "prior", "intercept_scaling", "hidden"
    }  # fmt: skip


@EACH_SOLVER
def test_plans_repeat(solver):
    first, second = (solver.plan(make_problem((4, 9)), BUDGET) for _ in range(2))
    assert first == second


def test_plans_of_fits_are_those_of_the_public_facts():
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], [30, 50])
    plans = []
    for scale in (1e-3, 1.0, 1e3):
        X = scale * rng.standard_normal((80, 3))
        y = rng.permutation([0, 1] * 40)
        model = DPWorstGroupClassifier(
            delta=1e-3, solver=MGR(n_steps=5), random_state=0, data_norm=1.0
        )
        with pytest.warns((SeededNoiseWarning, WeakPlanWarning)):
            model.fit(X, y, groups=groups)
        plans.append(model.plan_)
        assert model.plan_ == model.plan(group_sizes=(30, 50), n_features=3)
    assert plans[0] == plans[1] == plans[2]


# --- what the guarantee says is what the releases cost -----------------------------------------


@SIZES
def test_gaussian_releases_add_up_to_the_budget(sizes):
    plan = MGR(n_steps=9).plan(make_problem(sizes), BUDGET)
    spent = sum(release.max_count / release.noise_multiplier**2 for release in plan.releases)
    assert spent <= BUDGET.mu**2
    assert spent == pytest.approx(BUDGET.mu**2, rel=1e-5)
    assert plan.guarantee.epsilon <= BUDGET.epsilon


def test_laplace_releases_cost_no_more_than_the_budget_by_renyi_accounting_too():
    """Another accountant on the same events; Rényi is looser, so it may exceed, but not by much."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    plan = SOLVERS["paper"].plan(make_problem((4, 9)), BUDGET)
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    (event,) = plan.guarantee.events
    renyi = accountant.compose(event).get_epsilon(BUDGET.delta)
    assert plan.guarantee.epsilon <= BUDGET.epsilon
    assert plan.guarantee.epsilon <= renyi <= 1.3 * BUDGET.epsilon
