"""Compiled pass over rows, dense or sparse, and other bulk reads and copies of rows.

`fused_pass` computes the losses and gradients of all groups in one reading, for every loss that
states a `kernel`; it is compiled at its first use. `run_on_threads` spreads such work over the
cores. Everything here gives the same bits on any number of threads.
"""

from sklearn_dpwg.data.kernels.compiled import rounding_kind
from sklearn_dpwg.data.kernels.passes import (
    Blocks,
    Partition,
    allow_threads,
    canonical_rows,
    fused_pass,
    has_kernel,
    linear_scores,
    n_threads,
    one_blas_thread,
    row_block,
    row_norms,
    rows_at,
    run_on_threads,
    scale_rows,
    slope_bounds,
    sorted_by_group,
)

__all__ = [
    "Blocks",
    "Partition",
    "allow_threads",
    "canonical_rows",
    "fused_pass",
    "has_kernel",
    "linear_scores",
    "n_threads",
    "one_blas_thread",
    "rounding_kind",
    "row_block",
    "row_norms",
    "rows_at",
    "run_on_threads",
    "scale_rows",
    "slope_bounds",
    "sorted_by_group",
]
