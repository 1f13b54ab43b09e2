"""Rows half whitened by released second moments; docs/theory/centring.md, section 5."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import BinaryLogLoss, Loss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers import centring as module
from sklearn_dpwg.solvers.centring import (
    BEFORE,
    LONGEST_STRETCH,
    MOMENTS,
    SQUARES,
    WHITENING_STEP,
    Centring,
    GradientClip,
    release_centre,
)
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.replay import silent

BUDGET = Budget(1.0, 1e-6)
LIMIT = GradientClip(0.9, MOMENTS)


def problem_of(sizes=(9_000, 3_000), **facts):
    return make_problem(sizes, **{"loss": BinaryLogLoss(), "n_features": 4, **facts})


def whitening_of(plan):
    return [each for each in plan.releases if each.name in (MOMENTS, SQUARES)]


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, MOMENTS),
        ({"loss": MultinomialLogLoss(3)}, MOMENTS),
        ({"n_features": 1}, None),
        ({"n_features": 40}, None),  # noise on a matrix of 40 columns hides them
        ({"n_features": 300, "sizes": (90_000, 90_000)}, SQUARES),
        ({"n_features": 300}, None),
        ({"loss": SquaredError()}, None),
        ({"scaling": 0.0}, None),
    ],
    ids=str,
)
def test_rows_are_whitened_where_noise_leaves_something_to_see(facts, name):
    plan = MGR().plan(problem_of(**facts), BUDGET)
    assert [each.name for each in whitening_of(plan)] == ([name] if name else [])
    assert ("half whitened" in str(plan)) == (name is not None)
    for each in whitening_of(plan):
        fraction = BEFORE[name]
        assert each.max_count == 1
        assert 1.0 / each.noise_multiplier**2 == pytest.approx(fraction * BUDGET.mu**2, rel=1e-4)
    assert plan.guarantee.epsilon == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("name", [MOMENTS, SQUARES])
def test_what_rows_are_multiplied_by_follows_from_the_release(name, monkeypatch):
    monkeypatch.setattr(module, "MAX_COLUMNS", 200 if name == MOMENTS else 0)
    rng, problem = np.random.default_rng(0), problem_of()
    rows = rng.normal(size=(12_000, 4)) @ np.diag([0.3, 0.1, 0.03, 0.001]) + [0.3, 0.2, 0.1, 0.0]
    if name == MOMENTS:
        rows = rows @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    data = make_data(problem, rows, np.ones(12_000))
    plan = MGR(whitening=True).plan(problem, Budget(50.0, 1e-6))
    result = release_centre(plan, LIMIT, data, silent())
    rows = data.records.rows.astype(float)
    z = rows - result.center
    moments = z.T @ z / len(z)
    if name == SQUARES:
        factors, values = result.whitening, np.diag(moments)
        white = z * factors
    else:
        values, vectors = np.linalg.eigh(moments)
        factors = np.diag(vectors.T @ result.whitening @ vectors)
        white = z @ result.whitening
        assert np.array_equal(result.whitening, result.whitening.T)
        assert not np.any(result.whitening / WHITENING_STEP % 1.0)
    # fourth roots, up to one factor, but for what is below a hundredth of the mean
    seen = values > 0.02 * values.mean()
    assert 2 <= seen.sum() < 4
    assert np.ptp(factors[seen] * values[seen] ** 0.25) < 1e-3 * factors.max()
    assert (white**2).sum() == pytest.approx(len(z), rel=1e-3)
    assert factors.max() < LONGEST_STRETCH / math.sqrt((z**2).sum(axis=1).mean())


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, csr_array])
@pytest.mark.parametrize("of_columns", [False, True])
def test_lengths_are_never_too_small_and_each_rows_own(layout, of_columns):
    """Of rows in another order, and of fewer, to the last bit: nobody rounds the others anew."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 7)) * (rng.random((700, 7)) < 0.6)
    white = rng.normal(size=(7, 7))
    white = np.rint((white + white.T) / WHITENING_STEP) * WHITENING_STEP
    white = np.abs(white[0]) if of_columns else white
    center, order = rng.normal(size=7) / 4.0, rng.permutation(700)[:333]

    def limits(some):
        encoder = RecordEncoder(1, 3.0, hides_groups=True)
        codes = np.zeros(len(some), dtype=int)
        records = encoder.encode(layout(some), np.ones(len(some)), codes)
        risks = GroupRisks(records, BinaryLogLoss(), 1.0)
        view = risks.centred(center, constant=0.25, clip=0.5, whitening=white)
        whole = records.rows.toarray() if layout is csr_array else records.rows
        return view.records.slope_limits, whole.astype(float)

    result, whole = limits(rows)
    np.testing.assert_array_equal(limits(rows[order])[0], result[order])
    moved = whole - center
    moved = moved * white if of_columns else moved @ white
    exact = 0.5 / np.sqrt((moved**2).sum(axis=1) + 0.25**2)
    np.testing.assert_allclose(result, exact, rtol=1e-9)
    assert (result <= exact * (1.0 + 1e-13)).all()


@pytest.mark.parametrize("of_columns", [False, True])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3)], ids=repr)
def test_weights_score_alike_in_both_variables(loss: Loss, of_columns):
    rng = np.random.default_rng(0)
    problem = problem_of(sizes=(400, 90), loss=loss, radius=50.0, scaling=0.7)
    white = rng.normal(size=(4, 4))
    white = rng.random(4) + 0.5 if of_columns else white + white.T
    centring = Centring(rng.normal(size=4) / 4.0, 0.4, white)
    weights = rng.normal(size=problem.n_weights)
    back = centring.from_centred(weights, problem)
    np.testing.assert_allclose(centring.to_centred(back, problem), weights, atol=1e-9)
    data = make_data(problem, rng.normal(size=(490, 4)), np.zeros(490) + 1.0)
    free = Centring(centring.center, 1e9, white).view(data)  # no limit
    np.testing.assert_allclose(free.risks(weights), data.risks(back), rtol=1e-12)
    # derivatives are those in the variables of centred rows
    some, apart = np.array([0.3, 0.7]), 1e-5 * rng.normal(size=problem.n_weights)
    (_, first), (_, second) = (free.risks_and_gradients(weights + s * apart) for s in (-1, 1))
    change = free.risks(weights + apart) - free.risks(weights - apart)
    np.testing.assert_allclose(first @ (2 * apart), change, rtol=1e-3, atol=1e-12)
    if loss.n_outputs > 1:  # no Hessian of theirs is asked for
        return
    expected = free.hessian(weights, some) @ (2 * apart)
    np.testing.assert_allclose(some @ (second - first), expected, rtol=1e-4, atol=1e-11)
