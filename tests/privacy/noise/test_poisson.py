"""Who joins a sample: independent coins, drawn anew for every draw, and never told."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.noise.poisson import poisson_sample
from tests.helpers.noise_checks import scale_faults
from tests.helpers.sources import seeded

SAMPLED = Release("g", "gaussian", 2.0, 3, part=0, sampling_rate=0.3)


# --- coins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3, 0.7])
def test_every_subset_has_its_probability(rate):
    """All 2^4 subsets, on both sides of the rate where gaps give way to coins."""
    rng = np.random.default_rng(0)
    n_draws = 20_000
    drawn = [tuple(poisson_sample(4, rate, rng)) for _ in range(n_draws)]
    subsets = [s for k in range(5) for s in itertools.combinations(range(4), k)]
    observed = [drawn.count(subset) for subset in subsets]
    expected = [n_draws * rate ** len(s) * (1 - rate) ** (4 - len(s)) for s in subsets]
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_nobody_and_everybody():
    rng = np.random.default_rng(0)
    for n, rate in ((1000, 1e-300), (1000, 1e-18), (1000, 1e-9), (0, 0.1)):
        assert len(poisson_sample(n, rate, rng)) == 0
    np.testing.assert_array_equal(poisson_sample(7, 1.0, rng), np.arange(7))


# --- a sample for every draw -------------------------------------------------------------------


def test_a_draw_needs_a_sample_of_its_own():
    noise = seeded(0, [SAMPLED])
    # two samples pay for one draw: the coins of the first are known to nobody
    for n_samples in (0, 1, 2):
        for _ in range(n_samples):
            noise.poisson_sample(SAMPLED)
        if n_samples:
            noise.gaussian([0.0], sensitivity=1.0, release=SAMPLED)
        with pytest.raises(PlanExceededError, match="no sample was drawn for this one"):
            noise.gaussian([0.0], sensitivity=1.0, release=SAMPLED)
    assert len(noise.draws) == 2
    with pytest.raises(PlanExceededError, match="does not hold"):
        noise.poisson_sample(SAMPLED.scaled(1.01))


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_a_source_samples_at_the_rate_that_is_accounted_for(rate):
    """The accountant and the sampler read one number."""
    release = Release("g", "gaussian", 2.0, 1, sampling_rate=rate)
    for noise in (seeded(0, [release]), NoiseSource(None, [release])):
        sample = noise.poisson_sample(release)
        joined = [len(sample.positions(group, 0, 250_000)) for group in range(4)]
        assert stats.binomtest(sum(joined), 1_000_000, rate).pvalue > 1e-9
        assert stats.binomtest(sum(joined), 1_000_000, 1.05 * rate).pvalue < 1e-3  # it would show


def test_coins_are_those_of_no_other_randomness():
    """Public choices tell nothing of the coins, nor do the coins of one sample of the next."""
    release = Release("g", "gaussian", 2.0, 5, sampling_rate=0.5)
    first, second = (seeded(7, [release]) for _ in range(2))
    second.rng.random(1000)
    for _ in range(3):
        one, two = (s.poisson_sample(release).positions(0, 0, 200) for s in (first, second))
        np.testing.assert_array_equal(one, two)
    secure = NoiseSource(None, [release])
    drawn = {tuple(secure.poisson_sample(release).positions(0, 0, 200)) for _ in range(50)}
    assert len(drawn) == 50


def test_unseeded_coins_have_fresh_entropy_every_time(monkeypatch):
    asked = []
    monkeypatch.setattr("secrets.randbits", lambda k: asked.append(k) or len(asked))
    noise = NoiseSource(None, [SAMPLED])
    asked.clear()
    for _ in range(3):
        noise.poisson_sample(SAMPLED)
    assert asked == [256] * 3


# --- a value in units --------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["seeded", "secure"])
def test_noise_in_units(source):
    noise = seeded(1, [SAMPLED]) if source == "seeded" else NoiseSource(None, [SAMPLED])
    n = 20_000 if source == "seeded" else 4000
    units = np.linspace(0.1, 30.0, n)
    facts = {"units": units, "sensitivity": 0.5, "release": SAMPLED}
    with pytest.raises(PlanExceededError, match="no sample"):
        noise.gaussian_in_units(np.zeros(n), **facts)
    noise.poisson_sample(SAMPLED)
    noisy = noise.gaussian_in_units(np.full(n, 3.0), **facts)
    assert scale_faults((noisy - 3.0) / units, Release("u", "gaussian", 1.0, 1), 1.0) == []
    assert [(draw.release, draw.shape) for draw in noise.draws] == [(SAMPLED, (n,))]


@pytest.mark.parametrize(
    "changes",
    [
        *({"units": wrong} for wrong in ([1.0, 1.0], [0.0], [np.nan])),
        *({"sensitivity": wrong} for wrong in (0.0, np.inf, [1.0, 1.0])),
        {"value": [np.nan]},
        {"units": 1.0, "value": 0.0},
    ],
)
def test_wrong_units_are_refused_before_anything_is_drawn(changes):
    noise = seeded(0, [SAMPLED])
    noise.poisson_sample(SAMPLED)
    facts = {"value": [0.0], "units": [1.0], "sensitivity": 1.0, "release": SAMPLED}
    with pytest.raises(ValueError, match="|".join(changes)):
        noise.gaussian_in_units(**facts | changes)
    assert noise.draws == ()


def test_the_grid_of_a_sampled_release_leaves_room_on_both_sides():
    """A record may be there or not: rounding to a grid adds √d to C, so 2√d to Δ."""
    from sklearn_dpwg.privacy.noise import samplers as _samplers

    full, sampled = (
        _samplers._measurement("gaussian", 2.0, 1.0, 100, is_sampled).map(1.0)
        for is_sampled in (False, True)
    )
    assert sampled < full <= 0.5 / 2.0**2
    for is_sampled, fraction in ((False, 1.0), (True, 2.0)):
        exponent = _samplers.grid_exponent("gaussian", 2.0, 1.0, 100, is_sampled)
        assert fraction * 10.0 * 2.0**exponent <= 2.0**-30
