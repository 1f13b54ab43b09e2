"""Solvers: each plans from public facts, then runs within its plan.

`Plan` says what will be released and with how much noise before any record is read; `Solver.run`
touches the records and cannot release more, because the `NoiseSource` it draws from refuses to.
"""

from sklearn_dpwg.solvers.auto import Auto
from sklearn_dpwg.solvers.base import Solution, Solver
from sklearn_dpwg.solvers.exact import Exact
from sklearn_dpwg.solvers.fresh import FreshSolver, Game
from sklearn_dpwg.solvers.mgr import MGR
from sklearn_dpwg.solvers.moments import Moments
from sklearn_dpwg.solvers.oco import OCO
from sklearn_dpwg.solvers.phased_erm import PhasedERM
from sklearn_dpwg.solvers.planning import Plan
from sklearn_dpwg.solvers.primal_dual_subgradient import primal_dual_subgradient
from sklearn_dpwg.solvers.registry import SOLVERS, make_solver
from sklearn_dpwg.solvers.saddle_point import SaddlePoint, solve_saddle_point
from sklearn_dpwg.solvers.worst_group_optimum import worst_group_optimum

__all__ = [
    "MGR",
    "OCO",
    "SOLVERS",
    "Auto",
    "Exact",
    "FreshSolver",
    "Game",
    "Moments",
    "PhasedERM",
    "Plan",
    "SaddlePoint",
    "Solution",
    "Solver",
    "make_solver",
    "primal_dual_subgradient",
    "solve_saddle_point",
    "worst_group_optimum",
]
