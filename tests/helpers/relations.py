"""Which neighbours a test fits for, where that is not the default."""

from typing import Any

from sklearn_dpwg.solvers import SOLVERS, Solver
from sklearn_dpwg.solvers.solver import FreshSolver

WITHIN_GROUP = {"neighbours": "replace-one-within-group"}


def hides_groups(solver: Solver) -> bool:
    """Return whether a solver, with its parameters, can protect the group of a record too."""
    facts = solver.get_params()
    is_paper, is_sampled = facts.get("schedule") == "paper", facts.get("play") == "sampled"
    return solver.knows_hidden_groups and not is_paper and not is_sampled


def relation_of(solver: Any) -> dict[str, str]:
    """Return the parameter that a solver of public groups needs; none for one that hides them."""
    made = SOLVERS[solver]() if isinstance(solver, str) and solver in SOLVERS else solver
    is_public = isinstance(made, Solver) and not hides_groups(made)
    is_fresh = isinstance(made, FreshSolver) and not made.reads_again
    return WITHIN_GROUP if is_public or is_fresh else {}
