"""Rows in bulk, dense or compressed: norms, copies, and the cut to whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.threads import IndexArray, run_on_runs
from sklearn_dpwg.exceptions import InputError

# Numbers of a row of norm 1 are whole multiples of 2^-ROW_BITS, which single precision holds.
ROW_BITS = 16
# Squares of longer rows may not be floating-point numbers.
LARGEST = 1e100
# A block stays in the second-level cache between its copy and its norms.
BLOCK_BYTES = 2**18
# Fewer entries take less time than waking a thread.
ENTRIES_PER_GATHER = 2**18


def row_norms(rows: Any) -> FloatArray:
    """Return the Euclidean norm of each row in double precision, infinite on overflow."""
    norms = np.zeros(rows.shape[0])

    def fill(block: slice) -> None:
        norms[block] = np.sqrt(_squares(row_block(rows, block.start, block.stop)))

    _of_each_block(rows, fill)
    return norms


def whole_rows(rows: Any, data_norm: float, order: IndexArray | None = None) -> Any:
    """Return a copy in whole multiples of 2^-16, cut towards zero, of rows in an order.

    Rows longer than `data_norm` are shortened to it, then all are divided by it. None is longer
    than 1 afterwards: no rounding is left to count (docs/theory/sums.md).
    """
    is_sparse, copy = isinstance(rows, csr_array), None
    if is_sparse:
        rows = rows if order is None else rows[order]
        numbers = np.empty(rows.nnz, dtype=np.float32)
        copy = csr_array((numbers, rows.indices, rows.indptr), shape=rows.shape)
    else:
        numbers = np.empty(rows.shape, dtype=np.float32)

    def fill(block: slice) -> None:
        if is_sparse:
            part = row_block(rows, block.start, block.stop).astype(np.float64)
            numbers[rows.indptr[block.start] : rows.indptr[block.stop]] = _cut(part, data_norm)
        else:
            given = rows[block] if order is None else rows[order[block]]
            numbers[block] = _cut(np.array(given, dtype=np.float64, order="C"), data_norm)

    _of_each_block(rows, fill)
    return numbers if copy is None else copy


def _cut(rows: Any, data_norm: float) -> FloatArray:
    """Return the entries of rows, cut; dense rows, and entries, are written to."""
    entries = rows.data if isinstance(rows, csr_array) else rows
    norms = np.sqrt(_squares(rows))
    is_extreme = ~(norms <= LARGEST) if data_norm > 1.0 / LARGEST else norms >= 0.0
    np.maximum(norms, data_norm, out=norms)
    for row in np.flatnonzero(is_extreme):
        of_row = slice(*rows.indptr[row : row + 2]) if isinstance(rows, csr_array) else row
        entries[of_row], norms[row] = _scaled(entries[of_row], data_norm), 1.0
    entries *= _of_entries(rows, 2.0**ROW_BITS / norms)
    np.trunc(entries, out=entries)
    squares = _squares(rows)  # whole numbers: this one is exact
    if (squares > 4.0**ROW_BITS).any():
        entries *= _of_entries(rows, np.where(squares > 4.0**ROW_BITS, 1.0 - 2.0**-20, 1.0))
        np.trunc(entries, out=entries)
    entries *= 2.0**-ROW_BITS
    return np.asarray(entries)


def _scaled(row: FloatArray, data_norm: float) -> FloatArray:
    """Clip a row to a norm and divide by it, with no step that leaves floating point."""
    size = float(np.abs(row).max(initial=0.0))
    direction = row / (size if size > 0.0 else 1.0)
    length = float(np.linalg.norm(direction))
    with np.errstate(over="ignore"):
        fraction = min(float(np.float64(size) / data_norm) * length, 1.0)
    return np.asarray(direction * (fraction / max(length, 1.0)))


def _squares(rows: Any) -> FloatArray:
    """Return the sum of squares of each row, which that row alone decides."""
    with np.errstate(over="ignore"):
        if not isinstance(rows, csr_array):
            # each row by itself: einsum adds up a single one in another order than several
            part = np.ascontiguousarray(rows, dtype=np.float64)
            return np.asarray((part * part).sum(axis=1))
        squares, entries = np.zeros(rows.shape[0]), rows.data.astype(np.float64)
        filled = np.flatnonzero(np.diff(rows.indptr))
        if filled.size:
            squares[filled] = np.add.reduceat(entries * entries, rows.indptr[filled])
        return squares


def _of_entries(rows: Any, factors: FloatArray) -> FloatArray:
    """Return the factor of each entry's row, as it multiplies the entries."""
    return (
        np.repeat(factors, np.diff(rows.indptr))
        if isinstance(rows, csr_array)
        else factors[:, None]
    )


def _of_each_block(rows: Any, task: Callable[[slice], None]) -> None:
    """Do something to every block of rows, on all threads."""
    n_entries, n_records = rows.nnz if isinstance(rows, csr_array) else rows.size, rows.shape[0]
    n_rows = max(64, BLOCK_BYTES // max(8 * n_entries // max(n_records, 1), 8))

    def of_run(first: int, last: int) -> None:
        for start in range(first, last, n_rows):
            task(slice(start, min(start + n_rows, last)))

    run_on_runs(of_run, n_records, n_entries // ENTRIES_PER_GATHER)


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


def row_block(rows: Any, first: int, last: int, kind: type[np.floating] | None = None) -> Any:
    """Return the rows ``first:last`` in a precision; dense ones that have it are not copied."""
    if not isinstance(rows, csr_array):
        return rows[first:last].astype(kind or rows.dtype, copy=False)
    bounds = rows.indptr[first : last + 1]
    entries = slice(bounds[0], bounds[-1])
    numbers = rows.data[entries].astype(kind or rows.dtype, copy=False)
    shape = (last - first, rows.shape[1])
    return csr_array((numbers, rows.indices[entries], bounds - bounds[0]), shape=shape)


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
        scores[first:last] = row_block(rows, first, last, np.float64) @ weights.T
    return scores
