"""Losses and gradients of all groups in one reading of the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.kernels._gathered_rows import read_only as _read_only
from sklearn_dpwg.kernels._run_on_threads import run_on_threads
from sklearn_dpwg.kernels.partition import Blocks, Partition
from sklearn_dpwg.losses import Loss

IndexArray = NDArray[np.intp]

# A run of rows stays in the first-level cache, one of columns in the second, where longer runs
# along each column pay.
ROWS_BYTES = 2**14
COLUMNS_BYTES = 2**19
# Fewer entries take less time than waking a thread.
ENTRIES_PER_TASK = 2**16
# A record's loss takes as long as about this many entries.
ENTRIES_PER_LOSS = 20


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
    slope_limits: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return each group's sum of losses and the gradient of that sum, in one reading.

    Rows are sorted by group, dense in any order of memory or compressed, of either precision. Each
    loss counts for at most ``ceiling``. The last column of the gradients is that in ``intercepts``,
    and there are no columns where none are wanted. Sums are in float64 and do not depend on the
    number of threads; with steps, powers of two, what each record adds is rounded to multiples of
    them. ``slope_limits``, one a record, bound the derivative of its loss, which goes on as a line;
    for several outputs they bound the norm of the derivatives.
    """
    from sklearn_dpwg.kernels._compiled import dense_pass, sparse_pass  # loads numba

    n_outputs, n_features = weights.shape
    n_records = int(blocks.edges[-1])
    if rows.shape != (n_records, n_features) or not len(row_scale) == len(targets) == n_records:
        raise InputError("rows, row_scale, targets, blocks and weights must be of one data set.")
    sparse = isinstance(rows, csr_array)
    n_entries = 1 if sparse else n_features
    partition = Partition.of(
        blocks.starts, n_records * (n_entries + ENTRIES_PER_LOSS * n_outputs) // ENTRIES_PER_TASK
    )
    n_segments = len(partition.groups)
    totals = np.zeros(n_segments)
    parts = np.zeros((n_segments, n_outputs, n_features + 1 if gradients else 0))
    if n_segments == 0:
        return partition.sum_by_group(totals), partition.sum_by_group(parts)
    kernel, stored, run_rows = (
        (sparse_pass, (rows.data, _unsigned(rows.indices), rows.indptr), 256)
        if sparse
        else (dense_pass, *_stored(rows))
    )
    common = (
        *(_read_only(part) if isinstance(part, np.ndarray) else part for part in stored),
        _read_only(row_scale),
        _read_only(targets),
        _read_only(np.ascontiguousarray(weights, dtype=np.float64)),
        _read_only(np.ascontiguousarray(intercepts, dtype=np.float64)),
        _read_only(np.zeros(0) if slope_limits is None else slope_limits),
        _branch(loss),
        float(loss.kernel_parameter),
        float(ceiling),
        run_rows,
        float(loss_step),
        float(gradient_step),
        _read_only(blocks.edges),
    )

    def arguments(part: slice) -> tuple[Any, ...]:
        written = (totals[part], parts[part])
        return (*common, partition.firsts[part], partition.lasts[part], *written)

    compiled: Callable[..., None] = kernel.prepare(*arguments(partition.tasks[0]))
    run_on_threads([partial(compiled, *arguments(part)) for part in partition.tasks])
    return partition.sum_by_group(totals), partition.sum_by_group(parts)


def _branch(loss: Loss) -> int:
    from sklearn_dpwg.kernels._compiled import BRANCHES

    allowed = BRANCHES if loss.n_outputs == 1 else ("multinomial_log",)
    if loss.kernel not in allowed:
        raise InputError(
            f"kernel of {type(loss).__name__} must be None or one of {list(allowed)}, got "
            f"{loss.kernel!r}."
        )
    return BRANCHES.index(loss.kernel)


def _stored(rows: NDArray[Any]) -> tuple[tuple[NDArray[Any], bool], int]:
    """Return dense rows as they lie in memory, whether by columns, and the rows of a run."""
    by_columns = rows.flags.f_contiguous and not rows.flags.c_contiguous
    bytes_of_row = rows.itemsize * max(rows.shape[1], 1)
    if by_columns:
        return (rows.T, True), int(np.clip(COLUMNS_BYTES // bytes_of_row, 128, 1024))
    return (rows, False), int(np.clip(ROWS_BYTES // bytes_of_row, 8, 256))


def _unsigned(indices: NDArray[Any]) -> NDArray[Any]:
    """Return a view of indices that compiled code need not try for negative ones."""
    return indices.view(f"u{indices.itemsize}")
