"""The regularised saddle point: its certificate, its agreement with CVXPY, and hard data."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.saddle_point import (
    ON_SPHERE,
    RegularisedObjective,
    attainable_gap,
    minimise_quadratic_on_ball,
    project_to_ball,
    solve_saddle_point,
)
from tests.helpers.convex_programs import mixture, regularised
from tests.helpers.group_data import hard_rows, make_risks, naive

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3))
# what Clarabel can be trusted to
CONIC = 2e-7


def uniform(n):
    return np.full(n, 1.0 / n)


def primal(risks, weights, *, prior, mu_weights, mu_groups, center, **_):
    """The primal objective from naive risks."""
    values = naive(risks, weights)[0]
    smooth_maximum = mu_groups * logsumexp(values / mu_groups, b=prior)
    return smooth_maximum + 0.5 * mu_weights * np.sum((weights - center) ** 2)


# ---- the certificate


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_certificate_is_sound_anywhere(loss, seed):
    rng = np.random.default_rng(seed)
    risks = make_risks(loss, (15, 8, 3), seed=seed)
    facts = {
        "radius": float(rng.choice([0.5, 4.0])),
        "prior": rng.dirichlet(np.ones(3)),
        "mu_weights": float(10 ** rng.uniform(-2, 1)),
        "mu_groups": float(10 ** rng.uniform(-2, 1)),
        "center": rng.normal(size=risks.n_weights),
    }
    objective = RegularisedObjective(risks, **facts)
    best = regularised(risks, **facts)
    ball = {name: facts[name] for name in ("radius", "mu_weights", "center")}
    for length in (0.0, 0.3, 1.0):
        weights = rng.normal(size=risks.n_weights)
        weights *= length * facts["radius"] / np.linalg.norm(weights)
        at = objective.evaluate(weights)
        response = mixture(risks, at.group_weights, **ball)
        divergence = np.sum(at.group_weights * np.log(at.group_weights / facts["prior"]))
        gap = at.value - (response.value - facts["mu_groups"] * divergence)
        assert gap <= at.gap + CONIC
        assert at.value - best.value <= gap + CONIC
        distance = np.linalg.norm(weights - best.weights)
        assert distance <= math.sqrt(2 * at.gap / facts["mu_weights"]) + 1e-3
    near = project_to_ball(best.weights + 1e-3 * rng.normal(size=risks.n_weights), facts["radius"])
    assert objective.evaluate(near).gap < 1e-2 * objective.evaluate(weights).gap


def exact_gap(risks, weights, *, radius, prior, mu_weights, mu_groups, center):
    """The certificate in extended precision; None where the machine has no such floats."""
    wide = np.longdouble
    weights, center = weights.astype(wide), center.astype(wide)
    values, gradients = [], []
    for group in range(risks.n_groups):
        records = risks.records
        part = slice(records.starts[group], records.starts[group + 1])
        rows = records.rows[part].astype(wide)
        rows = np.hstack([rows, np.full((len(rows), 1), wide(risks.intercept_scaling))])
        scores, targets = rows @ weights, records.targets[part].astype(wide)
        if isinstance(risks.loss, BinaryLogLoss):
            values.append(np.logaddexp(wide(0), -targets * scores).mean())
            slopes = -targets / (1 + np.exp(targets * scores))
        else:
            values.append(((scores - targets) ** 2).mean() / 2)
            slopes = scores - targets
        gradients.append(slopes @ rows / len(rows))
    odds = prior.astype(wide) * np.exp((np.array(values) - max(values)) / wide(mu_groups))
    slope = odds / odds.sum() @ np.array(gradients) + mu_weights * (weights - center)
    target = weights - slope / wide(mu_weights)
    norm = np.sqrt(target @ target)
    if norm > radius:  # then weights count as longer by rounding, up to the sphere
        length = np.sqrt(weights @ weights)
        weights = weights * min(1 + ON_SPHERE * (len(weights) + 16), radius / length)
        target = weights - slope / wide(mu_weights)
        norm = np.sqrt(target @ target)
    step = (target if norm <= radius else target * (radius / norm)) - weights
    return -(slope @ step) - wide(mu_weights) / 2 * (step @ step), float(np.sqrt(step @ step))


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no floats of more precision")
@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
@pytest.mark.parametrize("mu_groups", [1e-6, 1e-2, 1e4])
@pytest.mark.parametrize("mu_weights", [1e-4, 1.0])
def test_the_certificate_is_off_by_no_more_than_it_says(loss, mu_groups, mu_weights):
    """The lemma of docs/theory/saddle-point.md, far from the solution and next to it."""
    rng = np.random.default_rng(1)
    unit = float(np.finfo(float).eps)
    for sizes in ((5, 3), (3000, 40, 1)):
        risks = make_risks(loss, sizes, seed=3)
        radius, center = 3.0, rng.normal(size=risks.n_weights)
        facts = {
            "radius": radius, "prior": uniform(len(sizes)), "mu_weights": mu_weights,
            "mu_groups": mu_groups, "center": center,
        }  # fmt: skip
        lipschitz = Problem(loss, sizes, 3, radius, tuple(uniform(len(sizes))), 1.0).lipschitz
        rounding = 100.0 * unit * (lipschitz + mu_weights * (radius + np.linalg.norm(center)))
        of_weights = 10.0 * unit * radius * lipschitz**2 / mu_groups
        objective = RegularisedObjective(risks, **facts)
        near = solve_saddle_point(risks, **facts, tolerance=1e-9).weights
        for weights in (near, *project_to_ball(rng.normal(size=(6, len(near))), 9.0)):
            at = objective.evaluate(project_to_ball(weights, radius))
            exact, length = exact_gap(risks, at.weights, **facts)
            # the first part is a tenth of the allowance, so that what solvers pay for covers it
            allowed = 0.1 * radius * rounding + of_weights * min(
                2.0 * radius, length + of_weights / mu_weights
            )
            # a large gap is a sum of large numbers: its last digits are rounded too
            allowed += 8.0 * unit * float(exact)
            assert abs(float(exact - at.gap)) <= allowed


# ---- agreement


CASES = [
    # radius, μ_w, μ_λ, length of the centre
    (0.3, 1e-2, 0.3, 0.0),
    (0.3, 5.0, 0.02, 4.0),
    (8.0, 1e-2, 0.02, 0.0),
    (8.0, 1.0, 20.0, 1.0),
    (2.0, 0.1, 0.1, 20.0),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("radius", "mu_weights", "mu_groups", "length"), CASES)
def test_agrees_with_a_conic_solver(loss, radius, mu_weights, mu_groups, length):
    risks = make_risks(loss, (20, 9, 5, 1), seed=7)
    rng = np.random.default_rng(8)
    center = rng.normal(size=risks.n_weights)
    facts = {
        "radius": radius, "prior": np.array([0.7, 0.1, 0.15, 0.05]), "mu_weights": mu_weights,
        "mu_groups": mu_groups, "center": center * length / np.linalg.norm(center),
    }  # fmt: skip
    result = solve_saddle_point(risks, **facts)
    expected = regularised(risks, **facts)
    assert result.gap <= 1e-12
    assert np.linalg.norm(result.weights) <= radius * (1 + 1e-12)
    ours = primal(risks, result.weights, **facts)
    assert ours == pytest.approx(expected.value, abs=CONIC)
    np.testing.assert_allclose(result.weights, expected.weights, atol=3e-3)
    assert result.group_weights.sum() == pytest.approx(1.0)


# ---- hard data


KINDS = (
    "plain", "collinear", "zero column", "zero rows", "one row", "tiny", "huge", "separable",
)  # fmt: skip


# every kind with every strength, and with every loss
@pytest.mark.parametrize(
    ("loss", "kind", "mu_groups"),
    [
        (LOSSES[(row + place) % 3], kind, mu_groups)
        for row, kind in enumerate(KINDS)
        for place, mu_groups in enumerate((1e-6, 1e-3, 1e6))
    ],
    ids=str,
)
def test_reaches_the_attainable_gap_on_hard_data(loss, kind, mu_groups):
    # Newton's method alone; the proved fallback is not needed on any of these
    rng = np.random.default_rng(5)
    noise = 0.0 if kind == "separable" else 1.0
    risks = make_risks(
        loss, (12, 6, 1, 5), rows=hard_rows(kind, rng, 24), label_noise=noise, data_norm=1.5
    )
    problem = Problem(loss, (12, 6, 1, 5), 3, 6.0, (0.25,) * 4, 1.0)
    for mu_weights in (1e-4, 1e-1, 1e2):
        tolerance = attainable_gap(6.0, problem.lipschitz, mu_weights, mu_groups=mu_groups)
        result = solve_saddle_point(
            risks, radius=6.0, prior=uniform(4), mu_weights=mu_weights, mu_groups=mu_groups,
            tolerance=tolerance,
        )  # fmt: skip
        assert result.gap <= tolerance
        assert np.linalg.norm(result.weights) <= 6.0 * (1 + 1e-12)


# ---- the quadratic on the ball


@given(
    n=st.integers(1, 6),
    low=st.floats(-20, 8),
    high=st.floats(-20, 8),
    size=st.floats(-20, 8),
    log_radius=st.floats(-3, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_quadratic_on_the_ball(n, low, high, size, log_radius, seed):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    eigenvalues = 10 ** rng.uniform(min(low, high), max(low, high), size=n)
    vector = 10**size * rng.normal(size=n)
    matrix = (basis * eigenvalues) @ basis.T
    radius = 10**log_radius
    result = minimise_quadratic_on_ball(matrix, vector, radius, eigenvalues.min())
    assert np.linalg.norm(result) <= radius * (1 + 1e-12)

    def value(v):
        return 0.5 * v @ matrix @ v - vector @ v

    others = rng.normal(size=(50, n))
    others *= radius * rng.uniform(size=(50, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    nearby = [
        project_to_ball(result + 1e-4 * radius * step, radius) for step in rng.normal(size=(20, n))
    ]
    scale = np.linalg.norm(matrix, 2) * radius**2 + np.linalg.norm(vector) * radius
    for other in [*others, *nearby, np.zeros(n)]:
        assert value(result) <= value(other) + 1e-12 * scale
