"""Plan of the best-response solver with the least bound on the excess risk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.best_response.parameters import BestResponseParameters
from sklearn_dpwg.solvers.best_response.releases import make_plan
from sklearn_dpwg.solvers.best_response.schedule import BestResponseSchedule
from sklearn_dpwg.solvers.by_loss import by_loss
from sklearn_dpwg.solvers.centring.problem import SHARE_LEFT, CentredProblem
from sklearn_dpwg.solvers.centring.releases import centring_releases
from sklearn_dpwg.solvers.group_player import rounds_regret
from sklearn_dpwg.solvers.mixture import Calls, MixtureSolver, as_mixture_solver
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity

# What a plan may choose: grids, so that better facts never choose worse.
RISK_SHARES = (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Candidate:
    """One way to run, and its bound for each group as the worst-off one."""

    schedule: BestResponseSchedule
    bounds: FloatArray


def least_bound_plan(problem: Problem, budget: Budget, parameters: BestResponseParameters) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    base = as_mixture_solver(parameters.base)
    learned, mu = base.mixture_problem(problem), budget.mu
    before: tuple[Release, ...] = ()
    if isinstance(learned, CentredProblem):
        before, mu = centring_releases(mu), math.sqrt(SHARE_LEFT) * mu
    prior = np.asarray(problem.prior)
    best = first_of_least(
        _candidates(learned, mu, parameters, base),
        lambda candidate: float(prior @ candidate.bounds),
    )
    return make_plan(problem, budget, best.schedule, best.bounds, before)


def _candidates(
    problem: Problem, mu: float, parameters: BestResponseParameters, base: MixtureSolver
) -> Iterator[Candidate]:
    """Yield every way to run that the parameters leave open."""
    numbers = base.numbers_of_calls(problem)
    for n_rounds in numbers if parameters.n_rounds is None else (parameters.n_rounds,):
        risk_shares: tuple[float, ...] = (0.0,)
        if problem.n_groups > 1 and n_rounds > 1:
            asked = parameters.risk_share
            risk_shares = RISK_SHARES if asked is None else (float(asked),)
        for risk_share in risk_shares:
            yield _candidate(problem, mu, base, n_rounds, risk_share)


def _candidate(
    problem: Problem, mu: float, base: MixtureSolver, n_rounds: int, risk_share: float
) -> Candidate:
    """Return one way to run with its bounds, which add what both players owe."""
    # all releases read the same records and share the budget
    calls = Calls(n_rounds, mu * math.sqrt((1.0 - risk_share) / n_rounds))
    answers = base.plan_mixture(problem, calls)
    if problem.n_groups == 1:
        return Candidate(BestResponseSchedule(answers, problem.prior), np.asarray(answers.bounds))
    risks_multiplier, rate = 0.0, 0.0
    if risk_share > 0.0:
        risks_multiplier = math.sqrt((n_rounds - 1) / risk_share) / mu
    constants = problem.constants
    ceiling = min(by_loss(problem.loss).ceiling * constants.zero_score, constants.supremum)
    sums = SumSensitivity.of(problem, ceiling=ceiling)
    sharpness, regret = rounds_regret(
        problem, n_rounds, noise_multiplier=risks_multiplier * sums.loss_range
    )
    if risks_multiplier > 0.0:
        rate = sharpness / n_rounds
    schedule = BestResponseSchedule(
        base=answers,
        prior=problem.prior,
        risks_multiplier=risks_multiplier,
        ceiling=ceiling,
        feedback_range=sums.loss_range,
        grid=sums.grid,
        group_rate=rate,
    )
    return Candidate(schedule, np.asarray(answers.bounds) + regret)
