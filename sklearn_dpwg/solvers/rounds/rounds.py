"""Rounds of `PhasedERM`: phases with fixed group weights, group risks released between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.solvers import centring, steps
from sklearn_dpwg.solvers.centring import CentredProblem
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.rounds.phases import PhasedERMParameters, Phases, possible_phases
from sklearn_dpwg.solvers.rounds.releases import RISKS, WEIGHTS, release_risks, release_weights
from sklearn_dpwg.solvers.solver import Solution, by_loss
from sklearn_dpwg.solvers.steps import SumSensitivity

# What a plan may choose: a grid, so that better facts never choose worse.
PHASES = (1, 2, 4, 8, 11, 16)
RISK_SHARES = (0.05, 0.1, 0.2)
# B/μ_λ of a single phase.
LOG_ODDS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def passes_of_a_phase(problem: Problem) -> int:
    """Return the passes over a phase's records that its solver typically takes.

    A dozen for gradients, and a Hessian, which costs a pass for every eight weights.
    """
    return 12 + problem.n_weights // 8


@dataclass(frozen=True)
class Rounds:
    """Everything that a run in rounds needs besides the records and the noise."""

    phases: Phases  # one a round
    prior: tuple[float, ...]  # group weights π of the first round
    ceiling: float  # a record's loss counts for at most this much in the group risks
    sums: SumSensitivity  # by how much a record moves the sums of these losses
    risks_multiplier: float  # noise per unit of sensitivity on them; 0 where none are released
    group_rate: float  # step size η of the group weights

    __repr__ = short_repr

    @property
    def n_rounds(self) -> int:
        """Number of rounds R."""
        return self.phases.n_phases

    @property
    def n_risks(self) -> int:
        """How often risks are released, if at all: between rounds."""
        return self.n_rounds - 1

    @property
    def risk_stds(self) -> FloatArray:
        """Standard deviation of the noise on the risk of each group."""
        problem = self.phases.solved
        of_sum = self.sums.loss_range * problem.loss_noise
        stds = self.risks_multiplier * of_sum / np.asarray(problem.group_sizes)
        if problem.hidden is not None:
            stds = np.sqrt(steps.heard(stds, stds**2, problem)[1])
        return np.asarray(stds)

    @property
    def correction(self) -> FloatArray:
        """What is subtracted from exponents: half of log E exp(ηN) of the noise N on risks."""
        return np.asarray(steps.CORRECTION * (self.group_rate * self.risk_stds) ** 2 / 2.0)

    def __str__(self) -> str:
        """Return a few lines for people."""
        if len(self.prior) == 1 or self.risks_multiplier == 0.0:
            return str(self.phases)
        return self.phases.in_words(
            f"between phases their rate is {self.group_rate:.3g}, losses counted up to "
            f"{self.ceiling:.3g}"
        )


# A way to run, and its bound for each group as the worst-off one.
Candidate: TypeAlias = tuple[Rounds, FloatArray]


def plan_of_rounds(
    name: str, problem: Problem, budget: Budget, parameters: PhasedERMParameters, learned: Problem
) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open.

    Weights are learned for the problem or for that of centred rows. Where one phase would be best,
    some within which group weights move are tried too.
    """
    before, mu = centring.releases_before(learned, budget.mu), budget.mu
    mu *= math.sqrt(centring.share_left(learned))
    prior = np.asarray(problem.prior)

    def least(candidates: Iterable[Candidate]) -> Candidate:
        return first_of_least(candidates, lambda candidate: float(prior @ candidate[1]))

    best = least(_candidates(learned, mu, parameters))
    is_open = parameters.mu_groups is None and problem.hidden is None
    if best[0].n_rounds == 1 and problem.n_groups > 1 and is_open:
        # the bound of a strength is a theorem, that of fixed group weights rests on an assumption:
        # so it competes with these only where there is nothing else to move the group weights
        strengths = [best[0].phases.solved.loss_range / odds for odds in LOG_ODDS]
        others = [_candidate(learned, mu, parameters, 1, 0.0, mu_groups=each) for each in strengths]
        best = least([best, *others])
    schedule, bounds = best
    z = schedule.phases.multiplier
    asked = (*before, Release(WEIGHTS, "gaussian", z, schedule.n_rounds), *_risk_releases(schedule))
    releases = calibrate(asked, budget)
    # noise is scaled by one factor
    factor = releases[0].noise_multiplier / asked[0].noise_multiplier
    return Plan.of(
        name,
        problem,
        budget,
        releases=releases,
        schedule=replace(schedule, risks_multiplier=factor * schedule.risks_multiplier),
        bounds=bounds,
        n_steps=schedule.n_rounds,
    )


def _candidates(
    problem: Problem, mu: float, parameters: PhasedERMParameters
) -> Iterator[Candidate]:
    """Yield every way to run that the parameters leave open."""
    numbers: tuple[int, ...] = (parameters.n_phases or 1,)
    if parameters.n_phases is None:
        most = max(1, parameters.max_passes // passes_of_a_phase(problem))
        numbers = tuple(number for number in PHASES if number <= most)
    for number in numbers:
        shares: tuple[float, ...] = (0.0,)
        if problem.n_groups > 1 and number > 1:
            shares = RISK_SHARES
            if parameters.risk_share is not None:
                shares = (float(parameters.risk_share),)
        for share in shares:
            yield _candidate(problem, mu, parameters, number, share, mu_groups=parameters.mu_groups)


def _candidate(
    problem: Problem,
    mu: float,
    parameters: PhasedERMParameters,
    n_rounds: int,
    risk_share: float,
    *,
    mu_groups: float | None,
) -> Candidate:
    """Return one way to run with its bounds, which add what both players owe."""
    # all releases read the same records and share the budget
    multiplier = math.sqrt(n_rounds / (1.0 - risk_share)) / mu
    prior = np.asarray(problem.prior)
    bounds, phases = first_of_least(
        possible_phases(problem, parameters, n_rounds, multiplier=multiplier, mu_groups=mu_groups),
        lambda way: float(prior @ way[0]),
    )
    constants = problem.constants
    signal = mu * problem.typical_size
    multiplier = math.sqrt((n_rounds - 1) / risk_share) / mu if risk_share > 0.0 else 0.0
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
        elif phases.mu_groups < math.inf:
            regret = np.minimum(regret, -phases.mu_groups * np.log(prior))
    schedule = Rounds(phases, problem.prior, ceiling, sums, multiplier, rate)
    return schedule, bounds + regret


def _risk_releases(schedule: Rounds) -> tuple[Release, ...]:
    """Return the release of the group risks: none before the first round."""
    if schedule.risks_multiplier == 0.0:
        return ()
    return (Release(RISKS, "gaussian", schedule.risks_multiplier, schedule.n_risks),)


def run_rounds(plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
    """Release weights phase by phase, the group weights of each from the risks released."""
    schedule, problem = plan.schedule, plan.problem
    assert isinstance(schedule, Rounds)
    phases, weights = schedule.phases, first_weights(problem, start)
    of_weights, *of_risks = centring.after_centring(plan.releases)
    centre: centring.Centring | None = None

    def project(weights: FloatArray) -> FloatArray:
        # drawn towards 0 it stays in the ball of rows, and is in that of the phases
        in_rows = weights if centre is None else centre.project(weights, problem)
        return project_to_ball(in_rows, problem.radius)

    if isinstance(phases.solved, CentredProblem):
        before = plan.releases[: -len(centring.after_centring(plan.releases))]
        centre = centring.release_centre(problem, phases.solved.limit, data, noise, before)
        data, weights = centre.view(data), project(centre.to_centred(weights, problem))
        # with the limit on gradients that was released
        phases = replace(phases, solved=replace(phases.solved, clip=centre.clip))
    log_mixture = np.log(np.asarray(schedule.prior))
    gain, answered = steps.GainOfGroups(problem, adapts=bool(of_risks)), list[FloatArray]()

    def risks_at(weights: FloatArray) -> FloatArray:
        facts = (phases.solved, schedule.sums, schedule.ceiling, noise, of_risks[0])
        risks = release_risks(data, weights, *facts)
        return steps.heard(risks, np.zeros_like(risks), problem)[0]

    for index in range(schedule.n_rounds):
        if index > 0 and of_risks:
            risks = risks_at(weights)
            gain.push(risks, schedule.risk_stds**2)
            log_mixture = log_mixture + schedule.group_rate * risks - schedule.correction
        mixture = gain.played(steps.normalised(log_mixture, least=steps.LEAST_PRIOR))
        phase = phases.phase(index, mixture)
        noisy = release_weights(data, weights, mixture, phase, phases.solved, noise, of_weights)
        weights = project(noisy)
        answered.append(weights)
    learned = np.asarray(sum(answered[-phases.averaged :]) / phases.averaged)
    if centre is not None:
        learned = project_to_ball(centre.from_centred(learned, problem), problem.radius)
    return Solution(learned, None, schedule.n_rounds, **gain.released)


def first_weights(problem: Problem, start: Solution | None) -> FloatArray:
    """Return the weights that a run begins with: 0, or a start drawn into the ball."""
    if start is None:
        return np.zeros(problem.n_weights)
    return project_to_ball(start.weights, problem.radius)
