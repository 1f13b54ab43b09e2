"""Worst-group learning from an online learner on noisy prefix sums.

A record's position in its batch fixes its role: `gradient_sum` reads the first ones, and
`clipped_losses` those behind them; where groups are hidden it plays both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from sklearn_dpwg import _checks
from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import documented
from sklearn_dpwg.data.oracles import RecordOracle, SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.noise.samplers import MAX_QUOTIENT
from sklearn_dpwg.solvers import learners, steps
from sklearn_dpwg.solvers.fresh_records import (
    RULES,
    SHARED_PARAMETERS,
    NoisySums,
    Planned,
    StreamGame,
    StreamSchedule,
    StreamSolver,
    numbers_of_rounds,
    prefix_sums,
    rates_of_groups,
    round_sensitivity,
    sums_by_group,
)
from sklearn_dpwg.solvers.plan import Plan, first_with_least_bound
from sklearn_dpwg.solvers.solver import Solution
from sklearn_dpwg.solvers.steps import batch_losses, gradient_sum

SUMS, LOSSES = "gradient sums", "group losses"
Play = Literal["weighted", "sampled"]


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
        Who plays the weights: "ftrl" (DP-FTRL), "optimistic", or ``FTRL(strength=50.0)``.
    <noise, n_rounds, batch_size>
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes a sampled game with batches of 1, a uniform prior, the binary tree unless
        `noise` says otherwise, the rate of Theorem 7 and a strength by the learner's regret bound.
    <initial_distance, max_rounds, horizon>
    play : {"weighted", "sampled"}, optional
        "weighted": a round takes records of every group and weighs their gradients. "sampled", as
        in the paper: a round takes records of a group drawn from the group weights, and play ends
        where that has run out. Planned: "sampled" from 8 groups on with records for two rounds.
    weight_fraction : float, optional
        Share of the records that the weights player gets, between 0 and 1; of the budget (of μ²)
        with ``neighbours="replace-one"``, where both players read all records.
    group_rate : float, optional
        Step size of the group player, positive.
    loss_clip : float, optional
        Most that a record's loss counts for the group player. Planned: half again the largest loss
        of a model that predicts nothing.
    averaging : float, default=2.0
        Round t counts in the averages by t to this power; 0 is the paper's plain average.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 2, Theorems 6 and 7, Corollary 8; Kairouz et al. (2021).
    `docs/theory/oco.md` proves what is promised, `docs/theory/replace-one.md` what is where
    groups are hidden.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import OCO
    >>> OCO(noise="tree", n_rounds=100)
    OCO(n_rounds=100, noise='tree')
    """

    _: KW_ONLY
    play: Play | None = None
    weight_fraction: float | None = None
    group_rate: float | None = None
    loss_clip: float | None = None
    averaging: float = 2.0

    name: ClassVar[str] = "oco"
    rules = _checks.Rules(
        "OCO",
        **RULES | {"learner": _checks.accepted_by(learners.make_leader)},
        group_rate=_checks.positive(or_none=True),
        weight_fraction=_checks.fraction(or_none=True),
        averaging=_checks.within(0.0, 100.0),
        loss_clip=_checks.any_number(or_none=True),
        play=_checks.one_of("weighted", "sampled", or_none=True),
    )

    def _check_problem(self, problem: Problem) -> None:
        super()._check_problem(problem)
        if problem.hidden is not None and self.play == "sampled":
            raise InputError(
                "play of OCO must be 'weighted' unless neighbours='replace-one-within-group', got "
                "'sampled'."
            )

    def _scheduled(self, problem: Problem, budget: Budget) -> Planned:
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        schedule, releases, bounds = plan(problem, budget, self)
        largest = max(schedule.rates)
        is_too_large = largest * schedule.loss_clip > MAX_QUOTIENT * schedule.loss_sensitivity
        if problem.n_groups > 1 and is_too_large:
            raise InputError(
                f"a batch of {largest:,.3g} records is so large that rounding may show a record: "
                "take more rounds."
            )
        return schedule, releases, bounds

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> OCOGame:
        kind = {"weighted": OCOGame, "sampled": SampledGame}[plan.schedule.play]
        if plan.problem.hidden is not None:
            kind = PlacesGame
        return kind(plan, noise, start, learners.make_leader(self.learner))


# Share of the variance of the last sum's noise that is left in the averaged weights, about.
AVERAGED_VARIANCE = 0.35
# The plan's step is at most this over H: gradient descent may swing for ever beyond.
LONGEST_STEP = 2.0
# Standard deviation of the group risks that planning assumes, as a fraction of the feedback range.
RISK_SPREAD = 0.2


@dataclass(frozen=True, kw_only=True, repr=False)
class OCOSchedule(StreamSchedule):
    """Everything that a game needs besides the records and the noise."""

    play: Play  # rounds read records of every group, or of one drawn from the group weights
    gradient_multiplier: float  # noise per unit of sensitivity on the sums
    feedback_multiplier: float  # the same on the losses; 0 where none are released
    gradient_diameter: float  # Γ, by which a record moves its own gradient at most, and rounding
    loss_sensitivity: float  # by which it moves the sums of losses at most, and rounding
    loss_clip: float  # a record's loss counts for at most this in the feedback,
    # and what exceeds this: the infimum, or where groups are hidden the middle of the range
    center: float
    # records of each group in a round for the weights player, on average: sums are over them
    weight_rates: tuple[float, ...]
    feedback_rates: tuple[float, ...]  # the same for the group player
    feedback_bound: float  # U of a sampled game: EXP3 gets U minus a noisy loss, within [0, 2U]
    initial_distance: float  # norm a of the weights that are aimed at
    fixed_strength: float | None  # of the weights player, where it does not follow the noise
    averaging: float  # round t counts in the averages in proportion to t to this power
    group_rate: float = 0.0  # step size η of the group player

    @property
    def smoothness(self) -> float:
        """Smoothness H of the loss in the weights, times the outputs; may be infinite."""
        return self.problem.smoothness * self.problem.loss.n_outputs

    def strength(self, noise_std: Any) -> Any:
        """Return the strength γ of least bound for the noise on a coordinate of a sum."""
        if self.fixed_strength is not None:
            return self.fixed_strength
        variance, lipschitz = AVERAGED_VARIANCE * noise_std**2, self.problem.lipschitz
        if math.isinf(self.smoothness):
            slope = lipschitz**2 + 2.0 * lipschitz * np.sqrt(variance)
            return np.sqrt(self.n_rounds * slope) / self.initial_distance
        cube = 2.0 * self.n_rounds * variance * self.smoothness / self.initial_distance**2
        return np.maximum(cube ** (1.0 / 3.0), self.smoothness / LONGEST_STEP)

    def excess_by_group(self) -> FloatArray:
        """Return the planning bound for each group as the worst-off one: section 6 of the page."""
        problem, lipschitz = self.problem, self.problem.lipschitz
        played = np.full(problem.n_groups, float(self.n_rounds))
        if self.play == "sampled":
            # where all weight is on one group, the game ends when that group does
            played = np.minimum(np.divide(problem.group_sizes, self.rates), self.n_rounds)
        unit = self.gradient_multiplier * self.worst_std * self.gradient_diameter
        noise_stds = unit / self._rates_to_plan_for(self.weight_rates)
        step = 1.0 / self.strength(noise_stds)
        moved = step * noise_stds * math.sqrt(AVERAGED_VARIANCE)
        noise = np.minimum(lipschitz * moved, 0.5 * self.smoothness * moved**2)
        if math.isinf(self.smoothness):
            noise += 0.5 * step * lipschitz**2
        bound = self.initial_distance**2 / (2.0 * step * played) + noise
        if problem.n_groups > 1:
            start, steady = self.group_terms()
            bound += start / played / self.group_rate + self.group_rate * steady
        return np.asarray(bound)

    def group_terms(self) -> tuple[FloatArray, FloatArray]:
        """Return what the group player's rate times the rounds divides, and what it multiplies."""
        start = -np.log(np.asarray(self.problem.prior))
        units = self.loss_sensitivity / self._rates_to_plan_for(self.feedback_rates)
        spread = (RISK_SPREAD * self.loss_sensitivity) ** 2
        if self.problem.hidden is not None:  # the noise of a sum counts once, not round by round
            noise = (self.feedback_multiplier * self.worst_std * units) ** 2
            return start, spread + 0.5 * noise / self.n_rounds
        variance = 2.0 * (self.feedback_multiplier * units) ** 2
        if self.play == "sampled":
            return start, 0.5 * len(start) * (self.feedback_bound**2 + variance)
        # a group with fewer records than rounds has some in some rounds only
        return start, spread + 0.5 * variance * np.minimum(1.0, self.feedback_rates)

    def _rates_to_plan_for(self, rates: Sequence[float]) -> FloatArray:
        """Return records of each group; of one that no weight is moved to, those of all."""
        if self.problem.hidden is None:
            return np.asarray(rates)
        return rates * (self.problem.sizes_to_plan_for / np.asarray(self.problem.group_sizes))


# --- the plan of least bound --------------------------------------------------------------------

# Losses counted up to this multiple of what predicting nothing can cost: a round reads few records.
CEILING_OVER_ZERO_SCORE = 1.5
# Fractions of the records that the weights player may get, and the least number of rounds.
WEIGHT_FRACTIONS, MIN_ROUNDS = (0.5, 0.6, 0.7, 0.8, 0.9), 8
# Groups are drawn where they are so many, and the smallest has records for so many rounds.
SAMPLED_GROUPS, ROUNDS_OF_A_GROUP = 8, 2.0


def least_bound_plan(problem: Problem, budget: Budget, solver: OCO) -> Planned:
    """Plan for the least bound over whatever the parameters leave open."""
    multiple, prior = CEILING_OVER_ZERO_SCORE, np.asarray(problem.prior)
    loss_clip = steps.loss_clip(problem, solver.loss_clip, "OCO", multiple=multiple)

    def planned(play: Play, n_rounds: int, rates: FloatArray, weight_fraction: float) -> Planned:
        releases = releases_of(problem, budget, n_rounds, weight_fraction)
        schedule = schedule_of(problem, solver, play, n_rounds, rates, releases, loss_clip)
        return schedule, releases, schedule.excess_by_group()

    every = (planned(*deal) for deal in deals(problem, solver))
    return first_with_least_bound(every, lambda each: float(prior @ each[2]))


def deals(problem: Problem, solver: OCO) -> Iterator[tuple[Play, int, FloatArray, float]]:
    """Yield the ways to deal records to rounds and players that the parameters leave open.

    Each is the play, the number of rounds, the records of each group, or of all places, that both
    players read in a round on average, and the fraction of the weights player.
    """
    several, sizes = problem.n_groups > 1, np.asarray(problem.queue_sizes, dtype=float)
    n_records = float(sizes.sum())
    batch = solver.batch_size or (1 if math.isinf(n_records) else None)
    play = solver.play
    if play is None:  # groups are drawn where they are many and lasting
        drawn = 2.0 * batch if batch else n_records / (solver.n_rounds or solver.max_rounds)
        is_lasting = sizes.min() >= ROUNDS_OF_A_GROUP * drawn and problem.fresh_calls <= 1
        play = "sampled" if len(sizes) >= SAMPLED_GROUPS and is_lasting else "weighted"

    def for_groups(own: int, fraction: float) -> int:
        """Return the records for the groups beside so many for the weights."""
        return max(1, round(own * (1.0 - fraction) / fraction)) if several else 0

    fractions = WEIGHT_FRACTIONS if solver.weight_fraction is None else (solver.weight_fraction,)
    for fraction in fractions if several else (1.0,):
        size = batch  # of a round
        if size is not None and problem.hidden is None:
            size += for_groups(size, fraction)
        most = n_records / (size or (2 if play == "sampled" else 1))
        for n_rounds in numbers_of_rounds(solver, most, fewest=MIN_ROUNDS):
            if play == "weighted":
                rates = _weighted_rates(problem, n_rounds, size, fraction)
            else:
                own = batch or max(1, int(fraction * n_records / n_rounds))
                of_round = [[own], [for_groups(own, fraction)]]
                rates = np.full((2, len(sizes)), of_round, dtype=float)
            yield play, n_rounds, rates, fraction


def _weighted_rates(
    problem: Problem, n_rounds: int, size: int | None, fraction: float
) -> FloatArray:
    """Return what both players read in rounds of so many records, or of all of them evenly."""
    sizes = np.asarray(problem.queue_sizes, dtype=float)
    total, is_endless = float(sizes.sum()) / n_rounds, bool(np.isinf(sizes).any())
    total = total if size is None else min(float(size), total)
    rates = total * (np.full(len(sizes), 1.0 / len(sizes)) if is_endless else sizes / sizes.sum())
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
    weights = fraction * of_all
    if not is_endless:  # both players of a small group get a record
        weights = np.clip(np.round(weights), 1.0, of_all - 1.0)
    feedback = (of_all - weights) / n_rounds
    return np.stack([rates - feedback, feedback])


def releases_of(
    problem: Problem, budget: Budget, n_rounds: int, weight_fraction: float
) -> tuple[Release, ...]:
    """Return the releases whose noise just keeps the budget: of sums, and of losses of groups."""
    if problem.n_groups == 1:
        return calibrate([Release(SUMS, "gaussian", 1.0, 1)], budget)
    if problem.hidden is not None:  # both players read all records and divide the budget
        fractions = {SUMS: weight_fraction, LOSSES: 1.0 - weight_fraction}
        both = [Release(name, "gaussian", each**-0.5, 1) for name, each in fractions.items()]
        return calibrate(both, budget)
    # players read disjoint records, so each has the whole budget
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
    loss_clip: float,
) -> OCOSchedule:
    """Return the schedule of a deal, by default with the best rate of the group player."""
    several, center = problem.n_groups > 1, problem.constants.infimum
    mechanism = prefix_sums(solver, problem, n_rounds)
    moved = round_sensitivity(problem, mechanism, loss_clip, play, rates)
    gradient_diameter, loss_sensitivity = moved
    multiplier = releases[1].noise_multiplier if several else 0.0
    of_round, feedback_bound = rates.sum(axis=0), loss_sensitivity
    if problem.hidden is not None:  # both players read the same places
        of_round, center = rates[0], center + (loss_clip - center) / 2.0
    if several and play == "sampled":
        noise_scale = multiplier * loss_sensitivity / float(rates[1, 0])
        feedback_bound = learners.bandit_bound(loss_sensitivity, noise_scale, n_rounds)
    schedule = OCOSchedule(
        problem=problem,
        play=play,
        n_rounds=n_rounds,
        noise=solver.mechanism,
        worst_std=mechanism.worst_standard_deviation,
        rates=tuple(of_round.tolist()),
        stops_early=play == "sampled",
        gradient_multiplier=releases[0].noise_multiplier,
        feedback_multiplier=multiplier,
        gradient_diameter=gradient_diameter,
        loss_sensitivity=loss_sensitivity,
        loss_clip=loss_clip,
        center=center,
        weight_rates=rates_of_groups(problem, rates[0]),
        feedback_rates=rates_of_groups(problem, rates[1]),
        feedback_bound=feedback_bound,
        initial_distance=solver.initial_distance * problem.reach,
        fixed_strength=learners.make_leader(solver.learner).strength,
        averaging=float(solver.averaging),
    )
    if not several:
        return schedule
    prior, (start, steady) = np.asarray(problem.prior), schedule.group_terms()
    best = math.sqrt(float(prior @ (start / n_rounds)) / float(prior @ steady))
    return replace(schedule, group_rate=float(solver.group_rate or best))


# --- the paper's --------------------------------------------------------------------------------


def paper_plan(problem: Problem, budget: Budget, solver: OCO) -> Planned:
    """Plan with the parameters of Theorem 7 and Corollary 8: `docs/theory/oco.md`, section 6."""
    p, own = problem.n_groups, float(solver.batch_size or 1)
    other = own if p > 1 else 0.0
    most = problem.n_records / (own + other)
    n_rounds = max(1, int(min(solver.n_rounds or most, most)))
    releases = releases_of(problem, budget, n_rounds, 0.5)
    bound = problem.loss_range
    if p > 1:  # "B/(b ε)" with the paper's pure ε: exact accounting lets a touch less noise do
        noise_scale = releases[1].noise_multiplier * bound / other
        bound = learners.bandit_bound(bound, noise_scale, n_rounds)
    rate = math.sqrt(math.log(p) / (p * n_rounds)) / bound
    mechanism = prefix_sums(solver, problem, n_rounds)
    scale = releases[0].noise_multiplier * (problem.gradient_diameter / own)
    scale = scale * mechanism.column_norm * math.sqrt(problem.n_weights)
    noise = scale * mechanism.row_norms(), scale * mechanism.increment_norms()
    strength, regret = learners.strength_of_least_regret(
        learners.make_leader(solver.learner), problem.radius, problem.lipschitz, *noise
    )
    uniform, loss_clip = replace(problem, prior=(1.0 / p,) * p), problem.constants.supremum
    rates = np.full((2, p), [[own], [other]])
    schedule = replace(
        schedule_of(uniform, solver, "sampled", n_rounds, rates, releases, loss_clip),
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
        schedule, rate = self._schedule, self._schedule.group_rate
        self._groups: Any = learners.Hedge(self._prior, rate)
        if schedule.play == "sampled":
            self._groups = learners.EXP3(self._prior, rate, 2.0 * schedule.feedback_bound)
        elif plan.problem.hidden is not None:
            self._groups = learners.HedgeOfSums(self._prior, rate)
        self._feedback_releases = plan.releases[1:]  # none with one group
        self._largest = 0.0
        self._moved_by_a_record()
        self._player = learner.start(self._first, plan.problem.radius, self._strength)
        # of what was played, weights and group weights together
        self._total, self._played_sum = 0.0, np.zeros(len(self._first) + len(self._prior))

    def _moved_by_a_record(self) -> float:
        """Return how far a record moves the sums at the group weights, and plan the strength."""
        schedule = self._schedule
        self._largest = max(self._largest, self._influence(self._groups.group_weights))
        moved = schedule.gradient_diameter * self._largest
        noise_std = schedule.gradient_multiplier * schedule.worst_std * moved
        self._strength = float(schedule.strength(noise_std))
        return moved

    def _influence(self, group_weights: FloatArray) -> float:
        """Return the largest factor of a record's gradient in that of a round."""
        return float((group_weights * (1.0 / np.asarray(self._schedule.weight_rates))).max())

    def _release_gradient(self, gradient: FloatArray, weights: FloatArray) -> None:
        """Count what was played, and tell the weights player what the noisy sum rose by."""
        counted = float(self._n_played) ** self._schedule.averaging
        self._total += counted
        self._played_sum += counted * np.concatenate([weights, self._groups.group_weights])
        before, sum_before = self._strength, self._sums.noisy_sum
        linear = self._sums.release(gradient, sensitivity=self._moved_by_a_record()) - sum_before
        self._player.update(linear, self._strength - before, self._first)

    def finish(self) -> Solution:
        if self._n_played == 0:
            return Solution(self._first.copy(), self._groups.prior, 0)
        weights, group_weights = np.split(self._played_sum / self._total, [len(self._first)])
        return Solution(weights, group_weights, self._n_played)

    def _dealt(self, used: Sequence[float], n_rounds: int) -> Iterable[Any]:
        if self._problem.hidden is not None:
            return super()._dealt(used, n_rounds)
        # each group's records are dealt evenly to the rounds, and in each first to the weights
        of_rates = zip(used, self._schedule.weight_rates, self._schedule.rates, strict=True)
        to_weights = [round(n * own / both) for n, own, both in of_rates]
        to_groups = [n - own for n, own in zip(used, to_weights, strict=True)]
        both = super()._dealt(to_weights, n_rounds), super()._dealt(to_groups, n_rounds)
        return zip(*both, strict=True)

    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        schedule, weights = self._schedule, self._player.predict()
        factors = self._groups.group_weights / schedule.weight_rates
        gradient, sums = np.zeros_like(weights), np.zeros(len(factors))
        for group, (n_weight, n_feedback) in enumerate(zip(*sizes, strict=True)):
            if n_weight + n_feedback:
                of_group, sums[group] = self._read(oracle, group, weights, n_weight, n_feedback)
                gradient += factors[group] * of_group
        self._release_gradient(gradient, weights)
        for release in self._feedback_releases:
            # sums are over public rates; one that reads no records is a loss of 0 without noise
            is_read, rates = np.asarray(sizes[1]) > 0, np.asarray(schedule.feedback_rates)
            moved = np.where(is_read, schedule.loss_sensitivity / rates, 0.0)
            noisy = self._noise.laplace(sums / rates, sensitivity=moved, release=release)
            rate = schedule.group_rate
            scale = rate * schedule.feedback_multiplier * schedule.loss_sensitivity / rates
            # log E exp of the noise; the square of its scale from 1 on, where it is infinite
            correction = np.maximum(scale**2, -np.log1p(-np.minimum(scale**2, 0.9)))
            self._groups.update(-noisy + np.where(is_read, correction, 0.0) / rate)

    def _read(
        self, oracle: SampleOracle, group: int, weights: FloatArray, n_weight: int, n_feedback: int
    ) -> tuple[FloatArray, float]:
        """Return the sum of gradients of fresh records, and that of losses of those behind them."""
        rows, targets = oracle.draw(group, n_weight + n_feedback)
        values, slopes = batch_losses(self._problem, rows, targets, weights)
        losses = clipped_losses(self._schedule, values, n_weight)
        return gradient_sum(self._problem, rows, slopes, n_weight), float(losses.sum())


class SampledGame(OCOGame):
    """Rounds read one group, drawn from the group weights: Algorithm 2 of Zhou and Bassily.

    The game ends early where the drawn group has too few records left.
    """

    _drawn: int | None = None

    def _influence(self, group_weights: FloatArray) -> float:
        return 1.0 / self._schedule.weight_rates[0]

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
        schedule, weights = self._schedule, self._player.predict()
        n_weight, n_feedback = int(schedule.weight_rates[0]), int(schedule.feedback_rates[0])
        gradient, losses = self._read(oracle, group, weights, n_weight, n_feedback)
        self._release_gradient(gradient / n_weight, weights)
        for release in self._feedback_releases:
            mean, moved = losses / n_feedback, schedule.loss_sensitivity / n_feedback
            noisy = float(self._noise.laplace(mean, sensitivity=moved, release=release))
            self._groups.update(group, schedule.feedback_bound - noisy)


# Expected standard deviation of hidden groups' risks, as a fraction of what predicting nothing
# costs.
EXPECTED_SPREAD = 0.05


class PlacesGame(OCOGame):
    """The same where groups are hidden: rounds read places, whatever groups are in them.

    Both players hear noisy prefix sums of all records. Losses count from the middle of their
    range: a record that changes its group moves two sums by half of what it else moves one.
    """

    _loss_sums: NoisySums | None = None

    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        assert isinstance(oracle, RecordOracle)
        problem, schedule, weights = self._problem, self._schedule, self._player.predict()
        rows, targets, codes = oracle.draw_places(*sizes)
        values, slopes = batch_losses(problem, rows, targets, weights)
        factors = (self._groups.group_weights / schedule.weight_rates)[codes]
        gradient = gradient_sum(problem, rows, (slopes.T * factors).T, len(rows))
        sums = sums_by_group(clipped_losses(schedule, values, 0), codes, problem.n_groups)
        self._release_gradient(gradient, weights)
        for release in self._feedback_releases:
            if self._loss_sums is None:
                self._loss_sums = self._noisy_sums(release, problem.n_groups)
            # the group weights follow what all noisy sums so far say, and not their noise
            moved, rates = schedule.loss_sensitivity, np.array(schedule.feedback_rates)
            means = self._loss_sums.release(sums, sensitivity=moved) / rates
            stds = schedule.feedback_multiplier * self._loss_sums.unit_std * moved / rates
            risks, variances = steps.active(means, stds**2, problem)
            expected = (self._n_played * EXPECTED_SPREAD * problem.constants.zero_score) ** 2
            self._groups.update_sums(risks, variances, expected)


def clipped_losses(schedule: OCOSchedule, values: FloatArray, n_weight: int) -> FloatArray:
    """Return the losses behind those for the weights: up to the clip, less the center."""
    return np.asarray(np.minimum(values[n_weight:], schedule.loss_clip) - schedule.center)
