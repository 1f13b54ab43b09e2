"""The pass over rows: losses and gradients of all groups, added up in whole numbers.

All that is multiplied is cut towards zero to whole multiples of powers of two, and all that is
added stays below 2^53 of them. So BLAS adds exactly, in any order, on any machine, and a record
moves a sum by what it adds alone (docs/theory/sums.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.rows import row_block
from sklearn_dpwg.data.threads import (
    MAX_TASKS,
    IndexArray,
    n_threads,
    one_blas_thread,
    run_on_threads,
)
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.losses.base import LossConstants

# Bits of weights below their norm, of slopes and of losses below their bounds, beside the 16 of
# rows: a score is below 2^52 units, and so are the sums of a block's gradients and losses.
WEIGHT_BITS, SLOPE_BITS, LOSS_BITS = 36, 23, 39
BLOCK_ROWS = 2**13
# Fine sums, which are not released, have so many bits of slopes more, and as many again of what is
# left, in blocks of an eighth of the rows.
FINE_BITS, REST = 3, 2.0**-26
# Sums are held in multiples of so many units and in what is left of these: up to 2^38 records in
# up to 2^28 pieces.
SLOPE_SPLIT, LOSS_SPLIT = 2.0**10, 2.0**26
# A block of rows stays in the second-level cache between its two products.
ENTRIES_PER_BLOCK = 2**18
LEAST_ROWS = 64
# Fewer entries take less time than waking a thread; a record's loss takes as long as some.
ENTRIES_PER_TASK, ENTRIES_PER_LOSS = 2**17, 40
# From so many groups in a block on, one product with a sparse matrix makes all their sums.
FEW_GROUPS = 8


def unit_of(bound: float, bits: int) -> float:
    """Return a power of two of which numbers up to a bound have less than ``2**bits``."""
    return math.ldexp(1.0, math.frexp(bound)[1] - bits)


def cut(values: Any, unit: float) -> Any:
    """Return how many whole units there are in numbers, towards zero; the numbers are changed."""
    values *= 1.0 / unit
    return np.trunc(values, out=values)


def cut_weights(weights: FloatArray) -> FloatArray:
    """Return public weights in multiples of which products with rows are added up exactly."""
    unit = unit_of(float(np.linalg.norm(weights)), WEIGHT_BITS)
    return np.asarray(cut(weights.copy(), unit) * unit)


def exact_scores(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T`` of whole rows in double precision, each row's rounded once."""
    first = cut_weights(weights)
    return _scores(rows, first) + _scores(rows, cut_weights(weights - first))


def _scores(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T``; of one output it is a product with a vector, which is faster."""
    if len(weights) == 1:
        return np.asarray((rows @ weights[0])[:, None])
    return np.asarray(rows @ weights.T)


def add_split(total: FloatArray, sums: FloatArray, split: float) -> None:
    """Add sums to a total of two parts, multiples of a number and what is left: both exact."""
    high = sums * (1.0 / split)
    np.rint(high, out=high)
    high *= split
    total[0] += high
    total[1] += sums - high


def _units(
    loss: Loss, weights: FloatArray, intercepts: FloatArray, ceiling: float
) -> tuple[float, float]:
    """Return the units of losses and slopes: those of public numbers alone."""
    score = float(np.linalg.norm(weights)) + float(np.linalg.norm(intercepts))
    power = math.ceil(math.log(max(score, 1.0), 4.0)) if score < math.inf else 0
    try:
        constants = _constants(loss, power)
    except TypeError:  # no hash
        constants = loss.constants(4.0**power)
    largest = max(abs(constants.infimum), abs(min(constants.supremum, ceiling)))
    return unit_of(largest, LOSS_BITS), unit_of(constants.lipschitz, SLOPE_BITS)


@lru_cache(maxsize=64)
def _constants(loss: Loss, power: int) -> LossConstants:
    return loss.constants(4.0**power)


def whole_sums(
    loss: Loss,
    rows: Any,
    targets: FloatArray,
    starts: IndexArray,
    weights: FloatArray,
    intercepts: FloatArray,
    *,
    ceiling: float = math.inf,
    slope_limits: FloatArray | None = None,
    gradients: bool = True,
    is_fine: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Return each group's sum of losses and the gradient of that sum, in parts to be added.

    Rows are whole, sorted by group, dense or compressed; group i holds ``starts[i]:starts[i + 1]``.
    Each loss counts for at most the ceiling, and slopes up to limits, if there are any. The last
    column of gradients is that in the intercepts. All are of shape (n_parts, n_groups, ...), and
    are the same however rows are cut into parts. Fine sums have twice the digits.
    """
    n_outputs, n_features = weights.shape
    loss_unit, slope_unit = _units(loss, weights, intercepts, ceiling)
    slope_unit *= 2.0**-FINE_BITS if is_fine else 1.0
    matrix = weights if is_fine else cut_weights(weights)
    n_columns = n_features + 1 if gradients else 0
    n_parts = 4 if is_fine else 2

    def task(first: int, last: int) -> tuple[slice, FloatArray, FloatArray]:
        here = slice(*np.searchsorted(starts, [first, last - 1], side="right") - [1, 0])
        totals = np.zeros((n_parts, here.stop - here.start))
        sums = np.zeros((*totals.shape, n_outputs, n_columns))
        room = None if is_sparse else np.empty((n_rows, n_features))
        for start in range(first, last, n_rows):
            block = slice(start, min(start + n_rows, last))
            part = _in_double(rows, block, room)
            scores = (exact_scores if is_fine else _scores)(part, matrix) + intercepts
            limits = None if slope_limits is None else slope_limits[block]
            values, slopes = losses_and_slopes(loss, scores, targets[block], limits)
            values = np.minimum(values, ceiling)
            groups, cuts = _groups_of(starts, here, block)
            for level, whole in enumerate(_levels(values, loss_unit, is_fine)):
                of_block = np.add.reduceat(whole, cuts)
                _add(totals, level, groups, of_block, LOSS_SPLIT)
            if not gradients:
                continue
            levels = _levels(slopes, slope_unit, is_fine)
            for top in range(block.start, block.stop, most_rows):
                piece = slice(top, min(top + most_rows, block.stop))
                groups, cuts = _groups_of(starts, here, piece)
                inner = slice(piece.start - block.start, piece.stop - block.start)
                some = _some(part, inner.start, inner.stop)
                for level, whole in enumerate(levels):
                    of_piece = np.empty((len(cuts), n_outputs, n_columns))
                    of_piece[..., :-1] = _products(some, whole[inner], cuts)
                    of_piece[..., -1] = np.add.reduceat(whole[inner], cuts)
                    _add(sums, level, groups, of_piece, SLOPE_SPLIT)
        return here, totals, sums

    n_records, is_sparse = rows.shape[0], isinstance(rows, csr_array)
    n_entries = (rows.nnz // max(n_records, 1)) if is_sparse else n_features
    most_rows = BLOCK_ROWS >> FINE_BITS if is_fine else BLOCK_ROWS
    n_rows = max(1, min(max(ENTRIES_PER_BLOCK // max(n_entries, 1), LEAST_ROWS), BLOCK_ROWS))
    n_tasks = n_records * (n_entries + ENTRIES_PER_LOSS) // ENTRIES_PER_TASK
    borders = np.linspace(0, n_records, max(1, min(n_tasks, n_threads(), MAX_TASKS)) + 1)
    totals = np.zeros((n_parts, len(starts) - 1))
    sums = np.zeros((*totals.shape, n_outputs, n_columns))
    shares = list(pairwise(borders.astype(int).tolist())) if n_records else []
    limit = one_blas_thread() if len(shares) > 1 else nullcontext()
    with limit, np.errstate(all="ignore"):
        found = run_on_threads([partial(task, *share) for share in shares])
    for here, of_losses, of_slopes in found:
        totals[:, here] += of_losses
        sums[:, here] += of_slopes
    for level in range(n_parts // 2):
        of_level, share = slice(2 * level, 2 * level + 2), REST**level
        totals[of_level] *= loss_unit * share
        sums[of_level] *= slope_unit * share
    return totals, sums


def losses_and_slopes(
    loss: Loss, scores: FloatArray, targets: FloatArray, limits: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return losses and derivatives in the scores, which are of shape (n_records, n_outputs)."""
    given = scores[:, 0] if loss.n_outputs == 1 else scores
    if limits is None:
        values, slopes = loss.value_and_derivative(given, targets)
    else:
        values, slopes = loss.limited(given, targets, limits)
    return values, slopes.reshape(scores.shape)


def _levels(values: FloatArray, unit: float, is_fine: bool) -> Sequence[FloatArray]:
    """Return how many whole units there are in numbers and, of fine ones, in what is left."""
    counted = values * (1.0 / unit)
    whole = np.trunc(counted)
    if not is_fine:
        return (whole,)
    counted -= whole
    return whole, cut(counted, REST)


def _products(rows: Any, slopes: FloatArray, cuts: IndexArray) -> FloatArray:
    """Return the sum over the rows of each group of slopes times rows."""
    ends = np.append(cuts[1:], len(slopes))
    if len(cuts) > FEW_GROUPS:
        places, edges = np.arange(len(slopes)), np.append(cuts, len(slopes))
        found = []
        for of_output in slopes.T:
            sums = csr_array((of_output, places, edges), shape=(len(cuts), len(slopes))) @ rows
            found.append(sums.toarray() if isinstance(sums, csr_array) else sums)
        return np.stack(found, axis=1)
    return np.stack(
        [
            _scores(_some(rows, first, last).T, slopes[first:last].T).T
            for first, last in zip(cuts, ends, strict=True)
        ]
    )


def _some(rows: Any, first: int, last: int) -> Any:
    """Return the rows ``first:last``, themselves if these are all."""
    return rows if last - first == rows.shape[0] else row_block(rows, first, last)


def _in_double(rows: Any, block: slice, room: FloatArray | None) -> Any:
    """Return a block of rows in double precision, dense ones in memory that is there already."""
    if room is None:
        bounds = rows.indptr[block.start : block.stop + 1]
        entries = slice(bounds[0], bounds[-1])
        numbers = rows.data[entries].astype(np.float64)
        shape = (block.stop - block.start, rows.shape[1])
        return csr_array((numbers, rows.indices[entries], bounds - bounds[0]), shape=shape)
    part = room[: block.stop - block.start]
    part[:] = rows[block]
    return part


def _groups_of(starts: IndexArray, here: slice, block: slice) -> tuple[Any, IndexArray]:
    """Return which of some groups have rows in a block, and where in it each begins."""
    edges = starts[here]
    low, high = np.searchsorted(edges, [block.start, block.stop - 1], side="right")
    cuts = np.maximum(edges[low - 1 : high] - block.start, 0)
    if len(cuts) == 1:
        return slice(low - 1, high), cuts
    is_filled = np.append(cuts[1:], block.stop - block.start) > cuts
    if is_filled.all():
        return slice(low - 1, high), cuts
    return low - 1 + np.flatnonzero(is_filled), cuts[is_filled]


def _add(total: FloatArray, level: int, groups: Any, sums: FloatArray, split: float) -> None:
    """Add the sums of some groups to both parts of a level."""
    of_level = total[2 * level : 2 * level + 2]
    of_groups = of_level[:, groups]
    add_split(of_groups, sums, split)
    if not isinstance(groups, slice):
        of_level[:, groups] = of_groups
