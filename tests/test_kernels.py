"""The compiled pass against NumPy's blocks, on any layout, precision and number of threads."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from sklearn_dpwg.data.kernels import compiled
from sklearn_dpwg.data.kernels.passes import (
    Blocks,
    Partition,
    allow_threads,
    canonical_rows,
    fused_pass,
    has_kernel,
    linear_scores,
    n_threads,
    one_blas_thread,
    row_block,
    row_norms,
    run_on_threads,
    scale_rows,
    slope_bounds,
)
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import (
    LOSSES,
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    MultinomialLogLoss,
    Quantile,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
)
from sklearn_dpwg.privacy.sensitivity.sums import SumGrid

EVERY_LOSS = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    Hinge(),
    SmoothedHinge(),
    SmoothedHinge(0.3),
    SquaredHinge(),
    MultinomialLogLoss(3),
    MultinomialLogLoss(2),
    SquaredError(),
    Huber(),
    Huber(1.7),
    AbsoluteError(),
    Quantile(0.8),
)
LAYOUTS = ("C", "F", "strided", "read-only", "csr", "csr, 64-bit indices")


def without_kernel(loss):
    """Return the same loss from a class that states no kernel, so that NumPy computes it."""
    plain = type(f"Plain{type(loss).__name__}", (type(loss),), {})
    if isinstance(loss, MultinomialLogLoss):
        return plain(loss.n_outputs)
    return plain(**loss.get_params())


def laid_out(rows, layout):
    if layout == "F":
        return np.asfortranarray(rows)
    if layout == "strided":
        wide = np.zeros((2 * len(rows), 2 * rows.shape[1]), dtype=rows.dtype)
        wide[::2, ::2] = rows
        return wide[::2, ::2]
    if layout == "read-only":
        rows = rows.copy()
        rows.flags.writeable = False
    if layout.startswith("csr"):
        rows = csr_array(rows)
        if layout.endswith("64-bit indices"):
            # the constructor would make them short again
            rows.indices, rows.indptr = rows.indices.astype(int), rows.indptr.astype(int)
    return rows


def targets_for(loss, rng, n_records):
    if loss.task == "multiclass":
        return rng.integers(0, loss.n_outputs, n_records).astype(float)
    if loss.task == "binary":
        return rng.choice([-1.0, 1.0], size=n_records)
    return rng.uniform(-1.0, 1.0, size=n_records)


def make_risks(loss, sizes, n_features=5, *, layout="C", dtype=float, intercept=0.5, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    rows = rng.normal(size=(len(codes), n_features)) * rng.choice([0.0, 1.0, 2.0], (len(codes), 1))
    rows[rng.random(rows.shape) < 0.4] = 0.0
    rows = laid_out(rows.astype(dtype), layout)
    records = RecordEncoder(len(sizes), 1.5).encode(rows, targets_for(loss, rng, len(codes)), codes)
    return GroupRisks(records, loss, intercept)


def assert_same(risks, *, seed=1, rtol=1e-12):
    """Compare with NumPy's blocks on the same records, made dense and double."""
    rng = np.random.default_rng(seed)
    records = risks.records
    rows = records.rows.toarray() if isinstance(records.rows, csr_array) else records.rows
    plain = GroupRisks(
        replace(records, rows=np.ascontiguousarray(rows, dtype=float)),
        without_kernel(risks.loss),
        risks.intercept_scaling,
    )
    assert has_kernel(risks.loss)
    assert not has_kernel(plain.loss)
    weights = 2.0 * rng.normal(size=risks.n_weights)
    for ceiling in (None, 0.4):
        expected, slopes = plain.risks_and_gradients(weights, ceiling=ceiling)
        found, gradients = risks.risks_and_gradients(weights, ceiling=ceiling)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-15)
        np.testing.assert_allclose(gradients, slopes, rtol=1e-10, atol=1e-14)
        alone = risks.risks(weights, ceiling=ceiling)
        np.testing.assert_array_equal(alone, found)
    group_weights = rng.dirichlet(np.ones(risks.n_groups))
    np.testing.assert_allclose(
        risks.hessian(weights, group_weights),
        plain.hessian(weights, group_weights),
        rtol=1e-10,
        atol=1e-14,
    )


# --- every loss, every layout ------------------------------------------------------------------


def test_every_registered_loss_has_a_branch():
    assert {type(loss) for loss in EVERY_LOSS} == set(LOSSES)
    assert all(has_kernel(loss) for loss in EVERY_LOSS)
    assert sorted(loss.kernel for loss in LOSSES) == sorted(compiled.KERNELS)


# each loss dense and sparse, and each kind of arrays with one score a record and with several
SCORES = (BinaryLogLoss(), MultinomialLogLoss(3))
OF_EACH_KIND = [
    *itertools.product(EVERY_LOSS, ["C", "csr"], ["double"]),
    *itertools.product(SCORES, ["C", "csr"], ["single"]),
    *itertools.product(SCORES, [each for each in LAYOUTS if each not in ("C", "csr")], ["single"]),
]


@pytest.mark.parametrize(("loss", "layout", "dtype"), OF_EACH_KIND, ids=str)
def test_same_as_numpy(loss, layout, dtype):
    for intercept in (0.5, 0.0):
        risks = make_risks(loss, (40, 1, 300, 7), layout=layout, dtype=dtype, intercept=intercept)
        assert risks.records.rows.dtype == dtype
        assert_same(risks)


@given(
    loss=st.sampled_from(EVERY_LOSS),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float64, np.float32]),
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=6),
    n_features=st.integers(1, 9),
    intercept=st.sampled_from([0.0, 0.5, 2.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_same_as_numpy_on_any_shape(loss, layout, dtype, sizes, n_features, intercept, seed):
    risks = make_risks(
        loss, sizes, n_features, layout=layout, dtype=dtype, intercept=intercept, seed=seed
    )
    assert_same(risks, seed=seed)


@pytest.mark.parametrize("layout", ["C", "F", "csr"])
@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(4)], ids=repr)
def test_several_tasks_and_blocks(loss, layout):
    risks = make_risks(loss, (9000, 1, 4, 14_000), n_features=11, layout=layout)
    n_entries = risks.records.rows.shape[0] * 20
    assert len(Partition.of(risks.records.starts, n_entries // 2**16).tasks) > 2
    assert_same(risks, rtol=1e-11)
    # and rows that are wide
    assert_same(make_risks(SquaredError(), (90, 40), n_features=700, layout=layout))


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=repr)
def test_far_scores_stay_finite(loss):
    # every exponential of the formulas over- or underflows somewhere here
    rows = np.array([[1.0], [-1.0], [1e-300], [0.0]] * 2)
    targets = np.repeat([1.0, 0.0 if loss.task == "multiclass" else -1.0], 4)
    records = RecordEncoder(1, 1.0).encode(rows, targets, np.zeros(8, dtype=np.intp))
    for size in (1e3, 1e8):
        weights = size * np.linspace(1.0, -1.0, loss.n_outputs)
        plain, slopes = GroupRisks(records, without_kernel(loss), 0.0).risks_and_gradients(weights)
        found, gradients = GroupRisks(records, loss, 0.0).risks_and_gradients(weights)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, plain, rtol=1e-14)
        np.testing.assert_allclose(gradients, slopes, rtol=1e-14, atol=1e-300)


def test_small_losses_and_sums_of_many_records_keep_their_digits():
    records = RecordEncoder(1, 1.0).encode(np.ones((1, 1)), np.ones(1), np.zeros(1, dtype=np.intp))
    value = GroupRisks(records, BinaryLogLoss(), 0.0).risks(np.array([40.0]))
    np.testing.assert_allclose(value, np.exp(-40.0), rtol=1e-14)
    residuals = np.random.default_rng(0).uniform(-1.0, 1.0, 300_000)
    records = RecordEncoder(1, 1.0).encode(
        np.zeros((300_000, 1)), residuals, np.zeros(300_000, dtype=np.intp)
    )
    found = GroupRisks(records, SquaredError(), 0.0).risks(np.zeros(1))
    exact = float(np.sum(residuals.astype(np.longdouble) ** 2) / 600_000)
    np.testing.assert_allclose(found, exact, rtol=5e-15)


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=repr)
def test_kinks(loss):
    # scores that meet the target exactly, and the ends of each parabola
    scores = np.array([1.0, -1.0, 0.0, 0.25, -0.25, 0.7, 1.7, -1.7])
    targets = np.tile([0.0, 1.0] if loss.task == "multiclass" else [-1.0, 1.0], 8)
    rows = np.repeat(scores, 2)[:, None]
    records = RecordEncoder(16, 2.0).encode(rows, targets, np.arange(16))
    weights = np.full(loss.n_outputs, 2.0)
    plain = GroupRisks(records, without_kernel(loss), 0.0).risks_and_gradients(weights)
    found = GroupRisks(records, loss, 0.0).risks_and_gradients(weights)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15, atol=1e-16)


# --- the same bits with and without numba --------------------------------------------------------


def assert_bits_are_those_of_arrays(risks, weights, limits, ceiling=0.7):
    """Compare exact sums of the compiled loops with those of NumPy's arrays."""
    records = risks.records
    # as fine as exact sums allow
    largest = len(records.targets) * np.array([1.0, 4.0 + 4.0 * np.linalg.norm(weights)])
    steps = 2.0 ** (np.ceil(np.log2(largest)) - 52.0)
    grid = {"loss_step": steps[0], "gradient_step": steps[1]}

    def sums(gradients):
        return fused_pass(
            risks.loss, records.rows, records.row_scale, records.targets, risks._blocks,
            *risks._split(weights), ceiling=ceiling, gradients=gradients, slope_bounds=limits,
            **grid,
        )  # fmt: skip

    found = []
    for work in (-1, np.inf):
        with patch.object(compiled, "WORK_OF_COMPILING", work), np.errstate(all="ignore"):
            found += map(sums, (True, False))
    for one, other in zip(found[:2], found[2:], strict=True):
        assert [each.tobytes() for each in one] == [each.tobytes() for each in other]


@given(
    loss=st.sampled_from(EVERY_LOSS),
    # three kinds, as each is compiled for each of three kinds of losses
    kind=st.sampled_from([("C", np.float64), ("F", np.float32), ("csr", np.float64)]),
    sizes=st.lists(st.sampled_from([0, 1, 2, 7, 70, 300, 2100]), min_size=1, max_size=4),
    n_features=st.sampled_from([1, 2, 3, 5, 8, 9, 20, 130]),
    size=st.sampled_from([0.0, 1e-300, 1e-8, 1.0, 30.0, 1e3, 1e8]),
    limited=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@example(
    loss=SquaredError(),
    kind=("C", np.float64),
    sizes=[1],
    n_features=130,
    size=1.0,
    limited=False,
    seed=0,
)
def test_arrays_and_loops_give_the_same_bits(loss, kind, sizes, n_features, size, limited, seed):
    layout, dtype = kind
    if sum(sizes) == 0:
        sizes = [*sizes, 1]
    risks = make_risks(loss, sizes, n_features, layout=layout, dtype=dtype, seed=seed).handles[0]
    rng = np.random.default_rng(seed)
    weights = size * rng.normal(size=loss.n_outputs * risks.n_columns)
    limits = None
    if limited:
        limits = slope_bounds(loss, rng.choice([0.05, 0.3, 0.8, 1.0, 3.0], sum(sizes)))
    assert_bits_are_those_of_arrays(risks, weights, limits)


@pytest.mark.parametrize("layout", ["C", "F"])
def test_exact_sums_do_not_depend_on_the_layout(layout):
    """A score is added up from the first column to the last, whoever skips the zeros."""
    for loss in (BinaryLogLoss(0.85), MultinomialLogLoss(3)):
        plain, sparse = (make_risks(loss, (300, 40), 7, layout=each) for each in (layout, "csr"))
        weights = np.random.default_rng(5).normal(size=plain.n_weights)
        told = {"ceiling": 2.0, "grid": SumGrid(2.0**-40, 2.0**-40)}
        one, other = (risks.sums(weights, **told) for risks in (plain, sparse))
        assert all(map(np.array_equal, one, other))


@pytest.mark.parametrize("sizes", [(1,), (2, 0, 1)])
def test_rows_without_columns_have_scores_of_their_constants(sizes):
    risks = make_risks(SquaredError(), sizes, 0).handles[0]
    assert_bits_are_those_of_arrays(risks, np.full(risks.n_columns, 0.3), None)


@pytest.mark.parametrize(
    ("formula", "exact", "ends"),
    [(compiled._exp, mpmath.exp, (-700.0, 0.0)), (compiled._log1p, mpmath.log1p, (1e-300, 1.0))],
)
def test_formulas_err_by_less_than_is_assumed(formula, exact, ends):
    """docs/theory/sums.md assumes 4 u, for exp and log of all formulas."""
    rng = np.random.default_rng(0)
    numbers = rng.uniform(*ends, 3000)
    numbers[:1000] *= 2.0 ** -rng.uniform(0.0, 60.0, 1000)
    edges = np.log(2.0) * np.arange(-10.0, 0.0, 0.5) if ends[0] < 0 else [0.0, 1.0, 1e-16]
    numbers = np.concatenate([numbers, *(np.nextafter(edges, to) for to in (-np.inf, 0.0))])
    with mpmath.workdps(40):
        due = [exact(mpmath.mpf(float(number))) for number in np.maximum(numbers, ends[0])]
        found = map(mpmath.mpf, formula(np.maximum(numbers, ends[0])).tolist())
        errors = [abs(one / each - 1) for one, each in zip(found, due, strict=True)]
    assert max(errors) < 2.2 * 2.0**-53


def test_what_is_not_a_number_stays_so():
    with np.errstate(invalid="ignore"):
        found = compiled._exp(np.array([np.nan, -np.inf]))
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(np.exp(-708.0))
    assert np.isnan(compiled._log1p(np.array([np.nan]))).all()


# --- groups ------------------------------------------------------------------------------------


def sums_of(rows, starts):
    """Return the sums of half the squares of the rows' own sums, and their gradients."""
    n_records, n_features = rows.shape
    return fused_pass(
        SquaredError(), rows, np.ones(n_records), np.zeros(n_records),
        Blocks.of(np.array(starts), 2), np.ones((1, n_features)), np.zeros(1),
    )  # fmt: skip


def test_a_group_without_records_has_no_sums():
    totals, gradients = sums_of(np.arange(5.0)[:, None], [0, 0, 3, 3, 5, 5])
    np.testing.assert_array_equal(totals, [0.0, 2.5, 0.0, 12.5, 0.0])
    np.testing.assert_array_equal(gradients[:, 0], [[0, 0], [5, 3], [0, 0], [25, 7], [0, 0]])


def test_no_records_at_all():
    totals, gradients = sums_of(np.zeros((0, 2)), np.zeros(3, dtype=np.intp))
    np.testing.assert_array_equal(totals, [0.0, 0.0])
    np.testing.assert_array_equal(gradients, np.zeros((2, 1, 3)))


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8), n_tasks=st.integers(1, 40))
@example(sizes=[0, 30], n_tasks=2)
def test_partition_covers_every_row_once(sizes, n_tasks):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    partition = Partition.of(starts, n_tasks)
    assert len(partition.tasks) <= 16
    covered = [piece for part in partition.tasks for piece in partition.segments(part)]
    assert covered == list(partition.segments(slice(None)))
    rows = [row for _, first, last in covered for row in range(first, last)]
    assert rows == list(range(sum(sizes)))
    for group, first, last in covered:
        assert starts[group] <= first < last <= starts[group + 1]
    counts = partition.sum_by_group((partition.lasts - partition.firsts).astype(float))
    np.testing.assert_array_equal(counts, sizes)


# --- what has no kernel, and what says it has --------------------------------------------------


def test_a_class_states_its_own_kernel():
    class DoubledLoss(SquaredError):  # noqa: N818
        """Inherits the name of a kernel, but not the values."""

        def value_and_derivative(self, scores, targets):
            value, slope = super().value_and_derivative(scores, targets)
            return 2.0 * value, 2.0 * slope

    once, twice = make_risks(SquaredError(), (9, 4)), make_risks(DoubledLoss(), (9, 4))
    weights = np.linspace(-1.0, 1.0, once.n_weights)
    assert not has_kernel(twice.loss)
    np.testing.assert_allclose(2.0 * once.risks(weights), twice.risks(weights), rtol=1e-13)


def test_a_label_out_of_range_touches_nothing():
    labels = np.array([0.0, 7.0, -3.0])
    with np.errstate(invalid="ignore"):
        totals, gradients = fused_pass(
            MultinomialLogLoss(3), np.ones((3, 1)), np.ones(3), labels,
            Blocks.of(np.array([0, 1, 3]), 2), np.zeros((3, 1)), np.zeros(3),
        )  # fmt: skip
    assert totals[0] == pytest.approx(np.log(3.0))
    assert np.isnan(totals[1])
    assert np.isfinite(gradients).all()


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


@pytest.mark.parametrize("layout", ["C", "F", "csr"])
def test_any_number_of_threads_gives_the_same_bits(cores, layout):
    risks = make_risks(BinaryLogLoss(), (9000, 3, 6000), n_features=12, layout=layout)
    weights = np.linspace(-1.0, 1.0, risks.n_weights)
    found = []
    for number in (1, 2, 5):
        cores(number)
        group_weights = np.array([0.5, 0.2, 0.3])
        results = (*risks.risks_and_gradients(weights), risks.hessian(weights, group_weights))
        found.append([result.tobytes() for result in results])
    assert found[0] == found[1] == found[2]


def test_tasks_run_once_and_keep_their_order(cores):
    cores(4)
    seen = []

    def task(number):
        seen.append(number)
        return number**2

    squares = run_on_threads([partial(task, number) for number in range(50)])
    assert squares == [number**2 for number in range(50)]
    assert sorted(seen) == list(range(50))
    assert run_on_threads([]) == []


@pytest.mark.parametrize("in_caller", [True, False])
def test_an_error_in_a_task_is_raised(cores, in_caller):
    cores(2)
    meeting = threading.Barrier(2, timeout=20)

    def task():
        meeting.wait()
        if in_caller == (threading.current_thread() is threading.main_thread()):
            raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        run_on_threads([task] * 2)
    assert run_on_threads([lambda: 1, lambda: 2]) == [1, 2]


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


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_blas_gets_its_threads_back():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread(), one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_a_hessian_keeps_blas_to_the_threads_of_its_own():
    seen = []

    class WatchingLoss(SquaredError):  # noqa: N818
        def curvature(self, scores, targets):
            seen.append(blas_threads())
            return super().curvature(scores, targets)

    risks = make_risks(WatchingLoss(), (30, 20))
    with threadpool_limits(limits=2, user_api="blas"):
        risks.hessian(np.zeros(risks.n_weights), np.array([0.5, 0.5]))
    assert seen == [{1}] * len(seen) != []


# --- compiled code -----------------------------------------------------------------------------

PLACE = """
import numpy as np
from sklearn_dpwg.data.kernels.compiled import place_rows
rows, norms, targets, codes = np.ones((2, 1)), np.ones(2), np.ones(2), np.array([1, 0])
written = np.array([0, 1]), np.zeros((2, 1)), np.zeros(2), np.zeros(2), np.zeros(2, dtype=int)
arguments = (rows, norms, targets, codes, 0, *written)
place_rows.prepare(*arguments)(*arguments)
print(written[-1])
"""


def test_compiled_code_is_kept_and_found_again(tmp_path):
    def place():
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", PLACE],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.stdout, run.stderr) == ("[1 0]\n", "")
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}

    kept = place()
    assert kept
    assert place() == kept
    for path in tmp_path.rglob("*.nb[ci]"):
        path.write_bytes(b"damaged")
    place()


def test_each_kind_of_arrays_is_compiled_before_threads_call_it():
    kernel = compiled.Kernel(compiled._scale)
    slopes = np.ones(3)
    for row_scale in (np.ones(4), np.ones(4, dtype=np.float32), np.ones(8)[::2], np.ones(4)):
        kernel.prepare(slopes, row_scale, 0, None, np.ones(3))
    assert len(kernel._dispatcher.overloads) == 3


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
    kept = given_rows.data.copy(), given_rows.indices.copy(), given_rows.indptr.copy()
    found = canonical_rows(given_rows)
    np.testing.assert_allclose(found.toarray(), rows, rtol=1e-15)
    np.testing.assert_allclose(row_norms(found), np.linalg.norm(rows, axis=1), rtol=1e-14)
    for column_indices in np.split(found.indices, found.indptr[1:-1]):
        assert (np.diff(column_indices) > 0).all()
    for array, before in zip(
        (given_rows.data, given_rows.indices, given_rows.indptr), kept, strict=True
    ):
        np.testing.assert_array_equal(array, before)


def test_ordered_sparse_rows_are_not_copied():
    rows = csr_matrix(np.eye(4))
    found = canonical_rows(rows)
    assert np.shares_memory(found.data, rows.data)


def test_wrong_indices_and_entries_of_one_place_that_overflow_are_refused():
    for indices in ([0, 5], [-1, 0]):
        rows = csr_array(([1.0, 1.0], [0, 1], [0, 1, 2]), shape=(2, 2))
        rows.indices = np.array(indices, dtype=np.int32)
        with pytest.raises(ValueError, match="ind"):
            canonical_rows(rows)
    rows = csr_array(([1e308, 1e308], [0, 0], [0, 2]), shape=(1, 1))
    with pytest.raises(ValueError, match=r"^X must hold finite numbers, got entries of one place"):
        canonical_rows(rows)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_norms_blocks_and_scores(layout, dtype):
    rng = np.random.default_rng(0)
    rows = (1e20 * rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.6)).astype(dtype)
    given_rows = laid_out(rows, layout)
    exact = rows.astype(float)
    np.testing.assert_allclose(row_norms(given_rows), np.linalg.norm(exact, axis=1), rtol=1e-14)
    weights = rng.normal(size=(2, 4))
    np.testing.assert_allclose(
        linear_scores(given_rows, weights), exact @ weights.T, rtol=1e-12, atol=1e6
    )
    part = row_block(given_rows, 3, 100)
    assert layout.startswith("csr") or np.shares_memory(part, given_rows)
    scaled = scale_rows(part, np.arange(97.0))
    scaled = scaled.toarray() if layout.startswith("csr") else scaled
    np.testing.assert_allclose(scaled, exact[3:100] * np.arange(97.0)[:, None], rtol=1e-15)
    assert scaled.dtype == float


def test_a_worker_says_how_many_threads_its_passes_use(monkeypatch):
    """In its own thread only, and whatever the environment says."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    module = sys.modules[run_on_threads.__module__]
    monkeypatch.setattr(module, "_n_cores", lambda: 8)
    seen = []
    with allow_threads(3):
        assert n_threads() == 3
        thread = threading.Thread(target=lambda: seen.append(n_threads()))
        thread.start()
        thread.join()
        with allow_threads(20):
            assert n_threads() == 8
        assert n_threads() == 3
    assert n_threads() == 1
    assert seen == [1]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("n_columns", "dtype"), [(20, np.float32), (200, np.float64), (9000, np.float32)]
)
def test_a_norm_depends_on_its_row_alone(n_columns, dtype, order):
    """Borders of storage may leave a row alone, or with others."""
    row = np.random.default_rng(0).standard_normal(n_columns).astype(dtype)
    norms = [row_norms(np.array(np.tile(row, (n, 1)), order=order)) for n in (1, 2, 64, 65)]
    assert len(np.unique(np.concatenate(norms))) == 1
