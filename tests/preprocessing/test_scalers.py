from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import differential_evolution
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_dpwg.exceptions import NoProtectionWarning, SeededNoiseWarning
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.preprocessing import scalers as dp_standard_scaler
from sklearn_dpwg.preprocessing.scalers import SQUARE_WEIGHT, scale_to_bounds
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.gaussian import gdp_mu

ROWS = np.random.default_rng(0).normal([40.0, 5.0], [10.0, 2.0], size=(4000, 2))
BOUNDS = [(0.0, 120.0), (-10.0, 10.0)]

seeded = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning")
@seeded
@parametrize_with_checks(
    [
        BoundedScaler(bounds=(-100.0, 100.0)),
        DPStandardScaler(bounds=(-100.0, 100.0), random_state=0),
        DPStandardScaler(math.inf, bounds=(-100.0, 100.0)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e300), st.floats(allow_nan=False))
def test_nothing_leaves_the_unit_interval(low, width, value):
    high = low + width
    if not (high > low and math.isfinite(high - low)):
        return
    scaled = scale_to_bounds(np.array([[value]]), np.array([low]), np.array([high]))
    assert abs(scaled[0, 0]) <= 1.0


@pytest.mark.parametrize(
    "bounds",
    [
        {"age": (0, 1)},
        {"age": (0, 1), "score": (0, 1), "x": (0, 1)},
        [(0, 1)],
        [(0, 1), (2, 1)],
        (math.nan, 0),
    ],
)
def test_wrong_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match=r"^bounds must"):
        BoundedScaler(bounds).fit(pd.DataFrame(ROWS, columns=["age", "score"]))


def moves(pair, weight):
    return np.hypot(pair[0] - pair[1], weight * (pair[0] ** 2 - pair[1] ** 2))


def test_second_moments_cost_nothing():
    """The sensitivity of (v, a·v²) is that of v alone, for no larger a."""

    def largest(weight):
        result = differential_evolution(
            lambda pair: -moves(pair, weight), [(-1, 1), (-1, 1)], seed=0, tol=1e-12
        )
        return -result.fun

    assert largest(SQUARE_WEIGHT) <= 2.0
    assert largest(1.01 * SQUARE_WEIGHT) > 2.0 + 1e-4
    limit = (1 + math.sqrt(5)) / (28 - 12 * math.sqrt(5))
    assert 0.99999 * limit < SQUARE_WEIGHT**2 <= limit


class Watched(NoiseSource):
    """A source that keeps what it is handed."""

    def gaussian(self, value, **kwargs):
        self.handed.append((np.array(value), float(kwargs["sensitivity"])))
        return super().gaussian(value, **kwargs)


@pytest.fixture
def handed(monkeypatch):
    """What fits of the scaler hand to the noise: values and sensitivities."""
    result: list[tuple[np.ndarray, float]] = []
    monkeypatch.setattr(Watched, "handed", result, raising=False)
    monkeypatch.setattr(dp_standard_scaler, "NoiseSource", Watched)
    return result


def exact_move(handed) -> tuple[Fraction, Fraction]:
    """Return the squared distance of two values and the squared sensitivity, without rounding."""
    (one, sensitivity), (other, same) = handed
    assert sensitivity == same
    moves = [Fraction(a) - Fraction(b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    return sum(move**2 for move in moves), Fraction(sensitivity) ** 2


@seeded
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(*[st.sampled_from([-1e9, 0, 45.8, 60, 90, 120, 1e9])] * 2), min_size=2),
    st.tuples(*[st.floats(-200, 200)] * 2),
)
def test_no_neighbour_moves_the_sums_by_more(handed, rows, replacement):
    handed.clear()
    X = np.array(rows)
    for first in (X[0], np.array(replacement)):
        X[0] = first
        DPStandardScaler(delta=1e-9, bounds=(0.0, 120.0), random_state=0).fit(X)
    move, allowed = exact_move(handed)
    assert move <= allowed
    assert math.sqrt(allowed) <= 2.0 * math.sqrt(2.0) * (1 + 1e-9)


@seeded
@pytest.mark.parametrize("n_ones", [2**12, 2**17])
def test_no_record_decides_how_others_are_rounded(handed, n_ones):
    """Around a power of two one record decides whether each later one counts for 0 or for half."""
    tiny = -0.26 * n_ones * 2.0**-52
    X = np.concatenate([np.ones(n_ones + 1), np.full(n_ones, tiny)])[:, None] * np.ones(2)
    for first in (1.0, -1.0):
        X[0] = first
        DPStandardScaler(delta=1e-9, bounds=(-1.0, 1.0), random_state=0).fit(X)
    move, allowed = exact_move(handed)
    assert move <= allowed


def test_what_is_learned_has_the_noise_that_is_paid_for():
    scaler = DPStandardScaler(bounds=(-1, 1)).fit(np.zeros((10_000, 400)))
    (event,) = scaler.privacy_.events
    stated = event.noise_multiplier * 2.0 * math.sqrt(400) / 10_000
    assert 0.82 < scaler.mean_.std() / stated < 1.18  # five deviations to either side
    several = DPStandardScaler(bounds=(-1, 1), rows_per_person=3).fit(np.zeros((10_000, 400)))
    assert 0.99 < several.privacy_.epsilon <= 1.0
    assert several.privacy_.records_per_person == 3
    assert 2.46 < several.mean_.std() / stated < 3.54


def test_exact_without_privacy():
    scaler = DPStandardScaler(math.inf, bounds=BOUNDS).fit(ROWS)
    clipped = np.clip(ROWS, *np.transpose(BOUNDS))
    assert scaler.mean_ == pytest.approx(clipped.mean(0))
    assert scaler.scale_ == pytest.approx(clipped.std(0))
    assert not scaler.privacy_.is_private


@seeded
def test_private_moments(handed):
    scaler = DPStandardScaler(0.5, 1e-6, bounds=BOUNDS, random_state=1).fit(ROWS)
    ((value, sensitivity),) = handed
    assert value.shape == (4,)
    assert sensitivity == pytest.approx(2.0 * math.sqrt(2.0), rel=1e-11)
    (event,) = scaler.privacy_.events
    assert 1.0 / event.noise_multiplier == pytest.approx(gdp_mu(0.5, 1e-6), rel=1e-5)
    assert 0.49 < scaler.privacy_.epsilon <= 0.5
    assert scaler.privacy_.seeded
    rows = scaler.transform([[0.0, -10.0], [120.0, 10.0], [1e9, -1e9]])
    assert np.linalg.norm(rows, axis=1).max() <= scaler.row_norm_ * (1 + 1e-12)


def test_secure_noise_by_default_and_warnings():
    scaler = DPStandardScaler(bounds=BOUNDS).fit(ROWS)
    assert not scaler.privacy_.seeded
    assert "the bounds of every column" in scaler.privacy_.public
    with pytest.warns(SeededNoiseWarning):
        DPStandardScaler(bounds=BOUNDS, random_state=0).fit(ROWS)
    with pytest.warns(NoProtectionWarning):
        DPStandardScaler(delta=0.1, bounds=BOUNDS).fit(ROWS)
    with pytest.raises(ValueError, match=r"^epsilon must be positive"):
        DPStandardScaler(0.0, bounds=BOUNDS).fit(ROWS)


def test_an_error_after_the_release_says_that_the_budget_is_spent(monkeypatch):
    class Failing(NoiseSource):
        def gaussian(self, *arguments, **options):
            super().gaussian(*arguments, **options)
            raise ZeroDivisionError

    monkeypatch.setattr(dp_standard_scaler, "NoiseSource", Failing)
    with PrivacyLedger(5.0, 1e-4) as ledger:
        with pytest.raises(ZeroDivisionError) as error:
            DPStandardScaler(epsilon=0.5).fit(np.zeros((2000, 2)))
        assert len(ledger.rows) == 1
    assert "count the budget of this fit, epsilon = 0.5" in error.value.__notes__[0]
    with pytest.raises(ValueError, match="X contains NaN") as error:
        DPStandardScaler(epsilon=0.5).fit(np.full((2000, 2), np.nan))
    assert not hasattr(error.value, "__notes__")
