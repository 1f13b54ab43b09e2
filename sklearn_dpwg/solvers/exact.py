"""The exact solution, without privacy."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_dpwg.optimum._worst_group_optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import GroupRisks
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

    def __init__(self, tolerance: float = 1e-6) -> None:
        self.tolerance = tolerance

    def plan(self, problem: Problem, budget: Budget) -> Plan:
        """Return a plan without releases, whose guarantee says that nothing is private.

        Parameters
        ----------
        problem : Problem
            Public facts of the problem.
        budget : Budget
            Must have infinite ε.

        Returns
        -------
        Plan
            No releases.

        Raises
        ------
        ValueError
            If ε is finite.
        """
        if budget.epsilon != float("inf"):
            raise ValueError(
                f"solver 'exact' adds no noise and needs epsilon=inf, got epsilon="
                f"{budget.epsilon!r}."
            )
        return Plan(
            solver="exact",
            problem=problem,
            releases=(),
            guarantee=PrivacyGuarantee.non_private(budget.delta),
            n_steps=0,
            schedule=ExactSchedule(self.tolerance),
            predicted_excess=self.tolerance,
            predicted_excess_if_worst=(self.tolerance,) * problem.n_groups,
            # ten passes, samples and all, and a few Hessians of a sample
            predicted_seconds=predict_seconds(problem, 12 + problem.n_weights // 16),
        )

    def run(
        self, plan: Plan, data: GroupRisks, noise: NoiseSource, *, start: Solution | None = None
    ) -> Solution:
        """Solve.

        Parameters
        ----------
        plan : Plan
            What `plan` returned.
        data : GroupRisks
            The records.
        noise : NoiseSource
            Not used.
        start : Solution, optional
            Not used: the solution does not depend on where Newton's method starts.

        Returns
        -------
        Solution
            Exact weights and the least favourable mixture of groups.
        """
        found = worst_group_optimum(data, radius=plan.problem.radius, tolerance=self.tolerance)
        return Solution(found.weights, found.group_weights, found.n_newton_steps)
