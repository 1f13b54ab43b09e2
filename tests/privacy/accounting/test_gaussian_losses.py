"""Privacy-loss distributions made a grid at a time, against dp_accounting's own."""

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as distributions

from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.privacy.accounting import calibration
from sklearn_dpwg.privacy.accounting.loss_distribution import gaussian_loss, sampled_gaussian_loss


def is_alike(ours, theirs):
    """Whether δ agrees at every ε, up to what rounding of the masses sums up to."""
    epsilons = np.linspace(0.0, 8.0, 60)
    result, expected = (each.get_delta_for_epsilon(epsilons) for each in (ours, theirs))
    np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize(
    ("deviation", "interval"),
    [
        (0.4, 5e-3),
        (0.4, 1e-2),
        (3.0, 5e-4),
        (60.0, 5e-4),
        (60.0, 1e-2),
        # dp_accounting itself takes a minute for losses so long on a grid so fine
        pytest.param(0.4, 5e-4, marks=pytest.mark.audit),
    ],
)
def test_a_whole_grid_is_that_of_dp_accounting(deviation, interval):
    of_all = distributions.from_gaussian_mechanism(
        deviation, value_discretization_interval=interval
    )
    is_alike(gaussian_loss(deviation, interval), of_all)
    for rate in (1e-4, 0.03, 0.9):
        sampled = distributions.from_gaussian_mechanism(
            deviation,
            value_discretization_interval=interval,
            sampling_prob=rate,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
        ours = sampled_gaussian_loss(deviation, rate, interval)
        is_alike(ours, sampled)
        is_alike(ours.self_compose(50), sampled.self_compose(50))


@pytest.mark.parametrize(("rate", "n_draws"), [(0.25, 300), (0.01, 2000), (2.0**-11, 20_000)])
@pytest.mark.parametrize("epsilon", [0.3, 8.0])
def test_a_search_that_begins_on_a_coarse_grid_ends_where_one_on_the_fine_grid_does(
    monkeypatch, rate, n_draws, epsilon
):
    releases = [
        Release("centre", "gaussian", 20.0, 1),
        Release("g", "gaussian", 1.0, n_draws, sampling_rate=rate),
    ]
    budget = Budget(epsilon, 1e-6)
    result = [each.noise_multiplier for each in calibrate(releases, budget)]
    monkeypatch.setattr(calibration, "_root_by_secants", lambda *facts: None)
    bracketed = [each.noise_multiplier for each in calibrate(releases, budget)]
    np.testing.assert_allclose(result, bracketed, rtol=4e-6)
