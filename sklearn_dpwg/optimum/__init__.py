"""The non-private minimax optimum, with a certificate of how far from optimal it can be.

Nothing here is private: what comes out is as secret as the records.
"""

from sklearn_dpwg.optimum.worst_group import worst_group_optimum

__all__ = ["worst_group_optimum"]
