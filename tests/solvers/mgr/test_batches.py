"""Steps on Poisson batches: accounting and noise. docs/theory/mgr.md, section 8."""

import itertools
import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.privacy.accounting.calibration import predict_multiplier
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.batches import GRADIENT_SPREAD, Batches
from sklearn_dpwg.solvers.mgr import HedgeRule
from tests.helpers.group_data import make_data, make_problem, make_risks
from tests.helpers.neighbours import random_data
from tests.helpers.reference import estimates
from tests.helpers.replay import recorded
from tests.helpers.selections import Listed, chosen
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)


# --- accounting --------------------------------------------------------------------------------


# --- the run -----------------------------------------------------------------------------------


def test_empty_batches_release_noise_around_nothing():
    problem = make_problem((3, 2))
    solver = MGR(n_steps=40, sampling_rate=0.02)
    plan = solver.plan(problem, Budget(1.0, 1e-3))
    source = recorded(seeded(0, plan.releases))
    solver.run(plan, make_data(problem, *random_data(problem, 0)), source)
    n_empty = 0
    for asked, (_, sample) in zip(source.asked, source.batches, strict=True):
        if not any(map(len, chosen(sample, (3, 2)))):
            n_empty += 1
            np.testing.assert_array_equal(asked.value[:-2], 0.0)
            np.testing.assert_array_equal(asked.value[-2:], 0.0)  # of the centre
        assert (asked.answer != asked.value).all()
    assert 20 < n_empty < 40


# --- estimates from batches --------------------------------------------------------------------


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3), SquaredError()], ids=repr)
def test_estimates_are_unbiased(loss):
    """The exact expectation over all coins of two groups is the mean over the records."""
    sizes, rates = (3, 4), np.array([0.3, 0.8])
    risks = make_risks(loss, sizes)
    weights = np.random.default_rng(0).normal(size=risks.n_weights)
    mean_risks, mean_gradients = np.zeros(2), np.zeros((2, risks.n_weights))
    for coins in itertools.product([0, 1], repeat=7):
        batch = [np.flatnonzero(coins[:3]), np.flatnonzero(coins[3:])]
        chance = np.prod(np.where(coins, np.repeat(rates, sizes), 1 - np.repeat(rates, sizes)))
        found = estimates(
            risks, weights, Listed(batch), expected_sizes=rates * sizes, loss_clip=0.7, center=0.2
        )
        mean_risks += chance * found[0]
        mean_gradients += chance * found[1]
    expected = risks.risks_and_gradients(weights, loss_clip=0.7)
    np.testing.assert_allclose(mean_risks, expected[0], rtol=1e-9)
    np.testing.assert_allclose(mean_gradients, expected[1], rtol=1e-5, atol=1e-6)


# --- what a plan says of them ------------------------------------------------------------------


def batches_of(sizes, rate):
    """Return batches with a multiplier of 7 and a fifth for the risks, and their rule."""
    rule = HedgeRule(make_problem(sizes), MGR(), 60)
    return Batches(rule.problem, rule.sums, rate, 7.0, 0.2), rule


def test_batches_state_what_the_theory_says():
    batches, rule = batches_of((300, 40, 5000), 0.3)
    problem, b = rule.problem, rule.sums.loss_range
    expected = 0.3 * np.array(problem.group_sizes)
    stds = 7.0 * 2 * problem.lipschitz / expected / math.sqrt(0.8)
    np.testing.assert_allclose(batches.gradient_stds, stds)
    np.testing.assert_allclose(batches.risk_stds, 7.0 * b / expected / math.sqrt(0.2))
    coins = (GRADIENT_SPREAD * problem.lipschitz) ** 2 * 0.7 / expected
    np.testing.assert_allclose(batches.sampling_variances, coins)
    assert batches.sums.center == pytest.approx((problem.constants.infimum + rule.loss_clip) / 2)
    noise = batches.noise_of_run(rule.problem.n_weights, rule.n_steps)
    np.testing.assert_allclose(noise.gradient, (problem.n_weights * stds**2 + coins) / 60)
    risks = batches.risk_stds**2 + b**2 / 4 * 0.7 / expected
    np.testing.assert_allclose(noise.risk, risks / 60)


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_the_predicted_multiplier_is_close(rate):
    release = Release("g", "gaussian", 1.0, 2000, sampling_rate=rate)
    calibrated = calibrate([release], BUDGET)[0].noise_multiplier
    assert predict_multiplier(2000, rate, BUDGET) == pytest.approx(calibrated, rel=0.02)


# --- all records -------------------------------------------------------------------------------
