"""Compiled pass over rows, dense or sparse, and other bulk reads and copies of rows.

`fused_pass` computes the losses and gradients of all groups in one reading, for every loss that
states a `kernel`; it is compiled at its first use. `run_on_threads` spreads such work over the
cores. Everything here gives the same bits on any number of threads.
"""

from sklearn_dpwg.kernels._fused_pass import fused_pass, has_kernel
from sklearn_dpwg.kernels._gathered_rows import row_norms, rows_at, sorted_by_group
from sklearn_dpwg.kernels._rounding_kind import rounding_kind
from sklearn_dpwg.kernels._run_on_threads import (
    allow_threads,
    n_threads,
    one_blas_thread,
    run_on_threads,
)
from sklearn_dpwg.kernels._sparse_products import (
    canonical_rows,
    linear_scores,
    row_block,
    scale_rows,
)
from sklearn_dpwg.kernels.partition import Blocks, Partition

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
    "sorted_by_group",
]
