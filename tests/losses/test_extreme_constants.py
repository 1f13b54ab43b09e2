"""Constants at extreme bounds and parameters: exact arithmetic, fine grids, global search."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    MultinomialLogLoss,
    Quantile,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
)
from tests.helpers.loss_attacks import exact_value

BOUNDS = (1e-8, 1e-3, 0.3, 1.0, 3.0, 22.0, 300.0, 1e4, 1e8)
SIZES = (1e-8, 0.25, 1.0, 1.1, 10.0, 1e8)
LOSSES = (
    BinaryLogLoss(),
    Hinge(),
    SquaredHinge(),
    *(SmoothedHinge(width) for width in SIZES),
    *(Huber(*both) for both in itertools.product((1e-8, 1.1, 1e8), (1e-6, 1.0, 1e6))),
    *(SquaredError(bound) for bound in (1e-8, 1.0, 1e8)),
    *(AbsoluteError(bound) for bound in (1e-8, 1.0, 1e8)),
    *(Quantile(*both) for both in itertools.product((1e-12, 0.001, 0.5, 0.999), (1e-8, 1.0, 1e8))),
)
FEW = 4 * np.finfo(float).eps
parametrize_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def exact_derivative(loss, a, y):
    """The largest size of a one-sided difference quotient, far below any width."""
    step = mpmath.mpf(10) ** -40
    here = exact_value(loss, a, y)
    return max(
        abs(exact_value(loss, a + step, y) - here), abs(exact_value(loss, a - step, y) - here)
    ) / step  # fmt: skip


@parametrize_loss
def test_closed_forms_in_fifty_digits(loss):
    """Values are convex in the score and in the target, so extremes are at ends and kinks."""
    with mpmath.workdps(100):
        for r in BOUNDS:
            stated = loss.constants(r)
            end = mpmath.mpf(r)
            target = mpmath.mpf(getattr(loss, "target_bound", 1.0))
            ends = list(itertools.product((-end, end), (-target, target)))
            values = [exact_value(loss, a, y) for a, y in ends]
            lowest = min(values) if loss.task == "binary" else mpmath.mpf(0)
            # a convex loss is steepest at an end
            steepest = max(exact_derivative(loss, a, y) for a, y in ends)
            nothing = max(exact_value(loss, mpmath.mpf(0), y) for y in (-target, target))
            width = max(values) - lowest
            assert float(max(values)) == pytest.approx(stated.supremum, rel=FEW)
            assert abs(float(lowest - stated.infimum)) <= FEW * stated.supremum
            assert float(steepest) == pytest.approx(stated.lipschitz, rel=1e-14)
            assert float(nothing) == pytest.approx(stated.zero_score, rel=FEW)
            # never below the truth, above it by rounding only
            assert width <= stated.loss_range
            assert stated.loss_range <= float(width) + 10 * FEW * stated.supremum


@pytest.mark.parametrize("loss_clip", [0.5, 0.7, 1.0, 5.0, math.inf])
@pytest.mark.parametrize("r", [1e-9, 1e-4, 0.37, 2.0])
def test_a_range_below_a_ceiling_is_never_rounded_down(loss_clip, r):
    for loss in (BinaryLogLoss(), Hinge(), SmoothedHinge(3.0), SquaredHinge(), Huber()):
        stated = loss.constants(r)
        if loss_clip > stated.infimum:
            with mpmath.workdps(60):
                highest = max(exact_value(loss, mpmath.mpf(a), mpmath.mpf(1)) for a in (-r, r))
                lowest = exact_value(loss, mpmath.mpf(r), mpmath.mpf(1))
                lowest = lowest if loss.task == "binary" else mpmath.mpf(0)
                truth = min(mpmath.mpf(loss_clip), highest) - lowest
                assert truth <= stated.range_up_to(loss_clip) <= truth + mpmath.mpf(2e-15) * highest


# ---- gradient diameter


def plane(loss, r, fraction, lengths=(1.0,)):
    """Gradients of all records of a plane that holds the weights, angles dense near right ones."""
    near = np.concatenate([10.0 ** np.linspace(-9, -0.7, 18), np.linspace(0.25, math.pi / 2, 15)])
    half = np.concatenate([-near[::-1], [0.0], near])
    angle = np.concatenate([half, half + math.pi])
    bound = getattr(loss, "target_bound", 1.0)
    targets = [-1.0, 1.0] if loss.task == "binary" else [-bound, 0.0, bound]
    angle, target, length = (
        cells.ravel() for cells in np.meshgrid(angle, np.array(targets), np.array(lengths))
    )
    rows = length * np.array([np.sin(angle), np.cos(angle)])
    return loss.value_and_derivative(fraction * r * rows[0], target)[1] * rows


@parametrize_loss
def test_gradient_diameter_on_a_fine_grid(loss):
    for r in BOUNDS[::2]:
        stated = loss.constants(r)
        largest = 0.0
        for fraction, lengths in ((1.0, (1.0,)), (0.6, (1.0, 0.5)), (1e-3, (1.0,)), (0.0, (1.0,))):
            largest = max(largest, float(pdist(plane(loss, r, fraction, lengths).T).max()))
        assert largest <= stated.gradient_diameter * (1 + FEW)
        assert largest >= 0.96 * stated.gradient_diameter  # the grid is coarse next to kinks
        assert stated.gradient_diameter <= 2 * stated.lipschitz * (1 + FEW)
        assert math.isfinite(stated.gradient_diameter)


# ---- the log loss of many classes


def scores_on_spheres(k, r, rng):
    """Score vectors of norm r: all over, and along the directions that the proofs name."""
    free = rng.normal(size=(4000, k))
    one, rest = np.eye(k)[1], (np.arange(k) > 1).astype(float)
    fraction = np.concatenate([[0.0], 10.0 ** np.linspace(-4, 0, 300)])[:, None]
    up = one + fraction * rest
    arc = up - up.sum(axis=1, keepdims=True) * np.eye(k)[0]
    scores = np.vstack([free, arc, -arc])
    return r * scores / np.linalg.norm(scores, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [2, 3, 7, 200])
def test_constants_of_many_classes(k):
    rng = np.random.default_rng(k)
    loss = MultinomialLogLoss(k)
    for r in (1e-6, 0.1, 1.0, 3.0, 10.0, 100.0, 1e5):
        stated = loss.constants(r)
        scores = scores_on_spheres(k, r, rng)
        values, slopes = loss.value_and_derivative(scores, np.zeros(len(scores)))
        rounding = 1e-14 * (1 + r)
        assert stated.infimum - rounding <= values.min() <= stated.infimum + rounding
        # the arc of the proof reaches the supremum but for the slack of its search
        width = values.max() - stated.infimum
        assert width - rounding <= stated.loss_range <= width * (1 + 3e-4) + rounding
        steepest = np.linalg.norm(slopes, axis=1).max()
        assert 0.8 * stated.lipschitz <= steepest <= stated.lipschitz * (1 + 1e-12)
        assert stated.gradient_diameter == 2 * stated.lipschitz
        if k < 100:
            some = scores[:: max(1, len(scores) // 400)]
            bends = np.linalg.eigvalsh(loss.curvature(some, np.zeros(len(some))))[:, -1]
            assert bends.max() <= stated.smoothness * (1 + 1e-12)
