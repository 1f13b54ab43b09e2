"""Are the four risks what Kang et al. define? By hand, by their inequalities, at saddle points."""

import math

import numpy as np
import pytest

from sklearn_dpwg.datasets import make_worst_group_classification, make_worst_group_regression
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, SquaredError
from sklearn_dpwg.optimum import project_to_ball, solve_saddle_point, worst_group_optimum
from sklearn_dpwg.optimum.minimax import (
    PopulationRisks,
    Regulariser,
    plain_risk,
    primal_risk,
    project_to_simplex,
    strong_gap,
    weak_gap,
)
from tests.helpers.group_data import make_risks
from tests.helpers.reference import nearest_distribution

RADIUS = 2.0


@pytest.fixture(scope="module", params=[BinaryLogLoss(), SquaredError()], ids=repr)
def data(request):
    return make_risks(request.param, (40, 25, 9), intercept=0.5)


def random_point(risks, seed, radius=RADIUS):
    rng = np.random.default_rng(seed)
    w = project_to_ball(2.0 * rng.normal(size=risks.n_weights), radius)
    return w, rng.dirichlet(np.full(risks.n_groups, 0.5))


def some_regulariser(risks, ridge=0.4):
    rng = np.random.default_rng(9)
    center = 0.3 * rng.normal(size=risks.n_weights)
    return Regulariser(ridge, 0.7 * ridge, center, rng.dirichlet(np.ones(risks.n_groups)))


class ByHand:
    """Two groups with risks (w - 1)²/2 and (w + 1)²/2 of one weight: what is known in closed form.

    At (w, λ), with q = λ_1 - λ_2: plain (w² + 1)/2 - q w, primal (|w| + 1)²/2, and the least risk
    of the mixture is at u = q, (1 - q²)/2.
    """

    n_groups, n_weights = 2, 1

    def risks(self, weights, *, ceiling=None):
        return np.array([(weights[0] - 1.0) ** 2, (weights[0] + 1.0) ** 2]) / 2.0

    def risks_and_gradients(self, weights, *, ceiling=None):
        return self.risks(weights), np.array([[weights[0] - 1.0], [weights[0] + 1.0]])

    def hessian(self, weights, group_weights):
        return np.array([[group_weights.sum()]])


@pytest.mark.parametrize(("w", "mixture"), [(0.0, (0.5, 0.5)), (0.3, (0.9, 0.1)), (-1.5, (0, 1))])
def test_two_groups_and_one_weight_by_hand(w, mixture):
    risks, q = ByHand(), mixture[0] - mixture[1]
    assert plain_risk(risks, [w], mixture) == pytest.approx((w**2 + 1) / 2 - q * w)
    primal = (abs(w) + 1.0) ** 2 / 2.0
    assert primal_risk(risks, [w]) == pytest.approx(primal)
    gap = strong_gap(risks, [w], mixture, radius=RADIUS)
    assert gap == pytest.approx(primal - (1.0 - q**2) / 2.0, abs=1e-7)


def test_the_weak_gap_by_hand():
    """Runs at w = ±1 with all weight on either group: on average the saddle point itself."""
    runs, mixtures = [[1.0], [-1.0]], [[1.0, 0.0], [0.0, 1.0]]
    # mean risks are (0 + 2)/2 in both groups, the mean mixture has least risk 1/2
    assert weak_gap(ByHand(), runs, mixtures, radius=RADIUS) == pytest.approx(0.5, abs=1e-7)
    strong = [
        strong_gap(ByHand(), w, m, radius=RADIUS) for w, m in zip(runs, mixtures, strict=True)
    ]
    assert strong == pytest.approx([2.0, 2.0], abs=1e-7)


@pytest.mark.parametrize("with_ridge", [False, True])
def test_the_weak_gap_is_at_most_the_mean_strong_gap(data, with_ridge):
    regulariser = some_regulariser(data) if with_ridge else None
    facts = {"radius": RADIUS, "regulariser": regulariser}
    for seed in range(6):
        runs = [random_point(data, [seed, run]) for run in range(4)]
        weights, mixtures = zip(*runs, strict=True)
        strong = [strong_gap(data, *run, **facts) for run in runs]
        weak = weak_gap(data, np.array(weights), np.array(mixtures), **facts)
        assert -1e-7 <= weak <= np.mean(strong) + 1e-7
        alone = weak_gap(data, np.array(weights[:1]), np.array(mixtures[:1]), **facts)
        assert alone == pytest.approx(strong[0], abs=2e-8)


def test_runs_on_records_of_their_own(data):
    """Equal records are the case of one risk; of different ones means of risks count."""
    runs = [random_point(data, seed) for seed in range(3)]
    weights, mixtures = (np.array(each) for each in zip(*runs, strict=True))
    one = weak_gap(data, weights, mixtures, radius=RADIUS)
    assert weak_gap([data] * 3, weights, mixtures, radius=RADIUS) == pytest.approx(one, abs=3e-8)
    # by hand: risks of run 0 doubled in weight, at the same point as their own average
    other = make_risks(data.loss, (40, 25, 9), intercept=0.5, seed=5)
    alone = weak_gap([data, other], weights[[0, 0]], mixtures[[0, 0]], radius=RADIUS)
    means = (data.risks(weights[0]) + other.risks(weights[0])) / 2.0
    strong = [strong_gap(each, *runs[0], radius=RADIUS) for each in (data, other)]
    lowest = [
        primal_risk(each, weights[0]) - gap for each, gap in zip((data, other), strong, strict=True)
    ]
    assert alone <= means.max() - np.mean(lowest) + 1e-7  # one u for both is no better than two
    assert alone >= means.max() - mixtures[0] @ means - 1e-7


def test_the_primal_excess_is_between_nothing_and_the_strong_gap(data):
    best = worst_group_optimum(data, radius=RADIUS, tolerance=1e-9)
    least = primal_risk(data, best.weights)
    for seed in range(12):
        w, mixture = random_point(data, seed)
        excess = primal_risk(data, w) - least
        assert -1e-8 <= excess <= strong_gap(data, w, mixture, radius=RADIUS) + 1e-7


def test_all_are_zero_or_equal_at_the_certified_saddle_point(data):
    best = worst_group_optimum(data, radius=RADIUS, tolerance=1e-9)
    at = best.weights, best.group_weights
    assert abs(strong_gap(data, *at, radius=RADIUS)) < 1e-7
    assert plain_risk(data, *at) == pytest.approx(primal_risk(data, best.weights), abs=1e-7)


def test_plain_is_primal_at_the_best_response_and_less_at_others(data):
    ridge = some_regulariser(data)
    for seed in range(20):
        w, mixture = random_point(data, seed)
        response = np.eye(data.n_groups)[data.risks(w).argmax()]
        assert plain_risk(data, w, response) == pytest.approx(primal_risk(data, w))
        response = nearest_distribution(ridge.prior + data.risks(w) / ridge.of_dual)
        primal = primal_risk(data, w, regulariser=ridge)
        assert plain_risk(data, w, response, regulariser=ridge) == pytest.approx(primal)
        assert plain_risk(data, w, mixture, regulariser=ridge) <= primal + 1e-12


def test_the_regularised_minimum_is_that_of_another_solver(data):
    """With all of the prior on the mixture and an infinite μ_λ that is a phase of phased ERM."""
    center = np.full(data.n_weights, 0.1)
    w, mixture = random_point(data, 0)
    ridge = Regulariser(0.4, 0.0, center, mixture)
    other = solve_saddle_point(
        data, radius=RADIUS, prior=mixture, mu_weights=0.4, mu_groups=math.inf, center=center
    )
    least = plain_risk(data, other.weights, mixture, regulariser=ridge)
    gap = strong_gap(data, w, mixture, radius=RADIUS, regulariser=ridge)
    assert gap == pytest.approx(primal_risk(data, w, regulariser=ridge) - least, abs=1e-7)


# --- populations -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [make_worst_group_classification, make_worst_group_regression])
def test_a_known_saddle_point_of_a_population_has_no_gap(make):
    population = make(random_state=0).population
    risks, at = PopulationRisks(population), (population.coef, population.group_weights)
    assert abs(strong_gap(risks, *at, radius=population.radius)) < 1e-6
    assert primal_risk(risks, population.coef) == pytest.approx(population.optimum, abs=1e-9)
    assert plain_risk(risks, *at) == pytest.approx(population.optimum, abs=1e-6)
    away = 0.5 * population.coef
    excess = strong_gap(risks, away, population.group_weights, radius=population.radius)
    assert excess >= population.excess_risk(away) - 1e-8 > 0.0


def test_hessians_of_populations_are_those_of_differences():
    population = make_worst_group_classification(random_state=0).population
    risks, mixture = PopulationRisks(population), population.group_weights
    hessian = risks.hessian(population.coef, mixture)
    step = 1e-4 * np.random.default_rng(0).normal(size=risks.n_weights)
    change = mixture @ (
        population.group_gradients(population.coef + step)
        - population.group_gradients(population.coef - step)
    )
    np.testing.assert_allclose(2.0 * hessian @ step, change, atol=1e-10)
    with pytest.raises(ValueError, match=r"^ceiling must be None for a population"):
        risks.risks(population.coef, ceiling=1.0)


# --- the projection ----------------------------------------------------------------------------


def test_the_projection_is_the_nearest_distribution():
    rng = np.random.default_rng(0)
    for n_groups in (1, 2, 3, 8, 100):
        for scale in (0.0, 1e-3, 1.0, 1e6):
            point = scale * rng.normal(size=n_groups) + rng.choice([0.0, 1e3])
            found = project_to_simplex(point)
            assert (found >= 0.0).all()
            assert found.sum() == pytest.approx(1.0, abs=1e-15)
            np.testing.assert_allclose(found, nearest_distribution(point), atol=1e-9)
    mixture = np.random.default_rng(0).dirichlet(np.ones(7))
    np.testing.assert_allclose(project_to_simplex(mixture), mixture, atol=1e-15)
    assert project_to_simplex(np.array([-1e300, 1e300])).tolist() == [0.0, 1.0]


# --- refusals ----------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    risks = ByHand()
    for call, start in (
        (lambda: plain_risk(risks, [1.0, 2.0], [0.5, 0.5]), "weights must have shape"),
        (lambda: plain_risk(risks, [1.0], [1.0]), "group_weights must be 2 numbers"),
        (lambda: plain_risk(risks, [1.0], [1.5, -0.5]), "group_weights must be 2 numbers"),
        (lambda: plain_risk(risks, [1.0], [0.5, 0.4]), "group_weights must add up to 1"),
        (lambda: weak_gap(risks, [], [], radius=1.0), "weights must hold at least one run"),
        (lambda: weak_gap(risks, 3.0, [[1.0, 0.0]], radius=1.0), "weights must hold a vector"),
        (lambda: weak_gap(risks, [0.5], [[1.0, 0.0]], radius=1.0), "weights must have shape"),
        (lambda: primal_risk(risks, [math.nan]), "weights must hold finite numbers"),
        (lambda: primal_risk(risks, "a"), "weights must hold finite numbers, got 'a'"),
        (lambda: plain_risk(risks, [1.0], ["a"]), "group_weights must hold finite numbers"),
    ):
        with pytest.raises(ValueError, match=f"^{start}"):
            call()
    with pytest.raises(TypeError, match=r"^risks must be group risks, .* got Population"):
        primal_risk(Population(), [1.0])


class Population:
    """Something that has no risks itself."""


@pytest.mark.parametrize("name", ["radius", "tolerance"])
@pytest.mark.parametrize("wrong", [0.0, math.nan, math.inf, "a"])
def test_a_gap_is_refused_for_no_ball_and_no_tolerance(name, wrong):
    limits = {"radius": 1.0, name: wrong}
    for gap, lift in ((strong_gap, lambda value: value), (weak_gap, lambda value: [value])):
        with pytest.raises((ValueError, TypeError), match=f"^{name} must be"):
            gap(ByHand(), lift([0.5]), lift([0.5, 0.5]), **limits)


@pytest.mark.parametrize(
    ("regulariser", "start"),
    [
        (0.1, "regulariser must be a Regulariser or None, got 0.1"),
        (Regulariser(-1.0, 0.1, np.zeros(1), np.ones(2)), "of_weights of regulariser must be at"),
        (Regulariser(0.1, math.inf, np.zeros(1), np.ones(2)), "of_dual of regulariser must be at"),
        (Regulariser(0.1, 0.1, np.zeros(2), np.ones(2)), "center of regulariser must have shape"),
        (Regulariser(0.1, 0.1, np.zeros(1), np.ones(1)), "prior of regulariser must have shape"),
    ],
)
def test_a_regulariser_of_another_game_is_refused(regulariser, start):
    with pytest.raises((ValueError, TypeError), match=f"^{start}"):
        primal_risk(ByHand(), [0.5], regulariser=regulariser)


def test_a_loss_with_kinks_is_refused_where_the_minimum_cannot_be_certified():
    data = make_risks(Hinge(), (40, 25), intercept=0.5)
    w, mixture = random_point(data, 0)
    assert primal_risk(data, w) >= plain_risk(data, w, mixture)
    with pytest.raises(ValueError, match="needs a smooth loss"):
        strong_gap(data, w, mixture, radius=RADIUS)
