"""The area under the curve as a game and from moments: solutions, sensitivities, neighbours.

docs/theory/auc.md.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.optimum.minimax import (
    AUCGame,
    ClassMoments,
    Regulariser,
    auc_weights,
    descent_ascent,
)
from sklearn_dpwg.optimum.minimax import auc as module
from sklearn_dpwg.optimum.minimax.auc import class_moment_sensitivity, covariances
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from tests.helpers.replay import distances, fixed_transcript, silent

RELEASE = Release("class moments", "gaussian", 1.0, max_count=1)


def encode(rows, *, data_norm=1.0):
    n_records = rows.shape[0]
    return RecordEncoder(1, data_norm).encode(rows, np.zeros(n_records), np.zeros(n_records, int))


def moments_of(rows, is_second, constant=0.5):
    return ClassMoments.of(encode(rows), is_second, constant=constant)


def game_of(rows, is_second, radius, noise=None):
    return AUCGame(
        moments_of(rows, is_second), radius=radius, noise=noise or silent(), gradients=RELEASE
    )


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
        np.testing.assert_allclose(moments.means[of_class], own.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(
            moments.second_moments[of_class], own.T @ own / chosen.sum(), atol=1e-6
        )
        covariance = np.cov(own.T, bias=True)
        np.testing.assert_allclose(covariances(moments)[of_class], covariance, atol=1e-6)


def test_sums_are_exact_in_any_order_and_over_any_blocks(monkeypatch):
    rows, is_second = some_rows(500)
    moments = moments_of(rows, is_second)
    order = np.random.default_rng(1).permutation(500)
    monkeypatch.setattr(module, "BLOCK_SIZE", 7)
    other = moments_of(rows[order], is_second[order])
    assert np.array_equal(moments.sums, other.sums)


def test_too_many_records_are_refused():
    with pytest.raises(ValueError, match=r"^X must have fewer records or columns"):
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


class Constant:
    def push(self, step, slope, rise, noise_std):
        return -0.5 * slope, 0.5 * rise


def test_the_game_has_the_same_solution():
    rows, is_second = some_rows(80, shift=0.2)
    moments = moments_of(rows, is_second)
    game = game_of(rows, is_second, 50.0)
    nothing = Regulariser(0.0, 0.0, np.zeros(5), np.zeros(1))
    found, dual = descent_ascent(
        game, Constant(), np.zeros(5), np.zeros(1),
        regulariser=nothing, n_steps=6000, averaged=range(6001, 6002),
    )  # fmt: skip
    w, (a, b) = found[:-2], found[-2:]
    best, means = auc_weights(moments), moments.means
    assert w @ best / np.linalg.norm(w) / np.linalg.norm(best) == pytest.approx(1.0, abs=1e-5)
    assert [a, b] == pytest.approx([means[1] @ w, means[0] @ w], abs=1e-4)
    assert dual[0] == pytest.approx((means[0] - means[1]) @ w, abs=1e-4)


def saddle_value(rows, is_second, weights, dual):
    """The mean of f over the records, from its definition."""
    w, a, b = weights[:-2], weights[-2], weights[-1]
    scores, share, (alpha,) = rows @ w, is_second.mean(), dual
    of_second = (1 - share) * (scores - a) ** 2 - 2 * (1 + alpha) * (1 - share) * scores
    of_first = share * (scores - b) ** 2 + 2 * (1 + alpha) * share * scores
    return np.where(is_second, of_second, of_first).mean() - share * (1 - share) * alpha**2


@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_those_of_the_saddle_form(seed):
    rows, is_second = some_rows(seed=seed)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    game = game_of(rows, is_second, 3.0)
    rng = np.random.default_rng(seed)
    weights, dual = rng.normal(size=5), rng.normal(size=1)
    released = game.release(weights, dual)
    both, step = np.concatenate([weights, dual]), 1e-5
    numeric = [
        (
            saddle_value(rows, is_second, (both + e)[:-1], (both + e)[-1:])
            - saddle_value(rows, is_second, (both - e)[:-1], (both - e)[-1:])
        )
        / (2 * step)
        for e in step * np.eye(6)
    ]
    found = np.concatenate([released.weights, released.dual])
    np.testing.assert_allclose(found, numeric, atol=2e-6)


def worst_of_game(n_trials, *, diameter=None):
    worst, rng = 0.0, np.random.default_rng(1)
    for trial in range(n_trials):
        rows, is_second = some_rows(int(rng.choice([2, 3, 30])), 3, seed=trial)
        radius = float(rng.choice([0.1, 1.0, 10.0]))
        weights = np.append(radius * rng.normal(size=3), radius * rng.normal(size=2))
        first, second, _ = vectors_apart(3, 1.0, rng)
        if trial % 2:  # along the weights, where slopes are steepest
            first = weights[:3] / np.linalg.norm(weights[:3])
            second = -first
        asked = []
        for record in (first, second):
            rows[trial % 2] = record  # one record of each class is there
            source = fixed_transcript(trial, {})
            game = game_of(rows, is_second, radius, source)
            if diameter is not None:
                game.diameter = lambda w, v, game=game: diameter(game, w, v)
            game.release(game.project_weights(weights), game.project_dual(weights[3:4]))
            asked.append(source.asked)
        worst = max(worst, distances(*asked)[0][1])
    return worst


def test_no_neighbour_of_the_same_class_moves_the_four_parts_by_more():
    assert 0.5 < worst_of_game(1000) <= 1.0


def test_parts_that_are_counted_apart_are_caught():
    """The largest of the four in place of the root of the sum of their squares overspends."""

    def largest_alone(game, weights, dual):
        norm = np.linalg.norm(weights[:-2])
        slopes = norm + np.abs([1 + dual[0] - weights[-1], weights[-2] + 1 + dual[0]])
        return float((4.0 * game.factor * np.maximum(slopes, norm) / game._counts).max()) / 1.5

    assert worst_of_game(300, diameter=largest_alone) > 1.0


def test_a_class_that_changes_moves_the_game_by_more():
    """Why the comparison needs public classes: its numbers scale everybody's gradients."""
    rows, is_second = some_rows(200, 3)
    asked = []
    for of_class in (False, True):
        is_second[-1] = of_class
        source = fixed_transcript(0, {})
        game = game_of(rows, is_second, 3.0, source)
        game.release(game.project_weights(np.ones(5)), np.ones(1))
        asked.append(source.asked)
    assert distances(*asked)[0][1] == math.inf  # not even the noise is the same


def test_projections_of_the_game():
    rows, is_second = some_rows()
    game = game_of(rows, is_second, 2.0)
    found = game.project_weights(np.array([3.0, 4.0, 0.0, -9.0, 1.0]))
    np.testing.assert_allclose(found, [1.2, 1.6, 0.0, -2.0, 1.0])
    assert game.project_dual(np.array([9.0])).tolist() == [4.0]
