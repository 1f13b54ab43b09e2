"""Rows are clipped, divided and sorted by public rules, one row at a time."""

from dataclasses import FrozenInstanceError
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from sklearn_dpwg.data.kernels import passes as _run_on_threads
from sklearn_dpwg.data.kernels.passes import ENTRIES_PER_GATHER, row_norms
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError


def encode(rows, codes=None, data_norm=1.0, n_groups=None):
    rows = np.asarray(rows, dtype=float)
    codes = np.zeros(len(rows), dtype=np.intp) if codes is None else np.asarray(codes)
    n_groups = int(codes.max()) + 1 if n_groups is None else n_groups
    return RecordEncoder(n_groups, data_norm).encode(rows, np.arange(float(len(rows))), codes)


def scaled(records):
    return records.rows * records.row_scale[:, None]


@given(
    rows=arrays(
        float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-1e308, 1e308)
    ),
    data_norm=st.floats(1e-300, 1e300),
)
def test_norms_at_most_one_whatever_comes(rows, data_norm):
    found = scaled(encode(rows, data_norm=data_norm))
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-12


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
    found = scaled(encode(rows * 2.0 ** (3 * exponent), data_norm=2.0 ** (3 * data_exponent)))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-300)


def test_long_rows_keep_their_direction_short_rows_their_length():
    found = scaled(encode([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [0.0, -2.0]], data_norm=2.0))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.15, 0.2], [0, 0], [0, -1]], rtol=1e-15)


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
    dense = encoder.encode(rows, np.zeros(len(rows)), codes)
    assert dense.rows.dtype == np.float32
    found = dense.rows.astype(float) * dense.row_scale[:, None]
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-12
    expected = scaled(encode(rows.astype(float), data_norm=data_norm))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
    sparse = encoder.encode(csr_array(rows), np.zeros(len(rows)), codes)
    again = sparse.rows.toarray().astype(float) * sparse.row_scale[:, None]
    np.testing.assert_allclose(again, found, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("huge", [1e99, 1e154, 1e200, 1e308])
def test_huge_sparse_rows_are_clipped_and_the_input_stays(huge):
    rows = csr_array(np.array([[huge, huge], [0.5, 0.0], [-huge, 0.0]]))
    kept = rows.copy()
    for codes in ([0, 0, 0], [0, 1, 0]):
        records = RecordEncoder(2, 1.0).encode(rows, np.zeros(3), np.array(codes))
        found = records.rows.toarray() * records.row_scale[:, None]
        order = np.argsort(codes, kind="stable")
        root = np.sqrt(0.5)
        expected = np.array([[root, root], [0.5, 0.0], [-1.0, 0.0]])[order]
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        np.testing.assert_array_equal(rows.toarray(), kept.toarray())


def test_sorted_input_is_not_copied():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    codes = np.repeat([0, 1, 2], [20, 20, 10])
    records = encode(rows, codes)
    assert np.shares_memory(records.rows, rows)
    assert records.rows is rows
    records = encode(rows, codes[::-1].copy())
    assert not np.shares_memory(records.rows, rows)


def test_input_is_not_changed():
    rows = np.array([[1e200, 0.0], [3.0, 4.0], [0.0, 0.1]])
    kept = rows.copy()
    for codes in ([0, 0, 1], [1, 0, 1]):
        encode(rows, codes)
        np.testing.assert_array_equal(rows, kept)


@given(codes=st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_groups_are_together_and_keep_their_order(codes):
    codes = np.array(codes)
    rows = np.arange(1.0, len(codes) + 1)[:, None]
    records = encode(rows, codes, data_norm=100.0, n_groups=5)
    assert records.group_sizes == tuple(int((codes == group).sum()) for group in range(5))
    for group in range(5):
        part = slice(records.starts[group], records.starts[group + 1])
        members = np.flatnonzero(codes == group)
        np.testing.assert_array_equal(records.rows[part, 0], rows[members, 0])
        np.testing.assert_array_equal(records.targets[part], members)


@pytest.mark.parametrize(("n_threads", "dtype"), [(1, np.float32), (3, np.float64)])
@pytest.mark.parametrize("take", [np.s_[:], np.s_[:, ::2], np.s_[::-1]], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_many_rows_are_sorted_in_one_reading(order, take, dtype, n_threads, monkeypatch):
    """Bit for bit what sorting and then measuring gives, whatever the threads and the layout."""
    monkeypatch.setattr(_run_on_threads, "n_threads", lambda: n_threads)
    rng = np.random.default_rng(0)
    n_records = 3 * ENTRIES_PER_GATHER // 6 + 5
    rows = np.asarray(rng.normal(size=(n_records, 12)), dtype=dtype, order=order)[take]
    rows.flags.writeable = dtype == np.float64
    codes = rng.choice([0, 1, 3], p=[0.8, 0.15, 0.05], size=len(rows))
    codes[-1] = 5
    targets = rng.normal(size=len(rows))
    by_group = np.argsort(codes, kind="stable")
    for hides_groups, by_columns in product((False, True), repeat=2):
        encoder = RecordEncoder(7, 3.5, hides_groups, by_columns, first_place=9)
        records = encoder.encode(rows, targets, codes)
        expected = np.ascontiguousarray(rows[by_group])
        assert records.rows.flags.c_contiguous == (not by_columns)
        assert records.rows.flags.f_contiguous == by_columns
        assert records.rows.dtype == dtype
        np.testing.assert_array_equal(records.rows, expected)
        np.testing.assert_array_equal(records.targets, targets[by_group])
        lengths = np.concatenate([row_norms(expected[i : i + 1]) for i in range(0, len(rows), 997)])
        np.testing.assert_array_equal(records.row_scale[::997], 1.0 / np.maximum(lengths, 3.5))
        if hides_groups:
            np.testing.assert_array_equal(records.places, by_group + 9)
        else:
            assert records.places is None


def test_positions_of_no_row_are_refused():
    records = encode(np.ones((5, 2)))
    for wrong in ([5], [-1, 0]):
        with pytest.raises(IndexError, match="those of 5 rows, got others"):
            records.take([np.array(wrong)])


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
    np.testing.assert_array_equal(before.row_scale[same], after.row_scale[same])
    np.testing.assert_array_equal(before.starts, after.starts)


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SquaredError(1.0)])
def test_scaled_rows_keep_scores_within_the_bound(loss):
    rows = 10.0 * np.random.default_rng(1).normal(size=(200, 5))
    weights = np.random.default_rng(2).normal(size=5)
    weights *= 4.0 / np.linalg.norm(weights)
    rows[0] = 1e3 * weights
    assert np.abs(scaled(encode(rows, data_norm=2.0)) @ weights).max() == pytest.approx(4.0)


@pytest.mark.parametrize("take", [np.s_[:, ::2], np.s_[::-1, ::-2], np.s_[::3, :5]], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_one_records_length_does_not_move_the_rounding_of_others(take, order):
    """Where rows lie in memory decides how sums are rounded, so it may not follow from values."""
    rng = np.random.default_rng(0)
    wide = np.asarray(rng.uniform(-0.3, 0.3, size=(300, 10)), order=order)
    weights = rng.normal(size=wide[take].shape[1])
    found = []
    for first in (0.1, 1e150):
        X = wide.copy(order="K")[take]
        X[0, 0] = first
        codes = np.repeat([0, 1], [len(X) // 2, len(X) - len(X) // 2])
        records = RecordEncoder(2, 1.0).encode(X, np.ones(len(X)), codes)
        found.append((records.rows.strides, (records.rows @ weights)[1:].tolist()))
    assert found[0] == found[1]


def test_a_public_bound_does_not_change():
    encoder = RecordEncoder(2, 1.5)
    with pytest.raises(FrozenInstanceError):
        encoder.data_norm = 2.0
