"""Choice of a solver: by name, or of the one that did best on tasks like the one at hand."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from typing import ClassVar

import numpy as np

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
from sklearn_dpwg.solvers.solver import Solution, Solver
from sklearn_dpwg.solvers.stream.oco import OCO
from sklearn_dpwg.solvers.stream.online_to_batch import OnlineToBatch

# What a plan is chosen from; of equals the first.
BACKENDS: dict[str, type[Solver]] = {solver.name: solver for solver in (MGR, PhasedERM, Moments)}

# Another solver has to promise a tenth less than `MGR`, which releases the group weights too.
MARGIN = 1.0 / 0.9

# Typical excess of a default fit is a model of what was measured on many tasks, and no bound.
# Of log excess, by kernel and solver: constant, then the logarithms of the number of records, of
# the smallest group, of the numbers of groups and of features, and of μ. Least squares over the
# choosing half of the population (benchmarks/typical_excess.py fits and prints them).
COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {
    "binary_log": {
        "mgr": (-1.46, 0.052, -0.591, -0.086, 0.065, -0.554),
        "phased-erm": (-1.358, 0.052, -0.591, -0.086, 0.065, -0.43),
    },
    "squared_error": {
        "mgr": (-2.017, -0.52, -0.425, 0.409, 0.552, -0.371),
        "moments": (-0.754, -0.52, -0.425, 0.409, 0.552, -0.732),
    },
}

# No task that was measured has fewer training records.
FEWEST_RECORDS = 2_000


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

    def _check_game(self, problem: Problem) -> None:
        """Accept what one of the solvers plays."""
        every = [make() for make in BACKENDS.values()]
        if not any(solver.suits(problem) and solver.plays(problem) for solver in every):
            every[0]._check_game(problem)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        stated, loss = problem.loss, problem.loss.with_bounded_slope()
        problem = replace(problem, loss=loss)
        every = {name: make() for name, make in BACKENDS.items()}
        # which solver it is may follow from released counts, so all are Gaussian, of one cost
        if self._is_for_persons or problem.hidden is not None:
            every = {name: solver.for_persons() for name, solver in every.items()}
        suited = {
            name: solver
            for name, solver in every.items()
            if solver.suits(problem) and solver.plays(problem)
        }
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


def typical_excess(solver: str, problem: Problem, budget: Budget) -> float | None:
    """Return what the excess worst-group risk of default fits was on tasks like this one.

    In units of the loss; None where nothing was measured: for other losses and solvers, without an
    intercept, and for fewer than 2,000 records.
    """
    kernel = type(problem.loss).__dict__.get("kernel")
    coefficients = COEFFICIENTS.get(kernel or "", {}).get(solver)
    is_known = problem.intercept_scaling > 0.0 and problem.n_records >= FEWEST_RECORDS
    if coefficients is None or not is_known:
        return None
    return math.exp(float(np.dot(coefficients, features(problem, budget))))


def features(problem: Problem, budget: Budget) -> tuple[float, ...]:
    """Return what the logarithm of the excess is linear in."""
    return (
        1.0,
        math.log(problem.n_records),
        math.log(min(problem.group_sizes)),
        math.log(problem.n_groups),
        math.log(max(problem.n_features, 1)),
        math.log(budget.mu),
    )


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
