"""Rounds of `PhasedERM`: phases, group risks released between them, and what each reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.oracles.base import RecordOracle, SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks, Risks
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.solvers import centring, steps
from sklearn_dpwg.solvers.centring import CentredProblem
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.rounds.phases import (
    MOST_PHASES,
    PhasedERMParameters,
    Phases,
    possible_phases,
)
from sklearn_dpwg.solvers.rounds.releases import RISKS, WEIGHTS, release_risks, release_weights
from sklearn_dpwg.solvers.solver import Game, Solution, by_loss
from sklearn_dpwg.solvers.steps import SumSensitivity

# What a plan may choose: a grid, so that better facts never choose worse.
PHASES = (1, 2, 4, 8, 11, 16)
RISK_SHARES = (0.05, 0.1, 0.2)


def passes_of_a_phase(problem: Problem) -> int:
    """Return the passes over a phase's records that its solver typically takes.

    A dozen for gradients, and a Hessian, which costs a pass for every eight weights.
    """
    return 12 + problem.n_weights // 8


@dataclass(frozen=True)
class Rounds:
    """Everything that a run in rounds needs besides the records and the noise."""

    phases: Phases  # one a round
    # a record's loss counts for at most this much in the group risks
    ceiling: float = math.inf
    sums: SumSensitivity | None = None  # by how much a record moves the sums of these losses
    # noise per unit of sensitivity on them; 0 where none are released
    risks_multiplier: float = 0.0
    group_rate: float = 0.0  # step size η of the group weights

    __repr__ = short_repr

    @property
    def n_rounds(self) -> int:
        """Number of rounds R."""
        return self.phases.n_phases

    @property
    def risk_stds(self) -> FloatArray:
        """Standard deviation of the noise on the risk of each group."""
        problem = self.phases.solved
        assert self.sums is not None
        of_sum = self.sums.loss_range * problem.loss_noise
        stds = self.risks_multiplier * of_sum / np.asarray(problem.group_sizes)
        if problem.hidden is not None:
            stds = np.sqrt(steps.heard(stds, stds**2, problem)[1])
        return np.asarray(stds)

    @property
    def correction(self) -> FloatArray:
        """What is subtracted from exponents: half of log E exp(ηN) of the noise N on risks."""
        return np.asarray(steps.CORRECTION * (self.group_rate * self.risk_stds) ** 2 / 2.0)

    def of_fresh(self, problem: Problem, sizes: Sequence[int]) -> Self:
        """Return the same for a phase of so many fresh records, which are public numbers."""
        part = part_of(problem, self.n_rounds)
        if problem.hidden is None:
            part = replace(part, group_sizes=tuple(sizes))
        else:
            assert part.hidden is not None
            part = replace(part, hidden=replace(part.hidden, n_records=sum(sizes)))
        phases = replace(self.phases, solved=replace(part, loss=self.phases.solved.loss))
        return replace(self, phases=phases, sums=SumSensitivity.of(part, ceiling=self.ceiling))

    def __str__(self) -> str:
        """Return a few lines for people."""
        if self.risks_multiplier == 0.0:
            return str(self.phases)
        return self.phases.in_words(
            f"between phases their rate is {self.group_rate:.3g}, losses counted up to "
            f"{self.ceiling:.3g}"
        )


def part_of(problem: Problem, n_phases: int) -> Problem:
    """Return the facts of what one of so many phases on fresh records reads."""
    sizes, hidden = (max(1, int(size) // n_phases) for size in problem.group_sizes), problem.hidden
    if hidden is not None:
        std, n_records = hidden.size_std / n_phases, max(1, hidden.n_records // n_phases)
        hidden = replace(hidden, n_records=n_records, count_std=std, n_calls=1)
    return replace(problem, group_sizes=tuple(sizes), hidden=hidden)


# A way to run, and its bound for each group as the worst-off one.
Candidate: TypeAlias = tuple[Rounds, FloatArray]


def plan_of_rounds(
    name: str, problem: Problem, budget: Budget, parameters: PhasedERMParameters, learned: Problem
) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open.

    Weights are learned for the problem or for that of centred rows.
    """
    before, mu = centring.releases_before(learned, budget.mu), budget.mu
    mu *= math.sqrt(centring.share_left(learned))
    prior = np.asarray(problem.prior)

    candidates = _candidates(learned, mu, parameters)
    schedule, bounds = first_of_least(candidates, lambda each: float(prior @ each[1]))
    z = schedule.phases.multiplier
    # a record is in one fresh phase, which alone reads it
    paid = 1 if problem.fresh_calls else None
    asked = [*before, Release(WEIGHTS, "gaussian", z, schedule.n_rounds, draws_per_record=paid)]
    if schedule.risks_multiplier > 0.0:
        z, between = schedule.risks_multiplier, schedule.n_rounds - 1
        asked.append(Release(RISKS, "gaussian", z, between, draws_per_record=paid))
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
    calls = problem.fresh_calls
    numbers: Iterable[int] = PHASES if parameters.n_phases is None else (parameters.n_phases,)
    most = max(1, parameters.max_passes // passes_of_a_phase(problem))
    if calls:
        # every call has whole phases, and every phase records of every group
        most = max(calls, min(MOST_PHASES, *problem.queue_sizes) // calls * calls)
        numbers = sorted({min(most, math.ceil(number / calls) * calls) for number in numbers})
    elif parameters.n_phases is None:
        numbers = [number for number in numbers if number <= most]
    for number in numbers:
        shares: tuple[float, ...] = (0.0,)
        if problem.n_groups > 1 and number > 1:
            shares = RISK_SHARES
            if parameters.risk_share is not None:
                shares = (float(parameters.risk_share),)
        for share in shares:
            yield _candidate(problem, mu, parameters, number, share)


def _candidate(
    problem: Problem,
    mu: float,
    parameters: PhasedERMParameters,
    n_rounds: int,
    risk_share: float,
) -> Candidate:
    """Return one way to run with its bounds, which add what both players owe."""
    # releases share the budget of the records that they read: all, or those of one phase
    n_weights, n_risks, reads = n_rounds, n_rounds - 1, "all records"
    if problem.fresh_calls:
        n_weights = n_risks = 1
        problem, reads = part_of(problem, n_rounds), "fresh records"
    multiplier = math.sqrt(n_weights / (1.0 - risk_share)) / mu
    prior = np.asarray(problem.prior)
    bounds, phases = first_of_least(
        possible_phases(problem, parameters, n_rounds, multiplier=multiplier),
        lambda way: float(prior @ way[0]),
    )
    constants = problem.constants
    signal = mu * problem.typical_size
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
        elif phases.mu_groups < math.inf:
            regret = np.minimum(regret, -phases.mu_groups * np.log(prior))
    phases = replace(phases, reads=reads)
    schedule = Rounds(phases, ceiling, sums, multiplier, rate)
    return schedule, bounds + regret


class PhaseGame(Game):
    """Releases weights phase by phase, the group weights of each from the risks released.

    A round is a phase. Where records are fresh, it reads some that no other phase reads.
    """

    def __init__(self, plan: Plan, noise: NoiseSource, start: Solution | None) -> None:
        assert isinstance(plan.schedule, Rounds)
        self._plan, self._schedule, self._noise = plan, plan.schedule, noise
        self._weights = first_weights(plan.problem, start)
        self._log_mixture = np.log(np.asarray(plan.schedule.phases.solved.prior))
        self._answered: list[FloatArray] = []
        self._centre: centring.Centring | None = None
        # those of the paper, each with a release of its own
        self.has_parts = plan.releases[0].part is not None
        adapts = plan.schedule.risks_multiplier > 0.0
        self._gain = steps.GainOfGroups(plan.problem, adapts=adapts)

    @property
    def is_over(self) -> bool:
        return len(self._answered) == self._schedule.n_rounds

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        phases = self._schedule.phases
        left = phases.n_phases - len(self._answered)
        planned = phases.solved.queue_sizes
        enough = min(have / size for have, size in zip(available, planned, strict=True))
        # the paper's phases have the sizes planned, others what comes, divided evenly
        n_played = int(min(left, enough if self.has_parts else enough + 0.5))
        for _ in range(n_played):
            sizes = planned if self.has_parts else [int(have) // n_played for have in available]
            self.play(self._draw(oracle, sizes))
        return n_played

    def finish(self) -> Solution:
        if not self._answered:
            return Solution(self._weights, None, 0)
        last = self._answered[-self._schedule.phases.averaged :]
        learned, problem = np.asarray(sum(last) / len(last)), self._plan.problem
        if self._centre is not None:
            learned = project_to_ball(self._centre.from_centred(learned, problem), problem.radius)
        return Solution(learned, None, len(self._answered), **self._gain.released)

    def centred(self, data: Risks) -> Risks:
        """Return all records as phases read them, after what centring releases."""
        phases, problem = self._schedule.phases, self._plan.problem
        if not isinstance(phases.solved, CentredProblem):
            return data
        releases = self._plan.releases
        before = releases[: -len(centring.after_centring(releases))]
        limit = phases.solved.limit
        self._centre = centring.release_centre(problem, limit, data, self._noise, before)
        self._weights = self._project(self._centre.to_centred(self._weights, problem))
        # rows are as long as they came out
        solved = replace(phases.solved, stretch=float(self._centre.whitening.max()))
        self._schedule = replace(self._schedule, phases=replace(phases, solved=solved))
        return self._centre.view(data)

    def play(self, read: Risks) -> None:
        """Release the minimiser of the next phase on its records."""
        index, schedule, plan = len(self._answered), self._schedule, self._plan
        payer: int | None = None
        if self.has_parts:
            of_weights, *of_risks = plan.releases[index : index + 1]
        else:
            of_weights, *of_risks = centring.after_centring(plan.releases)
            if plan.problem.fresh_calls:
                payer, schedule = index, schedule.of_fresh(plan.problem, read.group_sizes)
        phases = schedule.phases
        if index > 0 and of_risks:
            assert schedule.sums is not None
            facts = (phases.solved, schedule.sums, schedule.ceiling, self._noise, of_risks[0])
            risks = release_risks(read, self._weights, *facts, payer)
            heard, _ = steps.heard(risks, np.zeros_like(risks), plan.problem)
            self._gain.push(heard, schedule.risk_stds**2)
            self._log_mixture = (
                self._log_mixture + schedule.group_rate * heard - schedule.correction
            )
        mixture = steps.normalised(self._log_mixture, least=steps.LEAST_PRIOR)
        mixture = self._gain.played(mixture)
        phase = phases.phase(index, mixture)
        facts_of_weights = (mixture, phase, phases.solved, self._noise, of_weights, payer)
        self._weights = self._project(release_weights(read, self._weights, *facts_of_weights))
        self._answered.append(self._weights)

    def _project(self, weights: FloatArray) -> FloatArray:
        # drawn towards 0 it stays in the ball of rows, and is in that of the phases
        problem = self._plan.problem
        in_rows = weights if self._centre is None else self._centre.project(weights, problem)
        return project_to_ball(in_rows, problem.radius)

    def _draw(self, oracle: SampleOracle, sizes: Sequence[int]) -> GroupRisks:
        """Return the risks of fresh records, whose rows the oracle has shortened already."""
        problem = self._plan.problem
        if problem.hidden is not None:
            assert isinstance(oracle, RecordOracle)
            rows, targets, codes = oracle.draw_places(sizes[0])
        else:
            drawn = [oracle.draw(group, size) for group, size in enumerate(sizes)]
            rows = np.concatenate([rows for rows, _ in drawn])
            targets = np.concatenate([np.asarray(targets) for _, targets in drawn])
            codes = np.repeat(np.arange(problem.n_groups), sizes)
        hides_groups = problem.hidden is not None
        encoder = RecordEncoder(problem.n_groups, data_norm=1.0, hides_groups=hides_groups)
        records = encoder.encode(rows, targets, codes)
        return GroupRisks(records, problem.loss, problem.intercept_scaling)


def first_weights(problem: Problem, start: Solution | None) -> FloatArray:
    """Return the weights that a run begins with: 0, or a start drawn into the ball."""
    if start is None:
        return np.zeros(problem.n_weights)
    return project_to_ball(start.weights, problem.radius)
