"""Plan of the online solver with the parameters of Zhou and Bassily."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg.learners import SumNoise, make_learner
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.prefix_sums import PrefixSums, make_prefix_sums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.oco.parameters import OCOParameters
from sklearn_dpwg.solvers.oco.releases import PlannedReleases, make_plan
from sklearn_dpwg.solvers.oco.round_sensitivity import RoundSensitivity
from sklearn_dpwg.solvers.oco.schedule import OCOSchedule, StrengthRule
from sklearn_dpwg.solvers.plan import Plan


def paper_plan(problem: Problem, budget: Budget, parameters: OCOParameters) -> Plan:
    """Return the plan of the paper's parameters, whose noise is accounted for exactly.

    A sampled game with one record a round for each player unless `batch_size` says more, a uniform
    prior, U and η of Theorem 7, plain averages, and γ by the learner's regret bound. (Zhou and
    Bassily 2024, Algorithm 2, Theorem 7 and Corollary 8)
    """
    p, several = problem.n_groups, problem.n_groups > 1
    own = 1 if parameters.batch_size is None else int(parameters.batch_size)
    other = own if several else 0
    if math.isinf(problem.n_records) and parameters.n_rounds is None:
        raise ValueError(
            "n_rounds of OCO must be set where a group has no end (a size of infinity), got None."
        )
    most = problem.n_records / (own + other)
    n_rounds = max(1, int(most if parameters.n_rounds is None else min(parameters.n_rounds, most)))
    releases = PlannedReleases.within(problem, budget, n_rounds)
    constants = problem.constants
    # "B/(b ε)" with the paper's pure ε: exact accounting lets a touch less noise do
    bound = problem.loss_range
    if several:
        unit = releases.feedback_multiplier * problem.loss_range / other
        bound += 2.0 * unit * math.log(max(n_rounds, 2))
    mechanism = make_prefix_sums(
        parameters.mechanism, n_steps=n_rounds, n_dimensions=problem.n_weights
    )
    multiplier = releases.gradient.noise_multiplier
    learned = make_learner(parameters.learner).plan(
        n_steps=n_rounds,
        radius=problem.radius,
        gradient_norm=problem.lipschitz,
        noise=SumNoise.of(mechanism, multiplier, problem.gradient_diameter / own),
    )
    moved = _round_sensitivity(problem, mechanism, own, other)
    rate = math.sqrt(math.log(p) / (p * n_rounds)) / bound
    schedule = OCOSchedule(
        play="sampled",
        n_rounds=n_rounds,
        noise=parameters.mechanism,
        gradient_multiplier=multiplier,
        feedback_multiplier=releases.feedback_multiplier,
        gradient_diameter=moved.gradient_diameter,
        ceiling=constants.supremum,
        infimum=constants.infimum,
        feedback_range=moved.feedback_range,
        prior=(1.0 / p,) * p,
        weight_rates=(float(own),) * p,
        feedback_rates=(float(other),) * p,
        group_rate=rate,
        feedback_bound=bound,
        noise_correction=(0.0,) * p,
        strength_rule=StrengthRule(
            n_rounds=n_rounds,
            aim=problem.radius,
            smoothness=problem.smoothness * problem.loss.n_outputs,
            lipschitz=problem.lipschitz,
            fixed=learned.strength,
        ),
        averaging=0.0,
        worst_std=mechanism.worst_standard_deviation,
        remark="the paper's parameters, with noise accounted for exactly",
    )
    # the two regrets in the proof of Theorem 7, the second as Auer et al. (2002) bound it
    excess = learned.regret_bound / n_rounds
    if several:
        excess += math.log(p) / (rate * n_rounds) + 2.0 * rate * p * bound**2
    return make_plan(problem, budget, releases, schedule, np.full(p, excess))


def _round_sensitivity(
    problem: Problem, mechanism: PrefixSums, own: int, other: int
) -> RoundSensitivity:
    """Return what a record moves in rounds of so many records for each player."""
    return RoundSensitivity.of(
        problem,
        mechanism,
        ceiling=problem.constants.supremum,
        play="sampled",
        weight_rates=np.full(problem.n_groups, float(own)),
        feedback_rates=np.full(problem.n_groups, float(other)),
    )
