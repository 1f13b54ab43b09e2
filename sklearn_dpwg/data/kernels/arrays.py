"""The pass over rows in NumPy, with the bits of the compiled one where sums are exact.

What each record adds is computed by the same operations in the same order, and rounded to whole
numbers of steps, which add up to the same in any order: so which of the two is taken, where and
when, changes no bit of a sum of finite numbers or of what is released (docs/theory/sums.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.kernels.compiled import binary_log, multinomial_log, other_loss

# Rows are read in runs that the second-level cache holds with what is made of them.
RUN_BYTES = 2**18


def add_up(
    rows: Any,
    of_records: tuple[FloatArray, ...],
    weights: tuple[FloatArray, ...],
    loss: tuple[Any, ...],
    steps: tuple[float, float],
    group_edges: NDArray[np.intp],
    *,
    gradients: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return each group's sum of losses and the gradient of that sum, as `fused_pass` does.

    Group i holds the rows ``group_edges[i]:group_edges[i + 1]``; both steps are positive, but that
    of gradients where none are wanted. Compressed rows are written out, a run at a time: zeros add
    nothing.
    """
    matrix, constants = weights
    n_outputs, n_features = matrix.shape
    filled = np.flatnonzero(np.diff(group_edges))  # groups that hold records
    starts, end = group_edges[filled], int(group_edges[-1])
    totals = np.zeros(len(filled))
    parts = np.zeros((len(filled), n_outputs, n_features + 1 if gradients else 0))
    n_rows = max(64, RUN_BYTES // (8 * max(n_features, 1)))
    with np.errstate(all="ignore"):
        for first in range(0, end, n_rows):
            run = slice(first, min(first + n_rows, end))
            # groups that hold records of the run
            begin = np.searchsorted(starts, first, side="right") - 1
            at = slice(begin, np.searchsorted(starts, run.stop))
            cuts = np.maximum(starts[at] - first, 0)
            part = rows[run].toarray() if isinstance(rows, csr_array) else rows[run]
            columns = np.array(part.T, dtype=np.float64, order="C")
            scale, targets, *limits = (each[run] for each in of_records)
            scores = np.stack([_scores(columns, each) for each in matrix])
            scores = scores * scale + constants[:, None]
            values = _losses(loss, scores, targets, limits)
            counted = np.rint(np.minimum(values, loss[-1]) * (1.0 / steps[0]))
            totals[at] += np.add.reduceat(counted, cuts)
            if not gradients:
                continue
            for output, slopes in enumerate(scores):
                of_output = parts[at, output]
                of_output[:, -1] += np.add.reduceat(np.rint(slopes * (1.0 / steps[1])), cuts)
                terms = columns * (slopes * scale * (1.0 / steps[1]))
                np.rint(terms, out=terms)
                of_output[:, :-1] += np.add.reduceat(terms, cuts, axis=1).T
    all_totals = np.zeros(len(group_edges) - 1)
    all_parts = np.zeros((len(all_totals), *parts.shape[1:]))
    all_totals[filled], all_parts[filled] = totals * steps[0], parts * steps[1]
    return all_totals, all_parts


def _scores(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the scores of rows that lie by columns, added up from the first to the last."""
    products = columns * weights[:, None]
    if products.shape[1] == 1 and len(products):  # NumPy adds up numbers that lie together in pairs
        return np.asarray(np.add.accumulate(products[:, 0])[-1:])
    return np.add.reduce(products, axis=0)


def _losses(
    loss: tuple[Any, ...], scores: FloatArray, targets: FloatArray, limits: Any
) -> FloatArray:
    """Return losses, and put their derivatives in place of the scores."""
    is_limited = len(limits[0]) > 0
    limit = limits[0] if is_limited else np.inf
    if len(loss) == 1:
        return np.asarray(multinomial_log(scores, targets, limit))
    if len(loss) == 3:
        found = binary_log(scores[0], targets, *(limits if is_limited else loss[:2]))
    else:
        found = other_loss(loss, scores[0], targets, limit)
    values, scores[0] = found
    return np.asarray(values)
