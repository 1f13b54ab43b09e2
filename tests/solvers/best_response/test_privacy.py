"""Does best response release what its plan says, with the sensitivity that it says?

Neighbours run on one and the same transcript: the values that a run hands over for noise may differ
by at most what it states, and nothing else may differ. docs/theory/best-response.md.
"""

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget, gdp_mu
from sklearn_dpwg.solvers import MGR, BestResponse, Calls, Moments, PhasedERM
from sklearn_dpwg.solvers.descent import mgr as mgr_mixture
from sklearn_dpwg.solvers.rounds import best_response as run_module
from sklearn_dpwg.solvers.rounds import moments as moments_mixture
from sklearn_dpwg.solvers.rounds import phased_erm as phased_module
from sklearn_dpwg.solvers.rounds.schedule import PhasedERMSchedule
from tests.helpers.best_response_cases import bad_response_case, response_plans
from tests.helpers.group_data import make_problem
from tests.helpers.planted import wrap
from tests.helpers.replay import fixed_transcript

BUDGET = Budget(1.0, 1e-6)
ROUNDING = 1e-6  # of solutions at points where their gap is certified
BASES = {"phased-erm": PhasedERM, "mgr": MGR, "moments": Moments}


def attack(case, seed):
    """Run both neighbours on one transcript; return what each release moved, and faults."""
    rng = np.random.default_rng([seed, 4])
    scales = {
        "phase weights": case.plan.problem.radius * 10.0 ** rng.uniform(-2, 1),
        "group risks": 10.0 ** rng.uniform(-1, 2),
    }
    runs = []
    for data in (case.data, case.neighbour):
        source = fixed_transcript(seed, scales)
        try:
            runs.append((source.asked, case.solver.run(case.plan, data, source, start=case.start)))
        except ArithmeticError:
            return {}, ["not solved"]
    (first, one), (second, other) = runs
    faults, moved, touched = [], {}, set()
    if [asked.release for asked in first] != [asked.release for asked in second]:
        return {}, ["transcript"]
    if not np.array_equal(one.weights, other.weights) or one.n_iter != other.n_iter:
        faults.append("output")
    if not np.array_equal(one.group_weights, other.group_weights):
        faults.append("group weights")
    for here, there in zip(first, second, strict=True):
        if not np.array_equal(here.sensitivity, there.sensitivity):
            faults.append("sensitivity")
        distance = float(np.linalg.norm((here.value - there.value) / here.sensitivity))
        moved[here.release.name] = max(moved.get(here.release.name, 0.0), distance)
        if distance > 0.0:
            touched.add(here.release.part)
    if len(touched) > 1:
        faults.append("several parts")
    return moved, faults


def worst(seeds, plans, *, until_caught=False):
    most, faults = {}, set()
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        moved, found = attack(bad_response_case(plan, solver, seed), seed)
        faults |= set(found)
        for name, distance in moved.items():
            most[name] = max(most.get(name, 0.0), distance)
        if until_caught and is_caught(most, faults):
            break
    return most, faults


def is_caught(most, faults):
    return bool(faults) or max(most.values()) > 1.0 + ROUNDING


@pytest.fixture(scope="module")
def plans():
    return list(response_plans(0, 250, ("phased-erm", "mgr", "moments", "mgr", "moments")))


def test_no_neighbour_moves_a_release_by_more_than_its_sensitivity(plans):
    """A thousand data sets: groups of one record, one group, radii up to 20, three bases."""
    most, faults = worst(range(1_000), plans)
    assert faults == set()  # what follows from the transcript is the same, one part moves at most
    assert max(most.values()) <= 1.0 + ROUNDING, most
    # the attack is strong enough to mean something
    assert {"mean row", "mean squared distance from it"} < set(most)
    assert most["phase weights"] > 0.9, most
    assert most["gradient"] > 0.9, most
    assert most["second moments"] > 0.6, most
    assert most["group risks"] > 0.6, most
    sizes = {size for plan, _ in plans for size in plan.problem.group_sizes}
    assert {1, 25} <= sizes
    assert {plan.problem.n_groups for plan, _ in plans} == {1, 2, 3}


@pytest.mark.parametrize("base", BASES)
def test_a_call_costs_what_it_may(base):
    """The second half of (C), whatever the caller does with the rest of the budget."""
    problem = make_problem((400, 90), loss=SquaredError())
    release = BASES[base]().plan_mixture(problem, Calls(3, 0.2)).release
    spent = release.max_count / release.noise_multiplier**2
    assert math.sqrt(spent / 3) == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("n_rounds", [1, 4])
def test_rounds_on_all_records_add_up_to_the_budget(base, n_rounds):
    problem = make_problem((400, 90), loss=SquaredError())
    plan = BestResponse(base, n_rounds=n_rounds).plan(problem, BUDGET)
    spent = math.fsum(release.max_count / release.noise_multiplier**2 for release in plan.releases)
    assert 0.99999 < math.sqrt(spent) / gdp_mu(1.0, 1e-6) <= 1.0
    assert {release.part for release in plan.releases} == {None}
    assert plan.children == ()


# --- planted faults -----------------------------------------------------------------------------


def answers_with(patch, change):
    """Let every base be asked for what ``change(solver, arguments)`` says."""
    for owner in (PhasedERM, MGR, Moments):
        wrap(patch, owner, "run_mixture", lambda real, solver, *a, **k: change(real, solver, a, k))


class Exact:
    """A source that is asked for noise and adds none."""

    def __init__(self, noise):
        self.noise = noise

    def gaussian(self, value, **named):
        self.noise.gaussian(value, **named)
        return value


def exact_answers_are_the_next_centre(patch):
    def exact(real, solver, arguments, named):
        *others, noise = arguments
        return real(solver, *others, Exact(noise), **named)

    answers_with(patch, exact)


def exact_risks_move_the_mixture(patch):
    wrap(
        patch,
        run_module,
        "release_round_risks",
        lambda real, read, weights, schedule, noise, release: real(
            read, weights, schedule, Exact(noise), release
        ),
    )


def the_first_mixtures_sensitivity(patch):
    """As a plan would have it that took the mixture to be the prior."""

    def first(real, schedule, index, mixture):
        return real(schedule, index, np.asarray(schedule.prior))

    wrap(patch, PhasedERMSchedule, "phase", first)


def half_the_diameter_of_gradients(patch):
    def half(real, *args, gradient_diameter, **named):
        return real(*args, gradient_diameter=gradient_diameter / 2, **named)

    wrap(patch, mgr_mixture, "gradient_of_mixture", half)


def moments_pay_for_all_records_alike(patch):
    """The sensitivity of a pooled mean, whatever the mixture is."""

    def pooled(real, release, schedule, group_weights, data, center, clip, noise):
        sizes = np.asarray(data.group_sizes, dtype=float)
        ratio = (group_weights / sizes).max() * sizes.sum()
        change = dataclasses.replace(schedule, sensitivity=schedule.sensitivity / ratio)
        return real(release, change, group_weights, data, center, clip, noise)

    wrap(patch, moments_mixture, "from_pass_of_mixture", pooled)


def the_largest_group_in_all_risks(patch):
    def largest(real, read, weights, schedule, noise, release):
        sizes = np.full(read.n_groups, max(read.group_sizes))
        value = read.risks(weights, ceiling=schedule.ceiling)
        return noise.gaussian(value, sensitivity=schedule.feedback_range / sizes, release=release)

    wrap(patch, run_module, "release_round_risks", largest)


def no_ceiling(patch):
    def high(real, read, weights, schedule, *others):
        return real(read, weights, dataclasses.replace(schedule, ceiling=math.inf), *others)

    wrap(patch, run_module, "release_round_risks", high)


def exact_risks_tell_the_clip(patch):
    def exact(real, plan, group_weights, center, data, noise, risks):
        seen = None if risks is None else data.risks(center)
        return real(plan, group_weights, center, data, noise, seen)

    wrap(patch, moments_mixture, "run_call", exact)


def an_exact_mixture_leaves(patch):
    def run(real, solver, plan, data, *others):
        found = real(solver, plan, data, *others)
        return dataclasses.replace(found, group_weights=data.risks(found.weights))

    wrap(patch, BestResponse, "_run", run)


PLANTED = [
    exact_answers_are_the_next_centre,
    exact_risks_move_the_mixture,
    the_first_mixtures_sensitivity,
    half_the_diameter_of_gradients,
    moments_pay_for_all_records_alike,
    the_largest_group_in_all_risks,
    no_ceiling,
    exact_risks_tell_the_clip,
    an_exact_mixture_leaves,
]


def moves_a_mixture(plan):
    return any(release.name == "group risks" for release in plan.releases)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_fault_is_caught(plant, plans, monkeypatch):
    plant(monkeypatch)
    if plant is the_first_mixtures_sensitivity:
        phases = response_plans(3, 40, ("phased-erm",))
        plans = [each for each in phases if moves_a_mixture(each[0])]
    attacked = worst(range(1_000), plans, until_caught=True)
    assert is_caught(*attacked), attacked


def test_a_phase_that_is_not_solved_is_an_error(monkeypatch):
    """Not an answer: a run that returned one all the same would break what was planned."""
    plan, solver = next(response_plans(3, 1, ("phased-erm",)))
    case = bad_response_case(plan, solver, 0)
    wrap(
        monkeypatch,
        phased_module,
        "release_weights",
        lambda real, *args: real(*args[:3], args[3]._replace(tolerance=-1.0), *args[4:]),
    )
    source = fixed_transcript(0, {})
    with pytest.raises(ArithmeticError, match="bug"):
        solver.run(plan, case.data, source)
