"""EXP3 and Hedge against closed forms in many digits, regret bounds, and extremes."""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from sklearn_dpwg.solvers.learners import EXP3, Hedge


class Uniform:
    """A generator of given numbers."""

    def __init__(self, *numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


def exact_exp3(prior, rate, ceiling, moves):
    """Return the logarithms of the weights of EXP3 as the paper writes it, in 60 digits."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**17), 10**17
        logs = [Decimal(float(weight)).ln() for weight in prior]
        for group, loss in moves:
            clipped = Decimal(min(max(loss, 0.0), ceiling))
            logs[group] -= Decimal(rate) * clipped / logs[group].exp()
            total = sum(log.exp() for log in logs).ln()
            logs = [log - total for log in logs]
        return [float(log) for log in logs]


# --- what is played ----------------------------------------------------------------------------


@given(
    prior=st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5),
    rate=st.floats(1e-4, 3.0),
    moves=st.lists(st.tuples(st.integers(0, 4), st.floats(-1.0, 3.0)), max_size=40),
)
def test_exp3_is_the_papers_in_many_digits(prior, rate, moves):
    player = EXP3(prior, rate, ceiling=2.0)
    played = []
    for group, loss in moves:
        group %= len(prior)
        # a smaller weight is drawn once in 10^50 rounds; its own test is below
        if player.group_weights[group] < 1e-50:
            continue
        played.append((group, loss))
        player.update(group, loss)
    expected = np.array(exact_exp3(player.prior, rate, 2.0, played))
    np.testing.assert_allclose(
        player.group_weights, np.exp(np.maximum(expected, -750.0)), rtol=1e-8, atol=1e-300
    )
    assert player.group_weights.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("depth", [1e-10, 1e-100, 1e-200, 1e-300])
def test_exp3_down_to_tiny_weights(depth):
    prior = Hedge([1.0, depth], rate=0.0).prior
    for loss in (1e-290, 0.3, 2.0):
        player = EXP3(prior, rate=0.5, ceiling=2.0)
        assert player.group_weights[1] == pytest.approx(depth, rel=1e-12)
        player.update(1, loss)
        expected = np.exp(exact_exp3(prior, 0.5, 2.0, [(1, loss)]))
        assert player.group_weights == pytest.approx(expected, rel=1e-9, abs=1e-307)
        player.update(0, loss)  # the heavy one pays a little, and is heavy again
        assert player.group_weights[0] == pytest.approx(1.0, rel=1e-9)


@given(
    n_groups=st.integers(1, 6),
    rate=st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 1e10, 1e300]),
    moves=st.lists(
        st.tuples(st.integers(0, 5), st.floats(allow_nan=False, allow_infinity=True)), max_size=30
    ),
)
def test_exp3_never_leaves_the_simplex(n_groups, rate, moves):
    player = EXP3(np.ones(n_groups), rate, ceiling=4.0)
    for group, loss in moves:
        player.update(group % n_groups, loss)
        weights = player.group_weights
        assert np.isfinite(weights).all()
        assert (weights >= 0.0).all()
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        group = player.sample(Uniform(0.999999999))
        assert weights[group] > 0.0


def test_hedge_is_a_softmax():
    rng = np.random.default_rng(0)
    prior, losses = rng.dirichlet(np.ones(5)), rng.normal(size=(200, 5))
    player = Hedge(prior, rate=0.3)
    for step, loss in enumerate(losses):
        expected = softmax(np.log(prior) - 0.3 * losses[:step].sum(axis=0))
        np.testing.assert_allclose(player.group_weights, expected, rtol=1e-11)
        player.update(loss)


def test_hedge_at_extremes():
    player = Hedge([0.5, 0.5], rate=1e300)
    for losses in ([1e8, 0.0], [-1e8, 0.0], [0.0, 0.0], [-1e8, -1e8]):
        player.update(np.array(losses))
        assert player.group_weights.sum() == 1.0
    gentle = Hedge([0.5, 0.5], rate=1.0)
    for _ in range(3):
        gentle.update(np.array([300.0, 0.0]))
    assert gentle.group_weights[0] == 0.0
    for _ in range(3):
        gentle.update(np.array([0.0, 300.0]))
    np.testing.assert_allclose(gentle.group_weights, [0.5, 0.5])


# --- draws -------------------------------------------------------------------------------------


def test_draws_follow_the_weights():
    player = Hedge([0.2, 0.5, 0.3], rate=1.0)
    for uniform, group in [(0.0, 0), (0.19, 0), (0.21, 1), (0.69, 1), (0.71, 2), (1 - 2**-53, 2)]:
        assert player.sample(Uniform(uniform)) == group
    rng = np.random.default_rng(0)
    drawn = np.bincount([player.sample(rng) for _ in range(20_000)], minlength=3) / 20_000
    np.testing.assert_allclose(drawn, player.prior, atol=0.02)


def test_groups_without_weight_are_never_drawn():
    player = Hedge([0.25, 0.25, 0.25, 0.25], rate=1.0)
    player.update(np.array([1e6, 0.0, 0.0, 1e6]))
    assert player.group_weights.tolist() == [0.0, 0.5, 0.5, 0.0]
    for uniform in (0.0, 0.3, 0.5, 0.7, 1.0 - 2**-53, 1.0):
        assert player.sample(Uniform(uniform)) in {1, 2}


# --- regret ------------------------------------------------------------------------------------


def exp3_rate(n_groups, n_steps):
    """Return the rate of least regret for a uniform prior and losses in [0, 1]."""
    return math.sqrt(2.0 * math.log(n_groups) / (n_groups * n_steps))


def hedge_rate(n_groups, n_steps):
    return math.sqrt(8.0 * math.log(n_groups) / n_steps)


def expected_exp3_regret(losses, prior, rate):
    """Return the exact expected regret against each group, over all sequences of draws."""
    n_steps, n_groups = losses.shape
    lost = 0.0
    for path in itertools.product(range(n_groups), repeat=n_steps):
        player, probability, total = EXP3(prior, rate, ceiling=1.0), 1.0, 0.0
        for step, group in enumerate(path):
            probability *= player.group_weights[group]
            total += losses[step, group]
            player.update(group, losses[step, group])
        lost += probability * total
    return lost - losses.sum(axis=0)


def loss_sequences(n_steps, n_groups, seed):
    rng = np.random.default_rng(seed)
    first = np.tile(np.eye(n_groups)[0], (n_steps, 1))
    yield from (first, 1.0 - first)
    yield np.eye(n_groups)[np.arange(n_steps) % n_groups]
    yield np.eye(n_groups)[np.arange(n_steps) * min(n_groups, 2) // n_steps]
    yield rng.integers(0, 2, size=(n_steps, n_groups)).astype(float)


@pytest.mark.parametrize(("n_groups", "n_steps"), [(1, 5), (2, 7), (3, 5)])
@pytest.mark.parametrize("factor", [0.1, 1.0, 5.0])
def test_expected_exp3_regret_is_within_its_bound(n_groups, n_steps, factor):
    rate = factor * exp3_rate(n_groups, n_steps)
    prior = np.arange(1.0, n_groups + 1.0) / (n_groups * (n_groups + 1) / 2)
    for losses in loss_sequences(n_steps, n_groups, seed=n_steps):
        found = expected_exp3_regret(losses, prior, rate)
        # theorem 5, with the losses that came
        own = np.where(prior < 1.0, -np.log(prior) / (rate or 1.0), 0.0)
        own += 0.5 * rate * np.sum(losses**2)
        assert (found <= own + 1e-12).all()


def hedge_regret(adversary, n_groups, n_steps, rate):
    player, lost, totals = Hedge(np.ones(n_groups), rate), 0.0, np.zeros(n_groups)
    for step in range(n_steps):
        losses = adversary(player, step)
        lost += player.group_weights @ losses
        totals += losses
        player.update(losses)
    return lost - totals.min(), math.log(n_groups) / rate + rate * n_steps / 8.0


@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("n_groups", [2, 5, 80])
def test_hedge_regret_is_within_its_bound(n_groups, factor):
    rng = np.random.default_rng(0)
    n_steps = 200
    rate = factor * hedge_rate(n_groups, n_steps)
    adversaries = [
        lambda player, step: np.eye(n_groups)[int(np.argmax(player.group_weights))],
        lambda player, step: -np.eye(n_groups)[int(np.argmin(player.group_weights))],
        lambda player, step: rng.integers(0, 2, n_groups) - 0.5,
        lambda player, step: np.arange(n_groups) % 2 - 1.0,
    ]
    for adversary in adversaries:
        regret, bound = hedge_regret(adversary, n_groups, n_steps, rate)
        assert regret <= bound
