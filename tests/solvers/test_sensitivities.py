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
from sklearn_dpwg.solvers import GDA, MGR, Moments, OnlineToBatch, Solution
from sklearn_dpwg.solvers import descent as shared
from sklearn_dpwg.solvers.centring import CONSTANT
from sklearn_dpwg.solvers.online_to_batch import difference_sum, round_weight
from tests.helpers.cases import stream
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_data, random_records
from tests.helpers.reference import papers_node_std
from tests.helpers.replay import fixed_transcript, silent, wrap

BUDGET = Budget(1.0, 1e-6)
ROUNDING = 1e-9


# --- steps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [1e-3, 10.0])
def test_regularisers_carry_no_noise_and_change_no_sensitivity(ridge, monkeypatch):
    """What is handed over for noise is the gradient of the records alone."""
    problem = make_problem((4, 9), loss=BinaryLogLoss(), radius=2.0)
    data = make_data(problem, *random_data(problem, 0))
    solver = GDA(n_steps=6, schedule="paper", ridge=ridge)
    plan = solver.plan(problem, BUDGET)
    source, points = fixed_transcript(0, {}), []

    def watched(real, plan, data, *point):
        points.append(point[:2])
        return real(plan, data, *point)

    wrap(monkeypatch, shared, "from_pass", watched)
    solver.run(plan, data, source)
    stated = {(asked.release.name, float(np.max(asked.sensitivity))) for asked in source.asked}
    assert len(stated) == 2  # the same in every step, and for every ridge
    of_gradient = [asked.value for asked in source.asked if asked.release.name == "gradient"]
    of_risks = [asked.value for asked in source.asked if asked.release.name == "group risks"]
    for (weights, dual), gradient, losses in zip(points, of_gradient, of_risks, strict=True):
        risks, gradients = data.risks_and_gradients(weights)
        np.testing.assert_allclose(gradient, dual @ gradients, rtol=0, atol=1e-6)
        np.testing.assert_allclose(losses, risks * [4, 9], rtol=0, atol=1e-8)


@pytest.mark.parametrize("radius", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), Hinge(), SquaredHinge()], ids=repr)
def test_a_limited_loss_stays_within_the_stated_range(loss, radius):
    """Far below what the ball allows, where the slope of a record reaches its limit at once."""
    problem = make_problem((1, 1), loss=loss, n_features=1, radius=radius, scaling=1.0)
    schedule = MGR(n_steps=1, centring=True).plan(problem, Budget(1.0, 1e-6)).schedule
    found = []
    for target in (-1.0, 1.0):
        for x in (-1.0, 1.0):
            data = make_data(problem, np.full((2, 1), x), np.full(2, target))
            risks = data.centred(np.array([1.0]), constant=CONSTANT, clip=0.9 * CONSTANT)
            for sign in (-1.0, 1.0):
                weights = np.array([sign * radius, 0.0])
                losses, _ = risks.sums(weights, loss_clip=schedule.loss_clip)
                found.append(losses[0])
    assert np.ptp(found) <= schedule.loss_sensitivity * (1.0 + ROUNDING)


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


@pytest.mark.parametrize("loss", stream.LOSSES, ids=lambda loss: loss.name)
def test_the_sensitivity_holds_for_all_records_and_points(loss):
    """Differences of random pairs of records at random pairs of points, near and far."""
    rng = np.random.default_rng(0)
    for radius in (0.3, 30.0):
        problem = make_problem((9,), loss=loss, radius=radius, n_features=3)
        schedule, largest = schedule_of(problem), 0.0
        for _ in range(60):
            rows, targets = random_records(problem, rng)
            rows = rows[:2] / np.maximum(1.0, np.linalg.norm(rows[:2], axis=1))[:, None]
            if rng.random() < 0.5:
                rows[1] = -rows[0] if rng.random() < 0.7 else 0.0
            here, before = rng.normal(size=(2, problem.n_weights))
            here *= radius * rng.random() / np.linalg.norm(here)
            before *= radius * rng.random() / np.linalg.norm(before)
            before = here + 10.0 ** rng.uniform(-6, 0) * (before - here)
            step, power = int(rng.integers(1, 20)), float(rng.choice([0.0, 1.0, 3.0]))
            weight, last = round_weight(step, power), round_weight(step - 1, power)
            stated = schedule.sensitivity(weight, last, float(np.linalg.norm(here - before)))
            one, other = (
                difference_sum(
                    problem, rows[i : i + 1], targets[i : i + 1], (weight, here), (last, before)
                )
                for i in (0, 1)
            )
            largest = max(largest, float(np.linalg.norm(one - other)) / stated)
        assert 0.2 < largest <= 1.0, radius


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
        found = schedule.sensitivity(weight, before, moved)
        assert exact <= found <= exact * (1.0 + 1e-9) + 1e-10


@pytest.mark.parametrize("power", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("batch", [1, 4])
def test_stated_noise_is_far_below_the_papers(power, batch):
    """What the paper's formula asks is at least twice as much, node by node."""
    problem = make_problem((64,), radius=3.0)
    found = {}
    for schedule in ("planned", "paper"):
        solver = OnlineToBatch(
            "ftrl", noise="tree", power=power, n_rounds=15, batch_size=batch, schedule=schedule
        )
        plan, source = solver.plan(problem, BUDGET), silent()
        data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
        game = solver.begin(plan, source)
        game.advance(data.as_oracle(np.random.default_rng(0)), problem.group_sizes)
        multiplier = plan.schedule.multiplier
        found[schedule] = max(multiplier * float(asked.sensitivity) for asked in source.asked)
        farthest = game._farthest
        if schedule == "planned":
            rho = 1.0 / multiplier  # of the budget: a paper plan costs less
    largest = papers_node_std(
        problem, rho=rho, power=power, n_total=16, step=15 if power > 1 else 1, farthest=farthest
    )
    assert found["paper"] <= largest / batch * (1 + 1e-9)
    if power == 1.0:
        assert found["paper"] > 0.8 * largest / batch
        assert 2.0 * found["planned"] < found["paper"]


def test_a_mixture_of_the_start_is_paid_for():
    """Another mixture than the planned one has its own largest share."""
    problem = make_problem((30, 60))
    solver = OnlineToBatch(n_rounds=3, noise="independent")
    plan, source = solver.plan(problem, BUDGET), silent()
    data = make_data(problem, *random_records(problem, np.random.default_rng(1)))
    start = Solution(np.zeros(problem.n_weights), np.array([0.75, 0.25]), 0)
    solver.run(plan, data, source, start=start)
    first = plan.schedule.sensitivity(1.0, 0.0, 0.0)
    assert source.asked[0].sensitivity == pytest.approx(0.75 / 10.0 * first)


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
