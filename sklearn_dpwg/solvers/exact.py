"""The exact solution, without privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sklearn_dpwg._checks import Rules, one_of, positive
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum.saddle_point import solve_saddle_point, worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver


@dataclass(frozen=True)
class ExactSchedule:
    """Public numbers of the exact solver."""

    tolerance: float  # certified duality gap at which it stops, in units of the loss
    mu_weights: float = 0.0  # regularisation of the two players; 0 where there is none
    mu_groups: float = 0.0

    def __str__(self) -> str:
        """Return a line or two for people."""
        text = f"Newton's method to a certified duality gap of {self.tolerance:.0e}"
        if self.mu_weights > 0.0:
            text += (
                f"\nregularised towards 0 with {self.mu_weights:.3g} and towards equal group "
                f"weights with {self.mu_groups:.3g}"
            )
        return text


class Exact(Solver):
    """Non-private minimax optimum by Newton's method with a certificate.

    It is the papers' game on the records themselves, whatever the `optimism_correction`.

    Parameters
    ----------
    tolerance : float, default=1e-6
        Duality gap to certify, in units of the loss.
    schedule : {"planned", "paper"}, default="planned"
        "paper" is the remark after Lemma 4 of Zhou and Bassily: the saddle point of the regularised
        problem, whose strengths depend on the numbers of records and groups, and for which it
        states a population excess of order √(p/K) up to logarithms. For smooth losses.
        The default is the optimum itself.

    References
    ----------
    Zhou and Bassily (2024), the remark after Lemma 4.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import Exact
    >>> Exact(tolerance=1e-10)
    Exact(tolerance=1e-10)
    """

    name: ClassVar[str] = "exact"
    uses_start: ClassVar[bool] = False
    knows_overlap: ClassVar[bool] = True
    rules: ClassVar[Rules] = Rules(
        "Exact", tolerance=positive(), schedule=one_of("planned", "paper")
    )

    @property
    def room(self) -> float:
        return 500.0 if self.schedule == "planned" else super().room

    def __init__(
        self, tolerance: float = 1e-6, *, schedule: Literal["planned", "paper"] = "planned"
    ) -> None:
        self.tolerance = tolerance
        self.schedule = schedule

    def _check_budget(self, budget: Budget) -> None:
        if budget.epsilon != math.inf:
            raise InputError(
                f"solver {self.name!r} adds no noise and needs epsilon=inf, got epsilon="
                f"{budget.epsilon!r}."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        strengths, bound = (0.0, 0.0), self.tolerance
        if self.schedule == "paper":
            if not problem.loss.smooth:
                raise InputError(
                    f"schedule='paper' of Exact needs a smooth loss, got {problem.loss!r}."
                )
            strengths = remark_strengths(problem)
            # what the regularisers of the saddle point can cost the largest risk
            bound += strengths[0] * problem.radius**2 / 2.0
            if problem.n_groups > 1:
                bound += strengths[1] * math.log(problem.n_groups)
        return Plan.of(
            self.name,
            problem,
            budget,
            releases=(),
            schedule=ExactSchedule(self.tolerance, *strengths),
            bounds=(bound,) * problem.n_groups,
            n_steps=0,
        )

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        # where Newton's method starts has no influence on what it finds
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, ExactSchedule)
        if schedule.mu_weights > 0.0:
            saddle = solve_saddle_point(
                data,
                radius=problem.radius,
                prior=np.full(problem.n_groups, 1.0 / problem.n_groups),
                mu_weights=schedule.mu_weights,
                mu_groups=schedule.mu_groups,
                tolerance=schedule.tolerance,
                lipschitz=problem.lipschitz,
                smoothness=problem.smoothness,
            )
            return Solution(saddle.weights, saddle.group_weights, saddle.n_newton_steps)
        found = worst_group_optimum(data, radius=problem.radius, tolerance=schedule.tolerance)
        return Solution(found.weights, found.group_weights, found.n_newton_steps)


def remark_strengths(problem: Problem) -> tuple[float, float]:
    """Return μ_w and μ_λ of the remark after Lemma 4 of Zhou and Bassily.

    With n the smallest group, K = p n, D = max(L, B) and M = 2R they are
    ``(D/M) √(p/K) √(log n log K)`` and ``D √(p log n log K / (K log p))``, infinite for one group.
    Logarithms that vanish for a single record are those of 2.
    """
    n, p = min(problem.group_sizes), problem.n_groups
    scale = max(problem.lipschitz, problem.loss_range)
    logs = math.log(max(n, 2)) * math.log(max(p * n, 2))
    mu_weights = scale / problem.diameter * math.sqrt(logs / n)
    return mu_weights, scale * math.sqrt(logs / (n * math.log(p))) if p > 1 else math.inf
