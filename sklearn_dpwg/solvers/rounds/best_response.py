"""Rounds of released group risks against a private solver for fixed mixtures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, accepted_by, share, whole
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, Release
from sklearn_dpwg.solvers.centring import (
    SHARE_LEFT,
    CentredProblem,
    centring_releases,
    release_centre,
)
from sklearn_dpwg.solvers.mixture import Calls, MixtureSolver, as_mixture_solver
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.rounds.releases import (
    ROUND_RISKS,
    best_response_plan,
    release_round_risks,
)
from sklearn_dpwg.solvers.rounds.schedule import BestResponseSchedule
from sklearn_dpwg.solvers.solver import Solution, Solver, by_loss
from sklearn_dpwg.solvers.steps import LEAST_PRIOR, normalised, rounds_regret
from sklearn_dpwg.solvers.sums import SumSensitivity

# Parameters of the best-response solver, and what each may be.


@dataclass(eq=False, repr=False)
class BestResponseParameters:
    """Parameters of `BestResponse`, which documents them; ``None`` means planned."""

    base: str | MixtureSolver = "phased-erm"
    _: KW_ONLY
    n_rounds: int | None = None
    risk_share: float | None = None


RULES = Rules(
    "BestResponse",
    lambda parameters: as_mixture_solver(parameters.base).check_mixture(),
    base=accepted_by(as_mixture_solver),
    n_rounds=whole(or_none=True),
    risk_share=share(or_none=True),
)


# Plan of the best-response solver with the least bound on the excess risk.

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
    return best_response_plan(problem, budget, best.schedule, best.bounds, before)


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
        risk_releases = [each for each in plan.releases if each.name == ROUND_RISKS]
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
                risks = release_round_risks(data, weights, schedule, noise, risk_releases[0])
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
