"""Does AGS release what its plan says, and does no record pay for more than it says?

Sensitivities are attacked by running neighbours on one and the same transcript: the values that
`run` hands over for noise may differ by at most what it states, and all of them together by what
the plan pays for. docs/theory/ags.md, sections 2 and 3.
"""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.losses import Hinge
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, gdp_mu
from sklearn_dpwg.privacy.noise.source import Payers
from sklearn_dpwg.solvers import AGS, Solution
from sklearn_dpwg.solvers.descent import ags as ags_module
from sklearn_dpwg.solvers.descent import releases
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.mgr_cases import LOSSES, bad_case, random_data
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
GRADIENT, RISKS = releases.GRADIENT_OF_ONE_GROUP, releases.RISKS


def planned_problems(seed, n_plans):
    """Yield plans of random problems and the solvers that made them."""
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        n_groups = int(rng.integers(1, 5))
        problem = make_problem(
            rng.choice([1, 2, 3, 4, 25, 400], size=n_groups),
            loss=[*LOSSES, Hinge()][index % (len(LOSSES) + 1)],
            n_features=int(rng.integers(1, 4)),
            radius=float(rng.choice([0.2, 1.0, 3.0, 20.0, 1e3])),
            prior=rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups,
            scaling=float(rng.choice([0.0, 0.5, 1.0])),
        )
        constants = problem.constants
        low, high = constants.infimum, constants.supremum
        solver = AGS(
            n_steps=4,
            visits=[None, 1, 2, 3][index % 4],
            selection="latest" if index % 5 == 0 else "smoothed",
            schedule="paper" if index % 11 == 0 else "planned",
            sharpness=[None, math.inf, 3.0][index % 3],
            loss_ceiling=rng.choice([None, np.inf, low + 0.3 * (high - low)]),
            risk_share=0.3,
            max_passes=4,
        )
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def attack(case, seed):
    """Run both neighbours on one transcript; return distances, cost, and whether it leaks."""
    rng = np.random.default_rng([seed, 4])
    scales = {GRADIENT: 10.0 ** rng.uniform(-3, 3), RISKS: 10.0 ** rng.uniform(-2, 4)}
    runs = []
    for data in (case.data, case.neighbour):
        source = fixed_transcript(seed, scales)
        runs.append((source, case.solver.run(case.plan, data, source, start=case.start)))
    (first, one), (second, other) = runs
    leaks = not (
        np.array_equal(one.weights, other.weights)
        and np.array_equal(one.group_weights, other.group_weights)
        and first.payers == second.payers
    )
    found = distances(first.asked, second.asked)
    asked = [each.release for each in first.asked]
    cost = math.sqrt(
        sum(
            (distance / release.noise_multiplier) ** 2
            for (_, distance), release in zip(found, asked, strict=True)
        )
    )
    is_gaussian = all(release.mechanism == "gaussian" for release in case.plan.releases)
    return found, cost / case.plan.budget.mu if is_gaussian else 0.0, leaks


def worst_distances(solver_class, seeds, plans, *, until_caught=False):
    """Return the largest distance of each release, the largest share of μ, and what leaks."""
    worst, n_leaks = {"all of μ": 0.0}, 0
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        case = bad_case(plan, solver_class(**solver.get_params()), seed)
        found, cost, leaks = attack(case, seed)
        n_leaks += leaks
        for name, distance in [*found, ("all of μ", cost)]:
            worst[name] = max(worst.get(name, 0.0), distance)
        if until_caught and is_caught(worst, n_leaks):
            break
    return worst, n_leaks


def is_caught(worst, n_leaks):
    return n_leaks > 0 or max(worst.values()) > 1.0 + ROUNDING


@pytest.fixture(scope="module")
def plans():
    return list(planned_problems(0, 60))


def test_no_neighbour_moves_a_release_by_more_than_its_sensitivity(plans):
    worst, n_leaks = worst_distances(AGS, range(1200), plans)
    assert n_leaks == 0  # the output follows from the transcript
    assert set(worst) == {GRADIENT, RISKS, "all of μ"}
    assert max(worst.values()) <= 1.0 + ROUNDING, worst
    # the attack is strong enough to mean something
    assert worst[GRADIENT] > 0.9, worst
    assert worst[RISKS] > 0.9, worst
    assert worst["all of μ"] > 0.7, worst


# --- planted faults ----------------------------------------------------------------------------


def states(name, wrong):
    """Return a fault: a sensitivity is stated as ``wrong(schedule, sizes, right)``."""

    def fault(honest, plan, data, weights, choose, noise):
        sizes = np.array(plan.problem.group_sizes, dtype=float)

        def change(release, value, stated):
            return value, wrong(plan.schedule, sizes, stated) if release.name == name else stated

        return honest(plan, data, weights, choose, misstated(noise, change))

    return fault


def exact(plan, data, weights):
    return data.risks_and_gradients(weights, ceiling=plan.schedule.ceiling)


def exact_choice(honest, plan, data, weights, choose, noise):
    return honest(plan, data, weights, lambda _: choose(exact(plan, data, weights)[0]), noise)


def gradient_of_all(honest, plan, data, weights, choose, noise):
    """Release the mean of all gradients for one group's price."""

    def read(weights, *, ceiling, grid):
        losses, gradients = data.sums(weights, ceiling=ceiling, grid=grid)
        return losses, np.broadcast_to(gradients.sum(axis=0), gradients.shape)

    return honest(plan, Instead(data, sums=read), weights, choose, noise)


def no_ceiling(honest, plan, data, *others):
    def read(weights, *, ceiling, grid):
        return data.sums(weights, ceiling=np.inf, grid=grid)

    return honest(plan, Instead(data, sums=read), *others)


def exact_gradient_leaks(honest, plan, data, weights, *others):
    found = honest(plan, data, weights, *others)
    return found._replace(gradient=found.gradient + 1e-9 * exact(plan, data, weights)[1][0])


def any_group(honest, schedule):
    """Forget how often a group may be taken."""
    return honest(dataclasses.replace(schedule, visits=10**6))


def outside(honest, weights, radius):
    return weights


PLANTED = {
    "half the gradient's sensitivity": states(GRADIENT, lambda s, n, right: right / 2),
    "half the risks' sensitivity": states(RISKS, lambda s, n, right: right / 2),
    "K for n_i in the gradient": states(GRADIENT, lambda s, n, _: s.gradient_diameter / n.sum()),
    "the largest group": states(GRADIENT, lambda s, n, _: s.gradient_diameter / n.max()),
    "means with the range of sums": states(RISKS, lambda s, n, right: right / n.sum()),
    "exact risks choose": exact_choice,
    "a gradient of all groups": gradient_of_all,
    "no ceiling": no_ceiling,
    "the exact gradient leaks into the step": exact_gradient_leaks,
}
PLANTED = {
    **{name: instead_of(releases, "from_one_group", fault) for name, fault in PLANTED.items()},
    "visits not enforced": instead_of(ags_module, "GroupChoice", any_group),
    "weights leave the ball": instead_of(ags_module, "project_to_ball", outside),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_fault_is_caught(fault, plans):
    attacked = worst_distances(faulty(AGS, PLANTED[fault]), range(1200), plans, until_caught=True)
    assert is_caught(*attacked), attacked


# --- visits ------------------------------------------------------------------------------------


def one_group_is_worst(visits, solver_class=AGS):
    """Return plan, data and solver where the second of three groups is always the worst."""
    problem = make_problem((40, 60, 50))
    solver = solver_class(n_steps=12, visits=visits, sharpness=math.inf, loss_ceiling=math.inf)
    rows, targets = random_data(problem, 0)
    rows[:] = np.array([1.0, 0.0])
    targets[:] = 1.0
    targets[40:70], targets[:40] = -1.0, 1.0  # every second record of the group contradicts
    return solver.plan(problem, Budget(1e6, 1e-6)), make_data(problem, rows, targets), solver


ALONG = Solution(np.array([2.0, 0.0, 0.0]), None, 0)


@pytest.mark.parametrize("visits", [4, 5, 12])
def test_a_group_that_always_wins_is_taken_so_often_and_no_more(visits):
    plan, data, solver = one_group_is_worst(visits)
    noise = recorded(seeded(0, plan.releases))
    found = solver.run(plan, data, noise, start=ALONG)
    taken = [payer for payer in noise.payers if payer is not None]
    assert taken[:visits] == [1] * visits
    assert Counter(taken)[1] == visits
    assert len(taken) == plan.n_steps == 12
    assert found.group_weights == pytest.approx(np.bincount(taken, minlength=3) / 12)


def test_the_source_refuses_the_visit_that_the_loop_forgets():
    plan, data, solver = one_group_is_worst(4, faulty(AGS, PLANTED["visits not enforced"]))
    noise = seeded(0, plan.releases)
    with pytest.raises(PlanExceededError, match=r"pays for 4 draws of .* by a group, and group 1"):
        solver.run(plan, data, noise, start=ALONG)
    assert [draw.release.name for draw in noise.draws].count(GRADIENT) == 4
    # a source that forgets it too, and what would have become of the promise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Payers, "check", lambda *_: None)
        noise = recorded(seeded(0, plan.releases))
        solver.run(plan, data, noise, start=ALONG)
    assert Counter(noise.payers)[1] == 12


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
        noise.shared_gaussian([1.0], units=[1.0], sensitivities=[1.0], releases=[some])
    assert noise.draws == ()
    for payer in (0, np.int64(1), 0, 1):
        noise.gaussian([1.0], sensitivity=1.0, release=some, payer=payer)
    for payer in (0, 1, np.int64(0)):
        with pytest.raises(PlanExceededError, match="pays for 2 draws of 'g' by a group"):
            noise.gaussian(1.0, sensitivity=1.0, release=some, payer=payer)
    assert len(noise.draws) == 4
    noise.gaussian(1.0, sensitivity=1.0, release=some, payer=2)
    noise.gaussian(1.0, sensitivity=1.0, release=Release("all", "gaussian", 2.0, 2))


def test_a_release_that_a_plan_holds_twice_is_paid_for_twice():
    some = Release("g", "gaussian", 2.0, 2, draws_per_record=1)
    noise = seeded(0, [some, some])
    for _ in range(2):
        noise.gaussian(1.0, sensitivity=1.0, release=some, payer=0)
    with pytest.raises(PlanExceededError, match="group 0 has paid"):
        noise.gaussian(1.0, sensitivity=1.0, release=some, payer=0)


def test_records_of_a_group_that_is_never_taken_move_no_gradient():
    problem = make_problem((30, 40, 50))
    solver = AGS(n_steps=6, sharpness=1e-3)
    plan = solver.plan(problem, BUDGET)
    rows, targets = random_data(problem, 0)
    others = rows.copy()
    others[0] = -3.0 * rows[0] + 1.0
    found = []
    for each in (rows, others):
        source = fixed_transcript(3, {GRADIENT: 1.0, RISKS: 1.0})
        solver.run(plan, make_data(problem, each, targets), source, start=ALONG)
        found.append(source)
    assert 0 not in found[0].payers  # its handicap is the largest
    for one, other in zip(found[0].asked, found[1].asked, strict=True):
        if one.release.name == GRADIENT:
            np.testing.assert_array_equal(one.value, other.value)
        else:
            assert not np.array_equal(one.value, other.value)


# --- accounting --------------------------------------------------------------------------------


@pytest.mark.parametrize("visits", [None, 1, 5, 20, 300])
@pytest.mark.parametrize("sizes", [(50,), (40, 70), (5, 5, 90)])
def test_a_record_pays_for_its_groups_visits(visits, sizes):
    plan = AGS(n_steps=20, visits=visits).plan(make_problem(sizes), BUDGET)
    n_steps = 20 if visits is None else min(20, visits * len(sizes))
    paid = n_steps if visits is None else min(visits, n_steps)
    assert plan.n_steps == n_steps
    gradient, *risks = plan.releases
    assert (gradient.max_count, gradient.paid_count) == (n_steps, paid)
    spent = paid / gradient.noise_multiplier**2
    spent += sum(n_steps / release.noise_multiplier**2 for release in risks)
    assert 0.99999 < spent / gdp_mu(1.0, 1e-6) ** 2 <= 1.0
    assert plan.guarantee.epsilon <= 1.0
    quiet = [dataclasses.replace(release, draws_per_record=None) for release in plan.releases]
    assert (PrivacyGuarantee.from_releases(quiet, 1e-6).epsilon > 1.001) == (paid < n_steps)
    assert not plan.early_stop


SOLVERS = {
    "smoothed": AGS(n_steps=7, risk_share=0.3),
    "latest": AGS(n_steps=7, selection="latest"),
    "visits": AGS(n_steps=7, visits=3),
    "paper": AGS(schedule="paper", max_passes=7),
}
EACH_SOLVER = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
SIZES = pytest.mark.parametrize("sizes", [(5,), (4, 9), (1, 2, 30)])


@SIZES
@EACH_SOLVER
def test_a_run_releases_what_was_planned(solver, sizes):
    problem = make_problem(sizes)
    plan = solver.plan(problem, BUDGET)
    noise = recorded(seeded(0, plan.releases))
    found = solver.run(plan, make_data(problem, *random_data(problem, 0)), noise)
    drawn = Counter(asked.release for asked in noise.asked)
    assert drawn == {release: release.max_count for release in plan.releases}
    assert found.n_iter == plan.n_steps
    assert found.group_weights.sum() == pytest.approx(1.0)
    assert np.linalg.norm(found.weights) <= problem.radius * (1 + 1e-9)
    sizes = np.array(problem.group_sizes, dtype=float)
    payers = iter(payer for payer in noise.payers if payer is not None)
    for asked in noise.asked:
        if asked.release.name == GRADIENT:
            wanted = plan.schedule.gradient_diameter / sizes[next(payers)]
            assert asked.sensitivity == pytest.approx(wanted, rel=1e-15)
            assert asked.sensitivity >= problem.gradient_diameter / sizes.max()
        else:
            assert asked.sensitivity == plan.schedule.feedback_range


@EACH_SOLVER
def test_a_source_with_less_refuses(solver):
    problem = make_problem((4, 9))
    plan = solver.plan(problem, BUDGET)
    data = make_data(problem, *random_data(problem, 0))
    for index, release in enumerate(plan.releases):
        for other in (release.scaled(1.01), dataclasses.replace(release, part=0)):
            releases_ = list(plan.releases)
            releases_[index] = other
            with pytest.raises(PlanExceededError):
                solver.run(plan, data, seeded(0, releases_))


def test_secure_noise_runs_too():
    problem = make_problem((4, 9))
    plan = AGS(n_steps=3, visits=2).plan(problem, BUDGET)
    noise = NoiseSource(None, plan.releases)
    AGS().run(plan, make_data(problem, *random_data(problem, 0)), noise, start=_start(problem))
    assert_releases_match(noise, plan)


def _start(problem):
    return Solution(np.full(problem.n_weights, 100.0), None, 0)
