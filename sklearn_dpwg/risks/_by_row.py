"""Numbers of rows that depend on no other row, and sums whose rounding is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.kernels import row_block, row_norms, scale_rows
from sklearn_dpwg.records import GroupedRecords

# Temporary arrays are of this size, not of the rows'.
_BLOCK_BYTES = 2**18


def squared_distances(records: GroupedRecords, center: FloatArray) -> FloatArray:
    """Return the squared distance of each row from a centre."""
    squares = (row_norms(records.rows) * records.row_scale) ** 2
    n_rows = max(64, _BLOCK_BYTES // (8 * max(len(center), 1)))
    for first in range(0, len(squares), n_rows):
        block = slice(first, min(first + n_rows, len(squares)))
        rows = row_block(records.rows, block.start, block.stop)
        if isinstance(rows, csr_array):
            products = rows @ center
        else:
            products = scores_by_row(rows, center[None])[:, 0]
        squares[block] -= 2.0 * products * records.row_scale[block]
    return np.maximum(squares + center @ center, 0.0)


def scores_by_row(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T``, each row's numbers added up by themselves.

    A product of matrices rounds a row by how many others there are, which is secret in a batch.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    return np.stack([(rows * of_output).sum(axis=1) for of_output in weights], axis=1)


def weighted_row_sums(rows: Any, factors: FloatArray, step: float) -> FloatArray:
    """Return ``factors.T @ rows``, each product rounded to a multiple of the step unless it is 0.

    Added up in floating point, multiples are exact in any order.
    """
    if step == 0.0:
        return np.asarray((rows.T @ factors).T)
    sums = np.empty((factors.shape[1], rows.shape[1]))
    for output, of_output in enumerate(factors.T):
        products = scale_rows(rows, of_output / step)
        entries = products.data if isinstance(products, csr_array) else products
        np.rint(entries, out=entries)
        sums[output] = products.sum(axis=0)
    return sums * step


def on_grid(value: Any, step: float) -> Any:
    """Return the nearest multiples of a power of two, or the values themselves for a step of 0."""
    return np.rint(value / step) * step if step > 0.0 else value


def exact_sum(first: Any, second: Any) -> tuple[Any, Any]:
    """Return a sum as it is rounded and what rounding took from it, which is a float as well."""
    total = first + second
    part = total - first
    return total, (first - (total - part)) + (second - part)


def dense(product: Any) -> FloatArray:
    return product if isinstance(product, np.ndarray) else product.toarray()
