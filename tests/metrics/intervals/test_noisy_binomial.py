"""Tails of binomial counts with noise, against sums over all counts and all noise."""

import numpy as np
import pytest
from scipy import stats

from sklearn_dpwg.metrics.intervals.rate import Survival, survival_of, upper_tail
from sklearn_dpwg.privacy import IntegerNoise


def tail_by_enumeration(rate, total, threshold, factor, law):
    """Return P(factor · Bin(total, rate) + N ≥ threshold)."""
    support, probabilities = law
    needed = -((support - threshold) // factor)  # ceil((threshold − noise) / factor)
    return float(np.dot(probabilities, stats.binom(total, rate).sf(needed - 1)))


@pytest.mark.parametrize("scale", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("total", [1, 7, 100, 5000, 10**6])
@pytest.mark.parametrize(("factor", "weights"), [(1, (1,)), (20, (13, 7)), (5, (4, 1))])
def test_tails_are_those_of_all_counts_and_all_noise(scale, total, factor, weights):
    noise = IntegerNoise("laplace", scale)
    cells = (1,) * len(weights)
    law = noise.law(cells, weights)
    survival = survival_of(noise, cells, weights)
    for rate in (1e-6, 0.02, 0.5, 0.97):
        middle = round(factor * total * rate)
        spread = factor * np.sqrt(total * rate) + len(weights) * factor * scale
        for threshold in middle + np.rint(spread * np.array([-4.0, -1.0, 0.0, 2.0])).astype(int):
            found = upper_tail(rate, np.array([total]), np.array([threshold]), factor, survival)[0]
            exact = tail_by_enumeration(rate, total, threshold, factor, law)
            assert found == pytest.approx(exact, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_certain_counts_leave_the_noise_alone(rate):
    noise = IntegerNoise("laplace", 2.0)
    support, probabilities = noise.law()
    found = upper_tail(
        rate, np.array([9]), np.array([9 * rate + 3]).astype(int), 1, Survival(probabilities)
    )
    assert found[0] == pytest.approx(probabilities[support >= 3].sum())


def test_without_noise_it_is_the_binomial_tail():
    nothing = survival_of(None, (1,), (1,))
    for total in (1, 40, 10**7):
        threshold = np.array([total // 3])
        exact = stats.binom.sf(threshold - 1, total, 0.333)
        assert upper_tail(0.333, np.array([total]), threshold, 1, nothing) == pytest.approx(
            exact, rel=1e-7
        )


def test_radius_holds_all_but_a_probability():
    noise = IntegerNoise("laplace", 2.0)
    support, probabilities = noise.law(2)
    for probability in (0.5, 0.05, 0.002, 1e-9):
        radius = survival_of(noise, (2,), (1,)).two_sided_radius(probability)
        assert probabilities[np.abs(support) > radius].sum() <= probability
        assert probabilities[np.abs(support) > radius - 1].sum() > probability
    assert survival_of(None, (1,), (1,)).two_sided_radius(0.002) == 0
