"""Names of the solvers."""

from __future__ import annotations

from sklearn_dpwg.solvers.auto import Auto
from sklearn_dpwg.solvers.descent.ags import AGS
from sklearn_dpwg.solvers.descent.gda import GDA
from sklearn_dpwg.solvers.descent.mgr import MGR
from sklearn_dpwg.solvers.exact import Exact
from sklearn_dpwg.solvers.rounds.best_response import BestResponse
from sklearn_dpwg.solvers.rounds.moments import Moments
from sklearn_dpwg.solvers.rounds.phased_erm import PhasedERM
from sklearn_dpwg.solvers.solver import Solver
from sklearn_dpwg.solvers.stream.oco import OCO
from sklearn_dpwg.solvers.stream.online_to_batch import OnlineToBatch

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        AGS,
        Auto,
        BestResponse,
        Exact,
        GDA,
        MGR,
        Moments,
        OCO,
        OnlineToBatch,
        PhasedERM,
    )
}


def make_solver(solver: str | Solver, *, epsilon: float) -> Solver:
    """Return the solver that a name, an instance and ε ask for.

    Parameters
    ----------
    solver : str or Solver
        A name of `SOLVERS`, or an instance.
    epsilon : float
        With infinity the exact solver stands in for every other.

    Returns
    -------
    Solver
        The instance itself, or a new one with default parameters.

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If `solver` is neither a name nor a solver.
    """
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise ValueError(
                f"solver must be one of {sorted(SOLVERS)} or a solver instance, got {solver!r}."
            )
        found: Solver = SOLVERS[solver]()
    elif isinstance(solver, Solver):
        found = solver
    else:
        raise TypeError(f"solver must be a name or a solver instance, got {solver!r}.")
    return Exact() if epsilon == float("inf") and not isinstance(found, Exact) else found
