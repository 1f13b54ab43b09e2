"""Rounds of released group risks against a solver for fixed mixtures of groups: plan and run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg._stored import Stored
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.solvers import centring, steps
from sklearn_dpwg.solvers.centring import CentredProblem
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan, MixtureSolver
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.rounds.releases import RISKS, release_risks
from sklearn_dpwg.solvers.solver import Solution, by_loss
from sklearn_dpwg.solvers.steps import SumSensitivity

# What a plan may choose: a grid, so that better facts never choose worse; and what risks have
# where noise is quiet, as the noise on them costs in proportion.
RISK_SHARES, QUIET_SHARE = (0.05, 0.1, 0.2), 0.4

# A rate that follows released risks is at most so many times the planned one.
FASTEST = 30.0


@dataclass(frozen=True)
class Rounds(Stored):
    """Everything that a run in rounds needs besides the records and the noise."""

    base: MixturePlan  # what the base solver does in its calls, one a round
    prior: tuple[float, ...]  # group weights π of the first round
    ceiling: float  # a record's loss counts for at most this much in the group risks
    sums: SumSensitivity  # by how much a record moves the sums of these losses
    risks_multiplier: float  # noise per unit of sensitivity on them; 0 where none are released
    group_rate: float  # step size η of the group weights
    # how many times the `signal` is that from which on group weights are held back less; at least 1
    quiet: float = 1.0
    _added: ClassVar[Mapping[str, Any]] = {"quiet": 1.0}

    __repr__ = short_repr

    @property
    def n_rounds(self) -> int:
        """Number of rounds R."""
        return self.base.calls.n_calls

    @property
    def n_risks(self) -> int:
        """How often risks are released, if at all: between rounds, in quiet noise after all too."""
        return self.n_rounds - 1 + (self.quiet > 1.0)

    @property
    def risk_stds(self) -> FloatArray:
        """Standard deviation of the noise on the risk of each group."""
        problem = self.base.problem
        of_sum = self.sums.loss_range * problem.loss_noise
        stds = self.risks_multiplier * of_sum / np.asarray(problem.group_sizes)
        if problem.hidden is not None:
            stds = np.sqrt(steps.heard(stds, stds**2, problem)[1])
        return np.asarray(stds)

    def correction_at(self, rate: float) -> FloatArray:
        """Return what is subtracted from exponents: half of log E exp(ηN) of noise N at a rate η.

        Less where there is little noise, as it keeps risks apart that should be equal.
        """
        half = steps.CORRECTION / self.quiet
        return np.asarray(half * (rate * self.risk_stds) ** 2 / 2.0)

    def rate_at(self, risks: FloatArray, mixture: FloatArray) -> float:
        """Return the planned rate, or where noise is quiet that for the spread of released risks.

        It is ``√(H(π) / (q²/R + mean v/2)) / R`` with q² the variance of risks under the mixture:
        a rate that is planned for the spread of the first rounds ends far from equal risks.
        """
        if self.quiet == 1.0:
            return self.group_rate
        prior, variances = np.asarray(self.prior), self.risk_stds**2
        spread = float(mixture @ (risks - mixture @ risks) ** 2)
        entropy, noise = -float(prior @ np.log(prior)), float(variances.mean())
        rate = steps.best_rate(entropy, spread / self.n_rounds + noise / 2.0) / self.n_rounds
        return min(max(rate, self.group_rate), FASTEST * self.group_rate)

    def between(self, what: str) -> list[str]:
        """Return what happens between rounds, for people: a line or none."""
        if len(self.prior) == 1 or self.risks_multiplier == 0.0:
            return []
        return [
            f"between {what} their rate is {self.group_rate:.3g}, losses counted up to "
            f"{self.ceiling:.3g}"
        ]

    def __str__(self) -> str:
        """Return a few lines for people."""
        base, averaged = self.base, self.base.averaged
        lines = [
            f"{self.n_rounds} round(s), each reads all records; in each {base.solver!r} "
            "answers for the group weights of the round",
            "output is the answer of the last round"
            if averaged == 1
            else f"output is the average of the last {averaged} answers",
        ]
        if isinstance(base.problem, CentredProblem):
            lines.append(str(base.problem.limit))
        if len(self.prior) > 1:
            first = steps.shown(self.prior)
            lines.append(f"group weights start at {first}, fixed within a round")
        lines += self.between("rounds")
        return "\n".join([*lines, *(f"base: {line}" for line in str(base.schedule).splitlines())])


# A way to run, and its bound for each group as the worst-off one.
Candidate: TypeAlias = tuple[Rounds, FloatArray]


def plan_of_rounds(
    name: str,
    problem: Problem,
    budget: Budget,
    base: MixtureSolver,
    *,
    n_rounds: int | None,
    risk_share: float | None,
    kind: type[Rounds] = Rounds,
    instead_of_one: Callable[[MixturePlan], Iterable[MixtureSolver]] = lambda plan: (),
) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open.

    Where one round would be best, other bases for a single round are tried too.
    """
    learned, mu = base.mixture_problem(problem, budget), budget.mu
    before = centring.releases_before(learned, mu)
    mu *= math.sqrt(centring.share_left(learned))
    prior = np.asarray(problem.prior)

    def least(candidates: Iterable[Candidate]) -> Candidate:
        return first_of_least(candidates, lambda candidate: float(prior @ candidate[1]))

    best = least(_candidates(learned, mu, base, n_rounds, risk_share))
    if best[0].n_rounds == 1 and problem.n_groups > 1:
        others = (_candidate(learned, mu, each, 1, 0.0) for each in instead_of_one(best[0].base))
        best = least(itertools.chain([best], others))
    schedule, bounds = best
    wanted = (*before, schedule.base.release, *_risk_releases(schedule))
    releases = calibrate(wanted, budget)
    # noise is scaled by one factor
    factor = releases[0].noise_multiplier / wanted[0].noise_multiplier
    answers = replace(schedule.base, release=releases[len(before)])
    scaled = {"base": answers, "risks_multiplier": factor * schedule.risks_multiplier}
    return Plan.of(
        name,
        problem,
        budget,
        releases=releases,
        schedule=kind(**(vars(schedule) | scaled)),
        bounds=bounds,
        n_steps=schedule.n_rounds,
    )


def _candidates(
    problem: Problem,
    mu: float,
    base: MixtureSolver,
    n_rounds: int | None,
    risk_share: float | None,
) -> Iterator[Candidate]:
    """Yield every way to run that the parameters leave open."""
    for number in base.numbers_of_calls(problem) if n_rounds is None else (n_rounds,):
        shares: tuple[float, ...] = (0.0,)
        if problem.n_groups > 1 and number > 1:
            is_quiet = _quietness(problem, mu) > 1.0
            shares = (QUIET_SHARE,) if is_quiet else RISK_SHARES
            if risk_share is not None:
                shares = (float(risk_share),)
        for share in shares:
            yield _candidate(problem, mu, base, number, share)


def _candidate(
    problem: Problem, mu: float, base: MixtureSolver, n_rounds: int, risk_share: float
) -> Candidate:
    """Return one way to run with its bounds, which add what both players owe."""
    # all releases read the same records and share the budget
    answers = base.plan_calls(
        problem, Calls(n_rounds, math.sqrt(n_rounds / (1.0 - risk_share)) / mu)
    )
    constants = problem.constants
    signal = mu * problem.typical_size
    quiet = _quietness(problem, mu)
    n_risks = n_rounds - 1 + (quiet > 1.0)
    multiplier = math.sqrt(n_risks / risk_share) / mu if risk_share > 0.0 else 0.0
    multiple = by_loss(problem.loss, signal).ceiling
    ceiling = min(multiple * constants.zero_score, constants.supremum)
    sums = SumSensitivity.of(problem, ceiling=ceiling)
    rate, regret = 0.0, np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        of_sum = sums.loss_range * problem.loss_noise
        sharpness, regret = steps.rounds_regret(
            problem, n_rounds, noise_multiplier=multiplier * of_sum
        )
        if multiplier > 0.0:
            rate = sharpness / n_rounds
        elif answers.mu_groups < math.inf:
            regret = np.minimum(regret, -answers.mu_groups * np.log(np.asarray(problem.prior)))
    schedule = Rounds(answers, problem.prior, ceiling, sums, multiplier, rate, quiet)
    return schedule, np.asarray(answers.bounds) + regret


def _quietness(problem: Problem, mu: float) -> float:
    """Return how many times the `signal` is that from which on there is little noise, or 1."""
    return max(1.0, mu * problem.typical_size / steps.PRICE_BINDS)


def _risk_releases(schedule: Rounds) -> tuple[Release, ...]:
    """Return the release of the group risks: none before the first round."""
    if schedule.risks_multiplier == 0.0:
        return ()
    return (Release(RISKS, "gaussian", schedule.risks_multiplier, schedule.n_risks),)


def run_rounds(
    plan: Plan, base: MixtureSolver, data: Risks, noise: NoiseSource, start: Solution | None
) -> Solution:
    """Ask the base for weights round by round, the mixture of each from the risks released."""
    schedule, problem = plan.schedule, plan.problem
    assert isinstance(schedule, Rounds)
    answers, weights = schedule.base, first_weights(problem, start)
    centre = None
    if isinstance(answers.problem, CentredProblem):
        limit = answers.problem.limit
        before = plan.releases[: -len(centring.after_centring(plan.releases))]
        centre = centring.release_centre(problem, limit, data, noise, before)
        data, weights = centre.view(data), centre.to_centred(weights, problem)
        answers = replace(answers, problem=replace(answers.problem, clip=centre.clip))
    log_mixture, risks = np.log(np.asarray(schedule.prior)), None
    mixture = np.asarray(schedule.prior)
    heard: list[FloatArray] = []
    answered: list[FloatArray] = []
    played: list[FloatArray] = []

    def release(weights: FloatArray) -> FloatArray:
        facts = (answers.problem, schedule.sums, schedule.ceiling, noise, plan.releases[-1])
        found = release_risks(data, weights, *facts)
        return steps.heard(found, np.zeros_like(found), problem)[0]

    for index in range(schedule.n_rounds):
        if index > 0 and schedule.risks_multiplier > 0.0:
            risks = release(weights)
            heard.append(risks)
            rate = schedule.rate_at(risks, mixture)
            log_mixture = log_mixture + rate * risks - schedule.correction_at(rate)
        mixture = steps.normalised(log_mixture, least=steps.LEAST_PRIOR)
        weights = base.answer(answers, mixture, weights, data, noise, call=index, risks=risks)
        answered.append(weights)
        played.append(mixture)
    learned = np.asarray(sum(answered[-answers.averaged :]) / answers.averaged)
    mixtures = np.asarray(sum(played[-answers.averaged :]) / answers.averaged)
    if schedule.risks_multiplier > 0.0 and schedule.n_risks == schedule.n_rounds:
        heard.append(release(weights))
        loudness = float(np.sqrt((np.array(played) @ schedule.risk_stds**2).mean()))
        usual = np.zeros(schedule.n_rounds)
        usual[-answers.averaged :] = 1.0 / answers.averaged
        shares = steps.least_worst_shares(np.array(heard), steps.CLEAR_DEVIATIONS * loudness, usual)
        if shares is not None:
            learned, mixtures = shares @ np.array(answered), shares @ np.array(played)
    if centre is not None:
        learned = centre.from_centred(learned, problem)
    return Solution(learned, mixtures, schedule.n_rounds)


def first_weights(problem: Problem, start: Solution | None) -> FloatArray:
    """Return the weights that a run begins with: 0, or a start drawn into the ball."""
    if start is None:
        return np.zeros(problem.n_weights)
    return project_to_ball(start.weights, problem.radius)
