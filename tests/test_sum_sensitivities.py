"""What is paid for sums that are rounded: the numbers, in runs and in certificates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from sklearn_dpwg.data.problem import Cells, Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.losses.base import Loss, LossConstants
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.sensitivity import grid_step, weighting_slack
from sklearn_dpwg.solvers import MGR, Auto, Moments, PhasedERM
from sklearn_dpwg.solvers.steps import SumSensitivity
from tests.helpers.replay import InUnits, Recorder
from tests.helpers.selections import EveryRecord
from tests.helpers.sum_cases import (
    adversary,
    exact_difference,
    exact_squared,
    facts,
    make_risks,
    moves,
)

# --- the numbers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wager(Loss):
    """-10 - k y a: below 0, and steep."""

    target_bound: float = 1.0
    k: float = 1.0
    name: ClassVar[str] = "wager"
    task: ClassVar[str] = "regression"

    def value_and_derivative(self, scores, targets):
        return -10.0 - self.k * targets * scores, -self.k * targets

    def curvature(self, scores, targets):
        return np.zeros_like(scores)

    def constants(self, r):
        return LossConstants(r, self.k, -10.0 - self.k * r, -10.0 + self.k * r, -10.0, 0.0)

    def ends(self, targets, limits):
        return np.full_like(targets, -np.inf), np.full_like(targets, np.inf)


def test_rows_are_not_centred_for_a_loss_that_may_be_below_zero():
    problem = Problem(Wager(), (5, 5), 1, 1.0, (0.5, 0.5), 0.5)
    with pytest.raises(InputError, match="at least 0"):
        MGR(n_steps=2, centring=True).plan(problem, Budget(1.0, 1e-6))


@given(st.floats(1e-200, 1e200), st.integers(1, 2**52))
def test_the_step_is_the_finest_power_of_two_that_suffices(bound, n_terms):
    step = grid_step(bound, n_terms)
    assert math.frexp(step)[0] == 0.5
    total, limit = Fraction(bound) * n_terms, Fraction(step) * 2**52
    assert total <= limit
    assert total > limit * Fraction(2047, 4096)


@pytest.mark.parametrize("steepness", [1.0, 1e9, 1e12])
def test_a_loss_below_zero_pays_for_the_unit_that_it_is_cut_to(steepness):
    """Units of losses follow powers of four above the scores, where such a loss is larger."""
    problem = Problem(Wager(1.0, steepness), (5, 5), 1, 0.1 / steepness, (0.5, 0.5), 0.0)
    stated = SumSensitivity.of(problem, loss_clip=math.inf)
    weights = np.array([0.1 / steepness])
    sums = []
    for target in (1.0, -1.0):
        targets = np.ones(10)
        targets[0] = target
        risks = make_risks(problem.loss, np.ones((10, 1)), targets, (5, 5), scaling=0.0)
        sums.append(risks.sums(weights, loss_clip=math.inf, center=stated.center)[0])
    assert moves(*sums) <= Fraction(stated.loss_range) ** 2


def test_cells_that_groups_are_made_of_are_paid_for():
    problem = Problem(BinaryLogLoss(), (30, 20), 2, 2.0, (0.5, 0.5), 0.5)
    cells = Cells((10, 20), ((0, 1), (1,)))
    overlapping = replace(problem, group_sizes=cells.group_sizes, cells=cells)
    alone, made = (SumSensitivity.of(each, loss_clip=1.0) for each in (problem, overlapping))
    assert overlapping.roundings_of_a_mean == problem.roundings_of_a_mean + 2
    assert made.loss_range > alone.loss_range


@given(
    sizes=st.lists(st.integers(1, 10**10), min_size=1, max_size=8),
    scale=st.floats(0.1, 10.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_weighted_means_of_exact_sums_err_by_no_more_than_is_paid(sizes, scale, seed):
    """λ·S/n in floating point, against rational numbers, for sums on the grid of any size."""
    rng = np.random.default_rng(seed)
    p, d = len(sizes), 4
    sums = rng.uniform(-1.0, 1.0, (p, d)) * scale / math.sqrt(d) * np.array(sizes)[:, None]
    weights = rng.dirichlet(np.full(p, 0.3)) + 1e-300
    factors = np.array([1.0, 1.0, 1.0, 0.7])  # of the intercept
    result = weights @ (sums * factors / np.array(sizes, float)[:, None])
    exact = [
        sum(
            Fraction(float(weights[i]))
            * Fraction(float(sums[i, j]))
            * Fraction(float(factors[j]))
            / sizes[i]
            for i in range(p)
        )
        for j in range(d)
    ]
    error = exact_squared([Fraction(float(a)) - b for a, b in zip(result, exact, strict=True)])
    ratio = max(Fraction(float(w)) / n for w, n in zip(weights, sizes, strict=True))
    paid = Fraction(weighting_slack(scale, n_records=sum(sizes), n_groups=p)) * ratio
    assert 4 * error <= paid**2  # of both neighbours


# --- in runs -------------------------------------------------------------------------------------

BUDGET = Budget(1.0, 1e-6)


def two_groups(first, layout):
    """Return the adversary's risks beside a group of four records."""
    risks = adversary(first, layout=layout)
    rows, n = risks.records.rows, len(risks.records.targets)
    rows = np.vstack([rows.toarray() if layout == "csr" else rows, np.eye(4)])
    return make_risks(risks.loss, rows, np.full(n + 4, -1.0), (n, 4), layout=layout)


@pytest.mark.parametrize("layout", ["rows", "csr"])
@pytest.mark.parametrize("sampling_rate", [1.0, 0.5])
def test_the_adversary_moves_what_a_run_hands_over_by_no_more_than_is_stated(layout, sampling_rate):
    """A first step of MGR, all of whose coins fall the same way; without rounding on our side."""
    pair = [two_groups(x, layout) for x in (1.0, -1.0)]
    solver = MGR(n_steps=1, sampling_rate=sampling_rate)
    plan = solver.plan(facts(pair[0]), BUDGET)
    asked = []
    for risks in pair:
        source = Recorder(
            lambda release, value, sensitivity: value.copy(),
            sample_with=lambda release: EveryRecord(),
        )
        solver.run(plan, risks, source)
        asked.append(source.asked)
    for one, other in zip(*asked, strict=True):
        if isinstance(one, InUnits):
            assert np.array_equal(one.units, other.units)
            scaled = [
                move / Fraction(unit)
                for move, unit in zip(
                    exact_difference(one.value, other.value), one.units.tolist(), strict=True
                )
            ]
            assert exact_squared(scaled) <= Fraction(float(one.sensitivity)) ** 2
        else:
            assert float(one.sensitivity) == float(other.sensitivity)
            assert moves(one.value, other.value) <= Fraction(float(one.sensitivity)) ** 2


@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        (MGR(n_steps=5), BinaryLogLoss()),
        (MGR(n_steps=5, sampling_rate=2.0**-5), BinaryLogLoss()),
        (PhasedERM(n_phases=3), BinaryLogLoss()),
        (Moments(), SquaredError()),
        (Auto(), BinaryLogLoss()),
        (Auto(), SquaredError()),
    ],
    ids=["passes", "batches", "phases", "moments", "auto", "auto, numbers"],
)
def test_every_solver_plans_billions_of_records(solver, loss):
    problem = Problem(loss, (10**10, 10**9), 20, 3.0, (0.6, 0.4), 0.5)
    plan = solver.plan(problem, BUDGET)
    assert 0.9 < plan.guarantee.epsilon <= 1.0
    assert 0.0 < plan.predicted_excess < loss.constants(1.0).zero_score
    if isinstance(solver, MGR):
        paid = SumSensitivity.of(problem, loss_clip=1.0).gradient_diameter
        assert problem.gradient_diameter < paid < 1.001 * problem.gradient_diameter


# --- a certificate with a wrong gradient ----------------------------------------------------------


def gap_of(gradient, weights, mu, radius):
    step = project_to_ball(weights - gradient / mu, radius) - weights
    return -(gradient @ step) - 0.5 * mu * (step @ step)


@pytest.mark.parametrize("seed", range(6))
def test_a_wrong_gradient_moves_a_certificate_by_no_more_than_the_theorem(seed):
    """Quadratics on a ball, near and far from the solution, inside it and at its edge."""
    rng = np.random.default_rng(seed)
    d, mu, radius = 3, 10.0 ** rng.uniform(-2, 1), 1.0
    root = rng.standard_normal((d, d))
    hessian = root @ root.T * rng.choice([0.0, 0.01, 1.0]) + mu * np.eye(d)
    slope = rng.standard_normal(d) * rng.choice([0.1, 10.0])
    curves, basis = np.linalg.eigh(hessian)

    def least(multiplier):
        return basis @ ((basis.T @ slope) / (curves + multiplier))

    multiplier, far = 0.0, np.linalg.norm(slope) / radius
    if np.linalg.norm(least(0.0)) > radius:
        multiplier = brentq(lambda m: np.linalg.norm(least(m)) - radius, 0.0, far, xtol=1e-14)
    best = least(multiplier)
    tightest = 0.0
    for _ in range(200):
        far = 10.0 ** rng.uniform(-6, 0)
        weights = project_to_ball(best + far * rng.standard_normal(d), radius)
        error = rng.standard_normal(d)
        error *= 10.0 ** rng.uniform(-6, 1) / np.linalg.norm(error)
        gap = gap_of(hessian @ weights - slope + error, weights, mu, radius)
        allowed = math.sqrt(2.0 * max(gap, 0.0) / mu) + 2.0 * np.linalg.norm(error) / mu
        distance = np.linalg.norm(weights - best)
        assert distance <= allowed + 1e-9
        tightest = max(tightest, distance / allowed)
    assert tightest > 0.01
