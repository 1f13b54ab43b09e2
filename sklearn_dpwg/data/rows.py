"""Functions of dense and sparse (CSR) rows: norms, blocks, products, rounding to whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.threads import IndexArray, run_on_runs
from sklearn_dpwg.exceptions import InputError

# Entries of encoded rows are whole multiples of 2^-ROW_BITS, exact in single precision.
ROW_BITS = 16
# Squares of longer rows may overflow.
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

    _run_on_blocks(rows, fill)
    return norms


def whole_rows(rows: Any, data_norm: float, order: IndexArray | None = None) -> Any:
    """Return a float32 copy of ``rows[order]``, clipped to `data_norm` and divided by it.

    Entries are rounded towards zero to whole multiples of 2^-16, so that sums of rows are exact and
    no row is longer than 1 (docs/theory/sums.md).
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
            part = rows[block] if order is None else rows[order[block]]
            numbers[block] = _cut(np.array(part, dtype=np.float64, order="C"), data_norm)

    _run_on_blocks(rows, fill)
    return numbers if copy is None else copy


def _cut(rows: Any, data_norm: float) -> FloatArray:
    """Return the entries of `rows` clipped, scaled and rounded as in `whole_rows`, in place."""
    entries = rows.data if isinstance(rows, csr_array) else rows
    norms = np.sqrt(_squares(rows))
    # rows whose squares or quotients may overflow or underflow are clipped one by one
    is_extreme = ~(norms <= LARGEST) if data_norm > 1.0 / LARGEST else norms >= 0.0
    np.maximum(norms, data_norm, out=norms)
    for row in np.flatnonzero(is_extreme):
        place = slice(*rows.indptr[row : row + 2]) if isinstance(rows, csr_array) else row
        entries[place], norms[row] = _clipped_row(entries[place], data_norm), 1.0
    entries *= _of_entries(rows, 2.0**ROW_BITS / norms)
    np.trunc(entries, out=entries)
    squares = _squares(rows)  # of whole numbers, so exact; a row may be too long by rounding
    if (squares > 4.0**ROW_BITS).any():
        entries *= _of_entries(rows, np.where(squares > 4.0**ROW_BITS, 1.0 - 2.0**-20, 1.0))
        np.trunc(entries, out=entries)
    entries *= 2.0**-ROW_BITS
    return np.asarray(entries)


def _clipped_row(row: FloatArray, data_norm: float) -> FloatArray:
    """Return one row clipped to `data_norm` and divided by it, without overflow on the way."""
    size = float(np.abs(row).max(initial=0.0))
    direction = row / (size if size > 0.0 else 1.0)
    length = float(np.linalg.norm(direction))
    with np.errstate(over="ignore"):
        fraction = min(float(np.float64(size) / data_norm) * length, 1.0)
    return np.asarray(direction * (fraction / max(length, 1.0)))


def _squares(rows: Any) -> FloatArray:
    """Return the sum of squares of each row; other rows do not change its rounding."""
    with np.errstate(over="ignore"):
        if not isinstance(rows, csr_array):
            # not einsum, which adds up a single row in another order than several
            part = np.ascontiguousarray(rows, dtype=np.float64)
            return np.asarray((part * part).sum(axis=1))
        squares, entries = np.zeros(rows.shape[0]), rows.data.astype(np.float64)
        filled = np.flatnonzero(np.diff(rows.indptr))
        if filled.size:
            squares[filled] = np.add.reduceat(entries * entries, rows.indptr[filled])
        return squares


def _of_entries(rows: Any, factors: FloatArray) -> FloatArray:
    """Return a factor a row in the shape that multiplies the entries: one an entry, or a column."""
    if isinstance(rows, csr_array):
        return np.repeat(factors, np.diff(rows.indptr))
    return factors[:, None]


def _run_on_blocks(rows: Any, task: Callable[[slice], None]) -> None:
    """Call ``task(slice of rows)`` for blocks of rows that fit the cache, on all threads."""
    n_entries, n_records = rows.nnz if isinstance(rows, csr_array) else rows.size, rows.shape[0]
    bytes_per_row = max(8 * n_entries // max(n_records, 1), 8)
    rows_per_block = max(64, BLOCK_BYTES // bytes_per_row)

    def run_blocks(first: int, stop: int) -> None:
        for start in range(first, stop, rows_per_block):
            task(slice(start, min(start + rows_per_block, stop)))

    run_on_runs(run_blocks, n_records, n_entries // ENTRIES_PER_GATHER)


def canonical_rows(rows: Any) -> Any:
    """Return CSR rows with sorted column indices, duplicates added up; invalid rows are an error.

    Rows already in that form share their memory, others are copied.
    """
    try:
        # a new object: the flags of `rows` may be wrong, as its arrays can be changed
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
    """Return ``rows[first:last]`` in the type `kind`; dense rows of that type are a view."""
    if not isinstance(rows, csr_array):
        return rows[first:last].astype(kind or rows.dtype, copy=False)
    bounds = rows.indptr[first : last + 1]
    entries = slice(bounds[0], bounds[-1])
    numbers = rows.data[entries].astype(kind or rows.dtype, copy=False)
    shape = (last - first, rows.shape[1])
    return csr_array((numbers, rows.indices[entries], bounds - bounds[0]), shape=shape)


def scale_rows(rows: Any, factors: FloatArray, kind: type[np.floating] = np.float64) -> Any:
    """Return ``factors[:, None] * rows`` in the type `kind`, sparse for sparse rows."""
    if not isinstance(rows, csr_array):
        return np.multiply(rows, factors[:, None], dtype=kind, casting="same_kind")
    entries = np.multiply(rows.data, np.repeat(factors, np.diff(rows.indptr)), dtype=kind)
    return csr_array((entries, rows.indices, rows.indptr), shape=rows.shape)


def linear_scores(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T`` in double precision, without a copy of all rows at once."""
    if rows.dtype == np.float64:
        return np.asarray(rows @ weights.T)
    n_records = rows.shape[0]
    scores = np.empty((n_records, len(weights)))
    n_rows = max(64, BLOCK_BYTES // (8 * max(rows.shape[1], 1)))
    for first in range(0, n_records, n_rows):
        last = min(first + n_rows, n_records)
        scores[first:last] = row_block(rows, first, last, np.float64) @ weights.T
    return scores
