"""Coin betting in a ball: its regret against everything, and what it is made of."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.solvers.learners import ParameterFree, betting_regret
from tests.learners.test_weight_players import ADVERSARIES

RADIUS = 2.0


def play(adversary, *, n_steps, strength, wealth, radius=RADIUS, seed=0, curved=False):
    """Return a worst surplus over the bound, for comparators in all directions and distances."""
    rng = np.random.default_rng(seed)
    learner = ParameterFree(wealth=wealth)
    start = rng.uniform(-0.15, 0.15, 3) * radius
    player = learner.start(start, radius, strength)
    played, active = [], []
    for step in range(n_steps):
        played.append(player.predict())
        assert np.linalg.norm(played[-1]) <= radius * (1 + 1e-12)
        linear = adversary(rng, played[-1], step)
        curves = (0.2, np.full(3, 0.1)) if curved else (0.0, 0.0)
        player.update(linear, *curves)
        active.append(linear + curves[0] * (played[-1] - curves[1]))
    played, active = np.array(played), np.array(active)
    norms = np.linalg.norm(active, axis=1)
    active *= np.minimum(1.0, strength / np.maximum(norms, 1e-300))[:, None]
    lost, total = (played * active).sum(), active.sum(axis=0)
    directions = [-total / max(np.linalg.norm(total), 1e-300), *rng.normal(size=(20, 3))]
    worst = -math.inf
    for direction in directions:
        direction = direction / max(np.linalg.norm(direction), 1e-300)
        for distance in np.geomspace(1e-6, 2 * radius, 25):
            other = start + distance * direction
            if np.linalg.norm(other) > radius:
                continue
            bound = betting_regret(learner, n_steps, radius, strength, distance)
            worst = max(worst, (lost - total @ other) / bound)
    return max(worst, (lost - total @ start) / (strength * wealth * radius))


@given(
    adversary=st.sampled_from(ADVERSARIES),
    strength=st.floats(0.3, 10.0),
    wealth=st.floats(1e-3, 3.0),
    n_steps=st.integers(1, 120),
    radius=st.sampled_from([0.35, 2.0, 1e3]),
    curved=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_regret_is_within_its_bound_at_every_distance(
    adversary, strength, wealth, n_steps, radius, curved, seed
):
    result = play(
        adversary,
        n_steps=n_steps,
        strength=strength,
        wealth=wealth,
        radius=radius,
        seed=seed,
        curved=curved,
    )
    assert result <= 1.0 + 1e-9


def test_magnitude_is_krichevsky_trofimov():
    """In one dimension, with one sign, by hand: the bet is the mean outcome times the wealth."""
    player = ParameterFree(wealth=0.5).start(np.zeros(1), 1e6, 1.0)
    wealth, outcomes, direction = 0.5e6, 0.0, 0.0
    for step in range(1, 12):
        bet = outcomes / step * wealth
        assert player.predict()[0] == pytest.approx(bet * direction)
        player.update(np.array([0.25]))
        outcome = -0.25 * direction
        wealth += outcome * bet
        outcomes += outcome
        direction = -1.0  # the first step of the direction is longer than the ball
