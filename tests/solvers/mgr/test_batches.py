"""Steps on Poisson batches: accounting and noise. docs/theory/mgr.md, section 8."""

import itertools
import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.batches import GRADIENT_SPREAD, make_batches
from sklearn_dpwg.solvers.mgr import HedgeRule
from tests.helpers.group_data import make_problem, make_risks
from tests.helpers.reference import estimates
from tests.helpers.selections import Listed

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
    return make_batches(rule, rate, 7.0, 0.2), rule


def test_batches_state_what_the_theory_says():
    batches, rule = batches_of((300, 40, 5000), 0.3)
    problem, b = rule.problem, rule.sums.loss_range
    expected = 0.3 * np.array(problem.group_sizes)
    stds = 7.0 * 2 * problem.lipschitz / expected / math.sqrt(0.8)
    np.testing.assert_allclose(batches.gradient_stds, stds)
    np.testing.assert_allclose(batches.risk_stds, 7.0 * b / expected / math.sqrt(0.2))
    coins = (GRADIENT_SPREAD * problem.lipschitz) ** 2 * 0.7 / expected
    np.testing.assert_allclose(batches.sampling_variances, coins)
    assert batches.center == pytest.approx((problem.constants.infimum + rule.loss_clip) / 2)
    noise = batches.noise_of_run(rule.problem.n_weights, rule.n_steps)
    np.testing.assert_allclose(noise.gradient, (problem.n_weights * stds**2 + coins) / 60)
    risks = batches.risk_stds**2 + b**2 / 4 * 0.7 / expected
    np.testing.assert_allclose(noise.risk, risks / 60)
