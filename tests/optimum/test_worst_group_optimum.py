"""The exact minimax optimum: against CVXPY's epigraph form and populations with a known answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.datasets import make_worst_group_classification
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.optimum.worst_group import smooth_optimum
from tests.helpers.convex_programs import mixture, worst_group
from tests.helpers.group_data import hard_rows, make_risks, naive

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3))
SIZES = {1: (25,), 2: (18, 7), 7: (20, 14, 24, 12, 16, 13, 18)}


def lower_bound(result, radius, values, gradients):
    """What the mixture of groups proves about every vector of weights in the ball."""
    slope = result.group_weights @ gradients
    return result.group_weights @ values - slope @ result.weights - radius * np.linalg.norm(slope)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(
    ("n_groups", "radius", "active"),
    [(1, 0.1, True), (1, 15.0, False), (2, 0.1, True), (2, 1.0, None), (7, 15.0, False)],
)
def test_agrees_with_the_epigraph_form(loss, n_groups, radius, active):
    risks = make_risks(loss, SIZES[n_groups], 2, seed=2, label_noise=2.0, apart=0.1)
    result = worst_group_optimum(risks, radius=radius)
    expected = worst_group(risks, radius=radius)
    values, gradients, _ = naive(risks, result.weights)
    reached = values.max()
    assert reached == pytest.approx(expected.value, abs=1e-6)
    if active is not None:
        assert (np.linalg.norm(result.weights) > 0.999 * radius) == active
    assert np.linalg.norm(result.weights) <= radius * (1 + 1e-12)
    assert result.gap <= 1e-7
    assert risks.n_passes <= 26
    assert reached - result.gap <= lower_bound(result, radius, values, gradients) + 1e-12
    assert result.group_weights.min() >= 0
    assert result.group_weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("max_newton_steps", [0, 3, 500])
def test_gap_is_sound_however_early_it_stops(loss, max_newton_steps):
    risks = make_risks(loss, (18, 7, 4), 2, seed=4)
    optimum = worst_group(risks, radius=3.0).value
    result = worst_group_optimum(risks, radius=3.0, max_newton_steps=max_newton_steps)
    assert result.n_newton_steps <= max_newton_steps
    excess = risks.risks(result.weights).max() - optimum
    assert -1e-7 <= excess <= result.gap + 1e-7
    # the gap is that of the pair: against the best response to the returned mixture as well
    response = mixture(
        risks, result.group_weights, radius=3.0, mu_weights=0.0, center=np.zeros(risks.n_weights)
    )
    assert risks.risks(result.weights).max() - response.value <= result.gap + 1e-7


@given(
    loss=st.sampled_from(LOSSES),
    sizes=st.lists(st.integers(1, 10), min_size=1, max_size=6)
    | st.lists(st.sampled_from([1, 7, 300, 900]), min_size=1, max_size=4),
    log_radius=st.floats(-1.3, 2.0),
    noise=st.sampled_from([0.0, 1.0]),
    kind=st.sampled_from(["plain", "collinear", "zero", "one row"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=15)
def test_gap_on_any_data(loss, sizes, log_radius, noise, kind, seed):
    rng = np.random.default_rng(seed)
    rows = hard_rows(kind, rng, sum(sizes))
    risks = make_risks(loss, sizes, seed=seed, label_noise=noise, rows=rows)
    radius = 10**log_radius
    result = worst_group_optimum(risks, radius=radius)
    # the rounding of risks over a vanishing μ_λ keeps a few of them above the 1e-8 asked for
    assert result.gap <= 1e-8 + 2e-8 * radius
    assert np.linalg.norm(result.weights) <= radius * (1 + 1e-12)
    values, gradients = risks.risks_and_gradients(result.weights)
    reached = values.max()
    least = lower_bound(result, radius, values, gradients)
    assert reached - result.gap <= least + 1e-11 * (1 + reached)
    # nothing random does better
    others = rng.normal(size=(20, risks.n_weights))
    others *= radius * rng.uniform(size=(20, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    nearby = result.weights + 0.01 * radius * rng.normal(size=(20, risks.n_weights))
    nearby *= np.minimum(1.0, radius / np.linalg.norm(nearby, axis=1, keepdims=True))
    for other in np.vstack([others, nearby]):
        assert risks.risks(other).max() >= reached - result.gap - 1e-12


class PopulationRisks:
    """The expected losses of a population's groups, in place of means over records."""

    def __init__(self, population):
        self.population = population
        self.n_groups, self.n_weights = len(population.group_weights), len(population.coef)

    def risks_and_gradients(self, weights, *, loss_clip=None):
        return self.population.group_risks(weights), self.population.group_gradients(weights)

    def risks(self, weights, *, loss_clip=None):
        return self.population.group_risks(weights)

    def hessian(self, weights, group_weights):
        """By differences of gradients: it speeds up a search that gradients certify."""
        gradients = self.population.group_gradients
        steps = 1e-5 * np.eye(self.n_weights)
        moved = [group_weights @ (gradients(weights + e) - gradients(weights - e)) for e in steps]
        return (np.array(moved) + np.array(moved).T) / 4e-5


@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("n_easy", [0, 2])
@pytest.mark.parametrize("seed", range(2))
def test_finds_the_known_optimum_of_a_population(boundary, n_easy, seed):
    made = make_worst_group_classification(
        n_groups=5, n_easy=n_easy, boundary=boundary, random_state=seed
    )
    result = smooth_optimum(PopulationRisks(made.population), radius=made.radius)
    assert result.gap <= 1e-7
    reached = made.population.group_risks(result.weights).max()
    assert made.optimum - 1e-12 <= reached <= made.optimum + result.gap
    np.testing.assert_allclose(result.weights, made.coef, atol=2e-3)
    np.testing.assert_allclose(result.group_weights, made.group_weights, atol=1e-2)
