"""Fits and predictions of records in partitions: a `Source`, or collections of dask.

What is known of each partition is gathered first, without its rows; plan and warnings follow from
it as they do in memory. Then each partition becomes a block, and all are proved sound before the
first draw. Rows stay where they are.
"""

from sklearn_dpwg.estimators.in_blocks.fit import fit_in_blocks
from sklearn_dpwg.estimators.in_blocks.held import is_elsewhere
from sklearn_dpwg.estimators.in_blocks.scores import by_block, score_by_block

__all__ = ["by_block", "fit_in_blocks", "is_elsewhere", "score_by_block"]
