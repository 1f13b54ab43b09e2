"""Choice of a solver: by name, or of the one that did best on tasks like the one at hand."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import ClassVar

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.descent.ags import AGS
from sklearn_dpwg.solvers.descent.gda import GDA
from sklearn_dpwg.solvers.descent.mgr import MGR
from sklearn_dpwg.solvers.exact import Exact
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.rounds.best_response import BestResponse
from sklearn_dpwg.solvers.rounds.moments import Moments
from sklearn_dpwg.solvers.rounds.phased_erm import PhasedERM
from sklearn_dpwg.solvers.solver import SLOPES_BIND, Solution, Solver, signal
from sklearn_dpwg.solvers.stream.oco import OCO
from sklearn_dpwg.solvers.stream.online_to_batch import OnlineToBatch

# What a plan is chosen from; of equals the first.
BACKENDS: dict[str, type[Solver]] = {solver.name: solver for solver in (MGR, PhasedERM, Moments)}

# Of two classes `PhasedERM` does better below this μ; of numbers `Moments` does where the `signal`
# is at least so many times d√d, as its noise is on d² numbers (benchmarks/auto_choice.py).
LOUDEST_MU, CLEAR_MOMENTS = 0.19, 150.0


class Auto(Solver):
    """Whichever of the solvers for fixed records has done best on tasks like this one.

    For two classes that is `MGR`, but `PhasedERM` at ε below about a half; for the squared error
    `Moments` where records are many for the columns and ε, and `MGR` elsewhere. For other losses
    `plan` makes the plans of `MGR` and `PhasedERM` with default parameters and returns the one with
    the least planning bound. The plan names its solver and says why it was chosen, and `run` hands
    over to it. `Moments` is considered up to 200 weights, `PhasedERM` up to 500.

    Where there is noise to save, all learn with the loss of bounded slope that a loss may have
    (`Loss.with_bounded_slope`): for the logistic loss of two classes one whose slope stops at 0.85.
    Predictions and probabilities mean what they mean for the loss itself.

    Notes
    -----
    Plans are made from public facts, so the choice costs no privacy. Its rules were measured on a
    population of tasks and are no guarantee: ``benchmarks/auto_choice.py`` prints what they cost
    beside the better of the solvers. `PhasedERM` and `Moments` release no group weights, so whether
    an estimator has ``group_weights_`` depends on the choice.

    Examples
    --------
    >>> from sklearn_dpwg.losses import BinaryLogLoss
    >>> from sklearn_dpwg.privacy import Budget
    >>> from sklearn_dpwg.data.problem import Problem
    >>> from sklearn_dpwg.solvers import Auto
    >>> problem = Problem(BinaryLogLoss(), (9_000, 300), 20, 20.0, (0.9, 0.1), 1.0)
    >>> for epsilon in (0.25, 1.0):
    ...     Auto().plan(problem, Budget(epsilon, 1e-6)).solver
    'phased-erm'
    'mgr'
    """

    name: ClassVar[str] = "auto"
    _is_for_persons = False

    def for_persons(self) -> Auto:
        """Return one whose solvers all have a guarantee for several rows of a person."""
        found = copy(self)
        found._is_for_persons = True
        return found

    def _check_hidden_groups(self) -> None:
        """Accept: solvers that plan no batches are chosen among."""

    def _check_game(self, problem: Problem) -> None:
        """Accept what one of the solvers plays."""
        every = [make() for make in BACKENDS.values()]
        if not any(solver.suits(problem) and solver.plays(problem) for solver in every):
            every[0]._check_game(problem)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        stated = problem.loss
        if signal(problem, budget) < SLOPES_BIND:
            problem = replace(problem, loss=stated.with_bounded_slope())
        every = {name: make() for name, make in BACKENDS.items()}
        # which solver it is may follow from released counts, so all are Gaussian, of one cost
        if self._is_for_persons or problem.hidden is not None:
            every = {name: solver.for_persons() for name, solver in every.items()}
        suited = {
            name: solver
            for name, solver in every.items()
            if solver.suits(problem) and solver.plays(problem)
        }
        name, why = _measured(problem, budget)
        if name in suited:
            plan = suited[name].plan(problem, budget)
        else:
            plans = {name: solver.plan(problem, budget) for name, solver in suited.items()}
            bounds = {name: plan.predicted_excess for name, plan in plans.items()}
            name = first_of_least(bounds, lambda each: bounds[each])
            others = ", ".join(
                f"{bound:.2g} of {other!r}" for other, bound in bounds.items() if other != name
            )
            plan, why = plans[name], f"its bound is {bounds[name]:.3g}"
            why += f", against {others}" if others else ""
        learned = "" if problem.loss == stated else f"; 'auto' learns with {problem.loss!r}"
        return replace(plan, remark=f"chosen by 'auto': {why}{learned}")

    def _adapt(self, plan: Plan, data: Risks) -> Risks:
        loss = plan.problem.loss
        if data.loss != loss and data.loss.with_bounded_slope() == loss:
            return data.with_loss(loss)
        return data

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return BACKENDS[plan.solver]().run(plan, data, noise, start=start)


def _measured(problem: Problem, budget: Budget) -> tuple[str, str]:
    """Return what did best on tasks like this one, and why; nothing where none was measured."""
    kernel = type(problem.loss).__dict__.get("kernel")
    if kernel == "binary_log":
        # where groups overlap it was no better on most tasks that were tried
        is_loud = budget.mu < LOUDEST_MU and problem.cells is None
        if is_loud and PhasedERM().suits(problem):
            return PhasedERM.name, "at so small an epsilon it did better than 'mgr' on such tasks"
        return MGR.name, "it did best on such tasks"
    if kernel == "squared_error":
        columns = max(problem.n_columns, 1)
        # noise on moments of overlapping groups is for all groups of a record
        is_clear = signal(problem, budget) >= CLEAR_MOMENTS * columns**1.5 * problem.group_moves
        if is_clear and Moments().suits(problem):
            return Moments.name, "of so many records it did better than 'mgr' on such tasks"
        return MGR.name, "it did best on such tasks"
    return "", ""


_ALL = (AGS, Auto, BestResponse, Exact, GDA, MGR, Moments, OCO, OnlineToBatch, PhasedERM)
SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in _ALL}


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
            raise InputError(
                f"solver must be one of {sorted(SOLVERS)} or a solver instance, got {solver!r}."
            )
        found: Solver = SOLVERS[solver]()
    elif isinstance(solver, Solver):
        found = solver
    else:
        raise InputTypeError(f"solver must be a name or a solver instance, got {solver!r}.")
    return Exact() if epsilon == float("inf") and not isinstance(found, Exact) else found
