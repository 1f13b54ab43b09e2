"""Plan of the best-response solver with the least bound on the excess risk."""

from __future__ import annotations

import itertools
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
from sklearn_dpwg.solvers.disjoint_parts import part_sizes
from sklearn_dpwg.solvers.group_player import CEILING_OF_PARTS, rounds_regret
from sklearn_dpwg.solvers.mixture import Calls, MixtureSolver, as_mixture_solver
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity

# What a plan may choose: grids, so that better facts never choose worse.
RISK_SHARES = (0.05, 0.1, 0.2)
GROWTHS = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Candidate:
    """One way to run, and its bound for each group as the worst-off one."""

    schedule: BestResponseSchedule
    bounds: FloatArray


def least_bound_plan(problem: Problem, budget: Budget, parameters: BestResponseParameters) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    base, is_parallel = as_mixture_solver(parameters.base), parameters.composition == "parallel"
    smallest = min(problem.group_sizes)
    if is_parallel and (parameters.n_rounds or 1) > smallest:
        raise ValueError(
            f"n_rounds of BestResponse must be at most the size of the smallest group, {smallest}, "
            f"where every round has records of its own, got {parameters.n_rounds}: leave it open "
            f"or use composition='sequential'."
        )
    learned, mu = base.mixture_problem(problem, is_parallel=is_parallel), budget.mu
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
    is_parallel = parameters.composition == "parallel"
    numbers = base.numbers_of_calls(problem, is_parallel=is_parallel)
    for n_rounds in numbers if parameters.n_rounds is None else (parameters.n_rounds,):
        has_feedback = problem.n_groups > 1 and n_rounds > 1
        risk_shares: tuple[float, ...] = (0.0,)
        if has_feedback:
            asked = parameters.risk_share
            risk_shares = RISK_SHARES if asked is None else (float(asked),)
        growths = GROWTHS if is_parallel and n_rounds > 1 else (1.0,)
        for growth, risk_share in itertools.product(growths, risk_shares):
            shares = growth ** np.arange(n_rounds)
            sizes = (problem.group_sizes,) * n_rounds
            if is_parallel:
                sizes = part_sizes(problem.group_sizes, (shares / shares.sum()).tolist())
            yield _candidate(problem, mu, parameters, base, sizes, risk_share)


def _candidate(
    problem: Problem,
    mu: float,
    parameters: BestResponseParameters,
    base: MixtureSolver,
    sizes: tuple[tuple[int, ...], ...],
    risk_share: float,
) -> Candidate:
    """Return one way to run with its bounds, which add what both players owe."""
    n_rounds, is_parallel = len(sizes), parameters.composition == "parallel"
    # releases that read the same records share their budget
    repeated = 1 if is_parallel else n_rounds
    mus = [mu * math.sqrt((1.0 - risk_share) / repeated)] * n_rounds
    if is_parallel:
        mus[0] = mu  # the first part releases no risks
    answers = base.plan_mixture(problem, Calls(sizes, tuple(mus), parameters.composition))
    if problem.n_groups == 1:
        return Candidate(BestResponseSchedule(answers, problem.prior), np.asarray(answers.bounds))
    risks_multiplier, rate = 0.0, 0.0
    if risk_share > 0.0:
        reads = 1 if is_parallel else n_rounds - 1
        risks_multiplier = math.sqrt(reads / risk_share) / mu
    constants = problem.constants
    multiple = CEILING_OF_PARTS if is_parallel else by_loss(problem.loss).ceiling
    ceiling = min(multiple * constants.zero_score, constants.supremum)
    sums = SumSensitivity.of(problem, ceiling=ceiling)
    sharpness, regret = rounds_regret(
        problem,
        sizes,
        noise_multiplier=risks_multiplier * sums.loss_range,
        parallel=is_parallel,
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
