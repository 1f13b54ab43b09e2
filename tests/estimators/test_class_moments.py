"""Moments of two classes: solutions, sensitivities, neighbours.

docs/theory/auc.md.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.estimators import auc as module
from sklearn_dpwg.estimators.auc import (
    ClassMoments,
    auc_weights,
    class_moment_sensitivity,
)
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from tests.helpers.replay import distances, fixed_transcript

RELEASE = Release("class moments", "gaussian", 1.0, max_count=1)


def encode(rows, *, data_norm=1.0):
    n_records = rows.shape[0]
    return RecordEncoder(1, data_norm).encode(rows, np.zeros(n_records), np.zeros(n_records, int))


def moments_of(rows, is_second, constant=0.5):
    return ClassMoments.of(encode(rows), is_second, constant=constant)


def some_rows(n_records=60, n_features=3, seed=0, shift=0.4):
    rng = np.random.default_rng(seed)
    is_second = rng.uniform(size=n_records) < 0.3
    is_second[:2] = (True, False)
    rows = 0.3 * rng.normal(size=(n_records, n_features)) + shift * is_second[:, None]
    return rows, is_second


# --- moments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, csr_array, lambda rows: rows.astype(np.float32)])
def test_moments_are_those_of_the_rows(form):
    rows, is_second = some_rows()
    moments = moments_of(form(rows), is_second)
    clipped = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    for of_class, chosen in enumerate((~is_second, is_second)):
        own = clipped[chosen]
        assert moments.counts[of_class] == chosen.sum()
        np.testing.assert_allclose(moments.means[of_class], own.mean(axis=0), atol=3e-5)
        covariance = np.cov(own.T, bias=True)
        np.testing.assert_allclose(moments.covariances[of_class], covariance, atol=3e-5)


def test_sums_are_exact_in_any_order_and_over_any_blocks(monkeypatch):
    rows, is_second = some_rows(500)
    moments = moments_of(rows, is_second)
    order = np.random.default_rng(1).permutation(500)
    monkeypatch.setattr(module, "BLOCK_SIZE", 7)
    other = moments_of(rows[order], is_second[order])
    assert np.array_equal(moments.sums, other.sums)


def test_too_many_records_are_refused():
    with pytest.raises(ValueError, match=r"^X must have at most"):
        class_moment_sensitivity(10**14, 400, 0.75)


def vectors_apart(n_features, constant, rng):
    """Return two records with their classes: bad ones, some of them at right angles."""
    along, across = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0][:2]
    angle = rng.choice([0.0, math.pi, math.acos(-min(1.0, constant**2)), rng.uniform(0, 3)])
    first = rng.choice([0.0, 0.3, 1.0, 30.0], p=[0.1, 0.1, 0.6, 0.2]) * along
    second = math.cos(angle) * along + math.sin(angle) * across
    return first, second, rng.choice([False, True], size=2)


def attack(n_trials, *, released=None, keep_classes=False):
    """Return the largest distance of neighbours, in units of the sensitivity that is stated."""
    worst, rng = 0.0, np.random.default_rng(0)
    for trial in range(n_trials):
        n_features = int(rng.integers(2, 6))
        constant = float(rng.choice([0.25, 0.5, 0.75, 1.0]))
        rows, is_second = some_rows(int(rng.choice([2, 3, 20])), n_features, seed=trial)
        one, other, classes = vectors_apart(n_features, constant, rng)
        asked = []
        for record, of_class in ((one, classes[0]), (other, classes[0 if keep_classes else 1])):
            rows[-1], is_second[-1] = record, of_class
            source = fixed_transcript(trial, {"class moments": 10.0 ** rng.uniform(-2, 2)})
            moments = moments_of(rows, is_second, constant)
            (released or ClassMoments.released)(moments, source, RELEASE)
            asked.append(source.asked)
        worst = max(worst, *(distance for _, distance in distances(*asked)))
    return worst


def test_no_neighbour_moves_the_moments_by_more_whatever_its_class():
    assert 0.999 < attack(1200) <= 1.0
    assert 0.99 < attack(400, keep_classes=True) <= 1.0


def counts_for_nothing(moments, noise, release):
    """Release all entries for the price of rows without a constant, as if counts were public."""
    rows, columns = np.triu_indices(moments.sums.shape[1])
    times = np.where(rows == columns, 1.0, math.sqrt(2.0))
    value = moments.sums[:, rows, columns] * times
    return noise.gaussian(value, sensitivity=math.sqrt(2.0), release=release)


def entries_off_the_diagonal_once(moments, noise, release):
    """Double-count: full matrices for the price of triangles that count √2 off the diagonal."""
    sensitivity = class_moment_sensitivity(
        moments.n_records, moments.sums.shape[1] - 1, moments.constant
    )
    return noise.gaussian(2.0**0.5 * moments.sums.ravel(), sensitivity=sensitivity, release=release)


def means_by_exact_counts(moments, noise, release):
    """Divide by counts that are private before the noise."""
    means = moments.sums / np.maximum(moments.sums[:, -1:, -1:], 1e-3)
    sensitivity = math.sqrt(2.0) / moments.n_records
    return noise.gaussian(means.ravel(), sensitivity=sensitivity, release=release)


@pytest.mark.parametrize(
    "fault", [counts_for_nothing, entries_off_the_diagonal_once, means_by_exact_counts]
)
def test_planted_faults_are_caught(fault):
    assert attack(300, released=fault) > 1.0


def test_protection_of_labels_is_what_costs():
    """Neighbours of one class and close rows move less than those that change it."""
    rows = np.full((2, 2), 0.5)
    moved = []
    for classes in ((True, True), (True, False)):
        asked = []
        for of_class in classes:
            source = fixed_transcript(0, {})
            ClassMoments.of(encode(rows), np.array([False, of_class]), constant=1.0).released(
                source, RELEASE
            )
            asked.append(source.asked)
        moved.append(distances(*asked)[0][1])
    assert moved[0] == 0.0
    assert moved[1] == pytest.approx(1.5 / 2.0, rel=1e-4)  # ‖v‖²√2 with ‖v‖² = 3/2, over √2·2


def test_released_counts_use_the_public_total():
    rows, is_second = some_rows(1000)
    (release,) = calibrate([RELEASE], Budget(0.5, 1e-6))
    found = moments_of(rows, is_second).released(NoiseSource(None, [release]), release)
    assert found.counts.sum() == pytest.approx(1000)
    assert (found.counts >= 1.0).all()


# --- solutions ---------------------------------------------------------------------------------


def test_weights_minimise_the_square_surrogate():
    rows, is_second = some_rows(80)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    pairs = (rows[is_second][:, None] - rows[~is_second][None]).reshape(-1, 3)
    best = minimize(lambda w: ((1.0 - pairs @ w) ** 2).mean(), np.zeros(3)).x
    found = auc_weights(moments_of(rows, is_second))
    cosine = found @ best / np.linalg.norm(found) / np.linalg.norm(best)
    assert cosine == pytest.approx(1.0, abs=1e-6)
