"""Choice of the solver with the least planning bound."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.mgr.mgr import MGR
from sklearn_dpwg.solvers.moments.moments import Moments
from sklearn_dpwg.solvers.phased_erm.phased_erm import MOST_WEIGHTS_OF_PHASES, PhasedERM
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver

# What a plan is chosen from; of equal bounds the first one's.
BACKENDS: dict[str, type[Solver]] = {solver.name: solver for solver in (MGR, PhasedERM, Moments)}


class Auto(Solver):
    """Whichever of the solvers for fixed records has the least planning bound.

    `plan` makes the plans of `MGR`, `PhasedERM` and, for the squared error, `Moments` with default
    parameters and returns the one with the least `predicted_excess`; that plan names its solver and
    says what it was chosen over, and `run` hands over to it. `Moments` is considered up to 200
    weights, `PhasedERM` up to 500.

    All learn with the loss of bounded slope that a loss may have (`Loss.with_bounded_slope`): for
    the logistic loss of two classes one whose slope stops at 0.85, which takes 15 % off the noise
    (``benchmarks/mgr_defaults.py`` prints what that changes). Predictions and probabilities mean
    what they mean for the loss itself.

    Notes
    -----
    Plans are made from public facts, so the choice costs no privacy. As a minimum of bounds that
    never rise with more records or a larger ε, the bound of the choice does not either. The rule
    has no parameters of its own. That of `Moments` rests on an assumption that was made with
    data sets at hand (``docs/theory/moments.md``, section 5); ``make bench`` prints where the rule
    misses the better solver. `PhasedERM` releases no group weights, so whether an estimator has
    ``group_weights_`` depends on the choice.

    Examples
    --------
    >>> from sklearn_dpwg.losses import BinaryLogLoss
    >>> from sklearn_dpwg.privacy import Budget
    >>> from sklearn_dpwg.problem import Problem
    >>> from sklearn_dpwg.solvers import Auto
    >>> for size in (1_000, 100_000):
    ...     problem = Problem(BinaryLogLoss(), (size, size), 20, radius=20.0, prior=(0.5, 0.5))
    ...     Auto().plan(problem, Budget(1.0, 1e-6)).solver
    'phased-erm'
    'mgr'
    """

    name: ClassVar[str] = "auto"

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        stated, loss = problem.loss, problem.loss.with_bounded_slope()
        problem = replace(problem, loss=loss)
        backends = [backend() for backend in BACKENDS.values()]
        plans = [each.plan(problem, budget) for each in backends if each.suits(problem)]
        chosen = min(plans, key=lambda plan: plan.predicted_excess)
        others = ", ".join(
            f"{plan.predicted_excess:.3g} of {plan.solver!r}"
            for plan in plans
            if plan is not chosen
        )
        why = (
            f"its bound is {chosen.predicted_excess:.3g}, against {others}"
            if others
            else f"phases are for at most {MOST_WEIGHTS_OF_PHASES} weights"
        )
        learned = "" if loss == stated else f"; 'auto' learns with {loss!r}"
        return replace(chosen, remark=f"chosen by 'auto': {why}{learned}")

    def _adapt(self, plan: Plan, data: Risks) -> Risks:
        loss = plan.problem.loss
        if data.loss != loss and data.loss.with_bounded_slope() == loss:
            return data.with_loss(loss)
        return data

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return BACKENDS[plan.solver]().run(plan, data, noise, start=start)
