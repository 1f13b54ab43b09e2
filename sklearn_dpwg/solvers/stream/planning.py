"""The plans with the least bound on the excess risk: of the game, and of a fixed mixture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Self

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.privacy.prefix_sums import PrefixSums
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.steps import best_rate, log_mean_exp_laplace, loss_ceiling
from sklearn_dpwg.solvers.stream.games import CLIPPED_DEVIATIONS
from sklearn_dpwg.solvers.stream.learners import (
    Learner,
    ParameterFree,
    betting_regret,
    make_learner,
)
from sklearn_dpwg.solvers.stream.releases import (
    PlannedReleases,
    batch_plan,
    oco_plan,
    planned_release,
)
from sklearn_dpwg.solvers.stream.schedule import (
    Design,
    DifferenceSensitivity,
    OCOParameters,
    OCOSchedule,
    OnlineToBatchParameters,
    OnlineToBatchSchedule,
    Regulariser,
    RoundSensitivity,
    StrengthRule,
    designs,
    numbers_of_rounds,
    opened,
    rates_of_groups,
    refuse_no_end,
    round_weights,
)

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of the feedback range; between MGR's tenth and Hoeffding's 0.35.
RISK_SPREAD = 0.2
# Losses counted up to this multiple of what predicting nothing can cost: a round reads few records.
CEILING_OVER_ZERO_SCORE = 1.5


def least_oco_plan(problem: Problem, budget: Budget, parameters: OCOParameters) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    ceiling = float(
        loss_ceiling(problem, parameters.loss_ceiling, "OCO", multiple=CEILING_OVER_ZERO_SCORE)
    )

    def planned(design: Design) -> tuple[float, Design, OCOSchedule, FloatArray]:
        releases = PlannedReleases.within(problem, budget, 1, design.weight_share)
        schedule = schedule_of(problem, parameters, design, releases, ceiling)
        by_group = excess_bound_by_group(problem, schedule)
        return float(np.asarray(problem.prior) @ by_group), design, schedule, by_group

    every = map(planned, designs(problem, parameters))
    _, design, schedule, by_group = first_of_least(every, itemgetter(0))
    releases = PlannedReleases.within(problem, budget, design.n_rounds, design.weight_share)
    return oco_plan(problem, budget, releases, schedule, by_group)


def excess_bound_by_group(problem: Problem, schedule: OCOSchedule) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    `docs/theory/oco.md`, section 6, writes it down and says what of it is a theorem.
    """
    n_rounds, rate = schedule.n_rounds, schedule.group_rate
    sizes = np.asarray(problem.group_sizes, dtype=float)
    weight_rates = _rates_to_plan_for(problem, schedule.weight_rates)
    feedback_rates = np.asarray(schedule.feedback_rates)
    sampled = schedule.play == "sampled"
    # where all weight is on one group, a sampled game ends when that group does
    played = np.full(len(sizes), float(n_rounds))
    if sampled:
        played = np.minimum(sizes / (weight_rates + feedback_rates), n_rounds)
    unit = schedule.gradient_multiplier * schedule.worst_std * schedule.gradient_diameter
    bound = schedule.strength_rule.bounds(unit / weight_rates, played)
    if len(sizes) > 1:
        start, steady = _group_terms(problem, schedule, played)
        bound += start / rate + rate * steady
    return bound


def _group_terms(
    problem: Problem, schedule: OCOSchedule, played: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what the group player's rate divides, and what it multiplies, for each group."""
    start = -np.log(np.asarray(schedule.prior)) / played
    units = schedule.feedback_range / _rates_to_plan_for(problem, schedule.feedback_rates)
    if schedule.places is not None:  # the noise of a sum counts once, not round by round
        noise = (schedule.feedback_multiplier * schedule.worst_std * units) ** 2
        return start, (RISK_SPREAD * schedule.feedback_range) ** 2 + 0.5 * noise / played
    variance = 2.0 * (schedule.feedback_multiplier * units) ** 2
    if schedule.play == "sampled":
        square = schedule.feedback_bound**2 + variance
        return start, 0.5 * problem.n_groups * square
    # a group with fewer records than rounds has some in some rounds only
    share = np.minimum(1.0, np.asarray(schedule.feedback_rates))
    return start, (RISK_SPREAD * schedule.feedback_range) ** 2 + 0.5 * variance * share


def _rates_to_plan_for(problem: Problem, rates: Sequence[float]) -> FloatArray:
    """Return records of each group in a round; of one that is not heard, those of all."""
    found = np.asarray(rates)
    if problem.hidden is None:
        return found
    return found * (problem.sizes_to_plan_for / np.asarray(problem.group_sizes))


def schedule_of(
    problem: Problem,
    parameters: OCOParameters,
    design: Design,
    releases: PlannedReleases,
    ceiling: float,
) -> OCOSchedule:
    """Return the schedule of a design, with the best rate of the group player."""
    several, n_rounds = problem.n_groups > 1, design.n_rounds
    mechanism = opened(parameters, problem, n_rounds)
    moved = RoundSensitivity.of(problem, mechanism, ceiling, design)
    own, other = (
        rates_of_groups(problem, rates) for rates in (design.weight_rates, design.feedback_rates)
    )
    feedback_range, constants, places = moved.feedback_range, problem.constants, None
    feedback_bound, center = feedback_range, constants.infimum
    if problem.hidden is not None:
        center += (ceiling - constants.infimum) / 2.0
        places = float(design.weight_rates[0])
    if several and design.play == "sampled":
        unit = releases.feedback_multiplier * feedback_range / float(design.feedback_rates[0])
        # the paper's: with this much room no noise of T rounds is likely to be clipped
        feedback_bound += 2.0 * unit * math.log(max(n_rounds, 2))

    schedule = OCOSchedule(
        play=design.play,
        n_rounds=n_rounds,
        noise=parameters.mechanism,
        gradient_multiplier=releases.gradient.noise_multiplier,
        feedback_multiplier=releases.feedback_multiplier,
        gradient_diameter=moved.gradient_diameter,
        ceiling=ceiling,
        center=center,
        feedback_range=feedback_range,
        prior=problem.prior,
        weight_rates=tuple(own.tolist()),
        feedback_rates=tuple(other.tolist()),
        group_rate=0.0,
        feedback_bound=feedback_bound,
        noise_correction=(0.0,) * problem.n_groups,
        strength_rule=StrengthRule(
            n_rounds=n_rounds,
            aim=parameters.aim * problem.reach,
            smoothness=problem.smoothness * problem.loss.n_outputs,
            lipschitz=problem.lipschitz,
            fixed=make_learner(parameters.learner).strength,
        ),
        averaging=float(parameters.averaging),
        worst_std=mechanism.worst_standard_deviation,
        places=places,
    )
    return _with_group_rate(problem, parameters, schedule) if several else schedule


def _with_group_rate(
    problem: Problem, parameters: OCOParameters, schedule: OCOSchedule
) -> OCOSchedule:
    """Return a schedule with the group player's rate, by default the best one."""
    start, steady = _group_terms(problem, schedule, np.full(problem.n_groups, schedule.n_rounds))
    prior, rate = np.asarray(problem.prior), parameters.group_rate
    rate = best_rate(float(prior @ start), float(prior @ steady)) if rate is None else float(rate)
    if schedule.play == "sampled" or schedule.places is not None:
        return replace(schedule, group_rate=rate)
    multiplier = rate * schedule.feedback_multiplier * schedule.feedback_range
    correction = log_mean_exp_laplace(multiplier / np.asarray(schedule.feedback_rates))
    return replace(schedule, group_rate=rate, noise_correction=tuple(correction.tolist()))


FEWEST_ROUNDS = 4
# The strength is at least this times H max β_t²/β_{1:t}: below it steps may swing.
LEAST_STRENGTH = 1.0
# Deviation of the output's noise over what it would be if all sums had one and the same noise:
# 0.50 to 0.69 for Toeplitz and k = 1 with 8 to 256 rounds
# (tests/solvers/online_to_batch/test_planning.py).
ADDED_UP = 0.6


@dataclass(frozen=True, eq=False)
class Rounds:
    """What is known in advance of the rounds 1, …, N that read records, and of N + 1."""

    weights: FloatArray  # β_1, …, β_{N+1}; (n_rounds + 1,)
    totals: FloatArray  # β_{1:1}, …, β_{1:N+1}; (n_rounds + 1,)
    noise_stds: FloatArray  # deviation s_t of a coordinate of each noisy sum; (n_rounds,)

    @classmethod
    def of(
        cls,
        sensitivity: DifferenceSensitivity,
        mechanism: PrefixSums,
        *,
        power: float,
        reach: float,
        noise: float,
    ) -> Self:
        """Return the rounds where the learner plays within a reach of the average.

        `noise` is the multiplier times what a record counts for in a round.
        """
        weights = round_weights(mechanism.n_steps + 1, power)
        totals = np.cumsum(weights)
        before = np.append(0.0, weights[:-2])
        moved = reach * weights[:-1] / totals[:-1]
        moved[0] = 0.0
        units = sensitivity.of_rounds(weights[:-1], before, moved)
        stds = noise * np.maximum.accumulate(units) * mechanism.standard_deviations()
        return cls(weights, totals, stds)

    @property
    def least_strength(self) -> float:
        """Return what the smoothness is to be multiplied by for steps that do not swing."""
        return LEAST_STRENGTH * float(np.max(self.weights**2 / self.totals))

    def output_std(self, strengths: FloatArray, convexity: float) -> FloatArray:
        """Return the deviation of a coordinate of the output for each strength of the learner.

        The output is linear in the sums' noise where nothing answers to it.
        """
        heard = ADDED_UP * self.weights[1:] / self.totals[-1] * np.cumsum(self.noise_stds)
        if not convexity:
            return np.asarray(heard.sum() / strengths)
        # one after the other, as there may be a round a record
        curved = 0.5 * convexity * self.totals[:-1]
        return np.array([(heard / (strength + curved)).sum() for strength in strengths])


def rates_of(problem: Problem, batch_size: int | None, n_rounds: int) -> FloatArray:
    """Return the records of each group, or of all places, in a round, on average."""
    sizes = np.asarray(problem.queue_sizes, dtype=float)
    if np.isinf(sizes).any():
        # batches in the proportions of the mixture, as far as groups that end allow
        rates = float(batch_size or 1) * np.asarray(problem.prior)
        return np.minimum(rates, sizes / n_rounds)
    if batch_size is None:
        return np.asarray(sizes / n_rounds)
    return np.asarray(sizes * min(batch_size / sizes.sum(), 1.0 / n_rounds))


def effective_batch(mixture: FloatArray, rates: FloatArray) -> float:
    """Return the records of a batch from the mixture itself that are as good as a round's."""
    return 1.0 / float((mixture**2 / rates).sum())


def least_batch_plan(problem: Problem, budget: Budget, parameters: OnlineToBatchParameters) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    release = planned_release(budget)

    def planned(n_rounds: int) -> tuple[float, OnlineToBatchSchedule]:
        rates = rates_of(problem, parameters.batch_size, n_rounds)
        return planned_schedule(problem, release, parameters, n_rounds, rates)

    refuse_no_end(parameters, problem.n_records)
    numbers = numbers_of_rounds(
        parameters,
        problem.n_records / (parameters.batch_size or 1),
        fewest=FEWEST_ROUNDS,
        is_dealt=parameters.batch_size is not None,
    )
    every = map(planned, numbers)
    bound, schedule = first_of_least(every, itemgetter(0))
    return batch_plan(problem, budget, release, schedule, bound)


def planned_schedule(
    problem: Problem,
    release: Release,
    parameters: OnlineToBatchParameters,
    n_rounds: int,
    rates: FloatArray,
) -> tuple[float, OnlineToBatchSchedule]:
    """Return the planning bound for a number of rounds, and its schedule."""
    mechanism = opened(parameters, problem, n_rounds)
    sensitivity = DifferenceSensitivity.of(problem, mechanism, rates)
    places = None if problem.hidden is None else float(rates[0])
    rates = rates_of_groups(problem, rates)
    noise = release.noise_multiplier * float((np.asarray(problem.prior) / rates).max())
    learner = make_learner(parameters.learner)
    free = isinstance(learner, ParameterFree)
    aim = parameters.aim * problem.reach
    rounds = Rounds.of(
        sensitivity,
        mechanism,
        power=parameters.exponent,
        # bets may go anywhere in the ball; weights that grow like t up to the aim are so far from
        # their average
        reach=problem.diameter if free else aim / (parameters.exponent + 2.0),
        noise=noise,
    )
    regulariser = None
    if free:
        batch = effective_batch(np.asarray(problem.prior), rates)
        regulariser = Regulariser(problem.lipschitz, problem.smoothness, batch)
        bound, strength = betting_bound(problem, learner, rounds, regulariser, parameters, aim)
    else:
        bound, strength = strength_bound(
            problem, learner, rounds, convexity=parameters.convexity, aim=aim
        )
    return bound, OnlineToBatchSchedule(
        n_rounds=n_rounds,
        power=parameters.exponent,
        noise=parameters.mechanism,
        multiplier=release.noise_multiplier,
        sensitivity=sensitivity,
        mixture=problem.prior,
        rates=tuple(rates.tolist()),
        strength=strength,
        convexity=float(parameters.convexity),
        regulariser=regulariser,
        papers_factor=0.0,
        lipschitz=problem.lipschitz,
        worst_std=mechanism.worst_standard_deviation,
        places=places,
    )


def strength_bound(
    problem: Problem, learner: Learner, rounds: Rounds, *, convexity: float, aim: float
) -> tuple[float, float]:
    """Return the planning bound and the strength that makes it least.

    `docs/theory/online-to-batch.md`, section 5, has it.
    """
    curve = problem.smoothness * problem.loss.n_outputs
    least = max(curve * rounds.least_strength, 1e-300)
    strengths = least * 2.0 ** np.arange(0.0, 60.0, 0.25)
    if learner.strength is not None:
        strengths = np.array([float(learner.strength)])
    std = rounds.output_std(strengths, convexity)
    # a direction of curvature h answers to noise where h times this is above 1
    length = rounds.totals[-1] / strengths
    answered = np.minimum(curve, problem.n_weights / length)
    noise = np.minimum(0.5 * answered * std**2, problem.lipschitz * std)
    bounds = 0.5 * strengths * aim**2 / rounds.totals[-1] + noise + 0.5 * convexity * aim**2
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(strengths[best])


def betting_bound(
    problem: Problem,
    learner: ParameterFree,
    rounds: Rounds,
    regulariser: Regulariser,
    parameters: OnlineToBatchParameters,
    aim: float,
) -> tuple[float, float]:
    """Return the bound for a parameter-free learner at the aim, and its largest norm.

    Theorem 11 of the paper with the constants of `ParameterFree`.
    """
    power, diameter = parameters.exponent, problem.diameter
    noise_norms = math.sqrt(problem.n_weights) * rounds.noise_stds
    weights = rounds.weights[:-1]
    slopes, curves = regulariser.of_rounds(weights.size, power, noise_norms)
    costs = 2.0 * float((slopes * aim + curves * aim**2).sum())
    norms = weights * (problem.lipschitz + parameters.convexity * diameter)
    norms += CLIPPED_DEVIATIONS * noise_norms + slopes + 2.0 * curves * diameter
    longest = float(norms.max())
    strength = longest if learner.strength is None else float(learner.strength)
    regret = betting_regret(learner, len(noise_norms), problem.radius, strength, aim)
    bound = (regret + costs) / float(rounds.totals[-1]) + 0.5 * parameters.convexity * aim**2
    return bound, strength
