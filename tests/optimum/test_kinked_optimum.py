"""Optima of the newer losses: against CVXPY's epigraph form, with certificates that hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Quantile,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
)
from sklearn_dpwg.optimum import worst_group_optimum
from tests.helpers.convex_programs import mixture, worst_group
from tests.helpers.group_data import hard_rows, make_risks

KINKED = (Hinge(), AbsoluteError(), Quantile(0.9))
SMOOTH = (SmoothedHinge(), SmoothedHinge(0.1), SquaredHinge(), Huber(), BinaryLogLoss(0.7))
SIZES = {1: (25,), 3: (18, 7, 14)}


def make(loss, sizes, n_features=2, **settings):
    like = BinaryLogLoss() if loss.task == "binary" else SquaredError(1.0)
    return make_risks(like, sizes, n_features, **settings).with_loss(loss)


def least_of_mixture(risks, result, radius):
    facts = {"radius": radius, "mu_weights": 0.0, "center": np.zeros(risks.n_weights)}
    return mixture(risks, result.group_weights, **facts).value


def assert_optimal(risks, radius, active, *, gap, conic_error):
    result = worst_group_optimum(risks, radius=radius)
    assert result.gap <= gap
    norm, reached = np.linalg.norm(result.weights), risks.risks(result.weights).max()
    assert norm <= radius * (1 + 1e-12)
    if active or reached > 1e-6:  # where nothing is lost, any length may do
        assert (norm > 0.999 * radius) == active
    assert reached == pytest.approx(worst_group(risks, radius=radius).value, abs=conic_error)
    assert result.group_weights.min() >= 0
    assert result.group_weights.sum() == pytest.approx(1.0)
    # the mixture is part of the certificate
    least = least_of_mixture(risks, result, radius)
    assert reached - least <= result.gap + conic_error


@pytest.mark.parametrize("loss", [*KINKED, *SMOOTH], ids=repr)
@pytest.mark.parametrize(
    ("n_groups", "radius", "active"), [(1, 15.0, False), (3, 0.05, True), (3, 15.0, False)]
)
def test_agrees_with_the_epigraph_form(loss, n_groups, radius, active):
    risks = make(loss, SIZES[n_groups], seed=2, label_noise=2.0, apart=0.1)
    assert_optimal(risks, radius, active, gap=2e-8, conic_error=2e-7)


@given(
    loss=st.sampled_from(KINKED),
    sizes=st.lists(st.integers(1, 10), min_size=1, max_size=5),
    log_radius=st.floats(-1.3, 1.3),
    kind=st.sampled_from(["plain", "collinear", "zero", "one row"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=15)
def test_gap_on_any_data(loss, sizes, log_radius, kind, seed):
    rng = np.random.default_rng(seed)
    rows = hard_rows(kind, rng, sum(sizes))
    risks = make(loss, sizes, 3, seed=seed, rows=rows)
    radius = 10**log_radius
    result = worst_group_optimum(risks, radius=radius)
    assert result.gap <= 1e-6
    assert np.linalg.norm(result.weights) <= radius * (1 + 1e-12)
    reached = risks.risks(result.weights).max()
    nearby = result.weights + 0.01 * radius * rng.normal(size=(20, risks.n_weights))
    nearby *= np.minimum(1.0, radius / np.linalg.norm(nearby, axis=1, keepdims=True))
    for other in nearby:
        assert risks.risks(other).max() >= reached - result.gap - 1e-12


@pytest.mark.parametrize("loss", KINKED, ids=repr)
def test_a_broken_supporting_line_would_show(loss, monkeypatch):
    """Lines that cut into the loss make the bound from below too high: the gap collapses."""
    risks = make(loss, (18, 7), seed=5)
    stand_in = type(loss.smoothed(1.0))
    honest = worst_group_optimum(risks, radius=3.0, max_newton_steps=4)
    exact = stand_in.value_and_derivative
    monkeypatch.setattr(
        stand_in,
        "value_and_derivative",
        lambda self, a, y: exact(replace(self, is_lines=False), a, y),
    )
    broken = worst_group_optimum(risks, radius=3.0, max_newton_steps=4)
    optimum = worst_group(risks, radius=3.0).value
    assert risks.risks(honest.weights).max() - optimum <= honest.gap
    assert risks.risks(broken.weights).max() - optimum > broken.gap
