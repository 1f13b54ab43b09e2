"""Are moments exact sums, is what is learned from them right, and do plans follow the budget?"""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.solvers import Moments
from sklearn_dpwg.solvers import moments as noisy_moments
from sklearn_dpwg.solvers.moments import (
    robust_optimum,
    shrunk_moments,
)
from tests.helpers.group_data import make_data, make_problem

BUDGET = Budget(1.0, 1e-6)
LOSS = SquaredError()


def linear_data(sizes, seed=0, *, n_features=3, noise=0.05, **facts):
    """Return a problem and records whose groups differ in their best weights."""
    rng = np.random.default_rng(seed)
    problem = make_problem(sizes, loss=LOSS, n_features=n_features, **facts)
    rows = rng.standard_normal((sum(sizes), n_features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    own = np.repeat(rng.uniform(-0.3, 0.3, size=(len(sizes), n_features)), sizes, axis=0)
    targets = (rows * own).sum(axis=1) + 0.1 + noise * rng.uniform(-1, 1, size=len(rows))
    return problem, make_data(problem, rows, targets)


# --- sums --------------------------------------------------------------------------------------


def vectors(data, weights, *, clip, constant, length):
    """Return v of every record, computed apart."""
    rows = data.records.rows.astype(float)
    parts = [rows]
    scores = rows @ weights[: rows.shape[1]]
    if data.intercept_scaling > 0:
        parts.append(np.full((len(rows), 1), constant))
        scores = scores + data.intercept_scaling * weights[-1]
    residuals = np.clip(data.records.targets - scores, -clip, clip)
    v = np.hstack([*parts, residuals[:, None] * length / clip])
    v[:, -1] = np.trunc(v[:, -1] * 2.0**18) / 2.0**18
    return v


SCALES = {"clip": 0.4, "constant": 0.75, "length": 1.25}


@pytest.mark.parametrize("scaling", [0.0, 0.5])
def test_moments_are_sums_of_outer_products(scaling):
    problem, data = linear_data((300, 40, 7), scaling=scaling)
    weights = np.random.default_rng(1).standard_normal(problem.n_weights)
    actual = data.residual_moments(weights, **SCALES)
    v = vectors(data, weights, **SCALES)
    for group, (first, last) in enumerate(zip([0, 300, 340], [300, 340, 347], strict=True)):
        np.testing.assert_array_equal(actual[group], v[first:last].T @ v[first:last])
    assert data.n_passes == 1


# --- what is learned from them -----------------------------------------------------------------


def test_shrinkage_in_closed_form():
    rng = np.random.default_rng(0)
    stds = np.array([1.0, 0.5])
    block = np.ones((3, 3), dtype=bool)
    block[2, 2] = False
    matrices = rng.standard_normal((2, 3, 3))
    matrices = 10.0 * (matrices + np.swapaxes(matrices, 1, 2))
    mean = (matrices[0] + 4.0 * matrices[1]) / 5.0
    actual = shrunk_moments(matrices, stds, block)
    for matrix, result, noise in zip(matrices, actual, (0.8, 0.05), strict=True):
        # the variance of a difference from the mean: (1 - 2 w) s² + Σ w² s²
        difference = np.where(block, matrix - mean, 0.0)
        kept = 1.0 - noisy_moments.CAUTION * 3 * noise / (difference**2).sum()
        assert 0.0 < kept < 1.0
        np.testing.assert_allclose(result, np.where(block, mean + kept * difference, matrix))
    # where noise explains all, groups are the same; where there is none, they are themselves
    alike = shrunk_moments(matrices, 1e3 * stds, block)
    np.testing.assert_allclose(alike[0][block], alike[1][block])
    np.testing.assert_allclose(shrunk_moments(matrices, 1e-9 * stds, block), matrices, rtol=1e-12)
    assert shrunk_moments(matrices[:1], stds[:1], block) is not None
    np.testing.assert_array_equal(shrunk_moments(matrices[:1], stds[:1], block), matrices[:1])


def test_without_noise_the_model_is_the_risks():
    """What the moments show around any centre is the exact optimum, whatever the units."""
    problem, data = linear_data((400, 300), radius=2.0)
    exact = worst_group_optimum(data, radius=2.0)
    for seed in range(3):
        center = 0.3 * np.random.default_rng(seed).standard_normal(problem.n_weights)
        scales = {"clip": 5.0, "constant": 0.75, "length": 1.25}
        moments = data.residual_moments(center, **scales) / np.array([[[400.0]], [[300.0]]])
        weights, mixture = robust_optimum(
            moments,
            np.array([1.0, 1.0, 1.0, 0.5 / 0.75, 5.0 / 1.25]),
            center=center,
            mean_noise=0.0,
            pooled_noise=0.0,
            ridge=0.25,
            smoothing=0.0,
            fractions=np.array([0.5, 0.5]),
            radius=2.0,
        )
        np.testing.assert_allclose(weights, exact.weights, atol=2e-4)
        np.testing.assert_allclose(mixture, exact.group_weights, atol=5e-3)


# --- plans -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rounds", "growth"), [(1, 2.0), (3, 2.0), (4, 0.5)])
def test_rounds_fraction_the_budget(n_rounds, growth):
    plan = Moments(n_rounds, growth=growth).plan(make_problem((50, 60), loss=LOSS), BUDGET)
    paid = np.array([release.noise_multiplier**-2.0 for release in plan.releases])
    assert len(paid) == n_rounds
    assert [release.max_count for release in plan.releases] == [1] * n_rounds
    np.testing.assert_allclose(paid[1:] / paid[:-1], growth)
    assert math.sqrt(paid.sum()) == pytest.approx(gdp_mu(1.0, 1e-6), rel=1e-5)
    assert plan.guarantee.epsilon <= 1.0


@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("scaling", [0.0, 0.5, 3.0])
def test_the_bound_is_the_one_written_down(n_rounds, scaling):
    problem = make_problem((5_000, 200_000), loss=SquaredError(0.7), radius=2.0, scaling=scaling)
    plan = Moments(n_rounds).plan(problem, Budget(4.0, 1e-6))
    square, beta = (1 + 0.5625 + 1.5625, 1.25) if scaling else (2.0, 1.0)
    ratio = max(1.0, scaling / 0.75) if scaling else 1.0
    a, d = 0.6 * ratio, problem.n_weights
    length = math.hypot(a, 0.7 / beta) / (2 if n_rounds > 1 else 1)
    bounds = []
    for n in (5_000, 200_000):
        sigma = 1.005 * math.sqrt(2) * square * plan.releases[-1].noise_multiplier / n
        level = sum(
            fraction * 1.005 * math.sqrt(2) * square * plan.releases[-1].noise_multiplier / size
            for fraction, size in zip(problem.prior, problem.group_sizes, strict=True)
        )
        levels = math.sqrt(2 * math.log(2)) * (sigma + level) * length**2 / 2
        bounds.append(a * sigma * length * math.sqrt((d + 1) / 2) + levels)
    assert max(bounds) < problem.constants.zero_score
    assert plan.predicted_excess_if_worst == pytest.approx(bounds)
    assert plan.predicted_excess == pytest.approx(float(np.dot(problem.prior, bounds)))


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(ValueError, match=r"^solver 'moments' adds noise and needs a finite"):
        Moments().plan(make_problem((5, 5), loss=LOSS), Budget(math.inf, 1e-6))
    huge = make_problem((2**40, 5), loss=LOSS)
    with pytest.raises(ValueError, match=r"^solver 'moments' cannot add up 1,099,511,627,776"):
        Moments().plan(huge, BUDGET)
