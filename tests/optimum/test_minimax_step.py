"""The model of a Newton step: duality closes the gap, and CVXPY agrees."""

import importlib

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.optimum.newton import minimax_step

minimax_step_module = importlib.import_module("sklearn_dpwg.optimum.newton")


def make(n_groups, n_weights, *, seed=0, rank=None, spread=0.1, curvature=1.0, at=0.5, radius=1.0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=n_weights)
    weights *= at * radius / np.linalg.norm(weights)
    factor = rng.normal(size=(n_weights if rank is None else rank, n_weights))
    return {
        "weights": weights,
        "values": 0.5 + spread * rng.uniform(size=n_groups),
        "gradients": 0.3 * rng.normal(size=(n_groups, n_weights)),
        "hessian": curvature * factor.T @ factor / n_weights,
        "radius": radius,
    }


def height(model, point, mu_weights):
    move = point - model["weights"]
    lines = model["values"] + model["gradients"] @ move
    return lines.max() + 0.5 * move @ model["hessian"] @ move + 0.5 * mu_weights * point @ point


def duality_gap(model, point, mixture, mu_weights):
    """What the multipliers prove: the mixture's quadratic is nowhere below its tangent."""
    move = point - model["weights"]
    slope = mixture @ model["gradients"] + model["hessian"] @ move + mu_weights * point
    lines = model["values"] + model["gradients"] @ move
    lost = slope @ point + model["radius"] * np.linalg.norm(slope)
    return lines.max() - mixture @ lines + lost


@pytest.mark.parametrize("n_groups", [1, 2, 7, 40])
@pytest.mark.parametrize(("radius", "at", "active"), [(0.02, 0.9, True), (500.0, 0.0, False)])
@pytest.mark.parametrize(("rank", "mu_weights"), [(None, 1e-9), (2, 0.02)])
def test_agrees_with_cvxpy(n_groups, radius, at, active, rank, mu_weights):
    model = make(n_groups, 5, seed=n_groups, rank=rank, at=at, radius=radius)
    point, mixture = minimax_step(**model, mu_weights=mu_weights, tolerance=1e-11)
    assert np.linalg.norm(point) <= radius * (1 + 1e-12)
    assert (np.linalg.norm(point) > 0.999 * radius) == active
    assert mixture.min() >= 0.0
    assert mixture.sum() == pytest.approx(1.0)
    variable = cp.Variable(5)
    move = variable - model["weights"]
    objective = (
        cp.max(model["values"] + model["gradients"] @ move)
        + 0.5 * cp.quad_form(move, cp.psd_wrap(model["hessian"]))
        + 0.5 * mu_weights * cp.sum_squares(variable)
    )
    problem = cp.Problem(cp.Minimize(objective), [cp.norm(variable) <= radius])
    problem.solve(solver=cp.CLARABEL)
    assert height(model, point, mu_weights) == pytest.approx(problem.value, abs=1e-7)
    # the slope is rounded, and counts times the radius
    assert duality_gap(model, point, mixture, mu_weights) <= 2e-10 * (1.0 + radius)


def test_many_columns_are_factorised_once_a_multiplier(monkeypatch):
    model = make(12, 80, seed=3, radius=3.0)
    model["hessian"] += 0.1 * np.eye(80)
    factorised, sizes = minimax_step_module._factorised, []

    def counted(matrix):
        sizes.append(len(matrix))
        return factorised(matrix)

    monkeypatch.setattr(minimax_step_module, "_factorised", counted)
    found = []
    for least in (minimax_step_module.CURVED, np.inf):  # the other way factorises every iteration
        monkeypatch.setattr(minimax_step_module, "CURVED", least)
        point, mixture = minimax_step(**model, mu_weights=1e-9, tolerance=1e-5)
        assert duality_gap(model, point, mixture, 1e-9) <= 1e-4
        found.append((point, len(sizes)))
        sizes.clear()
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-3)
    assert found[0][1] < found[1][1] / 3


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
    point, mixture = minimax_step(**model, mu_weights=1e-4, tolerance=1e-10)
    assert np.linalg.norm(point) <= radius * (1 + 1e-12)
    assert mixture.min() >= 0.0
    gap = duality_gap(model, point, mixture, 1e-4)
    assert -1e-12 * (1 + radius) <= gap <= 1e-5 * (1 + radius)


def test_ends_with_its_best_where_rounding_has_the_last_word(monkeypatch):
    """Iterations past the last digit drift off without end: they stop, and are not returned."""
    counts, factorise = [], minimax_step_module.dpotrf

    def counted(*args, **settings):
        counts[-1] += 1
        return factorise(*args, **settings)

    monkeypatch.setattr(minimax_step_module, "dpotrf", counted)
    for seed in range(30):
        counts.append(0)
        model = make(6, 20, seed=seed, at=0.01, radius=100.0)
        basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(20, 20)))[0]
        model["hessian"] = (basis * np.logspace(-12, -1, 20)) @ basis.T
        model["gradients"] = model["gradients"] @ model["hessian"]
        point, mixture = minimax_step(**model, mu_weights=1e-15, tolerance=1e-20)
        assert duality_gap(model, point, mixture, 1e-15) <= 1e-9
    assert np.median(counts) <= 20
