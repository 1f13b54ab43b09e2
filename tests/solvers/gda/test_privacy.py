"""Does GDA release what its plan says, with the sensitivity that it says?

Neighbours run on one and the same transcript: what `run` hands over for noise may differ by at
most what it states, and nothing else may differ. docs/theory/gda.md.
"""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import GDA
from sklearn_dpwg.solvers.descent import gda as gda_module
from sklearn_dpwg.solvers.descent import releases
from sklearn_dpwg.solvers.descent.releases import GroupGame
from tests.helpers.gda_cases import planned_problems
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.mgr_cases import bad_case, random_data
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

BUDGET, ROUNDING = Budget(1.0, 1e-6), 1e-9


@pytest.fixture(scope="module")
def plans():
    return list(planned_problems(0, 60))


def worst_of(solver_class, seeds, plans, *, enough=math.inf):
    """Return the largest distance of each release; infinite where outputs differ."""
    worst: dict[str, float] = {}
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        case = bad_case(plan, solver_class(**solver.get_params()), seed)
        rng = np.random.default_rng([seed, 4])
        scales = {"gradient": 10 ** rng.uniform(-3, 3), "group risks": 10 ** rng.uniform(-2, 4)}
        runs = []
        for data in (case.data, case.neighbour):
            source = fixed_transcript(seed, scales)
            runs.append((source.asked, case.solver.run(plan, data, source, start=case.start)))
        (first, one), (second, other) = runs
        same = np.array_equal(one.weights, other.weights) and np.array_equal(
            one.group_weights, other.group_weights
        )
        for name, distance in [*distances(first, second), *([] if same else [("out", math.inf)])]:
            worst[name] = max(worst.get(name, 0.0), distance)
        if max(worst.values()) > enough:
            break
    return worst


def test_no_neighbour_moves_a_release_by_more_than_its_sensitivity(plans):
    worst = worst_of(GDA, range(1080), plans)
    assert set(worst) == {
        "gradient", "group risks", "mean row", "mean squared distance from it"
    }  # fmt: skip
    assert max(worst.values()) <= 1.0 + ROUNDING, worst
    # the attack is strong enough to mean something
    assert min(worst["gradient"], worst["group risks"]) > 0.9, worst


# --- planted faults ----------------------------------------------------------------------------


def states(change):
    """Return a fault: ``change(game, release, value, stated, group weights)`` before the noise."""

    def fault(run, plan, data, noise, start):
        class Wrong(GroupGame):
            def release(self, weights, dual):
                self.noise = misstated(
                    noise, lambda release, value, stated: change(self, release, value, stated, dual)
                )
                return super().release(weights, dual)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gda_module, "GroupGame", Wrong)
            return run(plan, data, noise, start)

    return fault


def of(name, wrong):
    return states(
        lambda game, release, value, stated, dual: (
            value, wrong(game, stated, dual) if release.name == name else stated
        )
    )  # fmt: skip


def diameter(game):
    return game.schedule.gradient_diameter


def no_ceiling(run, plan, data, noise, start):
    def without(real):
        def sums(weights, *, ceiling, grid):
            return real.sums(weights, ceiling=np.inf, grid=grid)

        return Instead(real, sums=sums, centred=lambda *a, **b: without(real.centred(*a, **b)))

    return run(plan, without(data), noise, start)


def exact_risks(honest, self, weights, dual):
    exact, _ = self.data.risks_and_gradients(weights, ceiling=self.schedule.ceiling)
    return honest(self, weights, dual)._replace(dual=exact)


def exact_gradient_leaks(honest, self, weights, dual):
    found = honest(self, weights, dual)
    _, gradients = self.data.risks_and_gradients(weights)
    return found._replace(weights=found.weights + 1e-9 * gradients[0])


def in_release(fault):
    def through(run, *arguments):
        with pytest.MonkeyPatch.context() as patch:
            honest = GroupGame.release
            patch.setattr(GroupGame, "release", lambda *given: fault(honest, *given))
            return run(*arguments)

    return through


PLANTED = {
    "half the gradient's sensitivity": of("gradient", lambda g, stated, dual: stated / 2),
    "half the risks' sensitivity": of("group risks", lambda g, stated, dual: stated / 2),
    "K for n_i in the gradient": of(
        "gradient", lambda g, stated, dual: diameter(g) / g.sizes.sum()
    ),
    "the mean group": of("gradient", lambda g, s, dual: diameter(g) * (dual / g.sizes).mean()),
    "the prior for the weights": of(
        "gradient", lambda g, s, dual: diameter(g) * (np.array(g.schedule.prior) / g.sizes).max()
    ),
    "means with the range of sums": of("group risks", lambda g, s, dual: s / g.sizes),
    "no ceiling": no_ceiling,
    "exact risks move the group weights": in_release(exact_risks),
    "the exact gradient leaks into the step": in_release(exact_gradient_leaks),
    "weights leave the ball": instead_of(
        releases, "project_to_ball", lambda honest, weights, radius: weights
    ),
    "a start outside the ball": instead_of(
        releases, "project_to_ball", lambda honest, weights, radius: 3.0 * weights
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_caught(name, plans):
    worst = worst_of(faulty(GDA, PLANTED[name]), range(720), plans, enough=1.0 + ROUNDING)
    assert max(worst.values()) > 1.0 + ROUNDING, worst


# --- releases against the plan -----------------------------------------------------------------

SOLVERS = {"planned": GDA(n_steps=40), "paper": GDA(n_steps=40, schedule="paper")}


@pytest.mark.parametrize("sizes", [(5,), (4, 9), (1, 2, 30)])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_run_releases_what_the_plan_lists_with_its_noise(name, sizes):
    problem = make_problem(sizes, n_features=20)
    solver = SOLVERS[name]
    plan = solver.plan(problem, BUDGET)
    noise = recorded(seeded(1, plan.releases))
    solver.run(plan, make_data(problem, *random_data(problem, 0)), noise)
    for release in plan.releases:
        draws = [asked for asked in noise.asked if asked.release == release]
        assert len(draws) == release.max_count
        units = [np.ravel((asked.answer - asked.value) / asked.noise_scale) for asked in draws]
        if release.max_count > 1:
            standard = type(release)("units", "gaussian", 1.0, 1)
            assert scale_faults(np.concatenate(units), standard, sensitivity=1.0) == []


@pytest.mark.parametrize("name", SOLVERS)
def test_a_run_with_the_real_source_spends_the_plan(name):
    problem = make_problem((3, 9))
    solver = SOLVERS[name].set_params(n_steps=5)
    plan = solver.plan(problem, BUDGET)
    noise = NoiseSource(None, plan.releases)
    solution = solver.run(plan, make_data(problem, *random_data(problem, 0)), noise)
    assert_releases_match(noise, plan)
    assert np.linalg.norm(solution.weights) <= problem.radius
    assert solution.group_weights.sum() == pytest.approx(1.0)
    assert (solution.group_weights >= 0.0).all()


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("sizes", [(7,), (4, 9), (1, 2, 30)])
def test_releases_add_up_to_the_budget(name, sizes):
    plan = SOLVERS[name].plan(make_problem(sizes), BUDGET)
    spent = sum(release.max_count / release.noise_multiplier**2 for release in plan.releases)
    assert spent <= BUDGET.mu**2
    assert spent == pytest.approx(BUDGET.mu**2, rel=1e-5)


def test_both_players_of_the_paper_are_paid_for():
    """Theorem 1 lets each spend half of the epsilon and adds nothing up; here both are added."""
    plan = GDA(n_steps=30, schedule="paper").plan(make_problem((50, 90)), BUDGET)
    one, other = plan.releases
    schedule, smallest = plan.schedule, 50
    sigma = one.noise_multiplier * schedule.gradient_diameter / smallest
    assert other.noise_multiplier * schedule.feedback_range / smallest == pytest.approx(sigma)
    moved = math.hypot(schedule.gradient_diameter, schedule.feedback_range) / smallest
    assert sigma == pytest.approx(math.sqrt(30) * moved / BUDGET.mu, rel=1e-5)


@pytest.mark.parametrize("ridge", [1e-3, 10.0])
def test_regularisers_carry_no_noise_and_change_no_sensitivity(ridge):
    """What is handed over for noise is the gradient of the records alone."""
    problem = make_problem((4, 9), loss=BinaryLogLoss(), radius=2.0)
    data = make_data(problem, *random_data(problem, 0))
    solver = GDA(n_steps=6, schedule="paper", weight_ridge=ridge)
    plan = solver.plan(problem, BUDGET)
    source, points = fixed_transcript(0, {}), []

    class Watched(GroupGame):
        def release(self, weights, dual):
            points.append((weights, dual))
            return super().release(weights, dual)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gda_module, "GroupGame", Watched)
        solver.run(plan, data, source)
    stated = {(asked.release.name, float(np.max(asked.sensitivity))) for asked in source.asked}
    assert len(stated) == 2  # the same in every step, and for every ridge
    of_gradient = [asked.value for asked in source.asked if asked.release.name == "gradient"]
    of_risks = [asked.value for asked in source.asked if asked.release.name == "group risks"]
    for (weights, dual), gradient, losses in zip(points, of_gradient, of_risks, strict=True):
        risks, gradients = data.risks_and_gradients(weights)
        np.testing.assert_allclose(gradient, dual @ gradients, rtol=0, atol=1e-9)
        np.testing.assert_allclose(losses, risks * [4, 9], rtol=0, atol=1e-8)
