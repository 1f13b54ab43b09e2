"""The non-private minimax optimum, with a certificate of how far from optimal it can be.

`worst_group_optimum` minimises the largest group risk of records, `smooth_optimum` the largest of
smooth functions that need no records; `solve_saddle_point` solves the regularised
game that a phase of `PhasedERM` plays; `primal_dual_subgradient` is the slow reference that both
are tested against. Nothing here is private: what comes out is as secret as the records.
"""

from sklearn_dpwg.optimum.objective import SaddlePoint, primal_dual_subgradient, project_to_ball
from sklearn_dpwg.optimum.saddle_point import solve_saddle_point
from sklearn_dpwg.optimum.worst_group import smooth_optimum, worst_group_optimum

__all__ = [
    "SaddlePoint",
    "primal_dual_subgradient",
    "project_to_ball",
    "smooth_optimum",
    "solve_saddle_point",
    "worst_group_optimum",
]
