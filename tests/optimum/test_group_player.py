"""The game of people: its group player, its optimum beside CVXPY's, its certificate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    MultinomialLogLoss,
    SquaredError,
)
from sklearn_dpwg.optimum import saddle_point, worst_group_optimum
from sklearn_dpwg.optimum.group_player import GroupPlayer, PricedObjective
from tests.helpers.convex_programs import people
from tests.helpers.group_data import make_risks

SIZES = (20, 14, 24, 12, 16, 13, 18)
GAMES = [(price, ridge) for price in (0.01, 0.5) for ridge in (1e-3, 0.0, 0.1)]

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3), Hinge(), AbsoluteError(1.0))


def risks_of(loss, sizes=SIZES):
    made_for = BinaryLogLoss() if isinstance(loss, Hinge) else loss
    risks = make_risks(made_for, sizes, 2, seed=2, label_noise=2.0, apart=0.1)
    return risks.with_loss(loss) if made_for is not loss else risks


def value_of(risks, player, ridge, weights):
    return player.value(risks.risks(weights)) + ridge / 2.0 * weights @ weights


@given(st.integers(0, 10**6))
def test_the_best_response_is_feasible_and_no_other_is_better(seed):
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 8)
    player = GroupPlayer(rng.choice([1e-3, 0.1, 3.0]), rng.integers(5, 5000, p).astype(float))
    values, strength = rng.normal(size=p) * rng.choice([1e-3, 1.0]), rng.choice([0.0, 1e-4, 0.1])
    best = player.respond(values, strength)
    assert best.min() >= 0.0
    assert best.sum() == pytest.approx(1.0, abs=1e-12)

    def reached(mixture):
        return mixture @ values - player.cost(mixture) - strength / 2.0 * mixture @ mixture

    for other in rng.dirichlet(np.ones(p), 50):
        for length in (1e-3, 1.0):
            mixture = best + length * (other - best)
            assert reached(mixture) <= reached(best) + 1e-11
            if strength == 0.0:
                assert reached(mixture) <= reached(other) + player.missed(values, other) + 1e-9
    if strength == 0.0:
        assert player.missed(values, best) <= 1e-9


@pytest.mark.parametrize(("price", "ridge"), GAMES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_agrees_with_the_convex_program(loss, price, ridge):
    risks, player = risks_of(loss), GroupPlayer(price, np.array(SIZES, dtype=float))
    # a wide ball for every other game of a loss, and for every other loss of a game
    radius = (1.0, 15.0)[(LOSSES.index(loss) + GAMES.index((price, ridge))) % 2]
    found = worst_group_optimum(risks, radius=radius, player=player, ridge=ridge)
    expected = people(risks, player, radius=radius, ridge=ridge).value
    assert value_of(risks, player, ridge, found.weights) == pytest.approx(expected, abs=1e-7)
    assert found.gap <= 1e-7


@pytest.mark.parametrize("loss", [BinaryLogLoss(), Hinge()], ids=["smooth", "kinked"])
@pytest.mark.parametrize(("price", "ridge"), GAMES[::4])
def test_the_gap_is_sound_however_early_it_stops(loss, price, ridge):
    risks, player = risks_of(loss), GroupPlayer(price, np.array(SIZES, dtype=float))
    optimum = people(risks, player, radius=3.0, ridge=ridge).value
    for max_newton_steps in (0, 1, 3, 10):
        found = worst_group_optimum(
            risks, radius=3.0, player=player, ridge=ridge, max_newton_steps=max_newton_steps
        )
        excess = value_of(risks, player, ridge, found.weights) - optimum
        assert -1e-7 <= excess <= found.gap + 1e-7


def test_derivatives_are_those_of_the_value():
    player = GroupPlayer(0.3, np.array(SIZES, dtype=float))
    facts = (risks_of(BinaryLogLoss()), 5.0, player.sizes, 1e-2, 0.02, np.zeros(3))
    objective = PricedObjective(*facts, player=player)
    at = objective.evaluate(np.array([0.4, -0.3, 0.2]))
    steps = 1e-5 * np.eye(3)
    both = [[objective.evaluate(at.weights + s * step) for s in (1, -1)] for step in steps]
    gradient = [(up.value - down.value) / 2e-5 for up, down in both]
    hessian = [(up.gradient - down.gradient) / 2e-5 for up, down in both]
    assert at.gradient == pytest.approx(np.array(gradient), abs=1e-8)
    assert objective.hessian(at) == pytest.approx(np.array(hessian), abs=1e-6)


@pytest.mark.parametrize("radius", [0.5, 50.0], ids=["on the sphere", "mostly inside"])
@pytest.mark.parametrize(("price", "ridge"), GAMES)
def test_a_step_among_few_directions_is_that_among_all(price, ridge, radius):
    rng = np.random.default_rng(5)
    player, n_weights = GroupPlayer(price, np.array([40.0, 25.0, 60.0])), 30
    factor = rng.normal(size=(60, n_weights)) * np.geomspace(1e-2, 1.0, n_weights)
    weights = 0.05 * rng.normal(size=n_weights)
    at = weights, rng.normal(size=3), 0.2 * rng.normal(size=(3, n_weights)), factor.T @ factor / 60
    limits = {"radius": radius, "mu_weights": ridge + 1e-6, "tolerance": 1e-10}
    game = saddle_point._GameOfPeople(player, ridge)
    found, mixture = game.step(np.full(3, 1 / 3), *at, **limits)
    expected, of_all = game.solved(*at, **limits)
    assert np.linalg.norm(expected) == pytest.approx(radius) or radius == 50.0
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-2)
    assert mixture == pytest.approx(of_all, abs=1e-3)
    model = saddle_point._Model(*at)
    reached = [value_of(model, player, ridge, each) for each in (found, expected)]
    # a step may leave a thousandth of the slope, here some 20
    assert reached[0] == pytest.approx(reached[1], abs=1e-6)
