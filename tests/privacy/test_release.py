"""Releases and budgets: what they refuse, what a record pays for."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event

from sklearn_dpwg.exceptions import NoProtectionWarning, UnsupportedMechanismError
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.privacy.accounting.composition import part_events
from sklearn_dpwg.privacy.release import check_delta


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": ""}, ValueError, "name must be a non-empty string"),
        ({"mechanism": "uniform"}, ValueError, "mechanism must be one of .*'laplace'"),
        ({"noise_multiplier": 0.0}, ValueError, "noise_multiplier must be positive"),
        ({"noise_multiplier": math.inf}, ValueError, "noise_multiplier must be positive"),
        ({"noise_multiplier": math.nan}, ValueError, "noise_multiplier must be a number"),
        ({"max_count": 0}, ValueError, "max_count must be at least 1"),
        ({"max_count": 1.5}, TypeError, "max_count must be a whole number"),
        ({"part": -1}, ValueError, "part must be at least 0"),
        ({"sampling_rate": 0.0}, ValueError, "sampling_rate must be above 0"),
        ({"sampling_rate": 1.1}, ValueError, "sampling_rate must be above 0"),
        (
            {"mechanism": "laplace", "sampling_rate": 0.5},
            UnsupportedMechanismError,
            "Poisson-sampled Laplace noise has no tight accountant",
        ),
    ],
)
def test_release_refuses(changes, error, message):
    facts = {"name": "a", "mechanism": "gaussian", "noise_multiplier": 1.0, "max_count": 1}
    with pytest.raises(error, match=message):
        Release(**{**facts, **changes})


def test_release_is_plain_data():
    release = Release("a", "gaussian", np.float64(2.0), np.int64(3), np.int64(0), 0.5)
    assert release == Release("a", "gaussian", 2.0, 3, 0, 0.5)
    assert type(release.max_count) is int
    assert release.scaled(2.0) == Release("a", "gaussian", 4.0, 3, 0, 0.5)
    assert release.event == dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(2.0)), 3
    )
    with pytest.raises(ValueError, match="noise_multiplier must be positive"):
        release.scaled(0.0)


def test_one_event_a_part():
    laplace = Release("second", "laplace", 2.0, max_count=3, part=5)
    releases = [
        Release("all", "gaussian", 4.0, max_count=2),
        Release("first", "gaussian", 1.0, max_count=1, part=0),
        laplace,
    ]
    shared = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(4.0), 2)
    first = dp_event.ComposedDpEvent([shared, dp_event.GaussianDpEvent(1.0)])
    assert part_events(releases) == (first, dp_event.ComposedDpEvent([shared, laplace.event]))
    assert part_events(releases[:1]) == (shared,)
    with pytest.raises(ValueError, match="releases must not be empty"):
        part_events([])


def test_a_record_pays_for_the_draws_that_it_can_move():
    """Draws on disjoint batches: as many as one record is in, however many there are."""
    many = Release("losses", "laplace", 1.0, max_count=1000, part=1, draws_per_record=1)
    once = Release("losses", "laplace", 1.0, max_count=1, part=1)
    assert (many.paid_count, once.paid_count) == (1, 1)
    assert part_events([many]) == part_events([once])
    twice = Release("sums", "gaussian", 2.0, max_count=9, draws_per_record=2)
    assert part_events([twice]) == part_events([Release("sums", "gaussian", 2.0, max_count=2)])
    assert twice.scaled(2.0).draws_per_record == 2
    for wrong in (0, 10):
        with pytest.raises(ValueError, match="draws_per_record must be at"):
            Release("sums", "gaussian", 2.0, max_count=9, draws_per_record=wrong)


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (0.0, 1e-6, "epsilon must be positive"),
        (-1.0, 1e-6, "epsilon must be positive"),
        (np.nan, 1e-6, "epsilon must be a number, got NaN"),
        (1.0, 0.0, "delta must be strictly between 0 and 1"),
        (1.0, 1.0, "delta must be strictly between 0 and 1"),
        (1.0, np.nan, "delta must be a number, got NaN"),
    ],
)
def test_budget_refuses(epsilon, delta, message):
    with pytest.raises(ValueError, match=message):
        Budget(epsilon, delta)


def test_large_delta_is_warned_of():
    with pytest.warns(NoProtectionWarning, match="delta = 0.01 is not below 1/100") as caught:
        check_delta(0.01, 100)
    assert caught[0].filename == __file__
    check_delta(0.0099, 100)
