"""Does the phased solver release what its plan says, with the sensitivity that it says?

Neighbours run on one and the same transcript: the values that `run` hands over for noise may
differ by at most what it states, and nothing else may differ. docs/theory/phased-erm.md.
"""

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import PhasedERM, Solution
from sklearn_dpwg.solvers.rounds import phased_erm as run_module
from sklearn_dpwg.solvers.rounds import releases
from sklearn_dpwg.solvers.rounds.schedule import PhasedERMSchedule
from tests.helpers.phased_cases import bad_phased_case, change_phases, phased_plans
from tests.helpers.planted import wrap
from tests.helpers.replay import fixed_transcript

BUDGET = Budget(1.0, 1e-6)
ROUNDING = 1e-6  # of solutions at points where their gap is certified


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
    faults, moved = [], {}
    if [asked.release for asked in first] != [asked.release for asked in second]:
        return {}, ["transcript"]
    if not np.array_equal(one.weights, other.weights) or one.group_weights is not None:
        faults.append("output")
    if one.n_iter != other.n_iter:
        faults.append("steps")
    touched = set()
    for here, there in zip(first, second, strict=True):
        if not np.array_equal(here.sensitivity, there.sensitivity):
            faults.append("sensitivity")
        distance = np.linalg.norm((here.value - there.value) / here.sensitivity)
        name = here.release.name
        moved[name] = max(moved.get(name, 0.0), float(distance))
        if distance > 0.0:
            touched.add(here.release.part)
    if len(touched) > 1:
        faults.append("several parts")
    return moved, faults


def worst(seeds, plans, *, until_caught=False):
    most, faults = {}, set()
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        moved, found = attack(bad_phased_case(plan, solver, seed), seed)
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
    """Every third by the paper's schedule, on disjoint parts."""
    set_by_paper = dict.fromkeys(
        ("n_phases", "mu_weights", "sharpening", "mu_groups", "risk_share"), None
    )
    papers = phased_plans(2, 30, schedule="paper", **set_by_paper)
    return [*phased_plans(0, 60), *papers]


def test_no_neighbour_moves_a_release_by_more_than_its_sensitivity(plans):
    most, faults = worst(range(300), plans)
    assert faults == set()  # what follows from the transcript is the same, one part moves at most
    assert set(most) == {"phase weights", "group risks"}
    assert max(most.values()) <= 1.0 + ROUNDING, most
    # the attack is strong enough to mean something
    assert most["phase weights"] > 0.9, most
    assert most["group risks"] > 0.6, most


def test_planned_strengths_keep_their_sensitivity():
    plans = list(phased_plans(1, 18, mu_weights=None, mu_groups=None))
    most, faults = worst(range(72), plans)
    assert faults == set()
    assert max(most.values()) <= 1.0 + ROUNDING, most
    assert most["phase weights"] > 0.3, most


# --- planted faults -----------------------------------------------------------------------------


def change_schedule(patch, change):
    """Let runs read another schedule than the plan's."""

    def run(real, solver, plan, *others):
        schedule = dataclasses.replace(plan.schedule, **change(plan.schedule))
        return real(solver, dataclasses.replace(plan, schedule=schedule), *others)

    wrap(patch, PhasedERM, "_run", run)


def half_the_sensitivity_of_the_weights(patch):
    change_phases(patch, sensitivity=1 / 2)


def half_the_sensitivity_of_the_risks(patch):
    change_schedule(patch, lambda schedule: {"feedback_range": schedule.feedback_range / 2})


def the_largest_group_in_all_risks(patch):
    def largest(real, read, weights, schedule, noise, release):
        sizes = np.full(read.n_groups, max(read.group_sizes))
        value = read.risks(weights, ceiling=schedule.ceiling)
        return noise.gaussian(value, sensitivity=schedule.feedback_range / sizes, release=release)

    wrap(patch, run_module, "release_risks", largest)


def no_ceiling(patch):
    change_schedule(patch, lambda schedule: {"ceiling": math.inf})


def the_first_priors_sensitivity(patch):
    def first(real, schedule, index, prior):
        return real(schedule, index, np.asarray(schedule.prior))

    wrap(patch, PhasedERMSchedule, "phase", first)


def less_regularisation_than_accounted_for(patch):
    change_phases(patch, mu_weights=1 / 4)


def a_smaller_regularisation_of_the_group_weights(patch):
    def smaller(real, *args):
        phase = real(*args)
        return phase._replace(mu_groups=min(phase.mu_groups, 0.01))

    wrap(patch, PhasedERMSchedule, "phase", smaller)


class Exact:
    """A source that is asked for noise and adds none."""

    def __init__(self, noise):
        self.noise = noise

    def gaussian(self, value, **named):
        self.noise.gaussian(value, **named)
        return value


def the_exact_minimiser_is_the_next_center(patch):
    def exact(real, *args):
        return real(*args[:-2], Exact(args[-2]), args[-1])

    wrap(patch, run_module, "release_weights", exact)


def exact_risks_move_the_prior(patch):
    def exact(real, *args):
        return real(*args[:-2], Exact(args[-2]), args[-1])

    wrap(patch, run_module, "release_risks", exact)


def watch_phases(patch):
    """Return a list that gets every solution of a phase."""
    found = []

    def solve(real, *args, **named):
        found.append(real(*args, **named))
        return found[-1]

    wrap(patch, releases, "solve_saddle_point", solve)
    return found


def the_best_response_is_the_next_prior(patch):
    found = watch_phases(patch)

    def normalised(real, log_weights, **named):
        return real(np.log(found[-1].group_weights + 1e-9) if found else log_weights, **named)

    def run(real, *args):
        found.clear()
        return real(*args)

    wrap(patch, run_module, "normalised", normalised)
    wrap(patch, PhasedERM, "_run", run)


def group_weights_leave(patch):
    found = watch_phases(patch)

    def run(real, *args):
        return dataclasses.replace(real(*args), group_weights=found[-1].group_weights)

    wrap(patch, PhasedERM, "_run", run)


def the_number_of_newton_steps_leaves(patch):
    found = watch_phases(patch)

    def run(real, *args):
        return dataclasses.replace(real(*args), n_iter=found[-1].n_newton_steps)

    wrap(patch, PhasedERM, "_run", run)


def every_phase_reads_all_records(patch):
    wrap(patch, GroupRisks, "part", lambda real, risks, positions: risks)


def two_phases_share_a_part(patch):
    def shared(real, *args):
        parts = real(*args)
        return [parts[t // 2] for t in range(len(parts))]

    wrap(patch, run_module, "keyed_parts", shared)


def parts_by_value(patch):
    drawn = []

    def draw(real, *args):
        drawn[:] = real(*args)
        return tuple(range(len(drawn)))  # so that `part` is told which one, and reads the records

    def part(real, risks, t):
        return real(risks, drawn[t if risks.records.targets[-1] > 0 else -1 - t])

    wrap(patch, run_module, "keyed_parts", draw)
    wrap(patch, GroupRisks, "part", part)


class StoppedError(Exception):
    """A run broke off."""


def early_stop_on_an_exact_risk(patch):
    n_phases = []

    def release(real, read, weights, *others):
        if n_phases and read.risks(weights).max() > 2.0:
            raise StoppedError
        n_phases.append(1)
        return real(read, weights, *others)

    def run(real, *args):
        n_phases.clear()
        try:
            return real(*args)
        except StoppedError:
            return Solution(np.zeros(1), None, 0)

    wrap(patch, run_module, "release_weights", release)
    wrap(patch, PhasedERM, "_run", run)


PLANTED = [
    half_the_sensitivity_of_the_weights,
    half_the_sensitivity_of_the_risks,
    the_largest_group_in_all_risks,
    no_ceiling,
    the_first_priors_sensitivity,
    less_regularisation_than_accounted_for,
    a_smaller_regularisation_of_the_group_weights,
    the_exact_minimiser_is_the_next_center,
    exact_risks_move_the_prior,
    the_best_response_is_the_next_prior,
    group_weights_leave,
    the_number_of_newton_steps_leaves,
    every_phase_reads_all_records,
    two_phases_share_a_part,
    parts_by_value,
    early_stop_on_an_exact_risk,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_fault_is_caught(plant, plans, monkeypatch):
    plant(monkeypatch)
    attacked = worst(range(300), plans, until_caught=True)
    assert is_caught(*attacked), attacked
