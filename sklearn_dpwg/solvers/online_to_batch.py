"""Minimise the average risk of a stream, by noisy sums of gradient differences.

Only `difference_sum` reads records. Proofs: `docs/theory/online-to-batch.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import FloatArray, Rules, within
from sklearn_dpwg._repr import documented
from sklearn_dpwg.data.oracles import RecordOracle, SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.solvers import learners, steps
from sklearn_dpwg.solvers.fresh_records import (
    RULES,
    SHARED_PARAMETERS,
    PlanParts,
    StreamGame,
    StreamSchedule,
    StreamSolver,
    difference_rounding,
    numbers_of_rounds,
    prefix_sums,
    rates_of_groups,
)
from sklearn_dpwg.solvers.plan import Plan, first_with_least_bound
from sklearn_dpwg.solvers.solver import Game, Solution

# The prefix-sum mechanism makes all noisy sums one Gaussian release.
SUMS = Release("sums of gradient differences", "gaussian", 1.0, 1)


@documented(SHARED_PARAMETERS)
@dataclass(eq=False, repr=False)
class OnlineToBatch(StreamSolver):
    """Minimises the average risk, or that of a fixed mixture of the groups, in one pass.

    Every record is used once, so records may come from a stream, a simulator or a database as well
    as from arrays. The groups' `prior` is the mixture: with the default, the average risk of all
    records. The solver is *not* for the worst group, and needs a smooth loss. ``None`` means
    planned from public facts.

    Parameters
    ----------
    learner : str or Learner, default="optimistic"
        "optimistic" (its regret follows how much gradients differ between records), "ftrl",
        "parameter-free" (its regret follows the distance from the start, but it needs tens of
        thousands of rounds), or an instance such as ``FTRL(strength=50.0)``.
    <noise, n_rounds, batch_size>
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes batches of 1 unless `batch_size` is set, the binary tree unless `noise` is
        set, and the paper's formula for the noise with exact accounting.
    <initial_distance, max_rounds, horizon>
    power : float, optional
        Round t has weight t to this power k in the output, from 0 to 10. Planned: 1. The paper's
        is 3 for a parameter-free learner.
    convexity : float, default=0.0
        Strong convexity μ_c: the objective is the risk plus μ_c/2 times the squared distance from
        the start. 0 for the risk alone.

    References
    ----------
    Zhang, Tran and Cutkosky (2022), *Differentially private online-to-batch for smooth losses*,
    Algorithm 1. Proofs: `docs/theory/online-to-batch.md`, and for hidden groups
    `docs/theory/replace-one.md`.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import OnlineToBatch
    >>> OnlineToBatch("ftrl", n_rounds=20)
    OnlineToBatch(learner='ftrl', n_rounds=20)
    """

    learner: str | learners.Learner = "optimistic"
    _: KW_ONLY
    power: float | None = None
    convexity: float = 0.0

    name: ClassVar[str] = "online-to-batch"
    rules = Rules(
        "OnlineToBatch",
        **RULES,
        power=within(0.0, 10.0, or_none=True),
        convexity=within(0.0, 1e100),
    )

    @property
    def exponent(self) -> float:
        """Power k of the rounds' weights t^k; the paper's is 3 for parameter-free learners."""
        bets = isinstance(learners.make_learner(self.learner), learners.ParameterFree)
        planned = 3.0 if bets and self.schedule == "paper" else 1.0
        return planned if self.power is None else float(self.power)

    def _plan_parts(self, problem: Problem, budget: Budget) -> PlanParts:
        if not math.isfinite(problem.smoothness):
            raise InputError(
                f"loss must be smooth for solver 'online-to-batch', whose noise follows how much "
                f"gradients change, got {problem.loss!r}, which has kinks."
            )
        (release,) = calibrate([SUMS], budget)
        make_plan = paper_plan if self.schedule == "paper" else least_bound_plan
        schedule, bound = make_plan(problem, release.noise_multiplier, self)
        release = replace(release, noise_multiplier=schedule.multiplier)
        # the mixture's excess bounds the prior times a group's excess
        return schedule, [release], bound / np.asarray(problem.prior)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        return OnlineToBatchGame(plan, noise, start, learners.make_learner(self.learner))


@dataclass(frozen=True, kw_only=True, repr=False)
class OnlineToBatchSchedule(StreamSchedule):
    """All public numbers that a game needs besides the records and the noise."""

    power: float  # exponent k of the weight β_t = t^k of round t
    multiplier: float  # noise on the sums, per unit of sensitivity
    rounding: float  # error of a difference of gradients, per unit of β_t + β_{t-1}
    stretch: float  # factor slightly above 1, for the rounding of the rows of the prefix sums
    # mean records of each group per round; sums are divided by them
    group_rates: tuple[float, ...]
    effective_batch: float  # size of a batch from the mixture with the variance of a round
    convexity: float  # μ_c of the term μ_c/2 ‖w - w_1‖² of the objective
    strength: float = 0.0  # of the learner
    # factor of `papers_sensitivity`, which gives the paper's noise; 0 for the proved sensitivity
    papers_factor: float = 0.0

    def sensitivity(self, weight: Any, before: Any, moved: Any) -> Any:
        """Return how far one record with factor 1 moves the gradient difference of round t.

        Arguments are β_t, β_{t-1} and ‖x_t - x_{t-1}‖, which are public before the round. It is
        (β_t - β_{t-1}) Γ + β_{t-1} min(H ‖x_t - x_{t-1}‖, 2Γ), and rounding
        (`docs/theory/online-to-batch.md`, section 2).
        """
        diameter = self.problem.pair_diameter
        gradient_change = np.minimum(self.problem.smoothness * moved, 2.0 * diameter)
        exact = np.abs(weight - before) * diameter + before * gradient_change
        return self.stretch * (exact + (weight + before) * self.rounding)

    def papers_sensitivity(self, step: Any, farthest: Any) -> Any:
        """Return round t's sensitivity for the paper's noise; farthest is max ‖w_i - x_{i-1}‖."""
        gradient_bound = self.problem.lipschitz + self.problem.smoothness * farthest
        return self.papers_factor * gradient_bound * step ** (self.power - 1.0)

    def regulariser(self, step: Any, noise_norm: Any) -> tuple[Any, Any]:
        """Return ξ_t and ν_t of the term ξ_t‖w - w_1‖ + ν_t‖w - w_1‖² that betting adds."""
        sampling_error = step ** (self.power - 0.5) / math.sqrt(self.effective_batch)
        slope = self.problem.lipschitz * sampling_error + noise_norm
        return slope, self.problem.smoothness * sampling_error


def round_weight(step: int, power: float) -> float:
    """Return the weight β_t = t^k of a round; β_0 is 0 even for k = 0, where 0^0 would be 1."""
    return float(step) ** power if step else 0.0


def round_weights(n_rounds: int, power: float) -> FloatArray:
    """Return the weights β_1, …, β_n of the rounds, of shape (n_rounds,)."""
    return np.asarray(np.arange(1.0, n_rounds + 1.0) ** power)


MIN_ROUNDS = 4
# Deviation of the output's noise, over the deviation if all sums had one and the same noise.
ADDED_UP = 0.6
MIXTURE = "the risk of a fixed mixture of the groups is minimised, not that of the worst-off one"
# Clip of gradients for a parameter-free learner: standard deviations of the noise's norm.
CLIPPED_DEVIATIONS = 4.0
# A schedule, and its bound on the excess risk of the mixture.
BoundedSchedule = tuple[OnlineToBatchSchedule, float]


def least_bound_plan(problem: Problem, multiplier: float, solver: OnlineToBatch) -> BoundedSchedule:
    """Return the schedule of least bound over numbers of rounds, at the budget's multiplier."""
    sizes, batch_size = np.asarray(problem.queue_sizes, dtype=float), solver.batch_size

    def schedule_of_rounds(n_rounds: int) -> BoundedSchedule:
        if np.isinf(sizes).any():
            # batches in the proportions of the mixture, as far as finite groups allow
            rates = np.minimum(float(batch_size or 1) * np.asarray(problem.prior), sizes / n_rounds)
        elif batch_size is None:
            rates = sizes / n_rounds
        else:
            rates = sizes * min(batch_size / sizes.sum(), 1.0 / n_rounds)
        return make_schedule(problem, multiplier, solver, n_rounds, rates)

    numbers = numbers_of_rounds(solver, problem.n_records / (batch_size or 1), fewest=MIN_ROUNDS)
    return first_with_least_bound(map(schedule_of_rounds, numbers), itemgetter(1))


def make_schedule(
    problem: Problem, multiplier: float, solver: OnlineToBatch, n_rounds: int, rates: FloatArray
) -> BoundedSchedule:
    """Return the schedule of n_rounds with these rates, as in `StreamSchedule`, and its bound."""
    mechanism = prefix_sums(solver, problem, n_rounds)
    rounding, stretch = difference_rounding(problem, mechanism, rates)
    group_rates, prior = rates_of_groups(problem, rates), np.asarray(problem.prior)
    schedule = OnlineToBatchSchedule(
        problem=problem,
        n_rounds=n_rounds,
        power=solver.exponent,
        noise=solver.mechanism,
        worst_std=mechanism.worst_standard_deviation,
        rates=tuple(rates.tolist()),
        multiplier=multiplier,
        rounding=rounding,
        stretch=stretch,
        group_rates=group_rates,
        effective_batch=1.0 / float((prior**2 / group_rates).sum()),
        convexity=float(solver.convexity),
        remark=MIXTURE if problem.n_groups > 1 else "",
    )
    # assumed distance of the learner's weights from their average: bets may go anywhere in the
    # ball, others are taken to grow in proportion to t up to the initial distance
    learner = learners.make_learner(solver.learner)
    initial_distance = solver.initial_distance * problem.reach
    bets = isinstance(learner, learners.ParameterFree)
    distance = problem.diameter if bets else initial_distance / (solver.exponent + 2.0)
    weights = round_weights(n_rounds, solver.exponent)
    moved = distance * weights / np.cumsum(weights)
    moved[0] = 0.0
    sensitivities = schedule.sensitivity(weights, np.append(0.0, weights[:-1]), moved)
    unit_std = multiplier * float((prior / group_rates).max())
    noise_stds = unit_std * np.maximum.accumulate(sensitivities) * mechanism.standard_deviations()
    bound_and_strength = betting_bound if bets else strength_bound
    bound, strength = bound_and_strength(schedule, learner, initial_distance, noise_stds)
    return replace(schedule, strength=strength), bound


def strength_bound(
    schedule: OnlineToBatchSchedule,
    learner: learners.Learner,
    initial_distance: float,
    noise_stds: FloatArray,
) -> tuple[float, float]:
    """Return the planning bound of a regularised leader, and the strength that minimises it.

    Section 5 of `docs/theory/online-to-batch.md`. ``noise_stds`` is the noise on a coordinate of
    each sum.
    """
    problem, convexity = schedule.problem, schedule.convexity
    weights = round_weights(schedule.n_rounds + 1, schedule.power)
    totals = np.cumsum(weights)
    curvature = problem.smoothness * problem.loss.n_outputs
    # steps may oscillate below this strength
    least = max(curvature * float(np.max(weights**2 / totals)), 1e-300)
    strengths = least * 2.0 ** np.arange(0.0, 60.0, 0.25)
    if learner.strength is not None:
        strengths = np.array([float(learner.strength)])
    # noise of the output if later gradients did not counteract it, times the strength
    noise_terms = ADDED_UP * weights[1:] / totals[-1] * np.cumsum(noise_stds)
    added_strengths = 0.5 * convexity * totals[:-1]
    # a loop: an array over rounds and strengths may not fit in memory
    std = np.array([(noise_terms / (strength + added_strengths)).sum() for strength in strengths])
    # gradients counteract noise in directions of curvature above 1/length
    length = totals[-1] / strengths
    noisy_curvature = np.minimum(curvature, problem.n_weights / length)
    noise = np.minimum(0.5 * noisy_curvature * std**2, problem.lipschitz * std)
    bounds = 0.5 * initial_distance**2 * (strengths / totals[-1] + convexity) + noise
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(strengths[best])


def betting_bound(
    schedule: OnlineToBatchSchedule, learner: Any, initial_distance: float, noise_stds: FloatArray
) -> tuple[float, float]:
    """Return the bound for a parameter-free learner, and its strength, the bound on gradients.

    Theorem 11 of the paper with the constants of `ParameterFree`.
    """
    problem, n_rounds, convexity = schedule.problem, schedule.n_rounds, schedule.convexity
    noise_norms = math.sqrt(problem.n_weights) * noise_stds
    weights = round_weights(n_rounds + 1, schedule.power)
    slopes, curves = schedule.regulariser(np.arange(1.0, n_rounds + 1.0), noise_norms)
    costs = 2.0 * float((slopes * initial_distance + curves * initial_distance**2).sum())
    norms = weights[:-1] * (problem.lipschitz + convexity * problem.diameter)
    norms += CLIPPED_DEVIATIONS * noise_norms + slopes + 2.0 * curves * problem.diameter
    strength = float(norms.max() if learner.strength is None else learner.strength)
    regret = learners.betting_regret(learner, n_rounds, problem.radius, strength, initial_distance)
    return (regret + costs) / float(weights.sum()) + 0.5 * convexity * initial_distance**2, strength


# More rounds of single records would take minutes, and a plan for them gigabytes.
MAX_ROUNDS = 2_000_000


def paper_plan(problem: Problem, multiplier: float, solver: OnlineToBatch) -> BoundedSchedule:
    """Return the schedule with the paper's parameters, for noise accounted for exactly.

    Section 5 of `docs/theory/online-to-batch.md`. Of the paper's T rounds the last reads no
    records, as its sum would never be used. (Zhang, Tran and Cutkosky 2022, Algorithm 1, equation
    (6), Theorems 4, 6, 8 and 10)
    """
    batch_size = solver.batch_size or 1
    most = math.inf if solver.n_rounds is None else solver.n_rounds + 1
    n_rounds = max(1, int(min(problem.n_records / batch_size, most)) - 1)
    if n_rounds > MAX_ROUNDS:
        raise InputError(
            f"batch_size or n_rounds of OnlineToBatch must be set with schedule='paper' where a "
            f"round a record is more than {MAX_ROUNDS:,} rounds, got {n_rounds:,}."
        )
    sizes, prior = np.asarray(problem.group_sizes, dtype=float), np.asarray(problem.prior)
    if math.isfinite(problem.n_records):
        rates = min(batch_size, problem.n_records) * sizes / problem.n_records
    else:  # infinite groups give the records that finite ones lack
        rates, endless = np.minimum(batch_size * prior, sizes / n_rounds), prior * np.isinf(sizes)
        rates += (batch_size - rates.sum()) * endless / endless.sum()
    schedule, bound = make_schedule(problem, multiplier, solver, n_rounds, rates)
    mechanism = prefix_sums(solver, problem, n_rounds)
    factor = 2.0 * (schedule.power + 1.0) * math.sqrt(math.log2(2.0 * (n_rounds + 1)))
    schedule = replace(schedule, papers_factor=factor / mechanism.column_norm)
    learner = learners.make_learner(solver.learner)
    remark, strength = "the paper's parameters, with noise accounted for exactly", schedule.strength
    if isinstance(learner, learners.ParameterFree):
        remark += "; its constants of the regulariser hold an unstated one, and are not used"
    else:
        bound, strength = papers_bound(schedule, learner, mechanism.standard_deviations())
    # state the proved sensitivity where the paper's is larger: the noise stays the paper's
    fraction = _proved_fraction(schedule)
    schedule = replace(schedule, papers_factor=schedule.papers_factor * fraction)
    multiplier /= fraction
    return replace(schedule, strength=strength, remark=remark, multiplier=multiplier), bound


def _proved_fraction(schedule: OnlineToBatchSchedule) -> float:
    """Return the largest ratio of the proved sensitivity to the paper's over rounds, at most 1.

    In each round the ratio, as a function of ‖w_t - x_{t-1}‖, has a concave numerator of two linear
    pieces and a linear denominator, so it is largest at an end of a piece.
    """
    problem, rounds = schedule.problem, np.arange(1.0, schedule.n_rounds + 1.0)
    weights, diameter = rounds**schedule.power, problem.diameter
    before, step_fraction = np.append(0.0, weights[:-1]), weights / np.cumsum(weights)
    kink = 2.0 * problem.pair_diameter / np.maximum(problem.smoothness * step_fraction, 1e-200)
    zero, largest = np.zeros_like(step_fraction), 0.0
    for distance in (zero, np.minimum(kink, diameter), diameter + zero):
        papers = schedule.papers_sensitivity(rounds, distance)
        proved = schedule.sensitivity(weights, before, step_fraction * distance)
        largest = max(largest, float((proved / papers).max()))
    return min(1.0, largest * (1.0 + 1e-9))  # 1e-9 covers rounding


def papers_bound(
    schedule: OnlineToBatchSchedule, learner: learners.Learner, stds: FloatArray
) -> tuple[float, float]:
    """Return the theorem's bound on the excess risk, and the strength that minimises it.

    Section 4 of `docs/theory/online-to-batch.md`, with L and H for σ_G and σ_H, and weights a
    diameter apart. ``stds`` are those of the mechanism per unit of noise.
    """
    problem, convexity = schedule.problem, schedule.convexity
    radius, diameter = problem.radius, problem.diameter
    weights = round_weights(schedule.n_rounds + 1, schedule.power)
    totals, before = np.cumsum(weights), np.append(0.0, weights[:-1])
    moved = diameter * weights / totals
    changes = (weights - before) * problem.lipschitz + before * problem.smoothness * moved
    sampled = np.sqrt(np.cumsum(changes[:-1] ** 2) / schedule.effective_batch)
    influence = float((np.asarray(problem.prior) / schedule.group_rates).max())
    sensitivities = schedule.papers_sensitivity(np.arange(1.0, schedule.n_rounds + 1.0), diameter)
    scales = schedule.multiplier * influence * np.maximum.accumulate(sensitivities)
    noise = math.sqrt(problem.n_weights) * (scales * stds)
    errors = sampled + noise
    # gradient norms of the public regulariser, half of which is curvature
    norms = 1.5 * weights * convexity * diameter
    if isinstance(learner, learners.OptimisticFTRL):
        norms += changes + np.append(0.0, noise) + np.append(noise, sampled[-1])
    else:
        norms += weights * problem.lipschitz + np.append(errors, 0.0)
    added_strengths = 0.5 * convexity * totals
    largest = math.sqrt(float((norms**2).sum())) / radius
    # a convex objective regularises by itself, so that the best strength may be tiny
    strengths = largest * 2.0 ** np.arange(-30.0 if convexity else 0.0, 0.25, 0.25)
    if learner.strength is not None:
        strengths = np.array([float(learner.strength)])
    regret = np.array([(norms**2 / (2.0 * (s + added_strengths))).sum() for s in strengths])
    total = float(totals[-1])
    error_cost = diameter * float(errors.sum()) / total
    if convexity:
        error_cost = float((2.0 * errors**2 / (weights[:-1] * convexity)).sum()) / total
        error_cost += 0.5 * convexity * radius**2
    bounds = (0.5 * strengths * radius**2 + regret) / total + error_cost
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(strengths[best])


class OnlineToBatchGame(StreamGame):
    """One learner on the gradients of a mixture's risk: Algorithm 1 of Zhang, Tran and Cutkosky.

    Round t reads gradients at x_t, the average of the learner's weights w_1, …, w_t by β.
    """

    _schedule: OnlineToBatchSchedule

    def __init__(
        self, plan: Plan, noise: NoiseSource, start: Solution | None, learner: learners.Learner
    ) -> None:
        super().__init__(plan, noise, start)
        # factor of a record's gradient in a round, for each group
        self._fractions: FloatArray = self._prior / np.asarray(self._schedule.group_rates)
        self._influence = float(self._fractions.max())
        self._bets = isinstance(learner, learners.ParameterFree)
        initial_weights = self._initial_weights
        self._player = learner.start(initial_weights, plan.problem.radius, self._schedule.strength)
        self._total = 0.0  # sum of β_1, …, β_t
        self._average = self._previous_average = initial_weights  # x_t and x_{t-1}
        self._weights = initial_weights  # w_t
        self._farthest = 0.0  # largest ‖w_i - x_{i-1}‖ so far
        self._sensitivity = 0.0  # largest sensitivity stated so far
        self._move()

    def finish(self) -> Solution:
        return Solution(self._average.copy(), group_weights=None, n_iter=self._n_played)

    def _shares(self, n_used: Sequence[float], n_rounds: int) -> Iterable[Any]:
        if not self._schedule.papers_factor:
            return super()._shares(n_used, n_rounds)
        # the paper's rounds read equally many records: each group's are spread evenly over the run,
        # and the order of the groups follows from counts alone
        n_read, sizes = round(n_rounds * sum(self._schedule.rates)), [int(n) for n in n_used]
        times = np.concatenate([(np.arange(n) + 0.5) / n for n in sizes])
        groups = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(times, kind="stable")][:n_read]
        rounds = np.arange(len(groups)) * n_rounds // max(1, len(groups))
        counts = np.bincount(rounds * len(sizes) + groups, minlength=n_rounds * len(sizes))
        return counts.reshape(n_rounds, len(sizes)).tolist()

    def _play_round(self, oracle: SampleOracle, sizes: list[int]) -> None:
        problem, schedule, step = self._problem, self._schedule, self._n_played
        weight, weight_before = (round_weight(t, schedule.power) for t in (step, step - 1))
        here, before = (weight, self._average), (weight_before, self._previous_average)
        # the sensitivity depends on released weights only, not on records of this round
        moved = float(np.linalg.norm(self._average - self._previous_average))
        stated = float(schedule.sensitivity(weight, weight_before, moved))
        if schedule.papers_factor:
            stated = max(stated, schedule.papers_sensitivity(step, self._farthest))
        self._sensitivity = max(self._sensitivity, self._influence * stated)
        difference = np.zeros(problem.n_weights)
        for group, size in enumerate(sizes):
            if size and isinstance(oracle, RecordOracle) and problem.hidden is not None:
                rows, values, codes = oracle.draw_places(size)
                factors = self._fractions[codes]
                difference += difference_sum(problem, rows, values, here, before, factors)
            elif size:
                rows, targets = oracle.draw(group, size)
                group_sum = difference_sum(problem, rows, np.asarray(targets), here, before)
                difference += self._fractions[group] * group_sum
        gradient = self._sums.add(difference, sensitivity=self._sensitivity)
        self._update_player(gradient, weight)
        self._move()

    def _update_player(self, gradient: FloatArray, weight: float) -> None:
        """Pass the learner the round's loss; the noisy gradient estimates β_t times that at x_t."""
        schedule, center = self._schedule, self._average
        # the regulariser's gradient at x_t is public; half of its convexity goes to the learner
        convexity = weight * schedule.convexity
        curvature = convexity / 2.0
        if self._bets:  # clip the gradient and add the terms of `regulariser`
            std = schedule.multiplier * self._sensitivity * self._sums.unit_std
            noise_norm = math.sqrt(len(gradient)) * std
            clip_norm = weight * self._problem.lipschitz + CLIPPED_DEVIATIONS * noise_norm
            norm = float(np.linalg.norm(gradient))
            if norm > clip_norm:
                gradient = gradient * (clip_norm / norm)
            slope, curve = schedule.regulariser(float(self._n_played), noise_norm)
            away = self._weights - self._initial_weights
            distance = float(np.linalg.norm(away))
            if distance > 0.0:
                gradient = gradient + slope / distance * away
            curvature, center = 2.0 * curve, self._initial_weights
        linear = gradient + convexity * (self._average - self._initial_weights)
        self._player.update(linear, curvature, center)

    def _move(self) -> None:
        """Set w_t and x_t of the next round: the learner's weights, and the average with them."""
        weight = round_weight(self._n_played + 1, self._schedule.power)
        self._total += weight
        self._weights = self._player.predict()
        away = self._weights - self._average
        self._farthest = max(self._farthest, float(np.linalg.norm(away)))
        average = self._average + (weight / self._total) * away
        self._previous_average = self._average
        # rounding could take an average of weights in the ball out of the ball
        self._average = project_to_ball(average, self._problem.radius)


def difference_sum(
    problem: Problem,
    rows: FloatArray,
    targets: ArrayLike,
    here: tuple[float, FloatArray],
    before: tuple[float, FloatArray],
    factors: FloatArray | None = None,
) -> FloatArray:
    """Return the sum over the records of a batch of β_t ∇ℓ(x_t) - β_{t-1} ∇ℓ(x_{t-1}).

    ``here`` is (β_t, x_t), ``before`` is (β_{t-1}, x_{t-1}); ``factors`` has one for each record.
    """
    weight, point = here
    _, slopes = steps.batch_losses(problem, rows, targets, point)
    slopes = weight * slopes
    weight_before, point_before = before
    if weight_before:
        _, slopes_before = steps.batch_losses(problem, rows, targets, point_before)
        slopes = slopes - weight_before * slopes_before
    if factors is not None:
        slopes = (slopes.T * factors).T
    return steps.gradient_sum(problem, rows, slopes, len(rows))
