"""Rows are clipped, divided and sorted by public rules, one row at a time."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from sklearn_dpwg.data import threads
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.rows import ENTRIES_PER_GATHER


def encode(rows, codes=None, data_norm=1.0, n_groups=None):
    rows = np.asarray(rows, dtype=float)
    codes = np.zeros(len(rows), dtype=np.intp) if codes is None else np.asarray(codes)
    n_groups = int(codes.max()) + 1 if n_groups is None else n_groups
    return RecordEncoder(n_groups, data_norm).encode(rows, np.arange(float(len(rows))), codes)


UNIT = 2.0**-16


def scaled(records):
    """Return rows in double precision: whole, and none longer than 1, without rounding."""
    rows = records.rows.toarray() if isinstance(records.rows, csr_array) else records.rows
    assert rows.dtype == np.float32
    whole = rows.astype(float) / UNIT
    assert np.array_equal(whole, np.rint(whole))
    assert (np.sum(whole**2, axis=1) <= 2.0**32).all()
    return rows.astype(float)


def assert_cut(result, exact):
    """Compare with exact rows: cut towards zero, but for the rounding of a factor."""
    assert (np.abs(result) <= np.abs(exact) * (1.0 + 1e-13)).all()
    assert (np.abs(result - exact) <= 1.1 * UNIT).all()
    assert (result * exact >= 0.0).all()


@given(
    rows=arrays(
        float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-1e308, 1e308)
    ),
    data_norm=st.floats(1e-300, 1e300),
)
def test_norms_at_most_one_whatever_comes(rows, data_norm):
    assert np.isfinite(scaled(encode(rows, data_norm=data_norm))).all()


@given(
    exponent=st.integers(-140, 140),
    data_exponent=st.integers(-140, 140),
    seed=st.integers(0, 2**32 - 1),
)
def test_clipped_and_divided(exponent, data_exponent, seed):
    # powers of two scale without rounding, so the expected rows are known at every size
    rows = np.random.default_rng(seed).normal(size=(5, 3))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    ratio = 2.0 ** (3 * (exponent - data_exponent))
    expected = rows / norms * np.minimum(norms * ratio, 1.0)
    result = scaled(encode(rows * 2.0 ** (3 * exponent), data_norm=2.0 ** (3 * data_exponent)))
    assert_cut(result, expected)


@given(
    rows=arrays(
        np.float32,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.floats(-(2.0**126), 2.0**126, width=32),
    ),
    data_norm=st.floats(1e-300, 1e300),
)
def test_single_precision_and_sparse_rows_have_norms_at_most_one(rows, data_norm):
    codes = np.zeros(len(rows), dtype=np.intp)
    encoder = RecordEncoder(1, data_norm)
    dense = scaled(encoder.encode(rows, np.zeros(len(rows)), codes))
    np.testing.assert_array_equal(dense, scaled(encode(rows.astype(float), data_norm=data_norm)))
    sparse = scaled(encoder.encode(csr_array(rows), np.zeros(len(rows)), codes))
    assert np.abs(sparse - dense).max() <= 1.1 * UNIT


@given(codes=st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_groups_are_together_and_keep_their_order(codes):
    codes = np.array(codes)
    rows = np.arange(1.0, len(codes) + 1)[:, None]
    records = encode(rows, codes, data_norm=64.0, n_groups=5)
    assert records.group_sizes == tuple(int((codes == group).sum()) for group in range(5))
    for group in range(5):
        part = slice(records.starts[group], records.starts[group + 1])
        members = np.flatnonzero(codes == group)
        np.testing.assert_array_equal(records.rows[part, 0], rows[members, 0] / 64.0)
        np.testing.assert_array_equal(records.targets[part], members)


@pytest.mark.parametrize(
    "layout", [*product("CF", [np.s_[:], np.s_[:, ::2], np.s_[::-1]])], ids=str
)
@pytest.mark.parametrize(("n_threads", "dtype"), [(1, np.float32), (3, np.float64)])
def test_rows_are_cut_alike_however_they_lie(layout, dtype, n_threads, monkeypatch):
    """Bit for bit what each row gives by itself, whatever the threads, the layout and the order."""
    monkeypatch.setattr(threads, "n_threads", lambda: n_threads)
    rng = np.random.default_rng(0)
    n_records = 3 * ENTRIES_PER_GATHER // 6 + 5
    rows = np.asarray(rng.normal(size=(n_records, 12)), dtype=dtype, order=layout[0])[layout[1]]
    rows.flags.writeable = dtype == np.float64
    codes = rng.choice([0, 1, 3], p=[0.8, 0.15, 0.05], size=len(rows))
    codes[-1] = 5
    targets = rng.normal(size=len(rows))
    by_group = np.argsort(codes, kind="stable")
    records = RecordEncoder(7, 3.5, hides_groups=True, first_place=9).encode(rows, targets, codes)
    np.testing.assert_array_equal(records.targets, targets[by_group])
    np.testing.assert_array_equal(records.places, by_group + 9)
    for place in range(0, len(rows), 9973):
        alone = encode(rows[by_group[place]][None], data_norm=3.5)
        np.testing.assert_array_equal(scaled(alone)[0], records.rows[place])


@given(
    position=st.integers(0, 11),
    size=st.sampled_from([0.0, 1e-300, 0.1, 1.0, 1e90, 1e150, 1e200, 1e308]),
    seed=st.integers(0, 2**32 - 1),
    shuffled=st.booleans(),
)
def test_one_record_changes_one_row(position, size, seed, shuffled):
    # the sensitivity of every release rests on it, so bit for bit
    rng = np.random.default_rng(seed)
    codes = np.repeat([0, 1, 2], 4)
    if shuffled:
        codes = rng.permutation(codes)
    rows = rng.normal(size=(12, 3))
    changed = rows.copy()
    changed[position] = size * np.array([1.0, -0.5, 0.25])
    before, after = encode(rows, codes), encode(changed, codes)
    same = np.argsort(codes, kind="stable") != position
    np.testing.assert_array_equal(scaled(before)[same], scaled(after)[same])
    np.testing.assert_array_equal(before.starts, after.starts)
