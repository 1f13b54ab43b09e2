"""Rounds of released group risks against a private solver for fixed mixtures."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.best_response.parameters import RULES, BestResponseParameters
from sklearn_dpwg.solvers.best_response.planning import least_bound_plan
from sklearn_dpwg.solvers.best_response.releases import RISKS, release_risks
from sklearn_dpwg.solvers.best_response.schedule import BestResponseSchedule
from sklearn_dpwg.solvers.centring.problem import CentredProblem
from sklearn_dpwg.solvers.centring.releases import release_centre
from sklearn_dpwg.solvers.group_player import LEAST_PRIOR, normalised
from sklearn_dpwg.solvers.mixture import as_mixture_solver
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver


class BestResponse(BestResponseParameters, Solver):
    """Rounds of released group risks against any private solver for a fixed mixture of groups.

    In every round a base solver answers for the group weights of the round, around its last answer.
    The risks of the groups at that answer are released, and multiplicative weights raise the groups
    that do badly. ``None`` means planned from public facts.

    Parameters
    ----------
    base : str or solver, default="phased-erm"
        What answers: `PhasedERM`, whose phase is one exact regularised solution; `MGR`, some noisy
        gradient steps; or, for the squared error, `Moments`, the noisy moments of the mixture. An
        instance keeps its parameters, but those that this solver decides must be left open. Any
        other solver that fulfils the contract `sklearn_dpwg.solvers.MixtureSolver` will do.
    n_rounds : int, optional
        Number of rounds R; one is allowed, where the prior is the mixture.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.

    Notes
    -----
    With `PhasedERM` it makes the plans that `PhasedERM` makes for several phases with fixed group
    weights, and releases the same. `group_weights` are the average of the mixtures that were
    answered for, which follow from the released risks. `docs/theory/best-response.md` proves the
    privacy and derives the bound.

    References
    ----------
    E. Diana, W. Gill, M. Kearns, K. Kenthapadi and A. Roth (2021), Minimax group fairness:
    algorithms and experiments: the rounds, without privacy.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import MGR, BestResponse
    >>> BestResponse(MGR(), n_rounds=4)
    BestResponse(base=MGR(), n_rounds=4)
    """

    name: ClassVar[str] = "best-response"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, BestResponseSchedule)
        solver, base = as_mixture_solver(self.base), schedule.base
        risk_releases = [each for each in plan.releases if each.name == RISKS]
        weights = np.zeros(problem.n_weights)
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
        centring = None
        if isinstance(base.problem, CentredProblem):
            centring = release_centre(problem, data, noise, plan.releases[0], plan.releases[1])
            data, weights = centring.view(data), centring.to_centred(weights, problem)
            base = base.with_clip(centring.clip)
        log_mixture, risks = np.log(np.asarray(schedule.prior)), None
        total, mixtures = np.zeros_like(weights), np.zeros(problem.n_groups)
        for index in range(schedule.n_rounds):
            if index > 0 and risk_releases:
                risks = release_risks(data, weights, schedule, noise, risk_releases[0])
                log_mixture = log_mixture + schedule.group_rate * risks
                log_mixture = log_mixture - schedule.noise_correction
            mixture = normalised(log_mixture, least=LEAST_PRIOR)
            weights = solver.run_mixture(
                base, mixture, weights, data, noise, call=index, risks=risks
            )
            if index >= schedule.n_rounds - base.averaged:
                total, mixtures = total + weights, mixtures + mixture
        learned = total / base.averaged
        if centring is not None:
            learned = centring.from_centred(learned, problem)
        return Solution(learned, mixtures / base.averaged, schedule.n_rounds)
