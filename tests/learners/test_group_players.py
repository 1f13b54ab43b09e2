"""EXP3 and Hedge against closed forms in many digits, regret bounds, and extremes."""

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


def exact_exp3(prior, rate, loss_clip, moves):
    """Return the logarithms of the weights of EXP3 as the paper writes it, in 60 digits."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**17), 10**17
        logs = [Decimal(float(weight)).ln() for weight in prior]
        for group, loss in moves:
            clipped = Decimal(min(max(loss, 0.0), loss_clip))
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
    player = EXP3(prior, rate, loss_clip=2.0)
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


@given(
    n_groups=st.integers(1, 6),
    rate=st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 1e10, 1e300]),
    moves=st.lists(
        st.tuples(st.integers(0, 5), st.floats(allow_nan=False, allow_infinity=True)), max_size=30
    ),
)
def test_exp3_never_leaves_the_simplex(n_groups, rate, moves):
    player = EXP3(np.ones(n_groups), rate, loss_clip=4.0)
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
