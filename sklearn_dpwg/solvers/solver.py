"""The contract of every solver: plan from public facts, then run within the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from sklearn.base import BaseEstimator

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import GroupRisks
from sklearn_dpwg.solvers.plan import Plan


@dataclass(frozen=True, eq=False)
class Solution:
    """What a run hands back; every field is public or a paid release.

    Parameters
    ----------
    weights : ndarray of shape (n_weights,)
        Learned weights, inside the ball.
    group_weights : ndarray of shape (n_groups,) or None
        Weights of the groups, where the solver releases them.
    n_iter : int
        Steps taken.
    """

    weights: FloatArray
    group_weights: FloatArray | None
    n_iter: int


class Solver(BaseEstimator, ABC):
    """A way to solve worst-group problems under a budget.

    Parameters of a solver are public; ``None`` means planned. ``data_model`` says what `run`
    reads: "fixed" solvers get `GroupRisks`.
    """

    data_model: ClassVar[Literal["fixed", "fresh"]] = "fixed"

    @abstractmethod
    def plan(self, problem: Problem, budget: Budget) -> Plan:
        """Decide everything that can be decided from public facts.

        Parameters
        ----------
        problem : Problem
            Public facts of the problem.
        budget : Budget
            Privacy budget of the whole run.

        Returns
        -------
        Plan
            Releases with their noise, steps, guarantee, predictions.
        """

    @abstractmethod
    def run(
        self, plan: Plan, data: GroupRisks, noise: NoiseSource, *, start: Solution | None = None
    ) -> Solution:
        """Learn from the records, releasing no more than the plan.

        Parameters
        ----------
        plan : Plan
            What `plan` returned for this problem.
        data : GroupRisks
            The private records.
        noise : NoiseSource
            Source of the plan's releases.
        start : Solution, optional
            Public or already released point to start from.

        Returns
        -------
        Solution
            Learned weights.
        """


def check_match(problem: Problem, data: GroupRisks) -> None:
    """Refuse records that the noise was not planned for; only public facts are compared.

    Parameters
    ----------
    problem : Problem
        What the plan was made for.
    data : GroupRisks
        The records of a run.

    Raises
    ------
    ValueError
        If sizes, loss, weights or intercept differ.
    """
    planned = (problem.group_sizes, problem.loss, problem.n_weights, problem.intercept_scaling)
    found = (data.group_sizes, data.loss, data.n_weights, data.intercept_scaling)
    if planned != found:
        raise ValueError(
            "The plan is for other records: it has (group sizes, loss, weights, intercept "
            f"scaling) = {planned}, the records have {found}."
        )
