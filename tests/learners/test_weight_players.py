"""FTRL, optimistic or not: explicit minimisers and regret bounds, without noise and with it."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone

from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, make_prefix_sums
from sklearn_dpwg.solvers.learners import (
    FTRL,
    OptimisticFTRL,
    strength_of_least_regret,
)

BOTH = pytest.mark.parametrize("learner", [FTRL(), OptimisticFTRL()], ids=["ftrl", "optimistic"])
NO_CURVES = (0.0, 0.0)


class Quadratic:
    """A sum of losses ⟨linear, w⟩ + curvature/2 ‖w - center‖², for comparison."""

    def __init__(self, n_weights):
        self.linear, self.curvature, self.constant = np.zeros(n_weights), 0.0, 0.0

    def add(self, linear, curvature=0.0, center=0.0):
        center = np.zeros_like(linear) + center
        self.linear = self.linear + linear - curvature * center
        self.curvature += curvature
        self.constant += 0.5 * curvature * center @ center

    def __call__(self, w):
        return self.linear @ w + 0.5 * self.curvature * w @ w + self.constant

    def gradient(self, w):
        return self.linear + self.curvature * w

    def least_in_ball(self, radius):
        """Return the minimiser by SciPy, which knows nothing of projections."""
        ball = {
            "type": "ineq",
            "fun": lambda w: radius**2 - w @ w,
            "jac": lambda w: -2.0 * w,
        }
        result = minimize(
            self, np.zeros_like(self.linear), jac=self.gradient, constraints=[ball],
            method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        return result.x


# --- what is played ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_ftrl_plays_the_explicit_minimiser(seed):
    rng = np.random.default_rng(seed)
    radius, strength = 2.0, rng.uniform(0.5, 10.0)
    initial = rng.uniform(-1.0, 1.0, 3)
    player = FTRL().start(initial, radius, strength)
    losses = Quadratic(3)
    losses.add(np.zeros(3), strength, initial)
    for _ in range(8):
        expected = copy.copy(losses)
        played = player.predict()
        assert np.linalg.norm(played) <= radius * (1 + 1e-12)
        np.testing.assert_allclose(played, expected.least_in_ball(radius), atol=2e-6)
        loss = (
            rng.normal(size=3),
            rng.choice([0.0, rng.exponential()]),
            rng.normal(size=3),
        )
        player.update(*loss)
        losses.add(*loss)


# --- regret ------------------------------------------------------------------------------------


def signs(rng, played, step):
    return rng.choice([-1.0, 1.0], played.size) / np.sqrt(played.size)


def onwards(rng, played, step):
    """Push outwards: what was played was always wrong."""
    norm = np.linalg.norm(played)
    return played / norm if norm > 1e-9 else np.eye(played.size)[0]


def to_and_fro(rng, played, step):
    return np.eye(played.size)[0] * (-1.0) ** step


def one_way(rng, played, step):
    return np.eye(played.size)[0]


def turning(rng, played, step):
    return np.eye(played.size)[0] * (1.0 if step < 40 else -1.0)


ADVERSARIES = [signs, onwards, to_and_fro, one_way, turning]


def play(learner, adversary, *, n_steps=100, strength=3.0, curved=False, seed=0):
    """Return the regret against the worst comparator, and its bound.

    The worst comparator for a bound with γ/2 ‖u - w_1‖² is the least point of all losses and that.
    """
    rng = np.random.default_rng(seed)
    radius = 1.0
    player = learner.start(initial := rng.uniform(-0.3, 0.3, 3), radius, strength)
    losses, last = Quadratic(3), np.zeros(3)
    total, lost, variation = strength, 0.0, 0.0
    for step in range(n_steps):
        played = player.predict()
        linear = adversary(rng, played, step)
        curves = (rng.exponential() * 0.1, rng.uniform(-0.5, 0.5, 3)) if curved else NO_CURVES
        player.update(linear, *curves)
        one = Quadratic(3)
        one.add(linear, *curves)
        losses.add(linear, *curves)
        total += curves[0]
        lost += one(played)
        # the optimistic learner takes the last linear part for a guess
        expected = last if isinstance(learner, OptimisticFTRL) else np.zeros(3)
        surprise = one.gradient(played) - expected
        variation += surprise @ surprise / (2.0 * total)
        last = linear
    regularised = copy.copy(losses)
    regularised.add(np.zeros(3), strength, initial)
    least = regularised.linear / -regularised.curvature
    least *= min(1.0, radius / np.linalg.norm(least))
    return lost - losses(least), 0.5 * strength * np.sum((least - initial) ** 2) + variation


@given(
    learner=st.sampled_from([FTRL(), OptimisticFTRL()]),
    adversary=st.sampled_from(ADVERSARIES),
    strength=st.floats(0.05, 100.0),
    n_steps=st.integers(1, 60),
    curved=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_regret_is_within_its_bound(learner, adversary, strength, n_steps, curved, seed):
    regret, bound = play(
        learner, adversary, strength=strength, n_steps=n_steps, curved=curved, seed=seed
    )
    assert regret <= bound + 1e-9


# --- planning ----------------------------------------------------------------------------------

FACTS = (2.0, 1.3)  # radius, norm of gradients


def planned(learner, noise, strength=None, facts=FACTS):
    return strength_of_least_regret(clone(learner).set_params(strength=strength), *facts, *noise)


@BOTH
@pytest.mark.parametrize("name", [None, *sorted(PREFIX_SUMS)])
def test_planned_strength_is_the_best(learner, name):
    noise = np.zeros((2, 200))
    if name:
        mechanism = make_prefix_sums(name, n_steps=200, n_dimensions=10)
        noise = mechanism.row_norms(), mechanism.increment_norms()
    best, bound = planned(learner, noise)
    for factor in (0.9, 1.1):
        other, larger = planned(learner, noise, best * factor)
        assert larger > bound
        assert other == best * factor
    if not name:
        variation = 0.5 * 200 if not isinstance(learner, OptimisticFTRL) else 0.5 + 2.0 * 199
        assert bound == pytest.approx(2.0 * 1.3 * np.sqrt(2.0 * variation))
