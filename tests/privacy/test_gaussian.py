"""Gaussian DP in closed form."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.gaussian import gdp_delta, gdp_epsilon, gdp_mu

EPSILONS = st.floats(0.01, 100.0)
DELTAS = st.floats(-12.0, -1.0).map(lambda log: 10.0**log)
MUS = st.floats(-4.0, 2.0).map(lambda log: 10.0**log)


def exact_delta(epsilon, mu):
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        first = mpmath.ncdf(-epsilon / mu + mu / 2)
        return float(first - mpmath.e**epsilon * mpmath.ncdf(-epsilon / mu - mu / 2))


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1.0, 30.0, 5000.0])
@pytest.mark.parametrize("mu", [1e-8, 0.499, 0.501, 12.0, 100.0])
def test_delta_is_exact(epsilon, mu):
    assert gdp_delta(epsilon, mu) == pytest.approx(exact_delta(epsilon, mu), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("mu", [0.45, 0.55, 3.0, 4.1, 12.0])
def test_delta_is_exact_across_the_ways_it_is_computed(mu):
    quantiles = np.array([-3.0, -2.01, -1.99, -1.5, -1.01, -0.99, -0.5, 0.0, 1.0, 6.0, 30.0])
    for epsilon in mu * (quantiles[quantiles > -mu / 2.0] + mu / 2.0):
        assert gdp_delta(epsilon, mu) == pytest.approx(exact_delta(epsilon, mu), rel=1e-12)


def test_delta_at_the_ends():
    result = gdp_delta([0.0, 1.0, np.inf], [[0.0], [1.0], [np.inf]])
    expected = [[0.0, 0.0, 0.0], [2.0 * ndtr(0.5) - 1.0, 0.12693673750664397, 0.0], [1.0, 1.0, 0.0]]
    np.testing.assert_allclose(result, expected, rtol=1e-13)
    assert np.ndim(gdp_delta(1.0, 1.0)) == 0


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(-1.0, 1.0), (1.0, -1.0), (np.nan, 1.0), (1.0, np.nan)]
)
def test_delta_refuses(epsilon, mu):
    with pytest.raises(ValueError, match="at least 0"):
        gdp_delta(epsilon, mu)


@given(EPSILONS, DELTAS)
def test_mu_is_the_largest_within_the_budget(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(epsilon, mu) <= delta
    assert gdp_delta(epsilon, mu * (1.0 + 1e-9)) > delta
    assert Budget(epsilon, delta).mu == mu


@given(MUS, DELTAS)
def test_epsilon_is_the_smallest(mu, delta):
    epsilon = gdp_epsilon(delta, mu)
    assert gdp_delta(epsilon, mu) <= delta
    if epsilon > 0.0:
        assert gdp_delta(epsilon * (1.0 - 1e-9), mu) > delta


def test_ends():
    assert gdp_delta(1e200, 0.1) == gdp_delta(1e300, 1e-300) == 0.0
    assert gdp_mu(np.inf, 1e-6) == gdp_epsilon(1e-6, np.inf) == Budget(np.inf, 1e-6).mu == np.inf
    assert gdp_epsilon(1e-6, 0.0) == 0.0


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 800.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.5, 0.999])
def test_extreme_budgets(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(epsilon, mu) == pytest.approx(delta, rel=1e-9)
    assert gdp_delta(epsilon, mu) <= delta
