"""Worst-group learning from an online learner on noisy prefix sums.

A record's position in its batch fixes its role: `gradient_sum` reads the first records, and
`clipped_losses` the others; where groups are hidden both read all.
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
from sklearn_dpwg.privacy.prefix_sums import PrefixSumStream
from sklearn_dpwg.solvers import learners, steps
from sklearn_dpwg.solvers.fresh_records import (
    RULES,
    SHARED_PARAMETERS,
    PlanParts,
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
        Learner that plays the weights: "ftrl" (DP-FTRL), "optimistic", or ``FTRL(strength=50.0)``.
    <noise, n_rounds, batch_size>
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes a sampled game with batches of 1, a uniform prior, the binary tree unless
        `noise` is set, the rate of Theorem 7 and a strength by the learner's regret bound.
    <initial_distance, max_rounds, horizon>
    play : {"weighted", "sampled"}, optional
        "weighted": a round reads records of every group, and weights their gradients. "sampled", as
        in the paper: a round reads records of a group drawn from the group weights; the game ends
        when that group runs out. Planned: "sampled" from 8 groups on, if all last for two rounds.
    weight_fraction : float, optional
        Fraction of the records for the weights player, between 0 and 1; of the budget (of μ²) with
        ``neighbours="replace-one"``, where both players read all records.
    group_rate : float, optional
        Step size of the group player, positive.
    loss_clip : float, optional
        Clip of a record's loss for the group player. Planned: 1.5 times the largest loss of a model
        that predicts nothing.
    averaging : float, default=2.0
        Round t has weight t to this power in the averages; 0 is the paper's plain average.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 2, Theorems 6 and 7, Corollary 8; Kairouz et al. (2021).
    Proofs: `docs/theory/oco.md`, and for hidden groups `docs/theory/replace-one.md`.

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

    def _plan_parts(self, problem: Problem, budget: Budget) -> PlanParts:
        make_plan = paper_plan if self.schedule == "paper" else least_bound_plan
        schedule, releases, bounds = make_plan(problem, budget, self)
        batch_size = max(schedule.rates)
        is_too_large = batch_size * schedule.loss_clip > MAX_QUOTIENT * schedule.loss_sensitivity
        if problem.n_groups > 1 and is_too_large:
            raise InputError(
                f"a batch of {batch_size:,.3g} records is so large that rounding may show a "
                "record: take more rounds."
            )
        return schedule, releases, bounds

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> OCOGame:
        game_class = {"weighted": OCOGame, "sampled": SampledGame}[plan.schedule.play]
        if plan.problem.hidden is not None:
            game_class = HiddenGroupsGame
        return game_class(plan, noise, start, learners.make_leader(self.learner))


# Approximate variance of the averaged weights' noise, over that of the last sum's noise.
AVERAGED_VARIANCE = 0.35
# Largest planned step size, in units of 1/H: gradient descent may oscillate beyond.
LONGEST_STEP = 2.0
# Standard deviation of the group risks that planning assumes, as a fraction of the feedback range.
RISK_SPREAD = 0.2


@dataclass(frozen=True, kw_only=True, repr=False)
class OCOSchedule(StreamSchedule):
    """All public numbers that a game needs besides the records and the noise."""

    play: Play  # rounds read records of every group, or of one drawn from the group weights
    gradient_multiplier: float  # noise on the sums of gradients, per unit of sensitivity
    feedback_multiplier: float  # noise on the sums of losses, likewise; 0 where none are released
    # largest distances that a record moves the sum of gradients (Γ) and of losses, with rounding
    gradient_diameter: float
    loss_sensitivity: float
    loss_clip: float  # clip of a record's loss for the group player
    # subtracted from clipped losses: the infimum, or where groups are hidden the mid-range
    center: float
    # mean records of each group per round for the weights player; sums are divided by them
    weight_rates: tuple[float, ...]
    feedback_rates: tuple[float, ...]  # the same for the group player
    feedback_bound: float  # U of a sampled game: EXP3 gets U minus a noisy loss, within [0, 2U]
    initial_distance: float  # norm a of the weights that planning compares with
    fixed_strength: float | None  # strength of the weights player; None: it follows the noise
    averaging: float  # round t has weight t to this power in the averages
    group_rate: float = 0.0  # step size η of the group player

    @property
    def smoothness(self) -> float:
        """Smoothness H of the loss in the weights, times the outputs; may be infinite."""
        return self.problem.smoothness * self.problem.loss.n_outputs

    def strength(self, noise_std: Any) -> Any:
        """Return the strength γ of least bound, given the noise on a coordinate of a sum."""
        if self.fixed_strength is not None:
            return self.fixed_strength
        variance, lipschitz = AVERAGED_VARIANCE * noise_std**2, self.problem.lipschitz
        if math.isinf(self.smoothness):
            step_cost = lipschitz**2 + 2.0 * lipschitz * np.sqrt(variance)
            return np.sqrt(self.n_rounds * step_cost) / self.initial_distance
        cubed_strength = 2.0 * self.n_rounds * variance * self.smoothness / self.initial_distance**2
        return np.maximum(cubed_strength ** (1.0 / 3.0), self.smoothness / LONGEST_STEP)

    def excess_by_group(self) -> FloatArray:
        """Return for each group the excess bound if it is the worst-off one: oco.md, section 6."""
        problem, lipschitz = self.problem, self.problem.lipschitz
        n_played = np.full(problem.n_groups, float(self.n_rounds))
        if self.play == "sampled":
            # with all weight on one group, the game ends when that group runs out
            n_played = np.minimum(np.divide(problem.group_sizes, self.rates), self.n_rounds)
        unit_std = self.gradient_multiplier * self.worst_std * self.gradient_diameter
        noise_stds = unit_std / self._rates_to_plan_for(self.weight_rates)
        step = 1.0 / self.strength(noise_stds)
        weights_stds = step * noise_stds * math.sqrt(AVERAGED_VARIANCE)
        noise = np.minimum(lipschitz * weights_stds, 0.5 * self.smoothness * weights_stds**2)
        if math.isinf(self.smoothness):
            noise += 0.5 * step * lipschitz**2
        bound = self.initial_distance**2 / (2.0 * step * n_played) + noise
        if problem.n_groups > 1:
            divergence, cost_of_rate = self.group_terms()
            bound += divergence / n_played / self.group_rate + self.group_rate * cost_of_rate
        return np.asarray(bound)

    def group_terms(self) -> tuple[FloatArray, FloatArray]:
        """Return A and B of each group's mean regret ``A/(η T) + η B`` at rate η over T rounds."""
        divergence = -np.log(np.asarray(self.problem.prior))
        sensitivities = self.loss_sensitivity / self._rates_to_plan_for(self.feedback_rates)
        spread = (RISK_SPREAD * self.loss_sensitivity) ** 2
        if self.problem.hidden is not None:  # the noise of a sum counts once, not round by round
            variance = (self.feedback_multiplier * self.worst_std * sensitivities) ** 2
            return divergence, spread + 0.5 * variance / self.n_rounds
        variance = 2.0 * (self.feedback_multiplier * sensitivities) ** 2  # of Laplace noise
        if self.play == "sampled":
            return divergence, 0.5 * len(divergence) * (self.feedback_bound**2 + variance)
        # a group with fewer records than rounds adds noise only in rounds that read it
        return divergence, spread + 0.5 * variance * np.minimum(1.0, self.feedback_rates)

    def _rates_to_plan_for(self, rates: Sequence[float]) -> FloatArray:
        """Return the rates, with that of all records for hidden groups that may be empty."""
        if self.problem.hidden is None:
            return np.asarray(rates)
        return rates * (self.problem.sizes_to_plan_for / np.asarray(self.problem.group_sizes))


# Planned loss clip over the loss of predicting nothing: low, as a round reads few records.
CEILING_OVER_ZERO_SCORE = 1.5
# Fractions of the records that the weights player may get, and the least number of rounds.
WEIGHT_FRACTIONS, MIN_ROUNDS = (0.5, 0.6, 0.7, 0.8, 0.9), 8
# Rounds read a drawn group from this number of groups on, if each has records for so many rounds.
SAMPLED_GROUPS, ROUNDS_OF_A_GROUP = 8, 2.0


def least_bound_plan(problem: Problem, budget: Budget, solver: OCO) -> PlanParts:
    """Return the parts of the plan with the least bound over all parameters that are None."""
    multiple, prior = CEILING_OVER_ZERO_SCORE, np.asarray(problem.prior)
    loss_clip = steps.loss_clip(problem, solver.loss_clip, "OCO", multiple=multiple)

    def parts(play: Play, n_rounds: int, rates: FloatArray, weight_fraction: float) -> PlanParts:
        releases = calibrated_releases(problem, budget, n_rounds, weight_fraction)
        schedule = make_schedule(problem, solver, play, n_rounds, rates, releases, loss_clip)
        return schedule, releases, schedule.excess_by_group()

    candidates = (parts(*allocation) for allocation in allocations(problem, solver))
    return first_with_least_bound(candidates, lambda candidate: float(prior @ candidate[2]))


def allocations(problem: Problem, solver: OCO) -> Iterator[tuple[Play, int, FloatArray, float]]:
    """Yield the allocations of records to rounds and players that the parameters allow.

    Each is the play, the number of rounds, the rates and the fraction of the weights player. Rates
    are mean records per round of each group (of all where groups are hidden), a row per player.
    """
    has_groups, sizes = problem.n_groups > 1, np.asarray(problem.queue_sizes, dtype=float)
    n_records = float(sizes.sum())
    batch_size = solver.batch_size or (1 if math.isinf(n_records) else None)
    play = solver.play
    if play is None:  # rounds read one group where groups are many and last for enough rounds
        n_read = n_records / (solver.n_rounds or solver.max_rounds)
        n_read = 2.0 * batch_size if batch_size else n_read
        is_lasting = sizes.min() >= ROUNDS_OF_A_GROUP * n_read and problem.fresh_calls <= 1
        play = "sampled" if len(sizes) >= SAMPLED_GROUPS and is_lasting else "weighted"

    def n_feedback(n_weight: int, fraction: float) -> int:
        """Return the records of the group player beside those of the weights player."""
        return max(1, round(n_weight * (1.0 - fraction) / fraction)) if has_groups else 0

    fractions = WEIGHT_FRACTIONS if solver.weight_fraction is None else (solver.weight_fraction,)
    for fraction in fractions if has_groups else (1.0,):
        round_size = batch_size  # of both players
        if round_size is not None and problem.hidden is None:
            round_size += n_feedback(round_size, fraction)
        most = n_records / (round_size or (2 if play == "sampled" else 1))
        for n_rounds in numbers_of_rounds(solver, most, fewest=MIN_ROUNDS):
            if play == "weighted":
                rates = _weighted_rates(problem, n_rounds, round_size, fraction)
            else:
                n_weight = batch_size or max(1, int(fraction * n_records / n_rounds))
                by_player = [[n_weight], [n_feedback(n_weight, fraction)]]
                rates = np.full((2, len(sizes)), by_player, dtype=float)
            yield play, n_rounds, rates, fraction


def _weighted_rates(
    problem: Problem, n_rounds: int, round_size: int | None, fraction: float
) -> FloatArray:
    """Return the rates of `allocations` for rounds of round_size records, or of all evenly."""
    sizes = np.asarray(problem.queue_sizes, dtype=float)
    total, is_endless = float(sizes.sum()) / n_rounds, bool(np.isinf(sizes).any())
    total = total if round_size is None else min(float(round_size), total)
    rates = total * (np.full(len(sizes), 1.0 / len(sizes)) if is_endless else sizes / sizes.sum())
    if problem.hidden is not None:  # both players read all records
        return np.stack([rates, rates])
    if problem.n_groups == 1:  # there is no group player
        return np.stack([rates, 0.0 * rates])
    n_read = np.minimum(n_rounds * rates, sizes)
    if n_read.min() < 2.0 * (1.0 - 1e-9):  # 1e-9 ignores the rounding of rates
        raise InputError(
            f"OCO needs at least 2 records of every group, one for each player, got "
            f"{n_read.min():.2g} of one in {n_rounds:,} round(s): take larger batches or more "
            f"rounds, or merge that group with another."
        )
    n_weight = fraction * n_read
    if not is_endless:  # both players of a small group get a record
        n_weight = np.clip(np.round(n_weight), 1.0, n_read - 1.0)
    feedback_rates = (n_read - n_weight) / n_rounds
    return np.stack([rates - feedback_rates, feedback_rates])


def calibrated_releases(
    problem: Problem, budget: Budget, n_rounds: int, weight_fraction: float
) -> tuple[Release, ...]:
    """Return the releases of gradient sums and group losses, with the least noise for a budget."""
    if problem.n_groups == 1:
        return calibrate([Release(SUMS, "gaussian", 1.0, 1)], budget)
    if problem.hidden is not None:  # both players read all records and share the budget
        fractions = {SUMS: weight_fraction, LOSSES: 1.0 - weight_fraction}
        proposed = [Release(name, "gaussian", part**-0.5, 1) for name, part in fractions.items()]
        return calibrate(proposed, budget)
    # players read disjoint records, so each has the whole budget
    sums = Release(SUMS, "gaussian", 1.0, 1, part=0)
    # rounds read disjoint batches: a record is in one of them and pays for one
    losses = Release(LOSSES, "laplace", 1.0, n_rounds, part=1, draws_per_record=1)
    return *calibrate([sums], budget), *calibrate([losses], budget)


def make_schedule(
    problem: Problem,
    solver: OCO,
    play: Play,
    n_rounds: int,
    rates: FloatArray,
    releases: Sequence[Release],
    loss_clip: float,
) -> OCOSchedule:
    """Return the schedule of an allocation, with the group rate of least bound unless it is set."""
    has_groups, center = problem.n_groups > 1, problem.constants.infimum
    mechanism = prefix_sums(solver, problem, n_rounds)
    moved = round_sensitivity(problem, mechanism, loss_clip, play, rates)
    gradient_diameter, loss_sensitivity = moved
    feedback_multiplier = releases[1].noise_multiplier if has_groups else 0.0
    total_rates, feedback_bound = rates.sum(axis=0), loss_sensitivity
    if problem.hidden is not None:  # both players read the same records
        total_rates, center = rates[0], center + (loss_clip - center) / 2.0
    if has_groups and play == "sampled":
        noise_scale = feedback_multiplier * loss_sensitivity / float(rates[1, 0])
        feedback_bound = learners.bandit_bound(loss_sensitivity, noise_scale, n_rounds)
    schedule = OCOSchedule(
        problem=problem,
        play=play,
        n_rounds=n_rounds,
        noise=solver.mechanism,
        worst_std=mechanism.worst_standard_deviation,
        rates=tuple(total_rates.tolist()),
        stops_early=play == "sampled",
        gradient_multiplier=releases[0].noise_multiplier,
        feedback_multiplier=feedback_multiplier,
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
    if not has_groups:
        return schedule
    prior, (divergence, cost_of_rate) = np.asarray(problem.prior), schedule.group_terms()
    best_rate = math.sqrt(float(prior @ (divergence / n_rounds)) / float(prior @ cost_of_rate))
    return replace(schedule, group_rate=float(solver.group_rate or best_rate))


def paper_plan(problem: Problem, budget: Budget, solver: OCO) -> PlanParts:
    """Return the parts of the plan of Theorem 7, Corollary 8: `docs/theory/oco.md`, section 6."""
    p, n_weight = problem.n_groups, float(solver.batch_size or 1)
    n_feedback = n_weight if p > 1 else 0.0
    most = problem.n_records / (n_weight + n_feedback)
    n_rounds = max(1, int(min(solver.n_rounds or most, most)))
    releases = calibrated_releases(problem, budget, n_rounds, weight_fraction=0.5)
    feedback_bound = problem.loss_range
    if p > 1:  # "B/(b ε)" with the paper's pure ε; exact accounting needs slightly less noise
        noise_scale = releases[1].noise_multiplier * feedback_bound / n_feedback
        feedback_bound = learners.bandit_bound(feedback_bound, noise_scale, n_rounds)
    group_rate = math.sqrt(math.log(p) / (p * n_rounds)) / feedback_bound
    mechanism = prefix_sums(solver, problem, n_rounds)
    noise_norm = releases[0].noise_multiplier * (problem.gradient_diameter / n_weight)
    noise_norm = noise_norm * mechanism.column_norm * math.sqrt(problem.n_weights)
    strength, regret = learners.strength_of_least_regret(
        learners.make_leader(solver.learner),
        problem.radius,
        problem.lipschitz,
        noise_of_sums=noise_norm * mechanism.row_norms(),
        noise_of_increments=noise_norm * mechanism.increment_norms(),
    )
    uniform, loss_clip = replace(problem, prior=(1.0 / p,) * p), problem.constants.supremum
    rates = np.full((2, p), [[n_weight], [n_feedback]])
    schedule = replace(
        make_schedule(uniform, solver, "sampled", n_rounds, rates, releases, loss_clip),
        group_rate=group_rate,
        feedback_bound=feedback_bound,
        fixed_strength=strength,
        averaging=0.0,
        remark="the paper's parameters, with noise accounted for exactly",
    )
    # the two regrets in the proof of Theorem 7, the second as Auer et al. (2002) bound it
    excess = regret / n_rounds
    if p > 1:
        excess += math.log(p) / (group_rate * n_rounds) + 2.0 * group_rate * p * feedback_bound**2
    return schedule, releases, np.full(p, excess)


class OCOGame(StreamGame):
    """Two online learners play against each other; a round reads all groups ("weighted")."""

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
        self._largest_influence = 0.0
        self._state_sensitivity()
        self._player = learner.start(self._initial_weights, plan.problem.radius, self._strength)
        # weighted sum over rounds of weights and group weights, and the sum of its factors
        n_entries = len(self._initial_weights) + len(self._prior)
        self._weighted_sum, self._total = np.zeros(n_entries), 0.0

    def _state_sensitivity(self) -> float:
        """Return how far a record moves the gradient sums; set the strength for their noise."""
        schedule, influence = self._schedule, self._influence(self._groups.group_weights)
        self._largest_influence = max(self._largest_influence, influence)
        sensitivity = schedule.gradient_diameter * self._largest_influence
        noise_std = schedule.gradient_multiplier * schedule.worst_std * sensitivity
        self._strength = float(schedule.strength(noise_std))
        return sensitivity

    def _influence(self, group_weights: FloatArray) -> float:
        """Return the largest factor of a record's gradient in the gradient of a round."""
        return float((group_weights * (1.0 / np.asarray(self._schedule.weight_rates))).max())

    def _release_gradient(self, gradient: FloatArray, weights: FloatArray) -> None:
        """Add a round to the averages; pass the player the increases of noisy sum and strength."""
        factor = float(self._n_played) ** self._schedule.averaging
        self._total += factor
        self._weighted_sum += factor * np.concatenate([weights, self._groups.group_weights])
        old_strength, old_sum = self._strength, self._sums.noisy_sum
        linear = self._sums.add(gradient, sensitivity=self._state_sensitivity()) - old_sum
        self._player.update(linear, self._strength - old_strength, self._initial_weights)

    def finish(self) -> Solution:
        if self._n_played == 0:
            return Solution(self._initial_weights.copy(), self._groups.prior, n_iter=0)
        averages = self._weighted_sum / self._total
        weights, group_weights = np.split(averages, [len(self._initial_weights)])
        return Solution(weights, group_weights, self._n_played)

    def _shares(self, n_used: Sequence[float], n_rounds: int) -> Iterable[Any]:
        if self._problem.hidden is not None:
            return super()._shares(n_used, n_rounds)
        # in every round the first records of a group are for the weights, the others for the groups
        pairs = zip(self._schedule.weight_rates, self._schedule.rates, strict=True)
        n_weight = [round(n * own / both) for n, (own, both) in zip(n_used, pairs, strict=True)]
        n_feedback = [n - own for n, own in zip(n_used, n_weight, strict=True)]
        by_player = super()._shares(n_weight, n_rounds), super()._shares(n_feedback, n_rounds)
        return zip(*by_player, strict=True)

    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        schedule, weights = self._schedule, self._player.predict()
        factors = self._groups.group_weights / schedule.weight_rates
        gradient, loss_sums = np.zeros_like(weights), np.zeros(len(factors))
        for group, (n_weight, n_feedback) in enumerate(zip(*sizes, strict=True)):
            if n_weight + n_feedback:
                group_gradient, loss_sums[group] = self._read(
                    oracle, group, weights, n_weight, n_feedback
                )
                gradient += factors[group] * group_gradient
        self._release_gradient(gradient, weights)
        for release in self._feedback_releases:
            # sums are divided by public rates; a group without records has loss 0 and no noise
            is_read, rates = np.asarray(sizes[1]) > 0, np.asarray(schedule.feedback_rates)
            moved = np.where(is_read, schedule.loss_sensitivity / rates, 0.0)
            noisy = self._noise.laplace(loss_sums / rates, sensitivity=moved, release=release)
            rate = schedule.group_rate
            scale = rate * schedule.feedback_multiplier * schedule.loss_sensitivity / rates
            # log E exp of the noise; it is infinite from scale 1 on, where scale² takes its place
            correction = np.maximum(scale**2, -np.log1p(-np.minimum(scale**2, 0.9)))
            self._groups.update(-noisy + np.where(is_read, correction, 0.0) / rate)

    def _read(
        self, oracle: SampleOracle, group: int, weights: FloatArray, n_weight: int, n_feedback: int
    ) -> tuple[FloatArray, float]:
        """Draw records of a group; return the first ones' gradient sum, the others' loss sum."""
        rows, targets = oracle.draw(group, n_weight + n_feedback)
        values, slopes = batch_losses(self._problem, rows, targets, weights)
        losses = clipped_losses(self._schedule, values, n_weight)
        return gradient_sum(self._problem, rows, slopes, n_weight), float(losses.sum())


class SampledGame(OCOGame):
    """A round reads one group, drawn from the group weights: Algorithm 2 of Zhou and Bassily.

    The game ends early where the drawn group has too few records left.
    """

    _drawn_group: int | None = None  # drawn, but not played yet for lack of records

    def _influence(self, group_weights: FloatArray) -> float:
        return 1.0 / self._schedule.weight_rates[0]

    def _rounds(self, available: Sequence[float]) -> Iterator[int]:
        round_size = int(self._schedule.rates[0])
        rounds_left = [n / round_size for n in available]
        while not self.is_over:
            if self._drawn_group is None:
                has_groups = self._problem.n_groups > 1
                self._drawn_group = self._groups.sample(self._noise.rng) if has_groups else 0
            # another draw would favour large groups: a later call plays the drawn group first
            if rounds_left[self._drawn_group] < 1:
                return
            group, self._drawn_group = self._drawn_group, None
            rounds_left[group] -= 1
            yield group

    def _play_round(self, oracle: SampleOracle, group: Any) -> None:
        schedule, weights = self._schedule, self._player.predict()
        n_weight, n_feedback = int(schedule.weight_rates[0]), int(schedule.feedback_rates[0])
        gradient, loss_sum = self._read(oracle, group, weights, n_weight, n_feedback)
        self._release_gradient(gradient / n_weight, weights)
        for release in self._feedback_releases:
            mean, moved = loss_sum / n_feedback, schedule.loss_sensitivity / n_feedback
            noisy = float(self._noise.laplace(mean, sensitivity=moved, release=release))
            self._groups.update(group, schedule.feedback_bound - noisy)


# Expected standard deviation of hidden groups' risks over the loss of predicting nothing.
EXPECTED_SPREAD = 0.05


class HiddenGroupsGame(OCOGame):
    """The game where groups are hidden: a round reads a public number of records of any groups.

    Both players get noisy prefix sums over all records. Losses are relative to the middle of their
    range, which halves the change of a group's sum by a record that joins or leaves the group.
    """

    _loss_sums: PrefixSumStream | None = None

    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        assert isinstance(oracle, RecordOracle)
        problem, schedule, weights = self._problem, self._schedule, self._player.predict()
        rows, targets, codes = oracle.draw_places(*sizes)
        values, slopes = batch_losses(problem, rows, targets, weights)
        factors = (self._groups.group_weights / schedule.weight_rates)[codes]
        gradient = gradient_sum(problem, rows, (slopes.T * factors).T, len(rows))
        loss_sums = sums_by_group(clipped_losses(schedule, values, 0), codes, problem.n_groups)
        self._release_gradient(gradient, weights)
        for release in self._feedback_releases:
            if self._loss_sums is None:
                self._loss_sums = self._noisy_sums(release, problem.n_groups)
            # each group's noisy sum, over all rounds so far, of its mean loss
            moved, rates = schedule.loss_sensitivity, np.array(schedule.feedback_rates)
            noisy_sums = self._loss_sums.add(loss_sums, sensitivity=moved) / rates
            stds = schedule.feedback_multiplier * self._loss_sums.unit_std * moved / rates
            active_sums, variances = steps.active(noisy_sums, stds**2, problem)
            spread = self._n_played * EXPECTED_SPREAD * problem.constants.zero_score
            self._groups.update_sums(active_sums, variances, expected=spread**2)


def clipped_losses(schedule: OCOSchedule, values: FloatArray, n_weight: int) -> FloatArray:
    """Return the group player's losses, all but the first `n_weight`: clipped, less the center."""
    return np.asarray(np.minimum(values[n_weight:], schedule.loss_clip) - schedule.center)
