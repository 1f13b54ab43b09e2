"""Choice of a solver: by name, or of the one that did best on tasks like the one at hand."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.ags import AGS
from sklearn_dpwg.solvers.exact import Exact, People
from sklearn_dpwg.solvers.gda import GDA
from sklearn_dpwg.solvers.mgr import MGR
from sklearn_dpwg.solvers.moments import MAX_WEIGHTS_OF_MOMENTS, Moments
from sklearn_dpwg.solvers.oco import OCO
from sklearn_dpwg.solvers.online_to_batch import OnlineToBatch
from sklearn_dpwg.solvers.phased_erm import PhasedERM
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import SLOPES_BIND, Solution, Solver, effective_sample_size

# `Moments` does better where the `effective_sample_size` is at least so many times d√d.
CLEAR_MOMENTS = 150.0


class Auto(Solver):
    """Whichever of two solvers has done best on tasks like this one.

    That is `MGR`, but for the squared error `Moments` where records are many for the columns and ε,
    up to 200 weights. The plan names its solver and says why it was chosen, and `run` hands over to
    it.

    Where there is noise to save, all learn with the loss of bounded slope that a loss may have
    (`Loss.with_bounded_slope`): for the logistic loss of two classes one whose slope stops at 0.85.
    Predictions and probabilities mean what they mean for the loss itself.

    Plans are made from public facts, so the choice costs no privacy. Its rule was measured on a
    population of tasks (``benchmarks/auto_choice.py``) and is no guarantee.

    Examples
    --------
    >>> from sklearn_dpwg.losses import SquaredError
    >>> from sklearn_dpwg.privacy import Budget
    >>> from sklearn_dpwg.data.problem import Problem
    >>> from sklearn_dpwg.solvers import Auto
    >>> problem = Problem(SquaredError(), (9_000, 3_000), 4, 4.0, (0.75, 0.25), 1.0)
    >>> for epsilon in (0.25, 4.0):
    ...     Auto().plan(problem, Budget(epsilon, 1e-6)).solver
    'mgr'
    'moments'
    """

    name: ClassVar[str] = "auto"
    # all that is chosen from knows both
    knows_overlap: ClassVar[bool] = True
    knows_hidden_groups: ClassVar[bool] = True

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        stated, effective = problem.loss, effective_sample_size(problem, budget)
        if effective < SLOPES_BIND:
            problem = replace(problem, loss=stated.with_bounded_slope())
        # noise on moments of overlapping groups is for all groups of a record
        clear = CLEAR_MOMENTS * max(problem.n_columns, 1) ** 1.5 * problem.group_moves
        is_few_weights = problem.n_weights <= MAX_WEIGHTS_OF_MOMENTS
        solver: Solver = MGR()
        why = "it did best on such tasks"
        if type(problem.loss) is SquaredError and is_few_weights and effective >= clear:
            solver, why = Moments(), "of so many records it did better than 'mgr' on such tasks"
        # which solver it is may follow from released counts: both are Gaussian, of one cost
        plan = solver.plan(problem, budget)
        learned = "" if problem.loss == stated else f"; 'auto' learns with {problem.loss!r}"
        return replace(plan, remark=f"chosen by 'auto': {why}{learned}")

    def _adapt(self, plan: Plan, data: Risks) -> Risks:
        loss = plan.problem.loss
        if data.loss != loss and data.loss.with_bounded_slope() == loss:
            return data.with_loss(loss)
        return data

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return SOLVERS[plan.solver]().run(plan, data, noise, start=start)


_ALL = (AGS, Auto, Exact, GDA, MGR, Moments, OCO, OnlineToBatch, PhasedERM)
SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in _ALL}


def make_solver(solver: str | Solver, *, epsilon: float) -> Solver:
    """Return the solver that a name or an instance asks for, with default parameters by name.

    With an infinite ε what needs no noise stands in for every solver but `Exact`.
    """
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise InputError(
                f"solver must be one of {sorted(SOLVERS)} or a solver instance, got {solver!r}."
            )
        solver = SOLVERS[solver]()
    if not isinstance(solver, Solver):
        raise InputTypeError(f"solver must be a name or a solver instance, got {solver!r}.")
    return People() if epsilon == float("inf") and not isinstance(solver, Exact) else solver
