"""Does the moments solver release what its plan says, with the sensitivity that it says?

Neighbours run on one and the same transcript: what `run` hands over for noise may differ by at
most what it states, and nothing else may differ. docs/theory/moments.md.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity
from sklearn_dpwg.solvers import Moments, Solution
from sklearn_dpwg.solvers.rounds import moments as moments_module
from sklearn_dpwg.solvers.rounds.moments import ROUNDING
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.mgr_cases import Case, bad_case, random_data
from tests.helpers.noise_checks import scale_faults
from tests.helpers.replay import (
    Instead,
    distances,
    faulty,
    fixed_transcript,
    instead_of,
    misstated,
    recorded,
)

BUDGET = Budget(1.0, 1e-6)


# --- the sensitivity ---------------------------------------------------------------------------


def coordinates(vector):
    rows, columns = np.triu_indices(len(vector))
    outer = np.outer(vector, vector)
    return np.where(rows == columns, 1.0, math.sqrt(2.0)) * outer[rows, columns]


@given(st.integers(1, 6), st.integers(0, 10_000), st.floats(-3, 3))
@settings(deadline=None, max_examples=60)
def test_no_two_vectors_are_farther_apart(n_columns, seed, log_norm):
    rng, norm = np.random.default_rng(seed), 10.0**log_norm
    one, other = rng.standard_normal((2, n_columns))
    if n_columns > 1 and seed % 2:
        other = other - (other @ one) / (one @ one) * one  # at right angles
    one, other = (norm * v / np.linalg.norm(v) for v in (one, other))
    moved = np.linalg.norm(coordinates(one) - coordinates(other))
    assert moved <= moment_sensitivity(norm) * (1 + 1e-9)
    if n_columns > 1 and seed % 2:
        assert moved == pytest.approx(moment_sensitivity(norm))
    with pytest.raises(ValueError, match="norm"):
        moment_sensitivity(-norm)


@pytest.mark.parametrize("scaling", [0.0, 0.5])
def test_opposite_targets_of_one_row_attain_it(scaling):
    """With residuals as long as √(1 + constant²) they are at right angles."""
    problem = make_problem((3, 4), loss=SquaredError(), scaling=scaling)
    rows, targets = random_data(problem, 0)
    plan, found = Moments(1).plan(problem, BUDGET), []
    for sign in (1.0, -1.0):
        rows, targets = rows.copy(), targets.copy()
        rows[0], targets[0] = (0.6, 0.8), sign
        source = fixed_transcript(0, {})
        Moments(1).run(plan, make_data(problem, rows, targets), source)
        found.append(source.asked)
    ((_, distance),) = distances(*found)
    assert distance == pytest.approx(1.0 / (1.0 + ROUNDING), rel=1e-4)


# --- attacks on runs ---------------------------------------------------------------------------


def planned_problems(seed, n_plans):
    rng = np.random.default_rng(seed)
    for _ in range(n_plans):
        n_groups = int(rng.integers(1, 5))
        problem = make_problem(
            rng.choice([1, 2, 3, 4, 25], size=n_groups),
            loss=SquaredError(float(rng.choice([0.3, 1.0, 7.0]))),
            n_features=int(rng.integers(1, 4)),
            radius=float(rng.choice([0.2, 1.0, 3.0, 20.0])),
            scaling=float(rng.choice([0.0, 0.5, 1.0])),
        )
        solver = Moments(int(rng.integers(1, 4)), clip=float(rng.choice([0.1, 2.0])))
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


@pytest.fixture(scope="module")
def plans():
    return list(planned_problems(0, 40))


def opposite(case):
    """Return the case with targets at both ends, so that they are as far apart as can be."""
    bound = case.plan.problem.loss.target_bound
    for sign, data in ((1.0, case.data), (-1.0, case.neighbour)):
        moved = np.flatnonzero(
            np.any(case.data.records.rows != case.neighbour.records.rows, axis=1)
            | (case.data.records.targets != case.neighbour.records.targets)
        )
        data.records.targets[moved] = sign * bound
    return case


def attack(case, solver, seed):
    rng = np.random.default_rng([seed, 4])
    # transcripts that show next to nothing, and such that show short residuals
    scales = {"second moments": 10.0 ** rng.uniform(-1, 3)}
    runs = []
    for data in (case.data, case.neighbour):
        source = fixed_transcript(seed, scales)
        runs.append((source.asked, solver.run(case.plan, data, source, start=case.start)))
    (first, one), (second, other) = runs
    worst = max((distance for _, distance in distances(first, second)), default=0.0)
    same = np.array_equal(one.weights, other.weights) and np.array_equal(
        one.group_weights, other.group_weights
    )
    touched = {
        int(group)
        for here, there in zip(first, second, strict=False)
        for group in np.flatnonzero(np.any(here.value != there.value, axis=1))
    }
    return worst if same and len(touched) <= 1 else math.inf


def worst_of(solver_class, seeds, plans, *, enough=math.inf):
    worst = 0.0
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        case = bad_case(plan, solver, seed)
        case = opposite(case) if seed % 2 else case
        worst = max(worst, attack(case, solver_class(**solver.get_params()), seed))
        if worst > enough:
            break
    return worst


def test_no_neighbour_moves_a_release_by_more_than_its_sensitivity(plans):
    worst = worst_of(Moments, range(160), plans)
    assert worst <= 1.0
    assert worst > 0.9  # strong enough to mean something


def states(change):
    """Return a fault: ``change(value, sensitivity)`` comes before the noise."""

    def fault(run, plan, data, noise, start):
        source = misstated(noise, lambda release, value, stated: change(value, stated))
        return run(plan, data, source, start)

    return fault


def reads(name, factor=1.0, wrong=None):
    """Return a fault: the moments that are read have another fact than the sensitivity is for."""

    def fault(run, plan, data, noise, start):
        def read(center, **facts):
            facts[name] = factor * facts[name] if wrong is None else wrong
            return data.residual_moments(center, **facts)

        return run(plan, Instead(data, residual_moments=read), noise, start)

    return fault


def exact_moments(run, plan, data, noise, start):
    def gaussian(value, **facts):
        noise.gaussian(value, **facts)
        return value

    return run(plan, data, Instead(noise, gaussian=gaussian), start)


def exact_residuals_bound(run, plan, data, noise, start):
    seen = []

    def read(center, **facts):
        seen.append(data.residual_moments(center, **facts))
        return seen[-1]

    def learned(honest, *arguments, **facts):
        weights, mixture, _ = honest(*arguments, **facts)
        return weights, mixture, 0.01 * seen[-1][:, -1, -1].sum()

    watched = Instead(data, residual_moments=read)
    return instead_of(moments_module, "_learned", learned)(run, plan, watched, noise, start)


PLANTED = {
    "half the sensitivity": states(lambda value, stated: (value, stated / 2)),
    "residuals clipped later than stated": reads("length", 1.2),
    "a longer constant": reads("constant", 1.5),
    "coarse steps": reads("step", wrong=1.0),
    "the exact moments are learned from": exact_moments,
    "divided by what is in the records": states(lambda value, stated: (value * 3, stated)),
    "noise that follows the records": states(
        lambda value, stated: (value, stated * (1 + 1e-3 * np.abs(value).max()))
    ),
    "exact residuals are the next bound": exact_residuals_bound,
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_caught(name, plans):
    planted = faulty(Moments, PLANTED[name])
    assert worst_of(planted, range(160), plans, enough=1.0) > 1.0


def test_noise_of_a_run_has_the_scale_of_the_plan():
    problem = make_problem((40, 60), loss=SquaredError(), n_features=60)
    plan = Moments(2).plan(problem, BUDGET)
    rows, targets = random_data(problem, 0)
    source = NoiseSource(releases=plan.releases)
    recorder = recorded(source)
    Moments(2).run(plan, make_data(problem, rows, targets), recorder)
    assert [asked.release for asked in recorder.asked] == list(plan.releases)
    for asked in recorder.asked:
        noise = (asked.answer - asked.value).ravel()
        assert noise.size == 2 * (62 * 63 // 2 - 1)
        assert scale_faults(noise, asked.release, float(asked.sensitivity)) == []


def test_the_square_of_the_constant_is_not_released():
    problem = make_problem((5, 5), loss=SquaredError(), n_features=2)
    rows, targets = random_data(problem, 0)
    source = fixed_transcript(0, {})
    Moments(1).run(Moments(1).plan(problem, BUDGET), make_data(problem, rows, targets), source)
    assert source.asked[0].value.shape == (2, 9)


def test_cases_are_neighbours(plans):
    plan, solver = plans[1]
    case = opposite(bad_case(plan, solver, 1))
    assert isinstance(case, Case)
    assert isinstance(case.start, Solution)
    assert isinstance(case.data, GroupRisks)
    different = case.data.records.targets != case.neighbour.records.targets
    different |= np.any(case.data.records.rows != case.neighbour.records.rows, axis=1)
    assert different.sum() == 1
