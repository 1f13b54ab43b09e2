"""Blocks and products of dense rows and of rows in compressed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import InputError

# Temporary arrays are of this size, not of the rows'.
_BLOCK_BYTES = 2**18


def canonical_rows(rows: Any) -> Any:
    """Return compressed rows whose entries are sorted, each place held once.

    On the same memory where they are in order, and a copy otherwise; an index out of range and a
    sum of entries that is not finite are refused. What the flags say is not relied on.
    """
    # a new object has looked at no flag
    fresh = csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    fresh.check_format(full_check=True)
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


def scale_rows(rows: Any, factors: FloatArray) -> Any:
    """Return rows, each times a factor, in double precision."""
    if not isinstance(rows, csr_array):
        return rows * factors[:, None]
    entries = rows.data * np.repeat(factors, np.diff(rows.indptr))
    return csr_array((entries, rows.indices, rows.indptr), shape=rows.shape)


def linear_scores(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T`` in double precision, without a copy of the rows."""
    if rows.dtype == np.float64:
        return np.asarray(rows @ weights.T)
    n_records = rows.shape[0]
    scores = np.empty((n_records, len(weights)))
    n_rows = max(64, _BLOCK_BYTES // (8 * max(rows.shape[1], 1)))
    for first in range(0, n_records, n_rows):
        last = min(first + n_rows, n_records)
        scores[first:last] = row_block(rows, first, last).astype(np.float64) @ weights.T
    return scores
