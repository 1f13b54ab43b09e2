"""The optimistic learner against FTRL with hints, and its regret."""

import numpy as np
import pytest

from sklearn_dpwg.solvers.stream.learners import FTRL, OptimisticFTRL
from tests.learners.test_weight_players import ADVERSARIES, Quadratic, to_and_fro


def test_it_is_ftrl_with_the_last_linear_part_as_hint():
    rng = np.random.default_rng(0)
    mine, plain = (kind().start(3, 1.0, 4.0) for kind in (OptimisticFTRL, FTRL))
    last = None
    for step in range(40):
        np.testing.assert_array_equal(mine.predict(), plain.predict(last))
        own = rng.normal(size=3)
        np.testing.assert_array_equal(mine.predict(own), plain.predict(own))
        linear, center = rng.normal(size=(2, 3))
        curvature = rng.exponential() * (step % 2)
        mine.update(linear, curvature, center)
        plain.update(linear, curvature, center)
        last = linear.copy()
        linear[:] = np.nan  # belongs to the caller


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("strength", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("curved", [False, True])
def test_regret_is_within_what_changes(adversary, strength, curved):
    """The bound of `FTRL` with the last linear part in place of the hint."""
    rng = np.random.default_rng(1)
    player = OptimisticFTRL().start(3, 1.0, strength)
    losses, last = Quadratic(3), np.zeros(3)
    total, lost, variation = strength, 0.0, 0.0
    for step in range(100):
        played = player.predict()
        linear = adversary(rng, played, step)
        curves = (0.1 * rng.exponential(), rng.uniform(-0.5, 0.5, 3)) if curved else (0.0, None)
        player.update(linear, *curves)
        one = Quadratic(3)
        one.add(linear, *curves)
        losses.add(linear, *curves)
        total += curves[0]
        lost += one(played)
        variation += np.sum((one.gradient(played) - last) ** 2) / (2.0 * total)
        last = linear
    for best in (losses.least_in_ball(1.0), np.zeros(3)):
        assert lost - losses(best) <= 0.5 * strength * best @ best + variation + 1e-7


def test_what_does_not_change_costs_nothing_after_the_first_round():
    """The regret of a constant loss does not grow; that of FTRL is larger."""
    regrets = {}
    for kind in (FTRL, OptimisticFTRL):
        player = kind().start(2, 1.0, 2.0)
        lost = []
        for _ in range(50):
            lost.append(player.predict()[0] + 1.0)  # the best weights are (-1, 0)
            player.update(np.array([1.0, 0.0]))
        regrets[kind] = np.array(lost)
    assert regrets[OptimisticFTRL].sum() < regrets[FTRL].sum()
    assert regrets[OptimisticFTRL][2:].sum() < 1e-12


def test_terms_of_the_regret():
    """By hand: L = 3, three rounds; the first has no hint, the last sum is never played."""
    variation, rest = OptimisticFTRL().regret_terms(3, 5.0, 3.0)
    assert (variation, rest) == (0.5 * 9.0 + 2 * 0.5 * 36.0, 0.0)
    worst = OptimisticFTRL().start(1, 1.0, 1.0)
    worst.update(to_and_fro(None, np.zeros(1), 0))
