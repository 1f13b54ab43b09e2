"""Parts are disjoint, of the planned sizes, and drawn by coins alone."""

import inspect

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.data.risks import keyed_parts
from tests.helpers.selections import chosen


@st.composite
def splits(draw):
    n_parts = draw(st.integers(1, 6))
    sizes = draw(st.lists(st.integers(n_parts, 60), min_size=1, max_size=4))
    shares = draw(st.lists(st.floats(1e-6, 1.0), min_size=n_parts, max_size=n_parts))
    return sizes, [share / sum(shares) for share in shares]


@given(splits(), st.integers(0, 2**32))
def test_parts_are_disjoint_and_hold_every_record(split, seed):
    sizes, shares = split
    ends = np.ceil(np.outer(np.cumsum([0.0, *shares]), sizes)).astype(int)
    ends[-1] = sizes
    planned = tuple(map(tuple, np.diff(ends, axis=0).tolist()))
    drawn = keyed_parts(sizes, planned, np.random.default_rng(seed))
    parts = [chosen(part, sizes) for part in drawn]
    assert tuple(tuple(map(len, part)) for part in parts) == planned
    for group, size in enumerate(sizes):
        positions = np.concatenate([part[group] for part in parts])
        assert sorted(positions) == list(range(size))
        assert all((np.diff(part[group]) > 0).all() for part in parts)


def test_parts_may_leave_records_out():
    drawn = keyed_parts([9], [(2,), (2,)], np.random.default_rng(0))
    parts = [chosen(part, [9]) for part in drawn]
    positions = np.concatenate([part[0] for part in parts])
    assert len(set(positions)) == 4


def test_every_record_is_as_likely_in_every_part():
    rng = np.random.default_rng(0)
    n_runs, counts = 4000, np.zeros((2, 6))
    for _ in range(n_runs):
        for part, drawn in enumerate(keyed_parts([6], [(2,), (3,)], rng)):
            counts[part, drawn.positions(0, 0, 6)] += 1
    expected = n_runs * np.array([[2 / 6], [3 / 6]])
    spread = np.sqrt(expected * (1 - expected / n_runs))
    assert np.abs((counts - expected) / spread).max() < 5.0


def test_nothing_but_sizes_and_coins_is_asked_for():
    assert list(inspect.signature(keyed_parts).parameters) == ["sizes", "sizes_of_parts", "rng"]
