"""Solvers: each plans from public facts, then runs within its plan.

`Plan` says what will be released and with how much noise before any record is read; `Solver.run`
touches the records and cannot release more, because the `NoiseSource` it draws from refuses to.
"""

from sklearn_dpwg.solvers.ags import AGS
from sklearn_dpwg.solvers.auto import SOLVERS, Auto
from sklearn_dpwg.solvers.exact import Exact
from sklearn_dpwg.solvers.gda import GDA
from sklearn_dpwg.solvers.mgr import MGR
from sklearn_dpwg.solvers.moments import Moments
from sklearn_dpwg.solvers.oco import OCO
from sklearn_dpwg.solvers.online_to_batch import OnlineToBatch
from sklearn_dpwg.solvers.phased_erm import PhasedERM
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver

__all__ = [
    "AGS",
    "GDA",
    "MGR",
    "OCO",
    "SOLVERS",
    "Auto",
    "Exact",
    "Moments",
    "OnlineToBatch",
    "PhasedERM",
    "Plan",
    "Solution",
    "Solver",
]
