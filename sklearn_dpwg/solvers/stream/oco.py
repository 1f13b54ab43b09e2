"""Worst-group learning from an online learner on noisy prefix sums."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import FreshSolver, Solution
from sklearn_dpwg.solvers.stream.games import OCOGame, PlacesGame, SampledGame, WeightedGame
from sklearn_dpwg.solvers.stream.learners import (
    FTRL,
    SumNoise,
    make_learner,
    strength_of_least_regret,
)
from sklearn_dpwg.solvers.stream.planning import least_oco_plan, schedule_of
from sklearn_dpwg.solvers.stream.releases import PlannedReleases, oco_plan
from sklearn_dpwg.solvers.stream.schedule import (
    OCO_RULES,
    Design,
    OCOParameters,
    OCOSchedule,
    opened,
    refuse_no_end,
)


def paper_plan(problem: Problem, budget: Budget, parameters: OCOParameters) -> Plan:
    """Return the plan of the paper's parameters, whose noise is accounted for exactly.

    `docs/theory/oco.md`, section 6, has them. (Zhou and Bassily 2024, Algorithm 2, Theorem 7 and
    Corollary 8)
    """
    p, several = problem.n_groups, problem.n_groups > 1
    own = 1 if parameters.batch_size is None else int(parameters.batch_size)
    other = own if several else 0
    refuse_no_end(parameters, problem.n_records)
    most = problem.n_records / (own + other)
    n_rounds = max(1, int(most if parameters.n_rounds is None else min(parameters.n_rounds, most)))
    releases = PlannedReleases.within(problem, budget, n_rounds)
    # "B/(b ε)" with the paper's pure ε: exact accounting lets a touch less noise do
    bound = problem.loss_range
    if several:
        unit = releases.feedback_multiplier * problem.loss_range / other
        bound += 2.0 * unit * math.log(max(n_rounds, 2))
    mechanism = opened(parameters, problem, n_rounds)
    multiplier = releases.gradient.noise_multiplier
    learner = make_learner(parameters.learner)
    assert isinstance(learner, FTRL)
    strength, regret = strength_of_least_regret(
        learner,
        n_rounds,
        problem.radius,
        problem.lipschitz,
        SumNoise.of(mechanism, multiplier, problem.gradient_diameter / own),
    )
    rate = math.sqrt(math.log(p) / (p * n_rounds)) / bound
    design = Design("sampled", n_rounds, np.full(p, float(own)), np.full(p, float(other)), 0.5)
    schedule = schedule_of(problem, parameters, design, releases, problem.constants.supremum)
    schedule = replace(
        schedule,
        prior=(1.0 / p,) * p,
        group_rate=rate,
        feedback_bound=bound,
        strength_rule=replace(schedule.strength_rule, aim=problem.radius, fixed=strength),
        averaging=0.0,
        remark="the paper's parameters, with noise accounted for exactly",
    )
    # the two regrets in the proof of Theorem 7, the second as Auer et al. (2002) bound it
    excess = regret / n_rounds
    if several:
        excess += math.log(p) / (rate * n_rounds) + 2.0 * rate * p * bound**2
    return oco_plan(problem, budget, releases, schedule, np.full(p, excess))


class OCO(OCOParameters, FreshSolver):
    """A private online learner plays weights against a player of groups, on fresh records.

    Every record is used once, by one of the two players, so each player has the whole budget, and
    records may come from a stream, a simulator or a database as well as from arrays. The weights
    player learns from noisy prefix sums of gradients, the group player from noisy losses of
    batches. ``None`` means planned from public facts.

    Parameters
    ----------
    learner : str or Learner, default="ftrl"
        Who plays the weights: "ftrl" (then it is DP-FTRL), "optimistic", or an instance
        such as ``FTRL(strength=50.0)``.
    noise : {"toeplitz", "tree", "independent"}, optional
        Mechanism of the prefix sums. Toeplitz, the planned one, has the least noise and remembers a
        number a weight and round, the trees a number a weight and doubling. The paper's is the
        tree.
    n_rounds : int, optional
        Most rounds T.
    batch_size : int, optional
        Records of a round for the weights, of all groups together in a weighted game. Where
        groups have no end, 1.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes a sampled game with batches of 1, a uniform prior, the binary tree unless
        `noise` says otherwise, the rate of Theorem 7 and a strength by the learner's regret bound.
        Its bound is for all rounds; play ends before where a drawn group has run out.
    aim : float, default=0.4
        Distance from the first weights, 0 or a start, that the learner's strength is planned for,
        as a share of the radius, of 20 at most.
    max_rounds : int, default=256
        Largest number of rounds that a plan may choose by itself.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first.
    play : {"weighted", "sampled"}, optional
        "weighted": a round takes records of every group and weighs their gradients; all groups
        are used up together. "sampled": Algorithm 2 of the paper; a round takes records of one
        group, drawn from the group weights, and play ends when a drawn group has run out. Planned:
        "sampled" from 8 groups on that have records for two rounds, but in calls.
    weight_share : float, optional
        Share of the records that the weights player gets, between 0 and 1; of the budget (of μ²)
        with ``neighbours="replace-one"``, where both players read all records.
    group_rate : float, optional
        Step size of the group player, positive.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much for the group player; planned: half again
        the largest loss of a model that predicts nothing. Infinity: no ceiling.
    averaging : float, default=2.0
        Round t counts in the averages by t to this power; 0 is the paper's plain average.

    Notes
    -----
    In a weighted game a record of group i moves the gradient of one round by at most Γ λ_i/b_i, in
    a sampled one by Γ/b, with b or b_i the records of a round, or one noisy loss by B/b:
    `docs/theory/oco.md`. With ``neighbours="replace-one"`` rounds read places, whatever groups are
    in them, and both players hear noisy prefix sums of all: `docs/theory/replace-one.md`.

    `benchmarks/oco.py` prints the table that the defaults are from.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 2, Theorems 6 and 7, Corollary 8; Kairouz et al. (2021).

    Examples
    --------
    >>> from sklearn_dpwg.solvers import OCO
    >>> OCO(noise="tree", n_rounds=100)
    OCO(n_rounds=100, noise='tree')
    """

    name: ClassVar[str] = "oco"

    def _check_parameters(self) -> None:
        OCO_RULES.check(self)

    def _check_hidden_groups(self) -> None:
        if self.play == "sampled" or self.schedule == "paper":
            raise InputError(
                "solver 'oco' needs play='weighted' and schedule='planned' with "
                "neighbours='replace-one', as sampled rounds draw a group: others take "
                "neighbours='replace-one-within-group'."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, self)
        return least_oco_plan(problem, budget, self)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> OCOGame:
        schedule = plan.schedule
        assert isinstance(schedule, OCOSchedule)
        kind: type[OCOGame] = SampledGame if schedule.play == "sampled" else WeightedGame
        if schedule.places is not None:
            kind = PlacesGame
        return kind(plan, schedule, make_learner(self.learner), noise, start)
