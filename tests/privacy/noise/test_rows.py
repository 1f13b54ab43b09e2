"""One Gaussian release of a matrix, row by row: its law, its grid, its book-keeping."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.exceptions import PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.noise import samplers as _samplers
from tests.helpers.noise_checks import scale_faults
from tests.helpers.sources import seeded

SUMS = Release("sums", "gaussian", 2.5, max_count=1)


def source(seed=0, release=SUMS):
    return NoiseSource(releases=[release]) if seed is None else seeded(seed, [release])


def noise_of(n_rows, n_columns, seed, sensitivity=3.0):
    rows = source(seed).gaussian_rows((n_rows, n_columns), release=SUMS)
    return np.array([rows.add(np.zeros(n_columns), sensitivity) for _ in range(n_rows)])


@pytest.mark.parametrize(("seed", "n_columns"), [(0, 50), (1, 50_000), (None, 50)])
def test_law(seed, n_columns):
    noise = noise_of(1000 if seed == 0 else 3 if seed else 200, n_columns, seed)
    assert scale_faults(noise.ravel(), SUMS, 3.0) == []
    assert scale_faults(noise.T.ravel(), SUMS, 3.0) == []
    assert "too small" in scale_faults(noise.ravel(), SUMS, 3.3)


@pytest.mark.parametrize("seed", [0, None])
def test_rows_get_noise_on_top_of_their_value_and_of_their_scale(seed):
    rows = source(seed).gaussian_rows((2, 5000), release=SUMS)
    value = np.linspace(-1e3, 1e3, 5000)
    kept = value.copy()
    for sensitivity in (1e-3, 2.0):
        noise = rows.add(value, sensitivity) - value
        assert scale_faults(noise, SUMS, sensitivity) == []
    np.testing.assert_array_equal(value, kept)


def test_secure_noise_is_on_the_grid_that_pays_for_all_rows():
    n_rows, n_columns, sensitivity = 1000, 50, 0.3
    exponent = _samplers.grid_exponent("gaussian", 2.5, sensitivity, 4 * n_rows * n_columns)
    grid = 2.0**exponent
    assert 2.0 * math.sqrt(n_rows * n_columns) * grid <= sensitivity * 2.0**-30
    rows = source(None).gaussian_rows((n_rows, n_columns), release=SUMS)
    noisy = rows.add(np.full(n_columns, math.pi), sensitivity) / grid
    np.testing.assert_array_equal(noisy, np.rint(noisy))


def test_secure_scale_pays_for_the_rounding_of_all_rows(monkeypatch):
    import opendp.prelude as dp

    asked = []
    make = dp.m.make_gaussian
    monkeypatch.setattr(dp.m, "make_gaussian", lambda *args: asked.append(args) or make(*args))
    # a coarse grid, so that what it costs can be seen
    monkeypatch.setattr(_samplers, "_LOG2_SCALE_OVER_GRID", 1)
    monkeypatch.setattr(_samplers, "_LOG2_SENSITIVITY_OVER_ROUNDING", 1)
    source(None).gaussian_rows((100, 4), release=SUMS).add(np.zeros(4), 0.3)
    ((*_, scale, exponent),) = asked
    assert scale >= 2.5 * (0.3 + 2.0 * math.sqrt(100 * 4) * 2.0**exponent) > 2.5 * 0.31


@given(
    st.lists(st.floats(1.0, 1.5), min_size=2, max_size=12),
    st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12),
    st.floats(0.1, 100.0),
    st.integers(1, 5),
)
def test_rounding_all_rows_costs_no_more_than_is_paid(growth, column, multiplier, n_columns):
    """Lemma 2 of docs/theory/prefix-sums.md, on grids so coarse that a slip would show."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_samplers, "_LOG2_SCALE_OVER_GRID", 1)
        patch.setattr(_samplers, "_LOG2_SENSITIVITY_OVER_ROUNDING", 0)
        sensitivities = np.cumprod(growth)
        n_rounded = 4 * len(growth) * n_columns
        grids = 2.0 ** np.array(
            [
                _samplers.grid_exponent("gaussian", multiplier, sensitivity, n_rounded)
                for sensitivity in sensitivities
            ]
        )
    scales = multiplier * (sensitivities + math.sqrt(n_rounded) * grids)
    moves = np.array(column[: len(growth)]) + 1e-9
    moves *= sensitivities[0] / np.linalg.norm(moves)
    moved = moves + math.sqrt(n_columns) * grids
    assert np.linalg.norm(moved / scales) <= (1.0 + 1e-12) / multiplier


def test_wrong_input_draws_nothing():
    rows = source().gaussian_rows((2, 2), release=SUMS)
    for row in ([1.0], [[1.0, 2.0]], 1.0):
        with pytest.raises(ValueError, match=r"row must have shape \(2,\)"):
            rows.add(row, 1.0)
    for row in ([np.nan, 0.0], [0.0, -np.inf]):
        with pytest.raises(ValueError, match="row must be finite"):
            rows.add(row, 1.0)
    for sensitivity in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="sensitivity must be positive and finite"):
            rows.add(np.zeros(2), sensitivity)
    rows.add(np.zeros(2), 2.0)
    with pytest.raises(ValueError, match=r"must not decrease from row to row, got 1\.0 after 2\.0"):
        rows.add(np.zeros(2), 1.0)
    rows.add(np.zeros(2), 3.0)


def test_a_matrix_is_one_draw_of_the_plan():
    noise = source()
    rows = noise.gaussian_rows((3, 2), release=SUMS)
    assert [(draw.release, draw.shape) for draw in noise.draws] == [(SUMS, (3, 2))]
    with pytest.raises(PlanExceededError, match="all were made"):
        noise.gaussian_rows((3, 2), release=SUMS)
    for _ in range(3):
        rows.add([1.0, 2.0], 1.0)
    with pytest.raises(PlanExceededError, match="pays for 3 rows of 'sums', and all were released"):
        rows.add([1.0, 2.0], 1.0)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            duplicate(rows)


def test_wrong_releases_are_refused():
    laplace = Release("sums", "laplace", 1.0, 1)
    with pytest.raises(PlanExceededError, match="laplace noise"):
        source(release=laplace).gaussian_rows((2, 2), release=laplace)
    sampled = Release("sums", "gaussian", 1.0, 1, sampling_rate=0.5)
    with pytest.raises(UnsupportedMechanismError, match="sampling_rate"):
        source(release=sampled).gaussian_rows((2, 2), release=sampled)
    with pytest.raises(PlanExceededError, match="does not hold"):
        source().gaussian_rows((2, 2), release=SUMS.scaled(2.0))
    for shape in ((0, 2), (2, 0)):
        with pytest.raises(ValueError, match=r"the number of \w+ must be at least 1"):
            source().gaussian_rows(shape, release=SUMS)
