"""The noise: its law, its grid, its book-keeping."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sklearn_dpwg.exceptions import PlanExceededError, SeededNoiseWarning
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.noise import samplers as _samplers
from tests.helpers import sources
from tests.helpers.noise_checks import noise_faults, scale_faults

GAUSSIAN = Release("gradient", "gaussian", 2.5, max_count=3)
LAPLACE = Release("risks", "laplace", 0.4, max_count=3)
BOTH = pytest.mark.parametrize("release", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])


def seeded(releases=(GAUSSIAN, LAPLACE), random_state=0):
    return sources.seeded(random_state, releases)


def secure(releases=(GAUSSIAN, LAPLACE)):
    return NoiseSource(releases=releases)


def draw(source, release, value, sensitivity):
    add = source.gaussian if release.mechanism == "gaussian" else source.laplace
    return add(value, sensitivity=sensitivity, release=release)


@BOTH
def test_law_of_seeded_noise(release):
    for seed in range(5):
        assert (
            noise_faults(seeded(random_state=seed), release, sensitivity=3.0, n_draws=100_000) == []
        )


@BOTH
def test_law_of_secure_noise(release):
    assert noise_faults(secure(), release, sensitivity=1e-3, n_draws=20_000) == []


class Broken:
    """A source with a planted bug."""

    def __init__(self, source, fault):
        self.source, self.fault = source, fault

    def gaussian(self, value, *, sensitivity, release):
        return self.fault(self.source.gaussian(value, sensitivity=sensitivity, release=release))

    def laplace(self, value, *, sensitivity, release):
        return self.fault(self.source.laplace(value, sensitivity=sensitivity, release=release))


@BOTH
@pytest.mark.parametrize(
    ("fault", "result"),
    [
        (lambda noise: noise / 2.0, "too small"),
        (lambda noise: noise * 0.95, "too small"),
        (lambda noise: noise * 1.05, "too large"),
        (np.abs, "not centred"),
        (lambda noise: np.repeat(noise[::2], 2), "dependent"),
        (lambda noise: np.clip(noise, *np.quantile(noise, [0.1, 0.9])), "another shape"),
    ],
)
def test_a_broken_source_is_caught(release, fault, result):
    source = Broken(seeded(), fault)
    assert result in noise_faults(source, release, sensitivity=3.0, n_draws=20_000)


@BOTH
@pytest.mark.parametrize(("multiplier", "sensitivity"), [(1e-2, 1.0), (3.7, 1e-9), (1e7, 1e9)])
def test_secure_noise_is_on_its_grid(release, multiplier, sensitivity):
    release = release.scaled(multiplier / release.noise_multiplier)
    noisy = draw(secure([release]), release, np.full(50, sensitivity / 3.0), sensitivity)
    grid = 2.0 ** _samplers.grid_exponent(release.mechanism, multiplier, sensitivity, 50)
    steps = noisy / grid
    np.testing.assert_array_equal(steps, np.round(steps))
    if np.max(np.abs(steps)) < 2.0**53:  # beyond, floats are coarser than the grid
        assert np.gcd.reduce(np.abs(steps).astype(np.int64)) == 1
    c = math.sqrt(50) if release.mechanism == "gaussian" else 150
    assert grid <= 2.0**-40 * multiplier * sensitivity
    assert c * grid <= 2.0**-30 * sensitivity


@BOTH
def test_opendp_agrees_that_the_noise_is_enough(release):
    for size in (1, 7, 10_000):
        measurement = _samplers._measurement(release.mechanism, release.noise_multiplier, 0.3, size)
        z = release.noise_multiplier
        promised = 0.5 / z**2 if release.mechanism == "gaussian" else 1.0 / z
        assert promised * (1.0 - 1e-8) <= measurement.map(0.3) <= promised


def test_a_sampler_that_promises_less_is_noticed(monkeypatch):
    monkeypatch.setattr(_samplers, "_MARGIN", 0.999)
    with pytest.raises(AssertionError, match="OpenDP states a privacy loss"):
        draw(secure(), GAUSSIAN, 0.0, 1.0)


def hockey_stick(upper, lower, epsilon):
    return float(np.maximum(upper - math.exp(epsilon) * lower, 0.0).sum())


@pytest.mark.parametrize("a", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_discrete_laplace_is_dominated(a, steps):
    """Theorem 2 of docs/theory/noise.md, on grids so coarse that it matters."""
    x = np.arange(-2000, 2001)
    upper = np.exp(-a * np.abs(x)) * math.tanh(a / 2)
    lower = np.exp(-a * np.abs(x - steps)) * math.tanh(a / 2)
    shift = a * (steps + 2)
    for epsilon in np.linspace(0.0, 1.2 * shift, 60):
        continuous = max(0.0, 1.0 - math.exp((epsilon - shift) / 2.0))
        assert hockey_stick(upper, lower, epsilon) <= continuous + 1e-14


@pytest.mark.parametrize("sigma", [1.5, 4.0])
def test_discrete_gaussian_is_dominated(sigma):
    """Theorem 1 of docs/theory/noise.md with r chosen for a coarse grid."""
    from sklearn_dpwg.privacy.gaussian import gdp_delta

    x = np.arange(-400, 401)
    r = 1.2
    slack = 9.0 * math.exp(-2.0 * math.pi**2 * r**2)
    for steps in (1, 3, 8):
        upper, lower = (np.exp(-((x - u) ** 2) / (2 * sigma**2)) for u in (0, steps))
        upper, lower = upper / upper.sum(), lower / lower.sum()
        mu = steps / math.sqrt(sigma**2 - r**2)
        for epsilon in np.linspace(0.0, 6.0, 40):
            bound = math.exp(slack) * gdp_delta(max(0.0, epsilon - 2 * slack), mu)
            assert hockey_stick(upper, lower, epsilon) <= bound + 1e-14


@BOTH
@pytest.mark.parametrize("make", [seeded, secure])
def test_sensitivity_of_each_coordinate(release, make):
    sensitivities = np.tile([0.0, 1e-3, 1.0, 50.0], (2000, 1))
    value = np.arange(8000.0).reshape(2000, 4)
    noise = draw(make(), release, value, sensitivities) - value
    np.testing.assert_array_equal(noise[:, 0], 0.0)
    for column in (1, 2, 3):
        assert scale_faults(noise[:, column], release, sensitivities[0, column]) == []
    in_units = noise[:, 1:] / sensitivities[:, 1:]
    assert scale_faults(in_units.ravel(), release, 1.0) == []


class Spy:
    """A sampler that keeps what it is to hide, and how far it is told that this can move."""

    def __init__(self):
        self.calls = []

    def add_noise(self, values, sensitivity, release, n_rows=1):
        self.calls.append((values.copy(), sensitivity))
        return values


def neighbours_of_large_quotients(bound, rng):
    """Two floats whose exact distance is at most a bound, and a unit that divides them.

    The quotients lie on both sides of 2²⁷, where floats become coarser.
    """
    unit = float(rng.uniform(0.5, 1.0))
    value = (2.0**27 - float(rng.uniform(0.0, bound))) * unit
    other = value + bound * unit
    while Fraction(other) - Fraction(value) > Fraction(bound) * Fraction(unit):
        other = math.nextafter(other, -math.inf)
    return unit, value, other


@pytest.mark.parametrize("bound", [1.0, 1.0 / 3.0])
def test_rounding_of_quotients_is_paid_for(monkeypatch, bound):
    """Dividing by the unit moves neighbours apart by more than the bound, but by no more than said.

    A bound other than 1 is that of a value in units.
    """
    release = Release("risks", "gaussian", 2.5, max_count=10_000)
    source = secure([release])
    spy = Spy()
    monkeypatch.setattr(source, "_sampler", spy)
    rng = np.random.default_rng(0)
    farthest = Fraction(0)
    for _ in range(1000):
        unit, *pair = neighbours_of_large_quotients(bound, rng)
        for value in pair:
            if bound == 1.0:
                source.gaussian([value], sensitivity=[unit], release=release)
            else:
                source.gaussian_in_units([value], units=[unit], sensitivity=bound, release=release)
        (one, _), (other, stated) = spy.calls[-2:]
        moved = abs(Fraction(float(one[0])) - Fraction(float(other[0])))
        assert moved <= Fraction(stated)
        farthest = max(farthest, moved)
    assert farthest > Fraction(bound)  # so that stating the bound itself would be too little


def test_names_have_independent_streams():
    names = ["gradient", "risks", "gradient 2"]
    releases = [Release(name, "gaussian", 1.0, 1) for name in names]
    source = seeded(releases)
    noise = [draw(source, release, np.zeros(20_000), 1.0) for release in releases]
    noise.append(source.rng.normal(size=20_000))
    for i, one in enumerate(noise):
        for other in noise[:i]:
            assert stats.pearsonr(one, other).pvalue > 1e-9
    # the stream of a name depends neither on the plan nor on what was drawn before
    reverse = seeded(releases[::-1])
    again = [draw(reverse, release, np.zeros(20_000), 1.0) for release in releases[::-1]]
    np.testing.assert_array_equal(again[::-1], noise[:3])


def test_shapes_and_values():
    source = secure()
    assert isinstance(draw(source, GAUSSIAN, 3, 1e-12), float)
    assert draw(source, GAUSSIAN, [[1, 2], [3, 4]], 1e-12) == pytest.approx(
        np.array([[1.0, 2.0], [3.0, 4.0]]), abs=1e-10
    )
    value = np.zeros(3)
    draw(source, GAUSSIAN, value, np.ones(3))
    np.testing.assert_array_equal(value, 0.0)  # the caller's array is left alone
    assert [entry.shape for entry in source.draws] == [(), (2, 2), (3,)]
    constant = draw(source, LAPLACE, [1.0, 2.0], [0.0, 0.0])
    np.testing.assert_array_equal(constant, [1.0, 2.0])


@pytest.mark.parametrize("make", [seeded, secure])
def test_overdrawing_is_refused_before_anything_is_drawn(make):
    source = make([GAUSSIAN, LAPLACE, GAUSSIAN])  # equal releases of a plan add up
    for _ in range(6):
        draw(source, GAUSSIAN, 0.0, 1.0)
    with pytest.raises(PlanExceededError, match="pays for 6 draws of 'gradient'"):
        draw(source, GAUSSIAN, 0.0, 1.0)
    for stranger in (GAUSSIAN.scaled(2.0), Release("gradient", "gaussian", 2.5, 3, part=0)):
        with pytest.raises(PlanExceededError, match="The plan does not hold"):
            draw(source, stranger, 0.0, 1.0)
    with pytest.raises(PlanExceededError, match="pays for laplace noise on 'risks', not gaussian"):
        source.gaussian(0.0, sensitivity=1.0, release=LAPLACE)
    with pytest.raises(PlanExceededError, match="it pays for nothing"):
        draw(make(()), GAUSSIAN, 0.0, 1.0)
    assert [entry.release for entry in source.draws] == [GAUSSIAN] * 6


@pytest.mark.parametrize(
    ("value", "sensitivity", "name"),
    [
        *((value, wrong, "sensitivity") for value in (0.0, [0.0, 0.0]) for wrong in (0.0, -1.0)),
        *((0.0, wrong, "sensitivity") for wrong in (math.nan, math.inf, 1e-300)),
        *(([0.0, 0.0], wrong, "sensitivity") for wrong in ([1.0, -1.0], [1.0, math.nan], [1.0])),
        (math.nan, 1.0, "value"),
        ([0.0, math.inf], 1.0, "value"),
        ([], 1.0, "value"),
    ],
)
def test_bad_numbers_are_refused(value, sensitivity, name):
    source = secure()
    with pytest.raises(ValueError, match=f"{name} (must|=)"):
        draw(source, GAUSSIAN, value, sensitivity)


# --- seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [int, np.random.RandomState, np.random.default_rng, np.random.SeedSequence]
)
def test_seeds_repeat_and_generators_move_on(make):
    state = make(5)
    first = draw(sources.seeded(state, [GAUSSIAN]), GAUSSIAN, 0.0, 1.0)
    again = draw(sources.seeded(state, [GAUSSIAN]), GAUSSIAN, 0.0, 1.0)
    assert (again == first) == (make is int)
    assert draw(sources.seeded(make(5), [GAUSSIAN]), GAUSSIAN, 0.0, 1.0) == first
    assert draw(secure(), GAUSSIAN, 0.0, 1.0) != draw(secure(), GAUSSIAN, 0.0, 1.0)


def test_the_warning_names_the_caller():
    with pytest.warns(SeededNoiseWarning, match="void for anyone who knows the seed") as caught:
        source = NoiseSource(0, [GAUSSIAN])
    assert [warning.filename for warning in caught] == [__file__]
    draw(source, GAUSSIAN, 0.0, 1.0)  # no second warning, which pytest would raise
    assert (source.seeded, secure().seeded) == (True, False)


@pytest.mark.parametrize("random_state", ["0", 1.5, True, -1])
def test_odd_seeds_are_refused(random_state):
    with pytest.raises((ValueError, TypeError), match="random_state must be"):
        NoiseSource(random_state)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused(duplicate):
    for source in (seeded(), secure()):
        with pytest.raises(TypeError, match="would repeat its noise"):
            duplicate(source)
