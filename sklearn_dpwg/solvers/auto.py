"""Choice of a solver: by name, or by public facts about the task (`Auto`)."""

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

# Least `effective_sample_size` over d√d, d columns, from which `Moments` is chosen.
CLEAR_MOMENTS = 150.0


class Auto(Solver):
    """The one of two solvers that did best on tasks like this one.

    It is `MGR`, but for the squared error `Moments` where records are many for the columns and ε,
    up to 200 weights. The plan names the solver, which `run` hands over to, and the reason.

    Where noise is large, learning uses the loss of bounded slope that a loss may have
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
    # both solvers handle both
    knows_overlap: ClassVar[bool] = True
    knows_hidden_groups: ClassVar[bool] = True

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        stated_loss, sample_size = problem.loss, effective_sample_size(problem, budget)
        if sample_size < SLOPES_BIND:
            problem = replace(problem, loss=stated_loss.with_bounded_slope())
        # noise on moments grows with the groups of a record
        needed = CLEAR_MOMENTS * max(problem.n_columns, 1) ** 1.5 * problem.group_moves
        has_few_weights = problem.n_weights <= MAX_WEIGHTS_OF_MOMENTS
        solver: Solver = MGR()
        reason = "it did best on such tasks"
        if type(problem.loss) is SquaredError and has_few_weights and sample_size >= needed:
            solver, reason = Moments(), "of so many records it did better than 'mgr' on such tasks"
        # the choice may follow released counts of hidden groups: both solvers cost the same
        plan = solver.plan(problem, budget)
        note = "" if problem.loss == stated_loss else f"; 'auto' learns with {problem.loss!r}"
        return replace(plan, remark=f"chosen by 'auto': {reason}{note}")

    def _adapt(self, plan: Plan, data: Risks) -> Risks:
        # the plan's loss may be that of bounded slope: the records get it too
        loss = plan.problem.loss
        if data.loss != loss and data.loss.with_bounded_slope() == loss:
            return data.with_loss(loss)
        return data

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return SOLVERS[plan.solver]().run(plan, data, noise, start=start)


_ALL = (AGS, Auto, Exact, GDA, MGR, Moments, OCO, OnlineToBatch, PhasedERM)
SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in _ALL}


def make_solver(solver: str | Solver, *, epsilon: float) -> Solver:
    """Return a solver by name, with default parameters, or the instance as it is.

    At infinite ε every solver but `Exact` is replaced by the one that adds no noise, `People`.
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
