"""Who takes part follows from a key and a rank alone, however ranks are cut and stored."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sklearn_dpwg.data.risks import record_block
from sklearn_dpwg.data.risks.record_block import keyed_parts
from sklearn_dpwg.privacy.noise import poisson
from sklearn_dpwg.privacy.noise.poisson import PoissonSample

RATES = (1e-4, 0.01, 0.24, 0.26, 0.9, 1.0)


@st.composite
def cuts(draw, most):
    """All ways to cut ranks, some beyond a few chunks of coins."""
    inner = draw(st.lists(st.integers(0, most), max_size=6))
    return [0, *sorted(inner), most]


def check_cuts(chosen, group, edges):
    whole = chosen.positions(group, 0, edges[-1])
    pieces = [chosen.positions(group, a, b) for a, b in pairwise(edges)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert whole.dtype == np.intp
    assert (np.diff(whole) > 0).all()
    return whole


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(poisson, "RANKS_AT_A_TIME", 64)
    monkeypatch.setattr(record_block, "RANKS_AT_A_TIME", 32)


@given(
    rate=st.sampled_from(RATES),
    group=st.integers(0, 3),
    edges=cuts(400),
    key=st.binary(min_size=32, max_size=32),
)
def test_membership_knows_no_cuts(rate, group, edges, key):
    whole = check_cuts(PoissonSample(rate, key), group, edges)
    if rate == 1.0:
        assert whole.tolist() == list(range(400))


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=3), data=st.data(), seed=st.integers(0)
)
def test_parts_know_no_cuts_and_are_disjoint_and_of_exact_size(sizes, data, seed):
    fractions = [[size // 3 for size in sizes], [size // 5 for size in sizes]]
    parts = keyed_parts(sizes, fractions, np.random.default_rng(seed))
    for group, size in enumerate(sizes):
        edges = data.draw(cuts(size))
        first, second = (check_cuts(part, group, edges).tolist() for part in parts)
        assert (len(first), len(second)) == (size // 3, size // 5)
        assert not set(first) & set(second)


def test_keys_travel_and_are_never_shown():
    key = bytes(range(100, 132))
    (part,) = keyed_parts([9], [(4,)], np.random.default_rng(0))
    for one in (PoissonSample(0.5, key), part):
        again = pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(again.positions(0, 0, 9), one.positions(0, 0, 9))
        for secret in (key, part.key):
            assert repr(secret)[2:-1] not in repr(one)
            assert secret.hex() not in repr(one)
        assert "key" not in repr(one)


# --- coins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.3])
def test_coins_have_the_rate_and_know_nothing_of_each_other(rate):
    """Over keys, groups, chunks, and neighbouring ranks on either side of a chunk's end."""
    n_keys, n = 600, 256
    coins = np.zeros((n_keys, 2, n), dtype=bool)
    for index in range(n_keys):
        sample = PoissonSample(rate, index.to_bytes(32, "big"))
        for group in (0, 1):
            coins[index, group, sample.positions(group, 0, n)] = True
    assert stats.binomtest(int(coins.sum()), coins.size, rate).pvalue > 1e-6
    of_rank = coins.sum(axis=(0, 1))
    assert stats.binom.sf(of_rank.max() - 1, 2 * n_keys, rate) > 1e-6 / n
    assert stats.binom.cdf(of_rank.min(), 2 * n_keys, rate) > 1e-6 / n
    pairs = {
        "groups": (coins[:, 0], coins[:, 1]),
        "chunks": (coins[..., :64], coins[..., 64:128]),
        "neighbours": (coins[..., 1:], coins[..., :-1]),
        "keys": (coins[1:], coins[:-1]),
    }
    for one, other in pairs.values():
        assert stats.binomtest(int((one & other).sum()), one.size, rate**2).pvalue > 1e-6


# --- parts ---------------------------------------------------------------------------------------


def test_all_orders_are_as_likely(monkeypatch):
    """Parts of one record each are a permutation."""
    size = 3
    for at_a_time in (2, 2**14):
        monkeypatch.setattr(record_block, "RANKS_AT_A_TIME", at_a_time)
        rng, n_keys = np.random.default_rng(at_a_time), 600
        drawn = [
            [int(part.positions(0, 0, size)[0]) for part in keyed_parts([size], [(1,)] * size, rng)]
            for _ in range(n_keys)
        ]
        _, counts = np.unique(drawn, axis=0, return_counts=True)
        assert len(counts) == 6
        assert stats.chisquare(counts).pvalue > 1e-6
