"""Choice of the solver that did best on tasks like the one at hand."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import ClassVar

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.descent.mgr import MGR
from sklearn_dpwg.solvers.plan import Plan, first_of_least, typical_excess
from sklearn_dpwg.solvers.rounds.moments import Moments
from sklearn_dpwg.solvers.rounds.phased_erm import PhasedERM
from sklearn_dpwg.solvers.solver import Solution, Solver

# What a plan is chosen from; of equals the first.
BACKENDS: dict[str, type[Solver]] = {solver.name: solver for solver in (MGR, PhasedERM, Moments)}

# Another solver has to promise a tenth less than `MGR`, which releases the group weights too.
MARGIN = 1.0 / 0.9


class Auto(Solver):
    """Whichever of the solvers for fixed records has done best on tasks like this one.

    For two classes and for the squared error, with an intercept and from 2,000 records on, a model
    of measured fits says so (`typical_excess`): `MGR`, or `PhasedERM` for two classes at ε below
    about a half. Elsewhere `plan` makes the plans of `MGR`, `PhasedERM` and, for the squared error,
    `Moments` with default parameters and returns the one with the least planning bound. The plan
    names its solver and says why it was chosen, and `run` hands over to it. `Moments` is considered
    up to 200 weights, `PhasedERM` up to 500.

    All learn with the loss of bounded slope that a loss may have (`Loss.with_bounded_slope`): for
    the logistic loss of two classes one whose slope stops at 0.85, which takes 15 % off the noise
    (``benchmarks/mgr_defaults.py`` prints what that changes). Predictions and probabilities mean
    what they mean for the loss itself.

    Notes
    -----
    Plans are made from public facts, so the choice costs no privacy. The model was fitted to a
    population of tasks and is no guarantee: ``benchmarks/typical_excess.py`` prints how far it is
    off, on the tasks that it was fitted to and on others. Sizes and columns say little about which
    solver does better, and it does not pretend otherwise: for a given loss it chooses by ε alone,
    and another solver than `MGR` only where that promises a tenth less. `PhasedERM` and `Moments`
    release no group weights, so whether an estimator has ``group_weights_`` depends on the choice.

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

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        stated, loss = problem.loss, problem.loss.with_bounded_slope()
        problem = replace(problem, loss=loss)
        every = {name: make() for name, make in BACKENDS.items()}
        # which solver it is may follow from released counts, so all are Gaussian, of one cost
        if self._is_for_persons or problem.hidden is not None:
            every = {name: solver.for_persons() for name, solver in every.items()}
        suited = {name: solver for name, solver in every.items() if solver.suits(problem)}
        typical = {
            name: excess
            for name in suited
            if (excess := typical_excess(name, problem, budget)) is not None
        }
        if typical:
            margins = {each: 1.0 if each == MGR.name else MARGIN for each in typical}
            name = first_of_least(typical, lambda each: margins[each] * typical[each])
            plan = suited[name].plan(problem, budget)
            why = f"its excess was about {typical[name]:.2g} on tasks like this"
            known = typical
        else:
            plans = {name: solver.plan(problem, budget) for name, solver in suited.items()}
            known = {name: plan.predicted_excess for name, plan in plans.items()}
            name = first_of_least(known, lambda each: known[each])
            plan = plans[name]
            why = f"its bound is {known[name]:.3g}"
        others = ", ".join(
            f"{excess:.2g} of {other!r}" for other, excess in known.items() if other != name
        )
        why += f", against {others}" if others else ""
        learned = "" if loss == stated else f"; 'auto' learns with {loss!r}"
        return replace(plan, remark=f"chosen by 'auto': {why}{learned}")

    def _adapt(self, plan: Plan, data: Risks) -> Risks:
        loss = plan.problem.loss
        if data.loss != loss and data.loss.with_bounded_slope() == loss:
            return data.with_loss(loss)
        return data

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return BACKENDS[plan.solver]().run(plan, data, noise, start=start)
