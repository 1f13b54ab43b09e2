"""Limited losses: infimal convolutions and their derivatives; docs/theory/centring.md."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
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
from tests.helpers.neighbours import random_targets

ONE_OUTPUT = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    SquaredError(),
    Hinge(),
    SmoothedHinge(0.3),
    SquaredHinge(),
    Huber(),
    AbsoluteError(),
    Quantile(0.8),
)
LAYOUTS = {
    "dense": np.asarray,
    "columns": np.asfortranarray,
    "csr": csr_array,
    "single": lambda rows: np.asarray(rows, dtype=np.float32),
}
SIZES, CONSTANT, CLIP = (40, 25), 0.35, 0.3


def make(loss, layout="dense", seed=0):
    rng = np.random.default_rng(seed)
    rows = LAYOUTS[layout](rng.normal(size=(65, 4)) * rng.choice([0.2, 1.0], size=(65, 1)) + 0.3)
    codes = np.repeat([0, 1], SIZES)
    records = RecordEncoder(2, 1.5).encode(rows, random_targets(rng, loss, 65), codes)
    whole = GroupRisks(records, loss, 1.0)
    center = rng.normal(size=4) / 4.0
    return whole, center, whole.centred(center, constant=CONSTANT, clip=CLIP)


def centred_rows(whole, center):
    rows = whole.records.rows
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float)
    return np.column_stack([rows - center, np.full(len(rows), CONSTANT)])


@pytest.mark.parametrize(
    ("loss", "layout"), [*zip(ONE_OUTPUT, 3 * tuple(LAYOUTS), strict=False)], ids=repr
)
def test_a_limited_loss_is_an_infimal_convolution(loss, layout):
    whole, center, risks = make(loss, layout)
    rows = centred_rows(whole, center)
    limits = CLIP / np.linalg.norm(rows, axis=1)
    weights = np.random.default_rng(1).normal(size=5) * 4.0
    targets = whole.records.targets
    least, slopes = [], []
    for score, target, limit in zip(rows @ weights, targets, limits, strict=True):

        def at(b, score=score, target=target, limit=limit):
            value, _ = loss.value_and_derivative(np.array([b]), np.array([target]))
            return float(value[0]) + limit * abs(score - b)

        result = minimize_scalar(at, bounds=(score - 60.0, score + 60.0), method="bounded")
        kinks = [at(b) for b in (score, target, 1.0, -1.0)]
        least.append(min(result.fun, *kinks))
        _, slope = loss.value_and_derivative(np.array([score]), np.array([target]))
        slopes.append(np.clip(slope[0], -limit, limit))
    starts = np.cumsum((0, *SIZES))
    means = [np.mean(least[a:b]) for a, b in pairwise(starts)]
    assert risks.risks(weights) == pytest.approx(means, abs=1e-6)
    each = np.array(slopes)[:, None] * rows
    means = [each[a:b].mean(axis=0) for a, b in pairwise(starts)]
    _, gradients = risks.risks_and_gradients(weights)
    tolerance = 1e-6 if layout == "single" else 1e-12
    np.testing.assert_allclose(gradients, means, atol=tolerance)
    assert np.any(np.abs(slopes) > 0.999 * limits)
    if not isinstance(loss, AbsoluteError | Quantile | Hinge):
        assert np.any(np.abs(slopes) < 0.9 * limits)


def test_several_derivatives_are_shortened_together():
    loss = MultinomialLogLoss(3)
    whole, center, risks = make(loss)
    rows = centred_rows(whole, center)
    weights = np.random.default_rng(1).normal(size=(3, 5)) * 4.0
    _, slopes = loss.value_and_derivative(rows @ weights.T, whole.records.targets)
    limits = CLIP / np.linalg.norm(rows, axis=1)
    fractions = np.minimum(1.0, limits / np.linalg.norm(slopes, axis=1))
    assert 0.1 < (fractions < 1.0).mean() < 0.95
    each = (fractions[:, None] * slopes)[:, :, None] * rows[:, None, :]
    expected = [part.mean(axis=0).ravel() for part in np.split(each, [SIZES[0]])]
    _, gradients = risks.risks_and_gradients(weights.ravel())
    np.testing.assert_allclose(gradients, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "layout"), [*zip(ONE_OUTPUT[:3], ["dense", "columns", "csr"], strict=True)], ids=repr
)
def test_the_hessian_is_that_of_the_limited_loss(loss, layout):
    _, _, risks = make(loss, layout)
    rng = np.random.default_rng(2)
    weights, group_weights, step = rng.normal(size=5), np.array([0.3, 0.7]), 1e-6
    columns = [
        group_weights @ (ahead - behind) / (2.0 * step)
        for ahead, behind in (
            (
                risks.risks_and_gradients(weights + step * axis)[1],
                risks.risks_and_gradients(weights - step * axis)[1],
            )
            for axis in np.eye(5)
        )
    ]
    np.testing.assert_allclose(risks.hessian(weights, group_weights), columns, atol=1e-7)
