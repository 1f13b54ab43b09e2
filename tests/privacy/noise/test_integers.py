"""Noise on whole numbers: its law, its draws against the plan, its refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from sklearn_dpwg.exceptions import PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.noise import samplers
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers

MECHANISMS = ("discrete-laplace", "gaussian")


def release_of(mechanism: str, multiplier: float = 1.0, **changes) -> Release:
    return Release("counts", mechanism, multiplier, max_count=1, **changes)


def p_value(noise: np.ndarray, release: Release) -> float:
    """Return that of a chi-squared test against the stated law."""
    numbers, probabilities = noise_on_integers(release).law()
    expected = probabilities * noise.size
    likely = np.flatnonzero(expected >= 10.0)
    low, high = numbers[likely[0]], numbers[likely[-1]]
    seen = np.bincount(np.clip(noise.ravel(), low, high) - low, minlength=len(likely))
    correct = expected[likely]
    correct[0] += expected[: likely[0]].sum()
    correct[-1] += expected[likely[-1] + 1 :].sum()
    return float(chisquare(seen, correct * seen.sum() / correct.sum()).pvalue)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("multiplier", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("seed", [None, 0])
def test_law(mechanism, multiplier, seed, recwarn):
    """A wrong scale would be seen."""
    release = release_of(mechanism, multiplier)
    n = 8_000 if seed is None else 40_000
    noise = NoiseSource(seed, [release]).integers(np.full(n, 7), release=release) - 7
    assert p_value(noise, release) > 1e-4
    if seed is not None:
        assert p_value(noise, release.scaled(1.5 if multiplier < 1.0 else 1.1)) < 1e-4


def test_scales():
    z = 1.5
    scale = {name: noise_on_integers(release_of(name, z)).scale for name in MECHANISMS}
    assert scale["discrete-laplace"] == pytest.approx(2.0 * z, rel=1e-9)
    assert scale["gaussian"] == pytest.approx(math.sqrt(2.0 * z * z + 1.5625), rel=1e-9)


def test_draws_are_held_against_the_plan():
    counts = release_of("discrete-laplace")
    source = NoiseSource(releases=[counts])
    with pytest.raises(PlanExceededError, match="pays for discrete-laplace noise on 'counts'"):
        source.laplace([1.0], sensitivity=2.0, release=counts)
    assert source.draws == ()
    table = source.integers(np.arange(8).reshape(2, 2, 2), release=counts)
    assert table.shape == (2, 2, 2)
    assert table.dtype == np.int64
    assert [(draw.release, draw.shape) for draw in source.draws] == [(counts, (2, 2, 2))]
    with pytest.raises(PlanExceededError, match="pays for 1 draw of 'counts', and all were made"):
        source.integers([1, 2], release=counts)
    with pytest.raises(PlanExceededError, match="The plan does not hold"):
        source.integers([1, 2], release=release_of("gaussian"))
    assert len(source.draws) == 1


def test_what_opendp_states_is_checked(monkeypatch):
    """Noise of half the scale would be refused before it is drawn."""
    import opendp.prelude as dp

    release = release_of("discrete-laplace")
    make = dp.m.make_laplace
    monkeypatch.setattr(
        dp.m, "make_laplace", lambda domain, metric, scale: make(domain, metric, scale / 2)
    )
    with pytest.raises(AssertionError, match="OpenDP states a privacy loss of"):
        samplers.SecureSampler().add_integers(
            np.zeros(2, dtype=np.int64), noise_on_integers(release), release
        )


@pytest.mark.parametrize("counts", [[1.0, 2.0], [True], np.empty(0, dtype=int), [2**62]])
def test_refusals(counts):
    release = release_of("discrete-laplace")
    source = NoiseSource(releases=[release])
    with pytest.raises((ValueError, TypeError), match="counts must"):
        source.integers(counts, release=release)
    assert source.draws == ()


@pytest.mark.parametrize(
    "release", [release_of("gaussian", sampling_rate=0.5), release_of("laplace")]
)
def test_other_refusals(release):
    source = NoiseSource(releases=[release])
    with pytest.raises(UnsupportedMechanismError, match="Counts need"):
        source.integers([1], release=release)
    assert source.draws == ()


def test_noise_that_hides_counts_is_refused():
    with pytest.raises(ValueError, match="epsilon must be larger"):
        noise_on_integers(release_of("gaussian", 1e4))
