"""Plan of the online-to-batch solver with the least bound on the excess risk of the mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import Self

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import Learner, ParameterFree, make_learner
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.privacy.prefix_sums import PrefixSums, make_prefix_sums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.online_to_batch.game import CLIPPED_DEVIATIONS
from sklearn_dpwg.solvers.online_to_batch.parameters import OnlineToBatchParameters
from sklearn_dpwg.solvers.online_to_batch.releases import make_plan, planned_release
from sklearn_dpwg.solvers.online_to_batch.schedule import OnlineToBatchSchedule, Regulariser
from sklearn_dpwg.solvers.online_to_batch.sensitivity import DifferenceSensitivity, round_weights
from sklearn_dpwg.solvers.plan import Plan, first_of_least

# Numbers of rounds that are tried.
FEWEST_ROUNDS = 4
ROUNDS_PER_DOUBLING = 4
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


def round_numbers(parameters: OnlineToBatchParameters, n_records: float) -> list[int]:
    """Return the numbers of rounds to try; those of a plan for many calls divide among them."""
    if math.isinf(n_records) and parameters.n_rounds is None:
        raise ValueError(
            "n_rounds of OnlineToBatch must be set where a group has no end (a size of infinity), "
            "got None."
        )
    most = n_records / (1 if parameters.batch_size is None else parameters.batch_size)
    if parameters.n_rounds is not None:
        return [max(1, int(min(parameters.n_rounds, most)))]
    if parameters.batch_size is not None:
        return [max(1, int(most))]
    most = max(1, int(min(most, parameters.max_rounds)))
    fewest = min(FEWEST_ROUNDS, most)
    tried = np.geomspace(
        fewest, most, 1 + math.ceil(ROUNDS_PER_DOUBLING * math.log2(most / fewest))
    )
    horizon = parameters.horizon
    return sorted({min(most, math.ceil(number / horizon) * horizon) for number in tried})


def rates_of(problem: Problem, batch_size: int | None, n_rounds: int) -> FloatArray:
    """Return the records of each group in a round, on average."""
    sizes = np.asarray(problem.group_sizes, dtype=float)
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


def least_bound_plan(problem: Problem, budget: Budget, parameters: OnlineToBatchParameters) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    release = planned_release(budget)

    def planned(n_rounds: int) -> tuple[float, OnlineToBatchSchedule]:
        rates = rates_of(problem, parameters.batch_size, n_rounds)
        return planned_schedule(problem, release, parameters, n_rounds, rates)

    every = map(planned, round_numbers(parameters, float(problem.n_records)))
    bound, schedule = first_of_least(every, itemgetter(0))
    return make_plan(problem, budget, release, schedule, bound)


def planned_schedule(
    problem: Problem,
    release: Release,
    parameters: OnlineToBatchParameters,
    n_rounds: int,
    rates: FloatArray,
) -> tuple[float, OnlineToBatchSchedule]:
    """Return the planning bound for a number of rounds, and its schedule."""
    mechanism = make_prefix_sums(
        parameters.mechanism, n_steps=n_rounds, n_dimensions=problem.n_weights
    )
    sensitivity = DifferenceSensitivity.of(problem, mechanism, rates)
    noise = release.noise_multiplier * float((np.asarray(problem.prior) / rates).max())
    learner = make_learner(parameters.learner)
    free = isinstance(learner, ParameterFree)
    aim = parameters.aim * problem.radius
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
    )


def strength_bound(
    problem: Problem, learner: Learner, rounds: Rounds, *, convexity: float, aim: float
) -> tuple[float, float]:
    """Return the planning bound and the strength that makes it least.

    `docs/theory/online-to-batch.md`, section 5: what the regulariser costs, and what noise on the
    output costs a smooth loss. That is a model; section 4 has the theorem.
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
    regret = learner.regret_bound(len(noise_norms), problem.radius, strength, aim)
    bound = (regret + costs) / float(rounds.totals[-1]) + 0.5 * parameters.convexity * aim**2
    return bound, strength
