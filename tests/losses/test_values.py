"""Values, derivatives and curvature: closed forms, finite differences, extremes, convexity."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from tests.helpers.loss_attacks import extreme_targets

LOSSES = (BinaryLogLoss(), SquaredError(1.5), *(MultinomialLogLoss(k) for k in range(2, 7)))


def identify(loss):
    return f"{type(loss).__name__}{loss.n_outputs}"


@pytest.fixture(params=LOSSES, ids=identify)
def loss(request):
    return request.param


def batch(loss, seed, n=60, scale=4.0):
    rng = np.random.default_rng(seed)
    shape = (n,) if loss.n_outputs == 1 else (n, loss.n_outputs)
    return scale * rng.normal(size=shape), rng.choice(extreme_targets(loss), size=n)


def reference_value(loss, scores, target):
    """The loss of one record in fifty digits."""
    if isinstance(loss, SquaredError):
        return (mpmath.mpf(float(scores)) - target) ** 2 / 2
    if isinstance(loss, BinaryLogLoss):
        return mpmath.log1p(mpmath.exp(-target * mpmath.mpf(float(scores))))
    label = int(target)
    others = [mpmath.mpf(float(a)) - float(scores[label]) for a in np.delete(scores, label)]
    return mpmath.log1p(mpmath.fsum(mpmath.exp(a) for a in others))


@pytest.mark.parametrize("scale", [0.1, 5.0, 40.0])
def test_value_in_many_digits(loss, scale):
    scores, targets = batch(loss, 0, scale=scale)
    with mpmath.workdps(50):
        expected = [
            float(reference_value(loss, a, y)) for a, y in zip(scores, targets, strict=True)
        ]
    np.testing.assert_allclose(
        loss.value(scores, targets), expected, rtol=1e-13, atol=2e-14 * scale
    )


def test_derivative_is_that_of_the_value(loss):
    scores, targets = batch(loss, 1)
    flat = scores.reshape(len(targets), -1)
    derivatives = loss.value_and_derivative(scores, targets)[1]
    assert derivatives.shape == scores.shape
    step = 1e-5
    for output in range(loss.n_outputs):
        shift = np.zeros_like(flat)
        shift[:, output] = step
        shift = shift.reshape(scores.shape)
        slope = (loss.value(scores + shift, targets) - loss.value(scores - shift, targets)) / (
            2 * step
        )
        np.testing.assert_allclose(derivatives.reshape(flat.shape)[:, output], slope, atol=1e-8)


def test_curvature_is_that_of_the_derivative(loss):
    scores, targets = batch(loss, 2)
    n, k = len(targets), loss.n_outputs
    curvature = loss.curvature(scores, targets)
    assert curvature.shape == (scores.shape if k == 1 else (n, k, k))
    curvature = curvature.reshape(n, k, k)
    np.testing.assert_array_equal(curvature, curvature.transpose(0, 2, 1))
    step = 1e-5
    for output in range(k):
        shift = np.zeros((n, k))
        shift[:, output] = step
        shift = shift.reshape(scores.shape)
        above = loss.value_and_derivative(scores + shift, targets)[1]
        below = loss.value_and_derivative(scores - shift, targets)[1]
        slope = ((above - below) / (2 * step)).reshape(n, k)
        np.testing.assert_allclose(curvature[:, :, output], slope, atol=1e-8)


def test_extreme_scores_stay_exact(loss):
    if isinstance(loss, SquaredError):
        scores, targets = np.array([-700.0, 700.0]), np.array([1.5, -1.5])
        assert loss.value(scores, targets).tolist() == [0.5 * 701.5**2] * 2
        return
    k = loss.n_outputs
    if k == 1:
        scores, targets = np.array([700.0, -700.0, 700.0, -700.0]), np.array([1.0, 1.0, -1.0, -1.0])
        values, slopes = loss.value_and_derivative(scores, targets)
        tail = np.exp(-700.0)
        np.testing.assert_allclose(values, [tail, 700.0, 700.0, tail], rtol=1e-14)
        np.testing.assert_allclose(slopes, [-tail, -1.0, 1.0, tail], rtol=1e-14)
        np.testing.assert_allclose(loss.curvature(scores, targets), tail, rtol=1e-14)
        return
    scores = np.full((2, k), -700.0)
    scores[:, 0] = 700.0
    values, slopes = loss.value_and_derivative(scores, np.array([0.0, 1.0]))
    np.testing.assert_allclose(values, [0.0, 1400.0], atol=1e-12)
    expected = np.zeros((2, k))
    expected[1, :2] = 1.0, -1.0
    np.testing.assert_allclose(slopes, expected, atol=1e-12)
    assert np.all(loss.curvature(scores, np.zeros(2)) < 1e-300)


def test_hopeless_scores_raise_no_warning(loss):
    sign = np.array([1.0, -1.0])
    scores = 1e6 * sign if loss.n_outputs == 1 else 1e6 * np.outer(sign, np.eye(loss.n_outputs)[0])
    for target in extreme_targets(loss):
        values, slopes = loss.value_and_derivative(scores, np.full(2, target))
        assert np.isfinite(values).all()
        assert np.isfinite(slopes).all()
        assert np.isfinite(loss.curvature(scores, np.full(2, target))).all()


@settings(max_examples=150, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    scale=st.floats(1e-3, 60),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_convex(loss, scale, share, seed):
    first, targets = batch(loss, seed, n=20, scale=scale)
    second, _ = batch(loss, seed + 1, n=20, scale=scale)
    mixed = loss.value(share * first + (1 - share) * second, targets)
    ends = share * loss.value(first, targets) + (1 - share) * loss.value(second, targets)
    assert np.all(mixed <= ends + 1e-12 * (1 + np.abs(ends)))
    eigenvalues = np.linalg.eigvalsh(
        loss.curvature(first, targets).reshape(20, loss.n_outputs, loss.n_outputs)
    )
    assert eigenvalues.min() >= -1e-12
    longest = float(np.linalg.norm(first.reshape(20, -1), axis=1).max())
    assert eigenvalues.max() <= loss.constants(longest).smoothness + 1e-12


def test_two_classes_either_way():
    # softmax scores (-a/2, a/2) are the binary score a
    scores = np.linspace(-30, 30, 61)
    signs = np.where(np.arange(61) % 2, 1.0, -1.0)
    binary, slopes = BinaryLogLoss().value_and_derivative(scores, signs)
    both, both_slopes = MultinomialLogLoss(2).value_and_derivative(
        np.stack([-scores / 2, scores / 2], axis=1), (signs + 1) / 2
    )
    np.testing.assert_allclose(both, binary, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(both_slopes, np.stack([-slopes, slopes], axis=1), atol=1e-15)


def test_arguments_are_not_changed(loss):
    scores, targets = batch(loss, 3)
    kept = scores.copy(), targets.copy()
    loss.value_and_derivative(scores, targets)
    loss.curvature(scores, targets)
    np.testing.assert_array_equal(scores, kept[0])
    np.testing.assert_array_equal(targets, kept[1])
