"""Events, ε and δ: against dp_accounting's accountants and against integrals of our own."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy import epsilon_of
from sklearn_dpwg.privacy.accounting.calibration import composition_deltas, delta_of
from sklearn_dpwg.privacy.accounting.composition import composition_of_event
from sklearn_dpwg.privacy.accounting.loss_distribution import privacy_loss
from sklearn_dpwg.privacy.gaussian import gdp_epsilon

Relation = dp_accounting.NeighboringRelation
GAUSSIAN = dp_event.GaussianDpEvent(2.0)
LAPLACE = dp_event.LaplaceDpEvent(5.0)
SAMPLED = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0))


def repeat(event, count):
    return dp_event.SelfComposedDpEvent(event, count)


@pytest.mark.parametrize(("multiplier", "count"), [(0.7, 1), (20.0, 1), (20.0, 300)])
def test_closed_form_equals_pld_and_is_below_rdp(multiplier, count):
    event = repeat(dp_event.GaussianDpEvent(multiplier), count)
    ours = epsilon_of(event, 1e-5)
    assert ours == pytest.approx(gdp_epsilon(1e-5, math.sqrt(count) / multiplier), rel=1e-12)
    pld = PLDAccountant(Relation.ADD_OR_REMOVE_ONE).compose(event)
    assert pld.get_epsilon(1e-5) == pytest.approx(ours, rel=1e-4)
    assert delta_of(event, ours) == pytest.approx(pld.get_delta(ours), rel=1e-3)
    rdp = RdpAccountant(neighboring_relation=Relation.REPLACE_ONE).compose(event)
    assert ours <= rdp.get_epsilon(1e-5)


def test_the_unit_of_a_multiplier_is_the_replacement_not_the_norm():
    """dp_accounting 0.6 under REPLACE_ONE reads the first as half the noise; we must not."""
    trap = PLDAccountant(Relation.REPLACE_ONE).compose(GAUSSIAN).get_epsilon(1e-5)
    doubled = dp_event.GaussianDpEvent(4.0)
    right = PLDAccountant(Relation.REPLACE_ONE).compose(doubled).get_epsilon(1e-5)
    assert epsilon_of(GAUSSIAN, 1e-5) == pytest.approx(right, rel=1e-4)
    assert trap > 2.0 * right


def test_laplace_alone():
    assert epsilon_of(LAPLACE, 1e-300) == pytest.approx(0.2, rel=1e-12)
    assert delta_of(LAPLACE, 0.1) == pytest.approx(1.0 - math.exp(-0.05), rel=1e-12)
    assert delta_of(LAPLACE, 0.2) == 0.0
    assert epsilon_of(repeat(LAPLACE, 3), 1e-12) <= 0.6
    # the closed form is that of one alone
    two = PLDAccountant(Relation.ADD_OR_REMOVE_ONE).compose(repeat(LAPLACE, 2))
    assert delta_of(repeat(LAPLACE, 2), 0.2) == pytest.approx(two.get_delta(0.2), rel=1e-3)
    pld = PLDAccountant(Relation.ADD_OR_REMOVE_ONE).compose(repeat(LAPLACE, 300))
    assert epsilon_of(repeat(LAPLACE, 300), 1e-6) == pytest.approx(pld.get_epsilon(1e-6), rel=2e-4)


def test_mixture_agrees_with_dp_accounting():
    event = dp_event.ComposedDpEvent([repeat(GAUSSIAN, 3), repeat(LAPLACE, 20)])
    pld = PLDAccountant(Relation.ADD_OR_REMOVE_ONE).compose(event)
    assert epsilon_of(event, 1e-6) == pytest.approx(pld.get_epsilon(1e-6), rel=1e-4)
    for epsilon in (0.0, 1.0, 5.0):
        assert delta_of(event, epsilon) == pytest.approx(pld.get_delta(epsilon), rel=1e-3)


def replace_one_delta(epsilon, rate, multiplier):
    """Integrate the hockey stick of (1-q) N(0, σ²) + q N(±C, σ²) with C = 1, σ = 2z."""
    sigma = 2.0 * multiplier

    def density(x, shift):
        return (1.0 - rate) * norm.pdf(x, 0.0, sigma) + rate * norm.pdf(x, shift, sigma)

    def hockey_stick(x):
        return max(0.0, density(x, 1.0) - math.exp(epsilon) * density(x, -1.0))

    def log_ratio(x):
        return density(x, 1.0) - math.exp(epsilon) * density(x, -1.0)

    far = 1.0 + 12.0 * sigma
    if log_ratio(far) <= 0.0:
        return 0.0
    start = brentq(log_ratio, -far, far)
    return quad(hockey_stick, start, far, epsabs=1e-14, limit=500)[0]


@pytest.mark.parametrize("rate", [0.01, 0.5])
@pytest.mark.parametrize("multiplier", [0.5, 2.0])
def test_sampled_units_against_an_integral(rate, multiplier):
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier))
    for epsilon in (0.0, 0.05, 0.3):
        exact = replace_one_delta(epsilon, rate, multiplier)
        assert exact <= delta_of(event, epsilon) + 1e-12
        assert delta_of(event, epsilon) == pytest.approx(exact, rel=2e-3, abs=1e-9)


def test_no_other_pair_of_contributions_is_worse():
    """Search pairs u, v of norm at most C in the plane for a larger δ than the antipodal pair."""
    rng = np.random.default_rng(3)
    rate, sigma, epsilon = 0.3, 0.8, 0.4
    points = rng.normal(0.0, sigma, (200_000, 2))
    joins = rng.random(200_000) < rate

    def estimate(u, v):
        sample = points + joins[:, None] * u
        upper = 1 - rate + rate * np.exp((sample @ u - u @ u / 2) / sigma**2)
        lower = 1 - rate + rate * np.exp((sample @ v - v @ v / 2) / sigma**2)
        return np.mean(np.maximum(0.0, 1.0 - math.exp(epsilon) * lower / upper))

    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma / 2.0))
    bound = delta_of(event, epsilon)
    assert estimate(np.array([1.0, 0.0]), np.array([-1.0, 0.0])) == pytest.approx(bound, rel=0.03)
    for _ in range(40):
        u, v = rng.normal(size=(2, 2))
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v) * rng.random() ** 0.3
        assert estimate(u, v) <= bound * 1.03


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_tiny_epsilon_is_accurate(delta):
    """A fixed grid of 1e-4 would be as coarse as the answer."""
    event = dp_event.ComposedDpEvent(
        [dp_event.GaussianDpEvent(800.0), repeat(dp_event.LaplaceDpEvent(30_000.0), 300)]
    )
    as_if_gaussian = gdp_epsilon(delta, math.sqrt(1 / 800**2 + 300 / 30_000**2))
    assert epsilon_of(event, delta) == pytest.approx(as_if_gaussian, rel=2e-3, abs=1e-12)


@pytest.mark.parametrize(
    "event",
    [
        dp_event.RandomizedResponseDpEvent(0.5, 2),
        repeat(dp_event.RandomizedResponseDpEvent(0.5, 2), 3),  # PLD ignores the count
        dp_event.PoissonSampledDpEvent(0.1, LAPLACE),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.ComposedDpEvent([GAUSSIAN])),
        dp_event.SampledWithReplacementDpEvent(100, 5, GAUSSIAN),
        dp_event.SampledWithoutReplacementDpEvent(100, 5, GAUSSIAN),
        dp_event.UnsupportedDpEvent(),
        dp_event.ZCDpEvent(0.1),
    ],
)
def test_refuses_by_name(event):
    with pytest.raises(UnsupportedMechanismError, match="DpEvent"):
        epsilon_of(dp_event.ComposedDpEvent([GAUSSIAN, event]), 1e-5)


def test_refuses_a_delta_below_its_resolution():
    with pytest.raises(UnsupportedMechanismError, match="delta must be at least"):
        epsilon_of(repeat(LAPLACE, 3000), 1e-13)


def test_the_error_of_fourier_transforms_is_paid_for():
    """Added to every δ, and taken off a given one: dp_accounting's δ is pessimistic but for it."""
    event = repeat(LAPLACE, 3000)
    distribution, error = privacy_loss(composition_of_event(event))
    assert error == 3001 * 2.0**-53
    for epsilon in (150.0, 200.0, 590.0):  # at the last hardly any loss is left
        assert delta_of(event, epsilon) == distribution.get_delta_for_epsilon(epsilon) + error
    several = np.array([150.0, 200.0])
    np.testing.assert_array_equal(
        composition_deltas(composition_of_event(event), several),
        distribution.get_delta_for_epsilon(several) + error,
    )
    for delta in (2.5 * error, 1e-11):
        assert epsilon_of(event, delta) == distribution.get_epsilon_for_delta(delta - error)
        assert epsilon_of(event, delta) > distribution.get_epsilon_for_delta(delta)
    # one mechanism alone is not transformed
    assert privacy_loss(composition_of_event(SAMPLED))[1] == 0.0


def test_no_noise_and_no_release():
    for event in (dp_event.NonPrivateDpEvent(), dp_event.LaplaceDpEvent(0.0)):
        together = dp_event.ComposedDpEvent([GAUSSIAN, event])
        assert epsilon_of(together, 1e-5) == math.inf
        assert delta_of(together, 7.0) == 1.0
    bare = dp_event.RepeatAndSelectDpEvent(dp_event.NonPrivateDpEvent(), 5.0, 1.0)
    for event in (dp_event.NonPrivateDpEvent(), bare):
        for rest in (GAUSSIAN, LAPLACE, BEST):
            together = composition_of_event(dp_event.ComposedDpEvent([rest, event]))
            assert not together.is_private
            assert epsilon_of(dp_event.ComposedDpEvent([rest, event]), 1e-5) == math.inf
    assert epsilon_of(dp_event.NoOpDpEvent(), 1e-5) == 0.0
    assert delta_of(dp_event.NoOpDpEvent(), 0.0) == 0.0


BEST = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(9.0), 5.0, 1.0)


def test_the_profile_of_a_selection_is_not_below_the_truth():
    """A search of one run at least, of Gaussian scores, by integration over the winner's score."""
    sigma, mean = 9.0, 5.0
    grid = np.linspace(-8.0, 8.0, 40_001)

    def winner(shift):
        """Density of the best of a geometric number of normals around a shift."""
        below, density = norm.cdf(grid - shift), norm.pdf(grid - shift)
        q = 1.0 / mean
        return density * q / (1.0 - (1.0 - q) * below) ** 2

    one, other = winner(0.0), winner(1.0 / sigma)
    step = grid[1] - grid[0]
    for density in (one, other):
        assert density.sum() * step == pytest.approx(1.0, abs=1e-6)
    for epsilon in (0.0, 0.05, 0.2, 0.5):
        for p, q in ((one, other), (other, one)):
            true = np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * step
            assert true <= delta_of(BEST, epsilon)
