"""Norms of rows, and copies of rows in another order, on all threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.kernels._run_on_threads import run_on_threads
from sklearn_dpwg.kernels.partition import MAX_TASKS, IndexArray

# A block stays in the second-level cache between its copy and its norms.
BLOCK_BYTES = 2**18
# Fewer entries take less time than waking a thread, and than loading what is compiled.
ENTRIES_PER_TASK = 2**18


def row_norms(rows: Any) -> FloatArray:
    """Return the Euclidean norm of each row in double precision, infinite on overflow."""
    norms = np.zeros(rows.shape[0])

    def task(share: slice) -> None:
        for block in _blocks(rows, share):
            _fill_norms(rows, block, norms)

    _on_threads(task, rows)
    return norms


def rows_at(rows: Any, positions: IndexArray) -> Any:
    """Return a copy of some rows, the numbers of each together."""
    if isinstance(rows, csr_array):
        return rows[positions]
    if len(positions) and not 0 <= positions.min() <= positions.max() < len(rows):
        raise IndexError(f"positions must be those of {len(rows)} rows, got others: a bug.")
    copy = np.empty((len(positions), rows.shape[1]), dtype=rows.dtype)

    def task(share: slice) -> None:
        for block in _blocks(copy, share):
            if rows.flags.c_contiguous:
                # to raise for a position, NumPy would write to a copy of the copy
                rows.take(positions[block], axis=0, out=copy[block], mode="clip")
            else:
                copy[block] = rows[positions[block]]

    _on_threads(task, copy)
    return copy


def sorted_by_group(
    rows: Any, targets: FloatArray, codes: IndexArray, starts: IndexArray
) -> tuple[Any, FloatArray, FloatArray, IndexArray]:
    """Return copies of rows and targets sorted by group, norms of the rows, and where they were.

    Records of a group keep their order; group i is at ``starts[i]:starts[i + 1]``.
    """
    if not isinstance(rows, csr_array) and rows.size >= ENTRIES_PER_TASK:
        return _placed(rows, targets, codes, starts)
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
    rows: NDArray[Any], targets: FloatArray, codes: IndexArray, starts: IndexArray
) -> tuple[NDArray[Any], FloatArray, FloatArray, IndexArray]:
    """Do that for dense rows in one reading; a task writes behind what those before it write."""
    from sklearn_dpwg.kernels._compiled_sort import place_rows  # loads numba

    n_records = len(codes)
    copy, norms, order = np.empty(rows.shape, rows.dtype), np.empty(n_records), np.empty_like(codes)
    moved = np.empty(n_records)
    shares = _shares(rows)
    counts = np.array([np.bincount(codes[part], minlength=len(starts) - 1) for part in shares])
    nexts = starts[:-1] + np.cumsum(counts, axis=0) - counts

    def arguments(block: slice, of_task: IndexArray) -> tuple[Any, ...]:
        part = np.ascontiguousarray(rows[block])  # rows that lie together are not copied
        lengths = np.empty(len(part))
        _fill_norms(part, slice(0, len(part)), lengths)
        read = (part, lengths, targets[block], codes[block])
        return *map(read_only, read), block.start, of_task, copy, norms, moved, order

    compiled = place_rows.prepare(*arguments(slice(0, 1), nexts[0]))

    def task(share: slice, of_task: IndexArray) -> None:
        for block in _blocks(rows, share):
            compiled(*arguments(block, of_task))

    run_on_threads([partial(task, *pair) for pair in zip(shares, nexts, strict=True)])
    return copy, moved, norms, order


def _rows_of_block(rows: Any) -> int:
    n_entries = rows.nnz if isinstance(rows, csr_array) else rows.size
    return max(64, BLOCK_BYTES // max(8 * n_entries // max(rows.shape[0], 1), 8))


def _blocks(rows: Any, share: slice) -> Iterator[slice]:
    """Cut the share of a task into blocks."""
    n_rows = _rows_of_block(rows)
    for first in range(share.start, share.stop, n_rows):
        yield slice(first, min(first + n_rows, share.stop))


def _shares(rows: Any) -> list[slice]:
    """Return the rows of each task, whole blocks, whatever the number of threads."""
    n_records, n_rows = rows.shape[0], _rows_of_block(rows)
    n_entries = rows.nnz if isinstance(rows, csr_array) else rows.size
    n_blocks = -(n_records // -n_rows)
    n_tasks = max(1, min(MAX_TASKS, n_entries // ENTRIES_PER_TASK, n_blocks))
    cuts = [n_rows * (n_blocks * task // n_tasks) for task in range(n_tasks)] + [n_records]
    return [slice(*pair) for pair in pairwise(cuts)]


def _on_threads(task: Callable[[slice], None], rows: Any) -> None:
    run_on_threads([partial(task, share) for share in _shares(rows)])


def _fill_norms(rows: Any, block: slice, norms: FloatArray) -> None:
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
