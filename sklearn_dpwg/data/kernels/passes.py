"""Threads, norms and copies of rows, and losses and gradients of all groups in one reading."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.kernels.arrays import add_up
from sklearn_dpwg.data.kernels.compiled import KERNELS, place_rows, slope_edges, sum_up
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss

# Blocks of rows, and their shares among the tasks of a pass.

IndexArray = NDArray[np.intp]

# Enough tasks for a few cores to finish together, few enough for their partial sums.
MAX_TASKS = 16


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows of each group cut into blocks, whose sums are added up one by one."""

    edges: IndexArray  # block b holds the rows `edges[b]:edges[b + 1]`; (n_blocks + 1,)
    starts: IndexArray  # group i holds the blocks `starts[i]:starts[i + 1]`; (n_groups + 1,)
    _cut: dict[int, Partition] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, starts: IndexArray, block_rows: int) -> Blocks:
        """Cut groups ``starts[i]:starts[i + 1]`` into blocks, by their sizes alone."""
        counts = -(np.diff(starts) // -block_rows)
        of_group = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(of_group[-1]) - np.repeat(of_group[:-1], counts)
        edges = np.repeat(starts[:-1], counts) + block_rows * within
        return cls(np.append(edges, starts[-1]), of_group)

    @property
    def group_edges(self) -> IndexArray:
        """Group i holds the rows ``group_edges[i]:group_edges[i + 1]``; (n_groups + 1,)."""
        return self.edges[self.starts]

    def partition(self, n_tasks: int) -> Partition:
        """Return the blocks cut into tasks, once for all passes: there may be a group a record."""
        if n_tasks not in self._cut:
            self._cut[n_tasks] = Partition.of(self.starts, n_tasks)
        return self._cut[n_tasks]


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows, or blocks of rows, cut where a task ends and where a group ends.

    It depends on sizes only, never on the number of cores, so sums that are combined in its order
    are the same bit for bit on every number of threads.
    """

    n_groups: int
    # group of each segment, in ascending order; a group without records has none; (n_segments,)
    groups: IndexArray
    firsts: IndexArray  # a segment holds the rows `firsts[s]:lasts[s]`; (n_segments,)
    lasts: IndexArray
    tasks: list[slice]  # the segments of each task

    @classmethod
    def of(cls, starts: IndexArray, n_tasks: int) -> Partition:
        """Cut rows ``starts[i]:starts[i + 1]`` of groups into at most `MAX_TASKS` even tasks."""
        n_tasks = max(1, min(n_tasks, MAX_TASKS))
        cuts = np.linspace(starts[0], starts[-1], n_tasks + 1).astype(np.intp)
        points = np.union1d(cuts, starts)
        firsts, lasts = points[:-1], points[1:]
        groups = np.searchsorted(starts, firsts, side="right") - 1
        bounds = np.unique(np.searchsorted(firsts, cuts)).tolist()
        tasks = [slice(*pair) for pair in pairwise(bounds)]
        return cls(len(starts) - 1, groups, firsts, lasts, tasks)

    def segments(self, part: slice) -> Iterator[tuple[int, int, int]]:
        """Yield the group, the first row and the end of some segments."""
        columns = (self.groups[part], self.firsts[part], self.lasts[part])
        for group, first, last in zip(*columns, strict=True):
            yield int(group), int(first), int(last)

    def sum_by_group(self, parts: FloatArray) -> FloatArray:
        """Add up one entry a segment, in the order of the rows; 0 for a group without records."""
        if np.array_equal(self.groups, np.arange(self.n_groups)):
            return parts
        totals = np.zeros((self.n_groups, *parts.shape[1:]))
        for segment, group in enumerate(self.groups):
            totals[group] += parts[segment]
        return totals


# Tasks on all cores, with results that do not depend on how many there are.

Result = TypeVar("Result")

_ALLOWED: ContextVar[int | None] = ContextVar("allowed_threads", default=None)


def n_threads() -> int:
    """Return how many threads a pass may use: all cores, if neither caller nor OpenMP says less."""
    cores = _n_cores()
    told = _ALLOWED.get()
    if told is not None:
        return min(cores, told)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(allowed)) if allowed.isdecimal() and int(allowed) > 0 else cores


@contextmanager
def allow_threads(number: int) -> Iterator[None]:
    """Let passes of this thread use so many: a cluster's worker is told one by its environment."""
    token = _ALLOWED.set(number)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def run_on_threads(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run tasks that release the interpreter's lock, each once, on a few threads.

    Results are in the order of the tasks. Which thread runs a task depends on the time each takes,
    so none may write where another does. The calling thread works too: a call always ends, whatever
    the threads of the pool are busy with. Threads follow the caller's `numpy.errstate`.
    """
    n_helpers = min(n_threads(), len(tasks)) - 1
    if n_helpers < 1:
        return [task() for task in tasks]
    waiting = deque(range(len(tasks)))
    results: dict[int, Result] = {}
    settings: dict[str, Any] = dict(np.geterr())

    def work() -> None:
        with np.errstate(**settings):
            while True:
                try:
                    index = waiting.popleft()
                except IndexError:
                    return
                results[index] = tasks[index]()

    helpers: list[Future[None]] = [_pool(os.getpid()).submit(work) for _ in range(n_helpers)]
    try:
        work()
    finally:
        waiting.clear()
        # one that never started has nothing to do any more
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error
    return [results[index] for index in range(len(tasks))]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS, of the whole process, from starting threads of its own below ours."""
    global _n_inside, _limit
    with _LOCK:
        if _n_inside == 0:
            _limit = _blas().limit(limits=1)
        _n_inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _n_inside -= 1
            if _n_inside == 0:
                _limit.restore_original_limits()


# The limit is the process's: the first caller to come sets it, the last to go lifts it.
_LOCK = threading.Lock()
_n_inside = 0
_limit: Any = None


@lru_cache(maxsize=1)
def _n_cores() -> int:
    return int(joblib.cpu_count())


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the pool of this process: a fork has none of its parent's threads."""
    return ThreadPoolExecutor(max(_n_cores() - 1, 1), thread_name_prefix=f"sklearn_dpwg-{process}")


@lru_cache(maxsize=1)
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


# Norms of rows, and copies of rows in another order, on all threads.

# A block stays in the second-level cache between its copy and its norms.
BLOCK_BYTES = 2**18
# Fewer entries take less time than waking a thread, and than loading what is compiled.
ENTRIES_PER_GATHER = 2**18
# Columns of rows whose scores take no longer than their losses.
NARROW = 64


def row_norms(rows: Any) -> FloatArray:
    """Return the Euclidean norm of each row in double precision, infinite on overflow."""
    norms = np.zeros(rows.shape[0])
    _of_each_block(rows, partial(_fill_norms, rows, norms))
    return norms


def rows_at(rows: Any, positions: IndexArray) -> Any:
    """Return a copy of some rows, the numbers of each together."""
    if isinstance(rows, csr_array):
        return rows[positions]
    if len(positions) and not 0 <= positions.min() <= positions.max() < len(rows):
        raise IndexError(f"positions must be those of {len(rows)} rows, got others: a bug.")
    copy = np.empty((len(positions), rows.shape[1]), dtype=rows.dtype)

    def gather(block: slice) -> None:
        if rows.flags.c_contiguous:
            # to raise for a position, NumPy would write to a copy of the copy
            rows.take(positions[block], axis=0, out=copy[block], mode="clip")
        else:
            copy[block] = rows[positions[block]]

    _of_each_block(copy, gather)
    return copy


def sorted_by_group(
    rows: Any, targets: FloatArray, codes: IndexArray, starts: IndexArray, *, by_columns: bool
) -> tuple[Any, FloatArray, FloatArray, IndexArray]:
    """Return rows and targets sorted by group, stably, norms of the rows, and where they were.

    Many narrow dense rows may lie by columns afterwards, which passes read almost twice as fast.
    """
    if not isinstance(rows, csr_array) and rows.size >= ENTRIES_PER_GATHER:
        is_narrow = rows.shape[1] <= NARROW
        return _placed(rows, targets, codes, starts, "F" if by_columns and is_narrow else "C")
    # codes of 16 bits or less are sorted by radix
    order = np.argsort(codes.astype(np.min_scalar_type(len(starts))), kind="stable")
    copy = rows_at(rows, order)
    return copy, targets[order], row_norms(copy), order


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that numba sees as one type, whether the array may be written to or not."""
    view = array.view()
    view.flags.writeable = False
    return view


def _placed(
    rows: NDArray[Any],
    targets: FloatArray,
    codes: IndexArray,
    starts: IndexArray,
    layout: Literal["C", "F"],
) -> tuple[NDArray[Any], FloatArray, FloatArray, IndexArray]:
    """Do that for dense rows in one reading; a task writes behind what those before it write."""
    n_records = len(codes)
    copy, order = np.empty(rows.shape, rows.dtype, order=layout), np.empty_like(codes)
    norms, moved = np.empty(n_records), np.empty(n_records)
    shares = _shares(rows)
    counts = np.array([np.bincount(codes[part], minlength=len(starts) - 1) for part in shares])
    nexts = starts[:-1] + np.cumsum(counts, axis=0) - counts

    def arguments(block: slice, of_task: IndexArray) -> tuple[Any, ...]:
        part = np.ascontiguousarray(rows[block])  # rows that lie together are not copied
        lengths = np.empty(len(part))
        _fill_norms(part, lengths, slice(0, len(part)))
        read = (part, lengths, targets[block], codes[block])
        return *map(read_only, read), block.start, of_task, copy, norms, moved, order

    compiled = place_rows.prepare(*arguments(slice(0, 1), nexts[0]))

    def task(share: slice, of_task: IndexArray) -> None:
        for block in _blocks(rows, share):
            compiled(*arguments(block, of_task))

    run_on_threads([partial(task, *pair) for pair in zip(shares, nexts, strict=True)])
    return copy, moved, norms, order


def _n_entries(rows: Any) -> int:
    return int(rows.nnz if isinstance(rows, csr_array) else rows.size)


def _rows_of_block(rows: Any) -> int:
    return max(64, BLOCK_BYTES // max(8 * _n_entries(rows) // max(rows.shape[0], 1), 8))


def _blocks(rows: Any, share: slice) -> Iterator[slice]:
    """Cut the share of a task into blocks."""
    n_rows = _rows_of_block(rows)
    for first in range(share.start, share.stop, n_rows):
        yield slice(first, min(first + n_rows, share.stop))


def _shares(rows: Any) -> list[slice]:
    """Return the rows of each task, whole blocks, whatever the number of threads."""
    n_records, n_rows = rows.shape[0], _rows_of_block(rows)
    n_blocks = -(n_records // -n_rows)
    n_tasks = max(1, min(MAX_TASKS, _n_entries(rows) // ENTRIES_PER_GATHER, n_blocks))
    cuts = [n_rows * (n_blocks * task // n_tasks) for task in range(n_tasks)] + [n_records]
    return [slice(*pair) for pair in pairwise(cuts)]


def _of_each_block(rows: Any, task: Callable[[slice], None]) -> None:
    """Do something to every block of rows, on all threads."""

    def of_share(share: slice) -> None:
        for block in _blocks(rows, share):
            task(block)

    run_on_threads([partial(of_share, share) for share in _shares(rows)])


def _fill_norms(rows: Any, norms: FloatArray, block: slice) -> None:
    """Write the norm of each row of a block, which that row alone decides."""
    with np.errstate(over="ignore"):
        if isinstance(rows, csr_array):
            bounds = rows.indptr[block.start : block.stop + 1]
            entries = rows.data[bounds[0] : bounds[-1]].astype(np.float64)
            filled = np.flatnonzero(bounds[1:] > bounds[:-1])
            if filled.size:
                at = bounds[filled] - bounds[0]
                norms[block.start + filled] = np.add.reduceat(entries * entries, at)
        else:
            # each row by itself: einsum adds up a single one in another order than several
            part = np.ascontiguousarray(rows[block], dtype=np.float64)
            (part * part).sum(axis=1, out=norms[block])
        np.sqrt(norms[block], out=norms[block])


# A run of rows stays in the first-level cache, one of columns in the second, where longer runs
# along each column pay.
ROWS_BYTES = 2**14
COLUMNS_BYTES = 2**19
# Fewer entries take less time than waking a thread.
ENTRIES_PER_TASK = 2**16
# A record's loss takes as long as about this many entries.
ENTRIES_PER_LOSS = 20
# Compressed rows of more columns are left to compiled code.
WIDEST_WRITTEN_OUT = 2**12


def has_kernel(loss: Loss) -> bool:
    """Return whether a loss itself, not a class that it inherits from, states a `kernel`."""
    return type(loss).__dict__.get("kernel") is not None


def fused_pass(
    loss: Loss,
    rows: Any,
    row_scale: FloatArray,
    targets: FloatArray,
    blocks: Blocks,
    weights: FloatArray,
    intercepts: FloatArray,
    *,
    ceiling: float = np.inf,
    gradients: bool = True,
    loss_step: float = 0.0,
    gradient_step: float = 0.0,
    slope_bounds: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return each group's sum of losses and the gradient of that sum, in one reading.

    Rows are sorted by group, dense in any order of memory or compressed, of either precision. Each
    loss counts for at most ``ceiling``. The last column of the gradients is that in ``intercepts``,
    and there are no columns where none are wanted. Sums are in float64 and do not depend on the
    number of threads; with steps, powers of two, what each record adds is rounded to multiples of
    them. ``slope_bounds`` bound the derivative of each record's loss, which goes on as a line; for
    several outputs they bound the norm of the derivatives.
    """
    n_outputs, n_features = weights.shape
    n_records = int(blocks.edges[-1])
    if rows.shape != (n_records, n_features) or not len(row_scale) == len(targets) == n_records:
        raise InputError("rows, row_scale, targets, blocks and weights must be of one data set.")
    if n_records == 0:
        n_groups, n_columns = len(blocks.starts) - 1, n_features + 1 if gradients else 0
        return np.zeros(n_groups), np.zeros((n_groups, n_outputs, n_columns))
    bounds = (np.zeros(0), np.zeros(0)) if slope_bounds is None else slope_bounds
    of_records = (row_scale, targets, *bounds)
    matrix, constants = (np.ascontiguousarray(w, dtype=np.float64) for w in (weights, intercepts))
    steps = float(loss_step), float(gradient_step)
    facts = (*_kernel(loss), float(ceiling))
    stored, run_rows = _stored(rows)
    n_entries = n_records * (
        (1 if isinstance(rows, csr_array) else n_features) + ENTRIES_PER_LOSS * n_outputs
    )
    common = (
        stored,
        tuple(map(read_only, of_records)),
        tuple(map(read_only, (matrix, constants))),
        facts,
        tuple((1.0 / step, step) if step > 0.0 else (None, 1.0) for step in steps),
        read_only(blocks.edges),
    )
    is_exact = loss_step > 0.0 and (gradient_step > 0.0 or not gradients)
    # written out, which compressed rows may be where a few are not much memory
    n_written = n_records * (n_features + ENTRIES_PER_LOSS * n_outputs)
    is_narrow = len(stored) < 3 or n_features <= WIDEST_WRITTEN_OUT
    if is_exact and is_narrow and not sum_up.is_worth_it(n_written, *common):
        return add_up(rows, *common[1:4], steps, blocks.group_edges, gradients=gradients)
    partition = blocks.partition(n_entries // ENTRIES_PER_TASK)
    n_segments = len(partition.groups)
    totals = np.zeros(n_segments)
    parts = np.zeros((n_segments, n_outputs, n_features + 1 if gradients else 0))

    def arguments(part: slice) -> tuple[Any, ...]:
        shape = (n_outputs, n_features + 1)
        runs = np.empty((n_outputs, run_rows)), np.empty(run_rows)
        scratch = (*runs, np.zeros(shape), np.zeros(shape))
        written = (totals[part], parts[part])
        return (*common, scratch, partition.firsts[part], partition.lasts[part], *written)

    compiled: Callable[..., None] = sum_up.prepare(*arguments(partition.tasks[0]))
    run_on_threads([partial(compiled, *arguments(part)) for part in partition.tasks])
    return partition.sum_by_group(totals), partition.sum_by_group(parts)


def slope_bounds(loss: Loss, slope_limits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the derivatives of records' losses as a pass takes them.

    The second are, for a log loss of two classes, the margins at which the first are reached.
    """
    if loss.kernel != "binary_log":
        return slope_limits, slope_limits
    largest = np.minimum(slope_limits, loss.kernel_parameter)
    return largest, slope_edges(largest)


def _kernel(loss: Loss) -> tuple[Any, ...]:
    """Return what a loss is to the pass."""
    allowed = list(KERNELS) if loss.n_outputs == 1 else ["multinomial_log"]
    if loss.kernel not in allowed:
        raise InputError(
            f"kernel of {type(loss).__name__} must be None or one of {allowed}, got "
            f"{loss.kernel!r}."
        )
    return KERNELS[loss.kernel](float(loss.kernel_parameter))


def _stored(rows: Any) -> tuple[tuple[Any, ...], int]:
    """Return rows as the compiled pass takes them, and how many of them make a run."""
    if isinstance(rows, csr_array):
        # compiled code need not try unsigned indices for negative ones
        indices = rows.indices.view(f"u{rows.indices.itemsize}")
        return tuple(map(read_only, (rows.data, indices, rows.indptr))), 256
    bytes_of_row = rows.itemsize * max(rows.shape[1], 1)
    if rows.flags.f_contiguous and not rows.flags.c_contiguous:
        n_rows = np.clip(COLUMNS_BYTES // bytes_of_row, 128, 1024)
        return (read_only(rows.T), 0), int(n_rows)
    return (read_only(rows),), int(np.clip(ROWS_BYTES // bytes_of_row, 8, 256))


# Blocks and products of dense rows and of rows in compressed form.


def canonical_rows(rows: Any) -> Any:
    """Return compressed rows whose entries are sorted, each place held once.

    On the same memory where they are in order, and a copy otherwise; an index out of range and a
    sum of entries that is not finite are refused. What the flags say is not relied on.
    """
    try:
        # a new object has looked at no flag
        fresh = csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        fresh.check_format(full_check=True)
    except ValueError:
        raise InputError(
            f"X must be whole sparse rows: indices from 0 to {rows.shape[1] - 1}, as many as there "
            f"are entries, and an indptr that never falls."
        ) from None
    if not fresh.has_canonical_format:
        fresh = fresh.copy()
        fresh.sum_duplicates()
        if not np.isfinite(fresh.data).all():
            raise InputError("X must hold finite numbers, got entries of one place that overflow.")
    return fresh


def row_block(rows: Any, first: int, last: int) -> Any:
    """Return the rows ``first:last``; dense ones are not copied."""
    if not isinstance(rows, csr_array):
        return rows[first:last]
    bounds = rows.indptr[first : last + 1]
    entries = slice(bounds[0], bounds[-1])
    return csr_array(
        (rows.data[entries], rows.indices[entries], bounds - bounds[0]),
        shape=(last - first, rows.shape[1]),
    )


def scale_rows(rows: Any, factors: FloatArray, kind: type[np.floating] = np.float64) -> Any:
    """Return rows, each times a factor, in double precision or in another."""
    if not isinstance(rows, csr_array):
        return np.multiply(rows, factors[:, None], dtype=kind, casting="same_kind")
    entries = np.multiply(rows.data, np.repeat(factors, np.diff(rows.indptr)), dtype=kind)
    return csr_array((entries, rows.indices, rows.indptr), shape=rows.shape)


def linear_scores(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T`` in double precision, without a copy of the rows."""
    if rows.dtype == np.float64:
        return np.asarray(rows @ weights.T)
    n_records = rows.shape[0]
    scores = np.empty((n_records, len(weights)))
    n_rows = max(64, BLOCK_BYTES // (8 * max(rows.shape[1], 1)))
    for first in range(0, n_records, n_rows):
        last = min(first + n_rows, n_records)
        scores[first:last] = row_block(rows, first, last).astype(np.float64) @ weights.T
    return scores
