"""The contract of solvers that can be asked for the best weights of a fixed mixture of groups."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg._stored import Stored
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource, Release
from sklearn_dpwg.solvers.solver import Solver


@dataclass(frozen=True)
class Calls(Stored):
    """Calls that are planned together: each reads all records, so that costs add up.

    Parameters
    ----------
    n_calls : int
        Number of calls R.
    multiplier : float
        Noise multiplier with which a call that releases once costs what each may: 1/μ.
    """

    n_calls: int
    multiplier: float

    __repr__ = short_repr

    def release(self, name: str, draws_a_call: int = 1) -> Release:
        """Return the Gaussian release of a name that spends all of every call's μ.

        Parameters
        ----------
        name : str
            What is released.
        draws_a_call : int, default=1
            How often a call releases it.

        Returns
        -------
        Release
            That of all calls together.
        """
        multiplier = math.sqrt(draws_a_call) * self.multiplier
        return Release(name, "gaussian", multiplier, draws_a_call * self.n_calls)


@dataclass(frozen=True)
class MixturePlan(Stored):
    """What a solver will do in all calls, whatever the mixtures; made from public facts alone.

    Parameters
    ----------
    solver : str
        Name of the solver.
    problem : Problem
        What the weights are learned for; a `CentredProblem` where the rows are.
    calls : Calls
        What the plan is for.
    release : Release
        What the calls release; whoever calls may scale its noise multiplier, and a run goes by the
        one that it finds.
    schedule : object
        The solver's own public numbers.
    bounds : tuple of float
        For each group a bound on what the weights owe if all weight is on it: excess risk, under
        one mixture, of the average of the last answers.
    averaged : int
        How many of the last answers that average is of.
    mu_groups : float, default=inf
        Regularisation that ties group weights to the mixture within a call; infinite where they
        stand still.
    """

    solver: str
    problem: Problem
    calls: Calls
    release: Release
    schedule: object
    bounds: tuple[float, ...]
    averaged: int
    mu_groups: float = math.inf

    __repr__ = short_repr


class MixtureSolver(Solver):
    """A solver that can be asked for private weights of one fixed mixture, several times over.

    What it is asked is ``min_w Σ_i λ_i L_i(w)`` on the ball, for group weights λ that were
    released before. `plan_calls` plans all calls together, before any mixture is known; `answer` is
    one call. A record may move what a call releases by at most what is stated for the λ of that
    call, and noise multipliers are the plan's: so mixtures may follow from releases and cost
    nothing, and no plan has to be for the worst of them.
    """

    # parameters that the caller decides, and which values leave them to it
    set_by_caller: ClassVar[Mapping[str, tuple[object, ...]]] = {}

    def mixture_problem(self, problem: Problem, budget: Budget) -> Problem:
        """Return what the weights are learned for: the problem, or that of centred rows.

        Parameters
        ----------
        problem : Problem
            Public facts.
        budget : Budget
            Of all calls together with what comes before and between them.

        Returns
        -------
        Problem
            Where it is a `CentredProblem`, the caller releases the centre and hands over centred
            records.
        """
        return problem

    def numbers_of_calls(self, problem: Problem) -> tuple[int, ...]:
        """Return the numbers of calls that a plan may choose from.

        Parameters
        ----------
        problem : Problem
            Public facts, of the problem that `mixture_problem` returned.

        Returns
        -------
        tuple of int
            In rising order, 1 among them.
        """
        return (1, 2, 4, 8, 16)

    @abstractmethod
    def plan_calls(self, problem: Problem, calls: Calls) -> MixturePlan:
        """Plan calls for mixtures that nobody knows yet.

        Parameters
        ----------
        problem : Problem
            Public facts, of the problem that `mixture_problem` returned.
        calls : Calls
            How many, and what each may cost.

        Returns
        -------
        MixturePlan
            Whose release costs each call no more than it may.

        Raises
        ------
        ValueError
            If the problem is not for this solver.
        """

    @abstractmethod
    def answer(
        self,
        plan: MixturePlan,
        group_weights: FloatArray,
        center: FloatArray,
        data: Risks,
        noise: NoiseSource,
        *,
        call: int,
        risks: FloatArray | None = None,
    ) -> FloatArray:
        """Answer for one mixture.

        Parameters
        ----------
        plan : MixturePlan
            What `plan_calls` returned.
        group_weights : ndarray of shape (n_groups,)
            λ, positive: public or released before.
        center : ndarray of shape (n_weights,)
            Public or released weights to start from, such as the answer of the call before.
        data : Risks
            All records.
        noise : NoiseSource
            Source of the plan's releases.
        call : int
            Number of the call, from 0.
        risks : ndarray of shape (n_groups,), optional
            Released risks of the groups at the centre, where there are any.

        Returns
        -------
        ndarray of shape (n_weights,)
            Weights in the ball, a function of releases and public facts.
        """


def mixture_solvers() -> dict[str, type[MixtureSolver]]:
    """Return the classes that fulfil the contract and have been imported, by their names."""
    kinds: list[type[MixtureSolver]] = MixtureSolver.__subclasses__()
    for each in kinds:
        kinds += each.__subclasses__()
    # of one name the oldest counts
    return {each.name: each for each in reversed(kinds) if "name" in vars(each)}


def as_mixture_solver(base: object) -> MixtureSolver:
    """Return the solver that a name or an instance stands for."""
    known = mixture_solvers()
    if isinstance(base, str) and base in known:
        return known[base]()
    if isinstance(base, MixtureSolver):
        return base
    raise InputError(
        f"base of BestResponse must be one of {sorted(known)} or a solver that has plan_calls "
        f"and answer, got {base!r}."
    )
