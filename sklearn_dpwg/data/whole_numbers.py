"""The pass over rows: losses and gradients of all groups, added up in whole numbers.

All that is multiplied is cut towards zero to whole multiples of powers of two, and all that is
added stays below 2^53 of them. So BLAS adds exactly, in any order, on any machine, and a record
moves a sum by what it adds alone: towards zero, so that no slope exceeds the bound that
sensitivities assume (docs/theory/sums.md).
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.rows import row_block
from sklearn_dpwg.data.threads import IndexArray, n_threads, one_blas_thread, run_on_runs
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.losses.base import LossConstants

# Bits of weights below their norm, of slopes and of losses below their bounds, beside the 16 of
# rows: a score is below 2^52 units, and so are the sums of a block's gradients and losses.
WEIGHT_BITS, SLOPE_BITS, LOSS_BITS = 36, 23, 39
BLOCK_ROWS = 2**13
# Fine sums, which are not released, have so many bits of slopes more, and as many again of what is
# left, in pieces of an eighth of the rows.
FINE_BITS, REST = 3, 2.0**-26
# Sums are held in multiples of so many units and in what is left of these: up to 2^38 records in
# up to 2^28 pieces.
SLOPE_SPLIT, LOSS_SPLIT = 2.0**10, 2.0**26
# A block of rows stays in the second-level cache between its two products.
ENTRIES_PER_BLOCK = 2**18
MIN_ROWS = 64
# Fewer entries take less time than waking a thread; a record's loss takes as long as some.
ENTRIES_PER_TASK, ENTRIES_PER_LOSS = 2**17, 40
# From so many groups in a block on, one product with a sparse matrix makes all their sums.
FEW_GROUPS = 8


def whole_sums(
    block: Any,  # the records, and the loss that is added up over them
    weights: FloatArray,
    intercepts: FloatArray,
    *,
    loss_clip: float = math.inf,
    gradients: bool = True,
    is_fine: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Return (losses, slopes): by group, Σ min(loss, loss_clip) and its gradient, in parts.

    Shapes are (n_parts, n_groups) and (n_parts, n_groups, n_outputs, n_features + 1), the last
    column for the intercepts; the sum over parts is the result. Slopes are cut at the records'
    limits. Sums are exact, so the cuts of rows do not matter. Fine sums have twice the digits.
    """
    loss, records = block.loss, block.records
    rows, (n_outputs, n_features) = records.rows, weights.shape
    n_records, is_sparse = rows.shape[0], isinstance(rows, csr_array)
    n_entries = (rows.nnz // max(n_records, 1)) if is_sparse else n_features
    n_rows = max(1, min(max(ENTRIES_PER_BLOCK // max(n_entries, 1), MIN_ROWS), BLOCK_ROWS))
    n_levels, most_rows = (2, BLOCK_ROWS >> FINE_BITS) if is_fine else (1, BLOCK_ROWS)
    loss_unit, slope_unit = _units(loss, weights, intercepts, loss_clip)
    slope_unit *= 2.0**-FINE_BITS if is_fine else 1.0
    matrix = weights if is_fine else cut_weights(weights)
    starts = records.starts[filled := np.flatnonzero(np.diff(records.starts))]
    # of multiples of a number of units and of what is left, of groups that have records
    of_losses = (2, len(filled), n_levels)
    of_slopes = (2, len(filled), n_levels * n_outputs, n_features + 1)

    def sums_of_rows(first: int, last: int) -> tuple[FloatArray, FloatArray]:
        losses, slopes = np.zeros(of_losses), np.zeros(of_slopes if gradients else (0,))
        room = None if is_sparse else np.empty((n_rows, n_features))
        for start in range(first, last, n_rows):
            here = slice(start, min(start + n_rows, last))
            if room is None:
                part = row_block(rows, here.start, here.stop, np.float64)
            else:
                (part := room[: here.stop - start])[:] = rows[here]
            scores = (exact_scores(part, matrix) if is_fine else part @ matrix.T) + intercepts
            limits = None if records.slope_limits is None else records.slope_limits[here]
            given = scores[:, 0] if n_outputs == 1 else scores
            values, slopes_here = limited(loss, given, records.targets[here], limits)
            counts = _whole(np.minimum(values, loss_clip)[:, None], loss_unit, n_levels)
            groups, cuts = _groups_of(starts, here)
            add_split(losses[:, groups], np.add.reduceat(counts, cuts), LOSS_SPLIT)
            if not gradients:
                continue
            counts = _whole(slopes_here.reshape(scores.shape), slope_unit, n_levels)
            for top in range(0, len(counts), most_rows):
                some, few = part, counts
                if len(counts) > most_rows:
                    end = min(top + most_rows, len(counts))
                    some, few = row_block(part, top, end), counts[top:end]
                    groups, cuts = _groups_of(starts, slice(start + top, start + end))
                add_split(slopes[:, groups], _products(some, few, cuts), SLOPE_SPLIT)
        return losses, slopes

    n_tasks = n_records * (n_entries + ENTRIES_PER_LOSS) // ENTRIES_PER_TASK
    with np.errstate(all="ignore"):
        if n_tasks < 2:
            losses, slopes = sums_of_rows(0, n_records)
        else:
            with one_blas_thread():
                task_sums = run_on_runs(sums_of_rows, n_records, min(n_tasks, n_threads()))
            losses, slopes = (reduce(np.add, sums) for sums in zip(*task_sums, strict=True))

    def in_parts(sums: Any, unit: float, shape: tuple[int, ...]) -> FloatArray:
        of_levels = np.zeros((n_levels, 2, len(records.starts) - 1, *shape))
        for level, of_level in enumerate(np.split(sums, n_levels, axis=2) if sums.size else ()):
            sums_of_groups = of_level.reshape(2, len(filled), *shape)
            of_levels[level][:, filled] = sums_of_groups * (unit * REST**level)
        return of_levels.reshape(2 * n_levels, *of_levels.shape[2:])

    columns = n_features + 1 if gradients else 0
    return in_parts(losses, loss_unit, ()), in_parts(slopes, slope_unit, (n_outputs, columns))


def limited(
    loss: Loss, scores: FloatArray, targets: FloatArray, limits: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return values and derivatives of losses whose slopes are limited; None for no limits.

    A steeper loss goes on as a line; with several outputs only its derivative is shortened.
    """
    values, slopes = loss.value_and_derivative(scores, targets)
    if limits is None:
        return values, slopes
    if slopes.ndim > 1:
        squares = (slopes * slopes).sum(axis=1)
        steep = np.flatnonzero(squares > limits * limits)
        slopes[steep] *= (limits[steep] / np.sqrt(squares[steep]))[:, None]
        return values, slopes
    steep = np.flatnonzero(np.abs(slopes) > limits)
    if len(steep):
        steep_scores, limit = scores[steep], limits[steep]
        ends = np.clip(steep_scores, *loss.ends(targets[steep], limit))
        line = limit * np.abs(steep_scores - ends)
        values[steep] = loss.value_and_derivative(ends, targets[steep])[0] + line
        slopes[steep] = np.copysign(limit, slopes[steep])
    return values, slopes


def _whole(values: FloatArray, unit: float, n_levels: int) -> FloatArray:
    """Return values in whole units; with 2 levels, also the remainders in units of `REST`."""
    counted = values * (1.0 / unit)
    if n_levels == 1:
        return np.trunc(counted, out=counted)
    whole = np.trunc(counted)
    return np.hstack([whole, cut(counted - whole, REST)])


def _products(rows: Any, counts: FloatArray, cuts: IndexArray) -> FloatArray:
    """Return by group Σ count · row and, last, Σ count: (n_groups, n_counts, n_features + 1)."""
    sums = np.empty((len(cuts), counts.shape[1], rows.shape[1] + 1))
    sums[..., -1] = np.add.reduceat(counts, cuts)
    edges = [*cuts.tolist(), len(counts)]
    if len(cuts) <= FEW_GROUPS and isinstance(rows, csr_array):
        apart = np.zeros((len(counts), *sums.shape[:2]))  # each group in columns of its own
        for group, (first, last) in enumerate(pairwise(edges)):
            apart[first:last, group] = counts[first:last]
        sums[..., :-1] = (rows.T @ apart.reshape(len(counts), -1)).T.reshape(*sums.shape[:2], -1)
        return sums
    if len(cuts) <= FEW_GROUPS:
        for group, (first, last) in enumerate(pairwise(edges)):
            sums[group, :, :-1] = counts[first:last].T @ rows[first:last]
        return sums
    for column, numbers in enumerate(counts.T):
        by_group = csr_array((numbers, np.arange(len(counts)), edges), (len(cuts), len(counts)))
        product = by_group @ rows
        sums[:, column, :-1] = product.toarray() if isinstance(product, csr_array) else product
    return sums


def _groups_of(starts: IndexArray, block: slice) -> tuple[slice, IndexArray]:
    """Return the slice of groups with rows in a block, and the first row in it of each."""
    first = int(np.searchsorted(starts, block.start, side="right")) - 1
    groups = slice(first, int(np.searchsorted(starts, block.stop)))
    return groups, np.maximum(starts[groups] - block.start, 0)


def exact_scores(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T`` of rows in whole units of 2^-16, each score rounded once."""
    first = cut_weights(weights)
    return np.asarray(rows @ first.T + rows @ cut_weights(weights - first).T)


def _units(
    loss: Loss, weights: FloatArray, intercepts: FloatArray, loss_clip: float
) -> tuple[float, float]:
    """Return the units of losses and slopes, which depend on public numbers alone."""
    score = float(np.linalg.norm(weights)) + float(np.linalg.norm(intercepts))
    power = math.ceil(math.log(max(score, 1.0), 4.0)) if score < math.inf else 0
    constants = _constants(loss, power)  # for scores up to 4**power, which is at least `score`
    largest = max(abs(constants.infimum), abs(min(constants.supremum, loss_clip)))
    return unit_of(largest, LOSS_BITS), unit_of(constants.lipschitz, SLOPE_BITS)


@lru_cache(maxsize=64)
def _constants(loss: Loss, power: int) -> LossConstants:
    return loss.constants(4.0**power)


def unit_of(bound: float, bits: int) -> float:
    """Return the power of two u such that ``bound < u * 2**bits``, the least one."""
    return math.ldexp(1.0, math.frexp(bound)[1] - bits)


def cut(values: Any, unit: float) -> Any:
    """Divide values by a unit and truncate, in place; return them."""
    values *= 1.0 / unit
    return np.trunc(values, out=values)


def cut_weights(weights: FloatArray) -> FloatArray:
    """Return public weights truncated to a unit at which products with rows sum exactly."""
    unit = unit_of(float(np.linalg.norm(weights)), WEIGHT_BITS)
    return np.asarray(np.trunc(weights * (1.0 / unit)) * unit)


def add_split(total: FloatArray, sums: FloatArray, split: float) -> None:
    """Add sums exactly to ``total``: [0] holds multiples of `split`, [1] the remainders."""
    high = sums * (1.0 / split)
    np.rint(high, out=high)
    high *= split
    total[0] += high
    total[1] += sums - high
