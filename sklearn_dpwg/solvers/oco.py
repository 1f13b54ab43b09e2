"""Worst-group learning from an online learner on noisy prefix sums.

Each record plays one role, fixed by its position in its batch: `gradient_sum` reads the first ones,
`clipped_losses` those behind them, and nothing else reads what is private. Where groups are hidden
it plays both. `docs/theory/oco.md` proves what is promised.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg import _checks
from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import documented, short_repr
from sklearn_dpwg.data.oracles import RecordOracle, SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.prefix_sums import PrefixSums
from sklearn_dpwg.solvers import learners, steps
from sklearn_dpwg.solvers.fresh_records import (
    RULES,
    SHARED_PARAMETERS,
    NoisySums,
    StreamGame,
    StreamSchedule,
    StreamSolver,
    numbers_of_rounds,
    prefix_sums,
    rates_of_groups,
)
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.solver import Solution
from sklearn_dpwg.solvers.steps import batch_losses, gradient_sum

SUMS, LOSSES = "gradient sums", "group losses"
Play = Literal["weighted", "sampled"]


def _leader(learner: str | learners.Learner) -> learners.FTRL:
    """Return a learner that a strength regularises: the noise could be planned for no other."""
    made = learners.make_learner(learner)
    if not isinstance(made, learners.FTRL):
        raise InputError(f"learner must be 'ftrl', 'optimistic' or one of them, got {learner!r}.")
    return made


@documented(SHARED_PARAMETERS)
@dataclass(eq=False, repr=False)
class OCO(StreamSolver):
    """A private online learner plays weights against a player of groups, on fresh records.

    Every record is used once, by one of the two players, so each player has the whole budget, and
    records may come from a stream, a simulator or a database as well as from arrays. ``None`` means
    planned from public facts.

    Parameters
    ----------
    learner : str or Learner, default="ftrl"
        Who plays the weights: "ftrl" (then it is DP-FTRL), "optimistic", or an instance
        such as ``FTRL(strength=50.0)``.
    <noise>
    n_rounds : int, optional
        Most rounds T.
    batch_size : int, optional
        Records of a round for the weights, of all groups together in a weighted game. Where
        groups have no end, 1.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes a sampled game with batches of 1, a uniform prior, the binary tree unless
        `noise` says otherwise, the rate of Theorem 7 and a strength by the learner's regret bound.
        Its bound is for all rounds; play ends before where a drawn group has run out.
    <aim, max_rounds, horizon>
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
    `docs/theory/oco.md` proves what is promised. With ``neighbours="replace-one"`` rounds read
    places, whatever groups are in them: `docs/theory/replace-one.md`.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 2, Theorems 6 and 7, Corollary 8; Kairouz et al. (2021).

    Examples
    --------
    >>> from sklearn_dpwg.solvers import OCO
    >>> OCO(noise="tree", n_rounds=100)
    OCO(n_rounds=100, noise='tree')
    """

    _: KW_ONLY
    play: Literal["weighted", "sampled"] | None = None
    weight_share: float | None = None
    group_rate: float | None = None
    loss_ceiling: float | None = None
    averaging: float = 2.0

    name: ClassVar[str] = "oco"
    rules = _checks.Rules(
        "OCO",
        **RULES | {"learner": _checks.accepted_by(_leader)},
        group_rate=_checks.positive(or_none=True),
        weight_share=_checks.share(or_none=True),
        averaging=_checks.within(0.0, 100.0),
        loss_ceiling=_checks.any_number(or_none=True),
        play=_checks.one_of("weighted", "sampled", or_none=True),
    )

    def _check_hidden_groups(self) -> None:
        if self.play == "sampled" or self.schedule == "paper":
            raise InputError(
                "solver 'oco' needs play='weighted' and schedule='planned' with "
                "neighbours='replace-one', as sampled rounds draw a group: others take "
                "neighbours='replace-one-within-group'."
            )

    def _scheduled(self, problem: Problem, budget: Budget) -> Planned:
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        schedule, releases, bounds = plan(problem, budget, self)
        if problem.n_groups > 1:
            largest = float(schedule.rates.max())
            quotient = largest * schedule.ceiling / schedule.feedback_range
            batch = f"a batch of {largest:,.3g} records"
            steps.refuse_rounding(quotient, batch, "take more rounds")
        return schedule, releases, bounds

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> OCOGame:
        assert isinstance(plan.schedule, OCOSchedule)
        kind: type[OCOGame] = SampledGame if plan.schedule.play == "sampled" else OCOGame
        if plan.schedule.places is not None:
            kind = PlacesGame
        return kind(plan, noise, start, _leader(self.learner))


# What is left of the variance of the last sum's noise in the averaged weights: 0.28 to 0.38 for the
# square-root Toeplitz mechanism with 8 to 1024 rounds (tests/solvers/oco/test_planning.py).
AVERAGED_VARIANCE = 0.35
# The plan's step is at most this over H: gradient descent on a loss of curvature H is stable up to
# there, and may swing for ever beyond.
LONGEST_STEP = 2.0


@dataclass(frozen=True, kw_only=True)
class OCOSchedule(StreamSchedule):
    """Everything that a game needs besides the records and the noise."""

    play: Play  # rounds read records of every group, or of one drawn from the group weights
    gradient_multiplier: float  # noise per unit of sensitivity on the sums
    feedback_multiplier: float  # the same on the losses; 0 where none are released
    gradient_diameter: float  # Γ, by which a record moves its own gradient at most, and rounding
    # by how much a record moves the sums of losses: ceiling minus infimum, and rounding
    feedback_range: float
    ceiling: float  # a record's loss counts for at most this in the feedback,
    # and what exceeds this: the infimum, or where groups are hidden the middle of the range
    center: float
    prior: tuple[float, ...]  # first group weights
    # records of each group that the weights player reads in a round, on average; the gradients of
    # a round are summed and divided by it
    weight_rates: tuple[float, ...]
    feedback_rates: tuple[float, ...]  # the same for the group player
    # U of a sampled game, whose group player is told U minus the noisy loss, clipped to [0, 2U]
    feedback_bound: float
    aim: float  # norm a of the weights that are aimed at
    smoothness: float  # H of the loss in the weights, times the outputs; may be infinite
    lipschitz: float  # constant L of the loss in the weights
    fixed_strength: float | None  # of the weights player, where it does not follow the noise
    averaging: float  # round t counts in the averages in proportion to t to this power
    group_rate: float = 0.0  # step size η of the group player

    __repr__ = short_repr

    @property
    def rates(self) -> FloatArray:
        if self.places is not None:
            return np.array([self.places])
        return np.add(self.weight_rates, self.feedback_rates)

    @property
    def stops_early(self) -> bool:
        return self.play == "sampled"

    def strength(self, noise_std: Any) -> Any:
        """Return the strength γ for the deviation of a coordinate of the noisiest sum.

        It makes the weights' part of the planning bound least: `docs/theory/oco.md`, section 6.
        """
        if self.fixed_strength is not None:
            return self.fixed_strength
        variance = AVERAGED_VARIANCE * noise_std**2
        if math.isinf(self.smoothness):
            slope = self.lipschitz**2 + 2.0 * self.lipschitz * np.sqrt(variance)
            return np.sqrt(self.n_rounds * slope) / self.aim
        curved = (2.0 * self.n_rounds * variance * self.smoothness / self.aim**2) ** (1.0 / 3.0)
        return np.maximum(curved, self.smoothness / LONGEST_STEP)

    def __str__(self) -> str:
        """Return a few lines for people."""
        own, other, whose = sum(self.weight_rates), sum(self.feedback_rates), "all groups"
        if self.play == "sampled":
            own, other = self.weight_rates[0], self.feedback_rates[0]
            whose = "one group, drawn from the group weights"
        read = f"{own:,.4g} fresh records for the weights"
        if self.places is not None:
            read = f"{self.places:,.4g} fresh records, whatever groups they are in"
        elif len(self.prior) > 1:
            read += f" and {other:,.4g} for the group weights, of {whose}"
        text = (
            f"up to {self.n_rounds:,} rounds, each of {read}\n"
            f"{self.noise} noise on gradient sums, at most {self.worst_std:.3g} times that of one "
            f"release; round t counts by t^{self.averaging:g} in the averages"
        )
        if len(self.prior) > 1:
            text += (
                f"\ngroup weights start at {steps.shown(self.prior)}, rate {self.group_rate:.3g}, "
                f"losses counted up to {self.ceiling:.3g}"
            )
        return text + (f"\n{self.remark}" if self.remark else "")


# --- the plan of least bound --------------------------------------------------------------------

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of the feedback range; between MGR's tenth and Hoeffding's 0.35.
RISK_SPREAD = 0.2
# Losses counted up to this multiple of what predicting nothing can cost: a round reads few records.
CEILING_OVER_ZERO_SCORE = 1.5
# Shares of the records that the weights player may get, and the least number of rounds.
WEIGHT_SHARES, FEWEST_ROUNDS = (0.5, 0.6, 0.7, 0.8, 0.9), 8
# A game of so many groups, the smallest of which has records for so many rounds, draws them
# (benchmarks/oco.py groups).
SAMPLED_GROUPS, ROUNDS_OF_A_GROUP = 8, 2.0

# The schedule, the releases, and the bounds on the excess risk if a group is the worst-off one.
Planned = tuple[OCOSchedule, Sequence[Release], FloatArray]


def least_bound_plan(problem: Problem, budget: Budget, solver: OCO) -> Planned:
    """Plan for the least bound over whatever the parameters leave open."""
    multiple, prior = CEILING_OVER_ZERO_SCORE, np.asarray(problem.prior)
    ceiling = float(steps.loss_ceiling(problem, solver.loss_ceiling, "OCO", multiple=multiple))

    def planned(play: Play, n_rounds: int, rates: FloatArray, weight_share: float) -> Planned:
        releases = releases_of(problem, budget, n_rounds, weight_share)
        schedule = schedule_of(problem, solver, play, n_rounds, rates, releases, ceiling)
        return schedule, releases, excess_bound_by_group(problem, schedule)

    every = itertools.starmap(planned, deals(problem, solver))
    return first_of_least(every, lambda each: float(prior @ each[2]))


def deals(problem: Problem, solver: OCO) -> Iterator[tuple[Play, int, FloatArray, float]]:
    """Yield the ways to deal records to rounds and players that the parameters leave open.

    Each is the play, the number of rounds, the records of each group, or of all places, that the
    weights player and the group player read in a round on average, of shape (2, n_groups), and the
    share of the weights player: of the records, or where places are for both players of the μ².
    """
    several, sizes = problem.n_groups > 1, np.asarray(problem.queue_sizes, dtype=float)
    n_records = float(sizes.sum())
    batch = solver.batch_size or (1 if math.isinf(n_records) else None)
    # groups are drawn where nobody says, and where they are many and lasting
    drawn = 2.0 * batch if batch else n_records / (solver.n_rounds or solver.max_rounds)
    is_lasting = sizes.min() >= ROUNDS_OF_A_GROUP * drawn and problem.fresh_calls <= 1
    is_drawn = len(sizes) >= SAMPLED_GROUPS and is_lasting
    play = solver.play or ("sampled" if is_drawn else "weighted")
    shares: tuple[float, ...] = WEIGHT_SHARES if several else (1.0,)
    if several and solver.weight_share is not None:
        shares = (solver.weight_share,)
    for kept in shares:
        # records of a round: those for the weights, and those for the groups with them
        size = batch
        if size is not None and several and problem.hidden is None:
            size += _feedback_size(size, kept)
        least = 2 if size is None and play == "sampled" else size or 1
        for n_rounds in numbers_of_rounds(solver, n_records / least, fewest=FEWEST_ROUNDS):
            if play == "weighted":
                rates = _weighted_rates(problem, n_rounds, size, kept)
            else:
                own = batch or max(1, int(kept * n_records / n_rounds))
                other = _feedback_size(own, kept) if several else 0
                rates = np.full((2, len(sizes)), [[own], [other]], dtype=float)
            yield play, n_rounds, rates, kept


def _feedback_size(batch_size: int, share: float) -> int:
    return max(1, round(batch_size * (1.0 - share) / share))


def _weighted_rates(problem: Problem, n_rounds: int, size: int | None, kept: float) -> FloatArray:
    """Return what both players read in rounds of so many records, or of all of them evenly."""
    sizes = np.asarray(problem.queue_sizes, dtype=float)
    total, unbounded = float(sizes.sum()) / n_rounds, bool(np.isinf(sizes).any())
    total = total if size is None else min(float(size), total)
    rates = total * (np.full(len(sizes), 1.0 / len(sizes)) if unbounded else sizes / sizes.sum())
    if problem.hidden is not None:
        return np.stack([rates, rates])
    if problem.n_groups == 1:
        return np.stack([rates, 0.0 * rates])
    of_all = np.minimum(n_rounds * rates, sizes)
    if of_all.min() < 2.0 * (1.0 - 1e-9):
        raise InputError(
            f"OCO needs at least 2 records of every group, one for each player, got "
            f"{of_all.min():.2g} of one in {n_rounds:,} round(s): take larger batches or more "
            f"rounds, or merge that group with another."
        )
    # both players of a small group get a record
    weights = kept * of_all
    if not unbounded:
        weights = np.clip(np.round(weights), 1.0, of_all - 1.0)
    feedback = (of_all - weights) / n_rounds
    return np.stack([rates - feedback, feedback])


def releases_of(
    problem: Problem, budget: Budget, n_rounds: int, weight_share: float
) -> tuple[Release, ...]:
    """Return the releases whose noise just keeps the budget: of sums, and of losses of groups.

    Players read disjoint records, so each has the whole budget. Where groups are hidden both read
    all of them and divide it, as one Gaussian release.
    """
    if problem.n_groups == 1:
        return calibrate([Release(SUMS, "gaussian", 1.0, 1)], budget)
    if problem.hidden is not None:
        shares = {SUMS: weight_share, LOSSES: 1.0 - weight_share}
        both = [Release(name, "gaussian", each**-0.5, 1) for name, each in shares.items()]
        return calibrate(both, budget)
    sums = Release(SUMS, "gaussian", 1.0, 1, part=0)
    # rounds read disjoint batches: a record is in one of them and pays for one
    losses = Release(LOSSES, "laplace", 1.0, n_rounds, part=1, draws_per_record=1)
    return *calibrate([sums], budget), *calibrate([losses], budget)


def schedule_of(
    problem: Problem,
    solver: OCO,
    play: Play,
    n_rounds: int,
    rates: FloatArray,
    releases: Sequence[Release],
    ceiling: float,
) -> OCOSchedule:
    """Return the schedule of a deal, by default with the best rate of the group player."""
    several, constants = problem.n_groups > 1, problem.constants
    mechanism = prefix_sums(solver, problem, n_rounds)
    gradient_diameter, feedback_range = round_sensitivity(problem, mechanism, ceiling, play, rates)
    multiplier = releases[1].noise_multiplier if several else 0.0
    feedback_bound, center, places = feedback_range, constants.infimum, None
    if problem.hidden is not None:
        center += (ceiling - constants.infimum) / 2.0
        places = float(rates[0, 0])
    if several and play == "sampled":
        feedback_bound = bandit_bound(feedback_range, multiplier, rates[1, 0], n_rounds)
    schedule = OCOSchedule(
        play=play,
        n_rounds=n_rounds,
        noise=solver.mechanism,
        worst_std=mechanism.worst_standard_deviation,
        gradient_multiplier=releases[0].noise_multiplier,
        feedback_multiplier=multiplier,
        gradient_diameter=gradient_diameter,
        feedback_range=feedback_range,
        ceiling=ceiling,
        center=center,
        prior=problem.prior,
        weight_rates=rates_of_groups(problem, rates[0]),
        feedback_rates=rates_of_groups(problem, rates[1]),
        places=places,
        feedback_bound=feedback_bound,
        aim=solver.aim * problem.reach,
        smoothness=problem.smoothness * problem.loss.n_outputs,
        lipschitz=problem.lipschitz,
        fixed_strength=_leader(solver.learner).strength,
        averaging=float(solver.averaging),
    )
    if not several:
        return schedule
    prior, (start, steady) = np.asarray(problem.prior), _group_terms(problem, schedule)
    best = math.sqrt(float(prior @ (start / n_rounds)) / float(prior @ steady))
    return replace(schedule, group_rate=float(solver.group_rate or best))


def bandit_bound(loss_range: float, multiplier: float, n_read: float, n_rounds: int) -> float:
    """Return U, the paper's: with so much room no noise of T rounds is likely to be clipped."""
    unit = multiplier * loss_range / float(n_read)
    return loss_range + 2.0 * unit * math.log(max(n_rounds, 2))


def excess_bound_by_group(problem: Problem, schedule: OCOSchedule) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    `docs/theory/oco.md`, section 6, writes it down and says what of it is a theorem.
    """
    played = np.full(problem.n_groups, float(schedule.n_rounds))
    if schedule.play == "sampled":
        # where all weight is on one group, the game ends when that group does
        sizes = np.asarray(problem.group_sizes, dtype=float)
        played = np.minimum(sizes / schedule.rates, schedule.n_rounds)
    unit = schedule.gradient_multiplier * schedule.worst_std * schedule.gradient_diameter
    noise_stds = unit / _rates_to_plan_for(problem, schedule.weight_rates)
    step = 1.0 / schedule.strength(noise_stds)
    moved = step * noise_stds * math.sqrt(AVERAGED_VARIANCE)
    noise = schedule.lipschitz * moved
    if math.isinf(schedule.smoothness):
        noise = noise + 0.5 * step * schedule.lipschitz**2
    else:
        noise = np.minimum(noise, 0.5 * schedule.smoothness * moved**2)
    bound = schedule.aim**2 / (2.0 * step * played) + noise
    if problem.n_groups > 1:
        start, steady = _group_terms(problem, schedule)
        bound += start / played / schedule.group_rate + schedule.group_rate * steady
    return np.asarray(bound)


def _group_terms(problem: Problem, schedule: OCOSchedule) -> tuple[FloatArray, FloatArray]:
    """Return what the group player's rate, times the rounds, divides, and what it multiplies."""
    start = -np.log(np.asarray(schedule.prior))
    units = schedule.feedback_range / _rates_to_plan_for(problem, schedule.feedback_rates)
    spread = (RISK_SPREAD * schedule.feedback_range) ** 2
    if schedule.places is not None:  # the noise of a sum counts once, not round by round
        noise = (schedule.feedback_multiplier * schedule.worst_std * units) ** 2
        return start, spread + 0.5 * noise / schedule.n_rounds
    variance = 2.0 * (schedule.feedback_multiplier * units) ** 2
    if schedule.play == "sampled":
        return start, 0.5 * problem.n_groups * (schedule.feedback_bound**2 + variance)
    # a group with fewer records than rounds has some in some rounds only
    return start, spread + 0.5 * variance * np.minimum(1.0, schedule.feedback_rates)


def _rates_to_plan_for(problem: Problem, rates: Sequence[float]) -> FloatArray:
    """Return records of each group in a round; of one that no weight is moved to, those of all."""
    if problem.hidden is None:
        return np.asarray(rates)
    return rates * (problem.sizes_to_plan_for / np.asarray(problem.group_sizes))


def round_sensitivity(
    problem: Problem, mechanism: PrefixSums, ceiling: float, play: Play, rates: FloatArray
) -> tuple[float, float]:
    """Return by how much a record moves the sum of gradients of a round, and that of losses.

    The first counts what rounding moves in all later rows of the prefix sums, and is over the
    largest factor of a record; the second is of its group. (`docs/theory/oco.md`, section 5)
    """
    constants = problem.constants
    of_gradient, of_loss = steps.record_errors(problem, min(ceiling, constants.supremum))
    gradient = problem.lipschitz + of_gradient
    loss_range = constants.range_up_to(ceiling) + 2.0 * of_loss
    n_weight, n_feedback = map(float, rates.max(axis=1))
    if play == "weighted":
        # a round has at most 4 records of a group more than its rate: each role's are a share of
        # whole records, dealt evenly in whole numbers
        n_weight = float((np.ceil(rates[0]) + 4).sum())
        n_feedback = math.ceil(n_feedback) + 4
    errors = [steps.rounding_of_sum(n, problem.n_groups) for n in (n_weight, n_feedback)]
    # of the sums of both neighbours, and of the rows that these sums are in
    of_sum, of_losses = (2.0 * error + mechanism.rounding * (1.0 + error) for error in errors)
    if problem.hidden is None:  # whose sums of losses are in no rows
        of_losses = 2.0 * errors[1]
    diameter = problem.pair_diameter + 2.0 * of_gradient + of_sum * n_weight * gradient
    feedback = loss_range + of_losses * n_feedback * loss_range
    return diameter * (1.0 + 2.0**-49), feedback * (1.0 + 2.0**-49)


# --- the paper's --------------------------------------------------------------------------------


def paper_plan(problem: Problem, budget: Budget, solver: OCO) -> Planned:
    """Plan with the paper's parameters, whose noise is accounted for exactly.

    `docs/theory/oco.md`, section 6, has them. (Zhou and Bassily 2024, Algorithm 2, Theorem 7 and
    Corollary 8)
    """
    p, own = problem.n_groups, float(solver.batch_size or 1)
    other = own if p > 1 else 0.0
    most = problem.n_records / (own + other)
    n_rounds = max(1, int(min(solver.n_rounds or most, most)))
    releases = releases_of(problem, budget, n_rounds, 0.5)
    bound = problem.loss_range
    if p > 1:  # "B/(b ε)" with the paper's pure ε: exact accounting lets a touch less noise do
        bound = bandit_bound(bound, releases[1].noise_multiplier, other, n_rounds)
    rate = math.sqrt(math.log(p) / (p * n_rounds)) / bound
    mechanism = prefix_sums(solver, problem, n_rounds)
    scale = releases[0].noise_multiplier * (problem.gradient_diameter / own)
    scale *= mechanism.column_norm
    scale *= math.sqrt(problem.n_weights)
    noise = scale * mechanism.row_norms(), scale * mechanism.increment_norms()
    strength, regret = learners.strength_of_least_regret(
        _leader(solver.learner), problem.radius, problem.lipschitz, *noise
    )
    rates, ceiling = np.full((2, p), [[own], [other]]), problem.constants.supremum
    schedule = replace(
        schedule_of(problem, solver, "sampled", n_rounds, rates, releases, ceiling),
        prior=(1.0 / p,) * p,
        group_rate=rate,
        feedback_bound=bound,
        fixed_strength=strength,
        averaging=0.0,
        remark="the paper's parameters, with noise accounted for exactly",
    )
    # the two regrets in the proof of Theorem 7, the second as Auer et al. (2002) bound it
    excess = regret / n_rounds
    if p > 1:
        excess += math.log(p) / (rate * n_rounds) + 2.0 * rate * p * bound**2
    return schedule, releases, np.full(p, excess)


# --- the games ----------------------------------------------------------------------------------


class OCOGame(StreamGame):
    """Two online learners play against each other: rounds read all groups and weigh gradients."""

    _schedule: OCOSchedule

    def __init__(
        self, plan: Plan, noise: NoiseSource, start: Solution | None, learner: learners.FTRL
    ) -> None:
        super().__init__(plan, noise, start)
        prior = np.asarray(self._schedule.prior)
        if start is not None and start.group_weights is not None:
            prior = np.maximum(start.group_weights, 1e-300)
        self._feedback_releases = plan.releases[1:]  # none with one group
        self._groups = self._make_groups(prior)
        self._largest, self._strength = 0.0, 0.0
        self._moved_by_a_record()
        self._player = learner.start(self._first, plan.problem.radius, self._strength)
        self._total, self._weights_sum = 0.0, np.zeros(plan.problem.n_weights)
        self._group_weights_sum = np.zeros(plan.problem.n_groups)

    def _moved_by_a_record(self) -> float:
        """Return how far a record moves the sums at the group weights, and plan the strength."""
        schedule = self._schedule
        self._largest = max(self._largest, self._influence(self._groups.group_weights))
        moved = schedule.gradient_diameter * self._largest
        noise_std = schedule.gradient_multiplier * schedule.worst_std * moved
        self._strength = float(schedule.strength(noise_std))
        return moved

    def _release_gradient(self, gradient: FloatArray, weights: FloatArray) -> None:
        """Count what was played, and tell the weights player what the noisy sum rose by."""
        counted = float(self._n_played) ** self._schedule.averaging
        self._total += counted
        self._weights_sum += counted * weights
        self._group_weights_sum += counted * self._groups.group_weights
        before = self._strength
        linear = self._sums.rise(gradient, sensitivity=self._moved_by_a_record())
        self._player.update(linear, self._strength - before, self._first)

    def finish(self) -> Solution:
        if self._n_played == 0:
            return Solution(self._first.copy(), self._groups.prior, 0)
        weights, group_weights = self._weights_sum, self._group_weights_sum
        return Solution(weights / self._total, group_weights / self._total, self._n_played)

    def _dealt(self, used: Sequence[float], n_rounds: int) -> Iterable[Any]:
        if self._schedule.places is not None:
            return super()._dealt(used, n_rounds)
        # each group's records are dealt evenly to the rounds, and in each first to the weights
        of_rates = zip(used, self._schedule.weight_rates, self._schedule.rates, strict=True)
        to_weights = [round(n * own / both) for n, own, both in of_rates]
        to_groups = [n - own for n, own in zip(used, to_weights, strict=True)]
        both = super()._dealt(to_weights, n_rounds), super()._dealt(to_groups, n_rounds)
        return zip(*both, strict=True)

    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        problem, schedule = self._problem, self._schedule
        weights, group_weights = self._player.predict(), self._groups.group_weights
        gradient, sums = np.zeros_like(weights), np.zeros(problem.n_groups)
        for group, (n_weight, n_feedback) in enumerate(zip(*sizes, strict=True)):
            if n_weight + n_feedback == 0:
                continue
            rows, targets = oracle.draw(group, n_weight + n_feedback)
            values, slopes = batch_losses(problem, rows, targets, weights)
            counted = group_weights[group] / schedule.weight_rates[group]
            gradient += counted * gradient_sum(problem, rows, slopes, n_weight)
            if n_feedback:
                sums[group] = clipped_losses(schedule, values, n_weight).sum()
        self._release_gradient(gradient, weights)
        for release in self._feedback_releases:
            # sums are over public rates; one that reads no records is a loss of 0 without noise
            is_read, rates = np.asarray(sizes[1]) > 0, np.asarray(schedule.feedback_rates)
            moved = np.where(is_read, schedule.feedback_range / rates, 0.0)
            noisy = self._noise.laplace(sums / rates, sensitivity=moved, release=release)
            rate = schedule.group_rate
            scale = rate * schedule.feedback_multiplier * schedule.feedback_range / rates
            correction = np.where(is_read, steps.log_mean_exp_laplace(scale), 0.0)
            self._groups.update(-noisy + correction / rate)

    def _make_groups(self, prior: FloatArray) -> Any:
        """Return the player of groups."""
        return learners.Hedge(prior, self._schedule.group_rate)

    def _influence(self, group_weights: FloatArray) -> float:
        """Return the largest factor of a record's gradient in that of a round."""
        return float((group_weights * (1.0 / np.asarray(self._schedule.weight_rates))).max())


class SampledGame(OCOGame):
    """Rounds read one group, drawn from the group weights: Algorithm 2 of Zhou and Bassily.

    The game ends early where the drawn group has too few records left.
    """

    _drawn: int | None = None

    def _rounds(self, available: Sequence[float]) -> Iterator[int]:
        size = int(self._schedule.rates[0])
        left = [count / size for count in available]
        while not self.is_over:
            if self._drawn is None:
                several = self._problem.n_groups > 1
                self._drawn = self._groups.sample(self._noise.rng) if several else 0
            # the group that was drawn stays drawn: a later call goes on with it
            if left[self._drawn] < 1:
                return
            group, self._drawn = self._drawn, None
            left[group] -= 1
            yield group

    def _play_round(self, oracle: SampleOracle, group: Any) -> None:
        problem, schedule, weights = self._problem, self._schedule, self._player.predict()
        n_weight, n_feedback = int(schedule.weight_rates[0]), int(schedule.feedback_rates[0])
        rows, targets = oracle.draw(group, n_weight + n_feedback)
        values, slopes = batch_losses(problem, rows, targets, weights)
        self._release_gradient(gradient_sum(problem, rows, slopes, n_weight) / n_weight, weights)
        for release in self._feedback_releases:
            mean = float(clipped_losses(schedule, values, n_weight).sum()) / n_feedback
            moved, bound = schedule.feedback_range / n_feedback, schedule.feedback_bound
            noisy = float(self._noise.laplace(mean, sensitivity=moved, release=release))
            self._groups.update(group, min(max(bound - noisy, 0.0), 2.0 * bound))

    def _make_groups(self, prior: FloatArray) -> Any:
        return learners.EXP3(prior, self._schedule.group_rate, 2.0 * self._schedule.feedback_bound)

    def _influence(self, group_weights: FloatArray) -> float:
        return 1.0 / self._schedule.weight_rates[0]


# Standard deviation that hidden groups' risks are expected to have, as a share of what predicting
# nothing can cost: what noisy sums say counts as far as it is more than noise.
EXPECTED_SPREAD = 0.05


class PlacesGame(OCOGame):
    """The same where groups are hidden: rounds read places, whatever groups are in them.

    What a record counts for follows from its group; which round it is in does not. Both players
    hear noisy prefix sums of all records. Losses count from the middle of their range: a record
    that changes its group moves two sums by half of what it else moves one.
    """

    _loss_sums: NoisySums | None = None
    _exponents: FloatArray | float = 0.0

    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        assert isinstance(oracle, RecordOracle)
        problem, schedule = self._problem, self._schedule
        rows, targets, codes = oracle.draw_places(*sizes)
        weights, group_weights = self._player.predict(), self._groups.group_weights
        values, slopes = batch_losses(problem, rows, targets, weights)
        factors = (group_weights / schedule.weight_rates)[codes]
        gradient = gradient_sum(problem, rows, (slopes.T * factors).T, len(rows))
        sums = sums_by_group(clipped_losses(schedule, values, 0), codes, problem.n_groups)
        self._release_gradient(gradient, weights)
        for release in self._feedback_releases:
            if self._loss_sums is None:
                self._loss_sums = self._noisy_sums(release, problem.n_groups)
            # the group weights follow what all noisy sums so far say, and not their noise
            moved, rates = schedule.feedback_range, np.array(schedule.feedback_rates)
            means = self._loss_sums.release(sums, sensitivity=moved) / rates
            stds = schedule.feedback_multiplier * self._loss_sums.unit_std * moved / rates
            risks, variances = steps.heard(means, stds**2, problem)
            expected = (self._n_played * EXPECTED_SPREAD * problem.constants.zero_score) ** 2
            counted = schedule.group_rate * expected / (expected + variances)
            exponents = counted * (risks - self._groups.prior @ risks)
            exponents -= counted**2 * variances / 2.0
            self._groups.update((self._exponents - exponents) / schedule.group_rate)
            self._exponents = exponents


def clipped_losses(schedule: OCOSchedule, values: FloatArray, n_weight: int) -> FloatArray:
    """Return the losses behind those for the weights: up to the ceiling, less the center."""
    return np.asarray(np.minimum(values[n_weight:], schedule.ceiling) - schedule.center)


def sums_by_group(values: FloatArray, codes: NDArray[np.intp], n_groups: int) -> FloatArray:
    """Return the sum of the values in each group; block by block, as `gradient_sum`."""
    total = np.zeros(n_groups)
    for start in range(0, len(values), steps.BLOCK_ROWS):
        block = slice(start, start + steps.BLOCK_ROWS)
        total += np.bincount(codes[block], values[block], n_groups)
    return total
