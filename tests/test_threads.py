"""Tasks on threads, and rows in bulk: norms, blocks and products."""

from __future__ import annotations

import os
import sys
import threading
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.rows import (
    canonical_rows,
    row_norms,
)
from sklearn_dpwg.data.threads import (
    even_tasks,
    run_on_threads,
)
from sklearn_dpwg.losses import BinaryLogLoss
from tests.helpers.group_data import make_risks


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8), n_tasks=st.integers(1, 40))
@example(sizes=[0, 30], n_tasks=2)
def test_partition_covers_every_row_once(sizes, n_tasks):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    tasks = even_tasks(starts, n_tasks)
    assert len(tasks) <= 16
    covered = [piece for segments in tasks for piece in segments]
    rows = [row for _, first, last in covered for row in range(first, last)]
    assert rows == list(range(sum(sizes)))
    for group, first, last in covered:
        assert starts[group] <= first < last <= starts[group + 1]


# --- threads -----------------------------------------------------------------------------------


@pytest.fixture
def cores(monkeypatch):
    """Return a function that makes the package believe in a number of cores."""
    module = sys.modules[run_on_threads.__module__]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def pretend(number):
        module._pool.cache_clear()
        monkeypatch.setattr(module, "_n_cores", lambda: number)

    yield pretend
    module._pool.cache_clear()


def test_any_number_of_threads_gives_the_same_bits(cores):
    risks = make_risks(BinaryLogLoss(), (9000, 3, 6000), n_features=12)
    weights = np.linspace(-1.0, 1.0, risks.n_weights)
    actual = []
    for number in (1, 2, 5):
        cores(number)
        group_weights = np.array([0.5, 0.2, 0.3])
        results = (*risks.risks_and_gradients(weights), risks.hessian(weights, group_weights))
        actual.append([result.tobytes() for result in results])
    assert actual[0] == actual[1] == actual[2]


def test_threads_follow_the_callers_errstate(cores):
    # whether a number overflows depends on the records, so it may neither warn nor fail
    cores(3)
    meeting = threading.Barrier(3, timeout=20)

    def task():
        meeting.wait()
        return np.array([1e308]) * 10.0

    with np.errstate(all="ignore"):
        assert np.isinf(run_on_threads([task] * 3)).all()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        run_on_threads([task] * 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_has_threads_of_its_own(cores):
    cores(2)
    run_on_threads([lambda: 1] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if child == 0:
        try:
            run_on_threads([threading.Barrier(2, timeout=20).wait] * 2)
        finally:
            os._exit(int(sys.exc_info()[0] is not None))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- helpers for rows --------------------------------------------------------------------------


def scrambled(rows, seed=0):
    """Return dense rows in compressed form, unordered, some entries in two parts, flags lying."""
    rng = np.random.default_rng(seed)
    data, indices, indptr = [], [], [0]
    for row in rows:
        entries = []
        for column in np.flatnonzero((row != 0) | (rng.random(len(row)) < 0.2)):
            if rng.random() < 0.5:
                entries.append((column, row[column]))
            else:
                entries += [(column, row[column] / 4), (column, 3 * row[column] / 4)]
        for place in rng.permutation(len(entries)):
            indices.append(entries[place][0])
            data.append(entries[place][1])
        indptr.append(len(data))
    made = csr_array((np.array(data), np.array(indices, dtype=int), indptr), shape=rows.shape)
    made.has_sorted_indices = True
    made.has_canonical_format = True
    return made


@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 12), n_columns=st.integers(1, 6))
def test_flags_of_sparse_rows_are_not_believed(seed, n_rows, n_columns):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.5)
    given_rows = scrambled(rows, seed)
    kept = given_rows.copy()
    canonical = canonical_rows(given_rows)
    np.testing.assert_allclose(canonical.toarray(), rows, rtol=1e-15)
    np.testing.assert_allclose(row_norms(canonical), np.linalg.norm(rows, axis=1), rtol=1e-14)
    for column_indices in np.split(canonical.indices, canonical.indptr[1:-1]):
        assert (np.diff(column_indices) > 0).all()
    np.testing.assert_array_equal(given_rows.data, kept.data)
    np.testing.assert_array_equal(given_rows.indices, kept.indices)


def test_wrong_indices_and_entries_of_one_place_that_overflow_are_refused():
    for indices in ([0, 5], [-1, 0]):
        rows = csr_array(([1.0, 1.0], [0, 1], [0, 1, 2]), shape=(2, 2))
        rows.indices = np.array(indices, dtype=np.int32)
        with pytest.raises(ValueError, match="ind"):
            canonical_rows(rows)
    rows = csr_array(([1e308, 1e308], [0, 0], [0, 2]), shape=(1, 1))
    with pytest.raises(ValueError, match=r"^X must hold finite numbers, got entries of one place"):
        canonical_rows(rows)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("n_columns", "dtype"), [(20, np.float32), (200, np.float64), (9000, np.float32)]
)
def test_a_norm_depends_on_its_row_alone(n_columns, dtype, order):
    """Borders of storage may leave a row alone, or with others."""
    row = np.random.default_rng(0).standard_normal(n_columns).astype(dtype)
    norms = [row_norms(np.array(np.tile(row, (n, 1)), order=order)) for n in (1, 2, 64, 65)]
    assert len(np.unique(np.concatenate(norms))) == 1
