"""Values, derivatives and curvature: closed forms, finite differences, extremes, convexity."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.losses import BinaryLogLoss, Huber
from tests.helpers.loss_attacks import ALL, KINKED, exact_value, extreme_targets


@pytest.fixture(params=ALL, ids=repr)
def loss(request):
    return request.param


def batch(loss, seed, n=60, scale=4.0):
    rng = np.random.default_rng(seed)
    shape = (n,) if loss.n_outputs == 1 else (n, loss.n_outputs)
    extreme = extreme_targets(loss)
    targets = rng.uniform(*extreme, n) if loss.task == "regression" else rng.choice(extreme, n)
    return scale * rng.normal(size=shape), targets


@pytest.mark.parametrize("scale", [0.1, 5.0, 40.0])
def test_value_in_many_digits(loss, scale):
    scores, targets = batch(loss, 0, scale=scale)
    with mpmath.workdps(50):
        expected = [
            float(
                exact_value(loss, a if np.ndim(a) else mpmath.mpf(float(a)), mpmath.mpf(float(y)))
            )
            for a, y in zip(scores, targets, strict=True)
        ]
    np.testing.assert_allclose(
        loss.value(scores, targets), expected, rtol=1e-13, atol=2e-14 * scale
    )


def test_derivatives_are_those_of_what_they_derive(loss):
    """Apart from records within a step of where a derivative jumps."""
    scores, targets = batch(loss, 1, n=200)
    n, k = len(targets), loss.n_outputs
    slopes = loss.value_and_derivative(scores, targets)[1]
    assert slopes.shape == scores.shape
    bends = loss.curvature(scores, targets)
    assert bends.shape == (scores.shape if k == 1 else (n, k, k))
    bends = bends.reshape(n, k, k)
    np.testing.assert_array_equal(bends, bends.transpose(0, 2, 1))
    step = 1e-5
    for output in range(k):
        shift = (step * np.eye(k)[output] * np.ones((n, 1))).reshape(scores.shape)
        above, below = (loss.value_and_derivative(scores + by, targets) for by in (shift, -shift))
        slope, bend = ((one - other) / (2 * step) for one, other in zip(above, below, strict=True))
        assert np.mean(np.abs(slopes.reshape(n, k)[:, output] - slope) > 1e-5) <= 0.01
        assert np.mean(np.abs(bends[:, :, output] - bend.reshape(n, k)) > 1e-6) <= 0.01


def test_scores_far_on_the_wrong_side_raise_no_warning(loss):
    sign = np.array([1.0, -1.0])
    scores = 1e6 * sign if loss.n_outputs == 1 else 1e6 * np.outer(sign, np.eye(loss.n_outputs)[0])
    for target in extreme_targets(loss):
        values, slopes = loss.value_and_derivative(scores, np.full(2, target))
        assert np.isfinite(values).all()
        assert np.isfinite(slopes).all()
        assert np.isfinite(loss.curvature(scores, np.full(2, target))).all()


@given(
    loss=st.sampled_from(ALL),
    scale=st.floats(1e-3, 60),
    fraction=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_convex(loss, scale, fraction, seed):
    first, targets = batch(loss, seed, n=20, scale=scale)
    second, _ = batch(loss, seed + 1, n=20, scale=scale)
    mixed = loss.value(fraction * first + (1 - fraction) * second, targets)
    ends = fraction * loss.value(first, targets) + (1 - fraction) * loss.value(second, targets)
    assert np.all(mixed <= ends + 1e-12 * (1 + np.abs(ends)))
    eigenvalues = np.linalg.eigvalsh(
        loss.curvature(first, targets).reshape(20, loss.n_outputs, loss.n_outputs)
    )
    assert eigenvalues.min() >= -1e-12
    longest = float(np.linalg.norm(first.reshape(20, -1), axis=1).max())
    assert eigenvalues.max() <= loss.constants(longest).smoothness + 1e-12


@given(
    loss=st.sampled_from(KINKED), log_width=st.floats(-7, 1), seed=st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_stand_in_of_a_kink_keeps_its_contract(loss, log_width, seed):
    width = 10**log_width
    scores, targets = batch(loss, seed, n=40)
    scores[:20] = targets[:20] + 2 * width * np.linspace(-1, 1, 20)
    smooth = loss.smoothed(width)
    value, slope = smooth.value_and_derivative(scores, targets)
    slack = 1e-12 * (1 + np.abs(value))
    assert np.all(value >= loss.value(scores, targets) - slack)
    assert np.all(value <= loss.value(scores, targets) + width / 2 + slack)
    support = replace(smooth, is_lines=True).value(scores, targets)
    for other in (*batch(loss, seed + 1, n=40)[:1], targets, scores + width, scores - width):
        line = support + slope * (other - scores)
        assert np.all(line <= loss.value(other, targets) + 1e-9 * width + 1e-12 * np.abs(line - 1))
    far = np.abs(scores - targets) >= width
    np.testing.assert_allclose(support[far], loss.value(scores, targets)[far], atol=1e-12)
    # and it is what it says it is: smooth, with that derivative
    step = 1e-3 * width
    numeric = smooth.value(scores + step, targets) - smooth.value(scores - step, targets)
    np.testing.assert_allclose(slope, numeric / (2 * step), atol=2e-3 + 1e-12 / step)
    claims = smooth.constants(30.0)
    assert smooth.curvature(scores, targets).max() <= claims.smoothness * (1 + 1e-12)
    assert np.abs(slope).max() <= claims.lipschitz * (1 + 1e-12)
    assert value.max() <= claims.supremum + 1e-12


def test_a_slope_of_one_is_the_logistic_loss():
    scores, targets = batch(BinaryLogLoss(), 5, scale=20.0)
    np.testing.assert_allclose(
        BinaryLogLoss().value(scores, targets), np.logaddexp(0.0, -targets * scores), rtol=1e-15
    )
    assert BinaryLogLoss().with_bounded_slope() == BinaryLogLoss(0.85)
    assert BinaryLogLoss(0.6).with_bounded_slope() == BinaryLogLoss(0.6)
    assert Huber(3.0).with_bounded_slope() == Huber(3.0)
    # the stand-in is the same loss wherever the slope allows, and never above it
    cut = BinaryLogLoss(0.85)
    same = targets * scores >= cut.edge
    assert 0.1 < same.mean() < 0.9
    gap = BinaryLogLoss().value(scores, targets) - cut.value(scores, targets)
    np.testing.assert_allclose(gap[same], 0.0, atol=1e-15)
    assert np.all(gap[~same] > 0.0)
