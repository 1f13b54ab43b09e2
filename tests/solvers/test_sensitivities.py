"""Sensitivities written down by hand, and records that move nothing."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.data.problem import HiddenGroups, Problem
from sklearn_dpwg.losses import (
    BinaryLogLoss,
    Hinge,
    SquaredError,
    SquaredHinge,
)
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity
from sklearn_dpwg.solvers import MGR, Moments, OnlineToBatch
from sklearn_dpwg.solvers.centring import CONSTANT
from sklearn_dpwg.solvers.online_to_batch import difference_sum
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data
from tests.helpers.replay import fixed_transcript

BUDGET = Budget(1.0, 1e-6)
ROUNDING = 1e-9


# --- steps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), Hinge(), SquaredHinge()], ids=repr)
def test_a_limited_loss_stays_within_the_stated_range(loss, radius):
    """Far below what the ball allows, where the slope of a record reaches its limit at once."""
    problem = make_problem((1, 1), loss=loss, n_features=1, radius=radius, scaling=1.0)
    schedule = MGR(n_steps=1, centring=True).plan(problem, Budget(1.0, 1e-6)).schedule
    result = []
    for target in (-1.0, 1.0):
        for x in (-1.0, 1.0):
            data = make_data(problem, np.full((2, 1), x), np.full(2, target))
            risks = data.centred(np.array([1.0]), constant=CONSTANT, clip=0.9 * CONSTANT)
            for sign in (-1.0, 1.0):
                weights = np.array([sign * radius, 0.0])
                losses, _ = risks.sums(weights, loss_clip=schedule.loss_clip)
                result.append(losses[0])
    assert np.ptp(result) <= schedule.loss_sensitivity * (1.0 + ROUNDING)


# --- moments -----------------------------------------------------------------------------------


def coordinates(vector):
    rows, columns = np.triu_indices(len(vector))
    outer = np.outer(vector, vector)
    return np.where(rows == columns, 1.0, math.sqrt(2.0)) * outer[rows, columns]


@given(st.integers(1, 6), st.integers(0, 10_000), st.floats(-3, 3))
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


def test_the_square_of_the_constant_is_not_released():
    problem = make_problem((5, 5), loss=SquaredError(), n_features=2)
    rows, targets = random_data(problem, 0)
    source = fixed_transcript(0, {})
    Moments(1).run(Moments(1).plan(problem, BUDGET), make_data(problem, rows, targets), source)
    assert source.asked[0].value.shape == (2, 9)


# --- games -------------------------------------------------------------------------------------


def schedule_of(problem):
    solver = OnlineToBatch(n_rounds=8, batch_size=problem.n_groups)
    return solver.plan(problem, BUDGET).schedule


def one_smoothness_is_stated(problem, schedule) -> bool:
    """Whether two records of which one curves and one does not move by just what is stated."""
    here, before = np.array([0.5, 0.0]), np.array([0.1, 0.0])
    rows = np.array([[1.0, 0.0], [0.0, 0.0]])
    one, other = (
        difference_sum(problem, rows[i : i + 1], np.ones(1), (1.0, here), (1.0, before))
        for i in (0, 1)
    )
    moved = float(np.linalg.norm(one - other))
    assert moved == pytest.approx(problem.smoothness * 0.4)
    return moved <= schedule.sensitivity(1.0, 1.0, 0.4) <= moved * (1.0 + 1e-9)


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (2.0, False), (0.5, False)])
def test_one_smoothness_is_needed_and_enough(factor, holds):
    """Planted: two H for one would be twice the noise, half of it too little."""
    problem = make_problem((9,), loss=SquaredError(), radius=2.0, scaling=0.0)
    facts = {"smoothness": factor * problem.smoothness, "pair_diameter": problem.pair_diameter}
    schedule = replace(schedule_of(problem), problem=SimpleNamespace(**facts))
    assert one_smoothness_is_stated(problem, schedule) == holds


def test_the_sensitivity_is_the_one_written_down():
    problem = make_problem((9, 5), radius=4.0)
    schedule, diameter = schedule_of(problem), problem.gradient_diameter
    curve = problem.smoothness
    for weight, before, moved in [(1.0, 0.0, 3.0), (5.0, 4.0, 0.2), (5.0, 4.0, 1e9), (1.0, 1.0, 0)]:
        change = min(curve * moved, 2.0 * diameter) if before else 0.0
        exact = (weight - before) * diameter + before * change
        result = schedule.sensitivity(weight, before, moved)
        assert exact <= result <= exact * (1.0 + 1e-9) + 1e-10


# --- hidden groups -----------------------------------------------------------------------------


def sums_of_neighbours(read):
    """Return how far a record that changes its group moves sums."""
    rng = np.random.default_rng(0)
    problem = Problem(BinaryLogLoss(), (500, 500), 2, 3.0, (0.5, 0.5), 0.5, HiddenGroups(1000))
    rows, targets = rng.standard_normal((1000, 2)), rng.choice([-1.0, 1.0], size=1000)
    codes = rng.integers(2, size=1000)
    others = codes.copy()
    others[3] = 1 - codes[3]
    pair = [make_data(problem, rows, targets, each) for each in (codes, others)]
    return [read(data) for data in pair]


def read_sums(data):
    return data.sums(np.array([0.3, -0.7, 0.2]), loss_clip=9.0)[0]


def read_rows(data):
    return data.row_sum()


def read_moments(data):
    facts = {"clip": 1.0, "constant": 0.75, "length": 1.25}
    regression = data.with_loss(SquaredError())
    return regression.residual_moments(np.array([0.3, -0.7, 0.2]), **facts)


@pytest.mark.parametrize("read", [read_sums, read_rows, read_moments])
def test_a_record_that_changes_its_group_takes_along_what_it_adds(read):
    """No other record is rounded anew: what one loses another gains."""
    one, other = sums_of_neighbours(read)
    if read is read_rows:
        assert np.array_equal(one, other)
    else:
        assert not np.array_equal(one, other)
        assert np.array_equal(one.sum(axis=0), other.sum(axis=0))
