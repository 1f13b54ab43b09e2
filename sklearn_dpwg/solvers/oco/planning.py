"""Plan of the online solver with the least bound on the excess risk."""

from __future__ import annotations

import math
from operator import itemgetter

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import make_learner
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.prefix_sums import PrefixSums, make_prefix_sums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.group_player import best_rate, log_mean_exp_laplace, loss_ceiling
from sklearn_dpwg.solvers.oco.designs import Design, designs
from sklearn_dpwg.solvers.oco.parameters import OCOParameters
from sklearn_dpwg.solvers.oco.releases import PlannedReleases, make_plan
from sklearn_dpwg.solvers.oco.round_sensitivity import RoundSensitivity
from sklearn_dpwg.solvers.oco.schedule import OCOSchedule, StrengthRule
from sklearn_dpwg.solvers.plan import Plan, first_of_least

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of the feedback range; between MGR's tenth and Hoeffding's 0.35, as group weights that follow the
# noise of single batches cost more.
RISK_SPREAD = 0.2
# Losses counted up to this multiple of what predicting nothing can cost: a round reads few records.
CEILING_OVER_ZERO_SCORE = 1.5


def least_bound_plan(problem: Problem, budget: Budget, parameters: OCOParameters) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    strength = make_learner(parameters.learner).strength
    ceiling = float(
        loss_ceiling(problem, parameters.loss_ceiling, "OCO", multiple=CEILING_OVER_ZERO_SCORE)
    )
    releases = PlannedReleases.within(problem, budget, 1)

    def planned(design: Design) -> tuple[float, OCOSchedule, FloatArray]:
        mechanism = make_prefix_sums(
            parameters.mechanism, n_steps=design.n_rounds, n_dimensions=problem.n_weights
        )
        schedule = _schedule(problem, parameters, design, releases, ceiling, mechanism, strength)
        by_group = excess_bound_by_group(problem, schedule)
        return float(np.asarray(problem.prior) @ by_group), schedule, by_group

    every = map(planned, designs(problem, parameters))
    _, schedule, by_group = first_of_least(every, itemgetter(0))
    releases = PlannedReleases.within(problem, budget, schedule.n_rounds)
    return make_plan(problem, budget, releases, schedule, by_group)


def excess_bound_by_group(problem: Problem, schedule: OCOSchedule) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    For group i the strength rule's bound for all weight on group i, plus the group player's
    regret against group i.

    `docs/theory/oco.md`, section 6, writes it down and says what of it is a theorem.
    """
    n_rounds, rate = schedule.n_rounds, schedule.group_rate
    sizes = np.asarray(problem.group_sizes, dtype=float)
    weight_rates = np.asarray(schedule.weight_rates)
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
    units = schedule.feedback_range / np.asarray(schedule.feedback_rates)
    variance = 2.0 * (schedule.feedback_multiplier * units) ** 2
    if schedule.play == "sampled":
        square = schedule.feedback_bound**2 + variance
        return start, 0.5 * problem.n_groups * square
    # a group with fewer records than rounds has some in some rounds only
    share = np.minimum(1.0, np.asarray(schedule.feedback_rates))
    return start, (RISK_SPREAD * schedule.feedback_range) ** 2 + 0.5 * variance * share


def _schedule(
    problem: Problem,
    parameters: OCOParameters,
    design: Design,
    releases: PlannedReleases,
    ceiling: float,
    mechanism: PrefixSums,
    strength: float | None,
) -> OCOSchedule:
    several, n_rounds = problem.n_groups > 1, design.n_rounds
    moved = RoundSensitivity.of(
        problem,
        mechanism,
        ceiling=ceiling,
        play=design.play,
        weight_rates=design.weight_rates,
        feedback_rates=design.feedback_rates,
    )
    feedback_range = moved.feedback_range
    feedback_bound = feedback_range
    if several and design.play == "sampled":
        unit = releases.feedback_multiplier * feedback_range / float(design.feedback_rates[0])
        # the paper's: with this much room no noise of T rounds is likely to be clipped
        feedback_bound += 2.0 * unit * math.log(max(n_rounds, 2))

    def schedule(group_rate: float) -> OCOSchedule:
        correction = np.zeros(problem.n_groups)
        if several and design.play == "weighted":
            scale = (
                group_rate * releases.feedback_multiplier * feedback_range / design.feedback_rates
            )
            correction = log_mean_exp_laplace(scale)
        return OCOSchedule(
            play=design.play,
            n_rounds=n_rounds,
            noise=parameters.mechanism,
            gradient_multiplier=releases.gradient.noise_multiplier,
            feedback_multiplier=releases.feedback_multiplier,
            gradient_diameter=moved.gradient_diameter,
            ceiling=ceiling,
            infimum=problem.constants.infimum,
            feedback_range=feedback_range,
            prior=problem.prior,
            weight_rates=tuple(design.weight_rates.tolist()),
            feedback_rates=tuple(design.feedback_rates.tolist()),
            group_rate=group_rate,
            feedback_bound=feedback_bound,
            noise_correction=tuple(correction.tolist()),
            strength_rule=StrengthRule(
                n_rounds=n_rounds,
                aim=parameters.aim * problem.radius,
                smoothness=problem.smoothness * problem.loss.n_outputs,
                lipschitz=problem.lipschitz,
                fixed=strength,
            ),
            averaging=float(parameters.averaging),
            worst_std=mechanism.worst_standard_deviation,
        )

    if not several:
        return schedule(0.0)
    if parameters.group_rate is not None:
        return schedule(float(parameters.group_rate))
    played = np.full(problem.n_groups, float(n_rounds))
    start, steady = _group_terms(problem, schedule(0.0), played)
    prior = np.asarray(problem.prior)
    return schedule(best_rate(float(prior @ start), float(prior @ steady)))
