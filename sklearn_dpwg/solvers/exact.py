"""The exact solution, without privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sklearn_dpwg.optimum._worst_group_optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.plan import Plan, predict_seconds
from sklearn_dpwg.solvers.solver import Solution, Solver


@dataclass(frozen=True)
class ExactSchedule:
    """Public numbers of the exact solver.

    Parameters
    ----------
    tolerance : float
        Certified duality gap at which it stops, in units of the loss.
    """

    tolerance: float

    def __str__(self) -> str:
        """Return one line for people."""
        return f"Newton's method to a certified duality gap of {self.tolerance:.0e}"


class Exact(Solver):
    """Non-private minimax optimum by Newton's method with a certificate.

    The estimators use it for ``epsilon=float("inf")``, whatever solver they are given.

    Parameters
    ----------
    tolerance : float, default=1e-6
        Duality gap to certify, in units of the loss.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import Exact
    >>> Exact(tolerance=1e-10)
    Exact(tolerance=1e-10)
    """

    name: ClassVar[str] = "exact"
    uses_start: ClassVar[bool] = False

    def __init__(self, tolerance: float = 1e-6) -> None:
        self.tolerance = tolerance

    def _check_budget(self, budget: Budget) -> None:
        if budget.epsilon != math.inf:
            raise ValueError(
                f"solver {self.name!r} adds no noise and needs epsilon=inf, got epsilon="
                f"{budget.epsilon!r}."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        return Plan.of(
            self.name,
            problem,
            budget,
            releases=(),
            schedule=ExactSchedule(self.tolerance),
            bounds=(self.tolerance,) * problem.n_groups,
            n_steps=0,
            # ten passes, samples and all, and a few Hessians of a sample
            seconds=predict_seconds(problem, 12 + problem.n_weights // 16),
        )

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        # where Newton's method starts has no influence on what it finds
        found = worst_group_optimum(data, radius=plan.problem.radius, tolerance=self.tolerance)
        return Solution(found.weights, found.group_weights, found.n_newton_steps)
