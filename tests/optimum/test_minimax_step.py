"""The model of a Newton step: duality closes the gap, and CVXPY agrees."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.optimum.worst_group import minimax_step


def make(n_groups, n_weights, *, seed=0, rank=None, spread=0.1, curvature=1.0, at=0.5, radius=1.0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=n_weights)
    weights *= at * radius / np.linalg.norm(weights)
    factor = rng.normal(size=(n_weights if rank is None else rank, n_weights))
    return {
        "weights": weights,
        "mixture": np.full(n_groups, 1.0 / n_groups),
        "values": 0.5 + spread * rng.uniform(size=n_groups),
        "gradients": 0.3 * rng.normal(size=(n_groups, n_weights)),
        "hessian": curvature * factor.T @ factor / n_weights,
        "radius": radius,
    }


def height(model, point, damping):
    move = point - model["weights"]
    lines = model["values"] + model["gradients"] @ move
    return lines.max() + 0.5 * move @ model["hessian"] @ move + 0.5 * damping * move @ move


def duality_gap(model, point, mixture, damping):
    """What the multipliers prove: the mixture's quadratic is nowhere below its tangent."""
    move = point - model["weights"]
    slope = mixture @ model["gradients"] + model["hessian"] @ move + damping * move
    lines = model["values"] + model["gradients"] @ move
    lost = slope @ point + model["radius"] * np.linalg.norm(slope)
    return lines.max() - mixture @ lines + lost


@pytest.mark.parametrize("n_groups", [1, 2, 7, 40])
@pytest.mark.parametrize(("radius", "at", "active"), [(0.02, 0.9, True), (500.0, 0.0, False)])
@pytest.mark.parametrize(("rank", "damping"), [(None, 1e-9), (2, 0.02)])
def test_agrees_with_cvxpy(n_groups, radius, at, active, rank, damping):
    model = make(n_groups, 5, seed=n_groups, rank=rank, at=at, radius=radius)
    point, mixture = minimax_step(**model, damping=damping)
    assert np.linalg.norm(point) <= radius * (1 + 1e-12)
    assert (np.linalg.norm(point) > 0.999 * radius) == active
    assert mixture.min() >= 0.0
    assert mixture.sum() == pytest.approx(1.0)
    variable = cp.Variable(5)
    move = variable - model["weights"]
    objective = (
        cp.max(model["values"] + model["gradients"] @ move)
        + 0.5 * cp.quad_form(move, cp.psd_wrap(model["hessian"]))
        + 0.5 * damping * cp.sum_squares(move)
    )
    problem = cp.Problem(cp.Minimize(objective), [cp.norm(variable) <= radius])
    problem.solve(solver=cp.CLARABEL)
    assert height(model, point, damping) == pytest.approx(problem.value, abs=1e-7)
    # the slope is rounded, and counts times the radius
    assert duality_gap(model, point, mixture, damping) <= 2e-10 * (1.0 + radius)


@given(
    n_groups=st.integers(1, 30),
    n_weights=st.integers(1, 12),
    rank=st.integers(0, 12),
    log_spread=st.floats(-12, 0),
    log_curvature=st.floats(-3, 1),
    log_radius=st.floats(-1.5, 2),
    at=st.sampled_from([0.0, 0.5, 1.0]),
    copies=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_multipliers_prove_the_minimum(
    n_groups, n_weights, rank, log_spread, log_curvature, log_radius, at, copies, seed
):
    radius = 10**log_radius
    model = make(
        n_groups, n_weights, seed=seed, rank=rank, spread=10**log_spread,
        curvature=10**log_curvature, at=at, radius=radius,
    )  # fmt: skip
    if copies:  # groups that are the same leave the multipliers undetermined
        model["gradients"][:] = model["gradients"][0]
    point, mixture = minimax_step(**model, damping=1e-4)
    assert np.linalg.norm(point) <= radius * (1 + 1e-12)
    assert mixture.min() >= 0.0
    gap = duality_gap(model, point, mixture, 1e-4)
    assert -1e-12 * (1 + radius) <= gap <= 1e-5 * (1 + radius)
