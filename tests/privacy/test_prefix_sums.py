"""Prefix sums: the law of their noise, their sensitivity, adaptive streams, scales, memory."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.privacy import Release
from sklearn_dpwg.privacy.prefix_sums import (
    PREFIX_SUMS,
    BinaryTree,
    PrefixSumStream,
    SquareRootToeplitz,
    make_prefix_sums,
)
from tests.helpers.prefix_factors import factors
from tests.helpers.replay import Recorder, replayed, row_distance, silent

SUMS = Release("sums", "gaussian", 1.0, max_count=1)
NAMES = pytest.mark.parametrize("name", sorted(PREFIX_SUMS))
# powers of two and their neighbours, and lengths that cross the blocks of the online convolution
LENGTHS = [1, 2, 7, 16, 63, 64, 65, 129, 200]


def stand_in(unit_noise):
    """Return a source that adds given unit draws, one row after another."""
    draws = iter(unit_noise)
    return Recorder(
        lambda release, value, sensitivity: (
            value + release.noise_multiplier * sensitivity * next(draws)
        )
    )


def released(mechanism, noise, vectors, sensitivity=1.0):
    """Return all noisy sums of a stream; one sensitivity is that of every step."""
    stream = PrefixSumStream(mechanism, noise, SUMS)
    steps = np.broadcast_to(sensitivity, len(vectors))
    return np.array([stream.add(*step) for step in zip(vectors, steps, strict=True)])


# --- the factors, and that the streams are them ------------------------------------------------


@NAMES
@pytest.mark.parametrize("n_steps", LENGTHS)
def test_factors_and_their_norms(name, n_steps):
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=1)
    decoder, encoder = factors(mechanism)
    assert encoder.shape == (n_steps, n_steps)
    np.testing.assert_allclose(decoder @ encoder, np.tri(n_steps), atol=1e-12)
    columns = np.linalg.norm(encoder, axis=0)
    assert mechanism.column_norm == pytest.approx(columns.max(), rel=1e-14)
    rows = np.linalg.norm(decoder, axis=1)
    np.testing.assert_allclose(mechanism.row_norms(), rows, rtol=1e-13)
    increments = np.linalg.norm(np.diff(decoder, axis=0, prepend=0.0), axis=1)
    np.testing.assert_allclose(mechanism.increment_norms(), increments, rtol=1e-13)
    deviations = mechanism.standard_deviations()
    np.testing.assert_allclose(deviations, rows * columns.max(), rtol=1e-13)
    assert mechanism.worst_standard_deviation == deviations.max()


@NAMES
@pytest.mark.parametrize("n_steps", LENGTHS)
def test_released_noise_is_that_of_the_decoder(name, n_steps):
    """Unit draws, one a coordinate, show the whole linear map of the noise: B, so B Bᵀ."""
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=n_steps)
    decoder, _ = factors(mechanism)
    scale = 3.0 * mechanism.column_norm
    sums = released(mechanism, stand_in(np.eye(n_steps)), np.zeros((n_steps, n_steps)), 3.0)
    np.testing.assert_allclose(sums, scale * decoder, atol=1e-12 * scale)


@NAMES
@pytest.mark.parametrize("n_steps", LENGTHS)
def test_released_values_are_those_of_the_encoder(name, n_steps):
    """Unit vectors, one a coordinate, show the whole linear map of the values: C, then B C = A."""
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=n_steps)
    noise = silent()
    sums = released(mechanism, noise, np.eye(n_steps))
    np.testing.assert_allclose(sums, np.tri(n_steps), atol=1e-12)
    values = [asked.value for asked in noise.asked]
    np.testing.assert_allclose(values, factors(mechanism)[1], atol=1e-12)
    assert {float(asked.sensitivity) for asked in noise.asked} == {mechanism.column_norm}


# --- sensitivity -------------------------------------------------------------------------------


def worst_distance(mechanism):
    """Return by how much flipping one sign moves the noisy values, over all streams of signs."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=mechanism.n_steps)))
    worst = 0.0
    for place in range(mechanism.n_steps):
        neighbours = signs.copy()
        neighbours[:, place] *= -1.0
        first, second = silent(), silent()
        # all streams at once, a coordinate each
        released(mechanism, first, signs.T, 2.0)
        released(mechanism, second, neighbours.T, 2.0)
        moved = [
            (one.value - other.value) / one.sensitivity
            for one, other in zip(first.asked, second.asked, strict=True)
        ]
        worst = max(worst, np.linalg.norm(moved, axis=0).max())
    return worst


@NAMES
@pytest.mark.parametrize("n_steps", range(1, 9))
def test_sensitivity_by_brute_force(name, n_steps):
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=2**n_steps)
    assert worst_distance(mechanism) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("n_steps", [2, 4, 5, 8])
def test_a_column_norm_that_is_too_small_would_be_seen(n_steps):
    class Wrong(BinaryTree):
        column_norm = math.sqrt(n_steps.bit_length() - 1)

    assert worst_distance(Wrong(n_steps, 2**n_steps)) > 1.05


@given(
    name=st.sampled_from(sorted(PREFIX_SUMS)),
    n_steps=st.integers(1, 80),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_adaptive_neighbours(name, n_steps, seed, data):
    """Vectors, places and scales follow from the sums before; a record is read at most once."""
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=2)
    # the record is read where the sums first are large, at a place that they choose
    threshold = data.draw(st.floats(0.0, 20.0))

    def play(noise, record):
        stream = PrefixSumStream(mechanism, noise, SUMS)
        noisy_sum, is_read = np.zeros(2), False
        for _ in range(n_steps):
            bound = 0.1 + min(10.0, np.linalg.norm(noisy_sum))
            vector = np.cos(noisy_sum + np.arange(2.0))
            if not is_read and np.linalg.norm(noisy_sum) >= threshold:
                vector, is_read = vector + 0.5 * bound * record, True
            noisy_sum = stream.add(vector, bound)

    draws = np.random.default_rng(seed).normal(size=(n_steps, 2))
    first = stand_in(draws)
    play(first, np.array([1.0, 0.0]))
    second = replayed(first.asked)
    play(second, np.array([-1.0, 0.0]))
    assert row_distance(first.asked, second.asked) <= 1.0 + 1e-9


# --- scales ------------------------------------------------------------------------------------


@NAMES
def test_noise_never_falls_and_covers_every_step(name):
    n_steps = 70
    sensitivities = np.random.default_rng(2).uniform(0.1, 3.0, n_steps)
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=n_steps)
    noise = silent()
    sums = released(mechanism, noise, np.eye(n_steps), sensitivities)
    np.testing.assert_allclose(sums, np.tri(n_steps), atol=1e-12)
    scales = np.array([asked.sensitivity for asked in noise.asked])
    assert (np.diff(scales) >= 0.0).all()
    _, encoder = factors(mechanism)
    # a record at step s moves the values by its column times the step's sensitivity
    moved = np.linalg.norm(encoder * sensitivities / scales[:, None], axis=0)
    assert moved.max() <= 1.0 + 1e-12
    # and none of the noise is more than the largest sensitivity so far asks for
    last_steps = np.array([np.flatnonzero(row).max() for row in encoder])
    highest = np.maximum.accumulate(sensitivities)[last_steps]
    np.testing.assert_allclose(scales, mechanism.column_norm * highest)


# --- what it costs -----------------------------------------------------------------------------


def test_toeplitz_coefficients():
    coefficients = SquareRootToeplitz(200_000, 1).coefficients()
    for lag in (0, 1, 2, 500):
        assert coefficients[lag] == pytest.approx(math.comb(2 * lag, lag) / 4**lag, rel=1e-13)
    # Stirling's series is exact to rounding here
    lag = 199_999
    tail = (1 - 1 / (8 * lag) + 1 / (128 * lag**2)) / math.sqrt(math.pi * lag)
    assert coefficients[lag] == pytest.approx(tail, rel=1e-10)
    for n_steps in (1024, 200_000):
        worst = SquareRootToeplitz(n_steps, 1).worst_standard_deviation
        assert worst == pytest.approx((math.log(16 * n_steps) + np.euler_gamma) / math.pi, abs=1e-3)


# --- book-keeping and errors -------------------------------------------------------------------


@NAMES
def test_sums_belong_to_the_caller(name):
    mechanism = make_prefix_sums(name, n_steps=8, n_dimensions=2)
    vector = np.ones(2)
    stream = PrefixSumStream(mechanism, silent(), SUMS)
    for step in range(1, 9):
        vector[:] = step
        noisy_sum = stream.add(vector, 1.0)
        np.testing.assert_allclose(noisy_sum, step * (step + 1) / 2)
        assert stream.n_added == step
        noisy_sum[:] = vector[:] = -77.0  # neither is kept
    with pytest.raises(PlanExceededError, match="planned for 8 steps"):
        stream.add([0.0, 0.0], 1.0)


@NAMES
def test_wrong_vectors_are_refused_and_not_counted(name):
    mechanism = make_prefix_sums(name, n_steps=2, n_dimensions=2)
    stream = PrefixSumStream(mechanism, silent(), SUMS)
    for wrong in (np.zeros(3), [0.0, np.nan], [0.0, np.inf]):
        with pytest.raises(ValueError, match="vector must"):
            stream.add(wrong, 1.0)
    for sensitivity in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="sensitivity must be"):
            stream.add(np.zeros(2), sensitivity)
    assert stream.n_added == 0
    np.testing.assert_allclose(stream.add([1.0, 2.0], 1.0), [1.0, 2.0])
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            duplicate(stream)


def test_wrong_parameters():
    with pytest.raises(ValueError, match=r"noise must be one of .*'toeplitz'.*got 'wood'"):
        make_prefix_sums("wood", n_steps=1, n_dimensions=1)
    with pytest.raises(ValueError, match="n_steps must be at least 1"):
        make_prefix_sums("tree", n_steps=0, n_dimensions=1)
    with pytest.raises(ValueError, match="n_dimensions must be at least 1"):
        make_prefix_sums("tree", n_steps=1, n_dimensions=0)
