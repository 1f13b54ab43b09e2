"""How well each group is served.

These numbers are computed from private records without noise: they are for the eyes of whoever
may see the records. Publishing one is outside every guarantee.
"""

from sklearn_dpwg.metrics.groups import group_table
from sklearn_dpwg.metrics.scorer import worst_group_score, worst_group_scorer

__all__ = ["group_table", "worst_group_score", "worst_group_scorer"]
