"""The average risk of a stream, by noisy sums of gradient differences.

`difference_sum` alone reads records. `docs/theory/online-to-batch.md` proves what is promised.
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
    Planned,
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

# All sums are one release, exactly.
SUMS = Release("sums of gradient differences", "gaussian", 1.0, 1)


@documented(SHARED_PARAMETERS)
@dataclass(eq=False, repr=False)
class OnlineToBatch(StreamSolver):
    """Minimises the risk of one distribution, or of a fixed mixture of groups, in one pass.

    Every record is used once, so records may come from a stream, a simulator or a database as well
    as from arrays. The groups' `prior` is the mixture: with the default, the average risk of all
    records. It is *not* for the worst group, and for smooth losses alone. ``None`` means planned
    from public facts.

    Parameters
    ----------
    learner : str or Learner, default="optimistic"
        "optimistic" (its regret follows how much gradients differ between records), "ftrl",
        "parameter-free" (its regret follows the distance from the start, but it needs tens of
        thousands of rounds), or an instance such as ``FTRL(strength=50.0)``.
    <noise, n_rounds, batch_size>
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes batches of 1 unless `batch_size` says more, the binary tree unless `noise`
        does, and the paper's formula for the noise with exact accounting.
    <initial_distance, max_rounds, horizon>
    power : float, optional
        Round t counts in the output by t to this power k, from 0 to 10. Planned: 1. The paper's is
        3 for a parameter-free learner.
    convexity : float, default=0.0
        Strong convexity μ_c: what is minimised is the risk plus μ_c/2 times the squared distance
        from the start, and the learner is told so. 0 for none.

    References
    ----------
    Zhang, Tran and Cutkosky (2022), *Differentially private online-to-batch for smooth losses*,
    Algorithm 1. `docs/theory/online-to-batch.md` proves what is promised,
    `docs/theory/replace-one.md` what is where groups are hidden.

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
        is_free = isinstance(learners.make_learner(self.learner), learners.ParameterFree)
        planned = 3.0 if is_free and self.schedule == "paper" else 1.0
        return planned if self.power is None else float(self.power)

    def _scheduled(self, problem: Problem, budget: Budget) -> Planned:
        if not math.isfinite(problem.smoothness):
            raise InputError(
                f"loss must be smooth for solver 'online-to-batch', whose noise follows how much "
                f"gradients change, got {problem.loss!r}, which has kinks."
            )
        (release,) = calibrate([SUMS], budget)
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        schedule, bound = plan(problem, release.noise_multiplier, self)
        release = replace(release, noise_multiplier=schedule.multiplier)
        return schedule, [release], bound / np.asarray(problem.prior)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        return OnlineToBatchGame(plan, noise, start, learners.make_learner(self.learner))


@dataclass(frozen=True, kw_only=True, repr=False)
class OnlineToBatchSchedule(StreamSchedule):
    """Everything that a game needs besides the records and the noise."""

    power: float  # k: round t counts in the averages by t^k
    multiplier: float  # noise per unit of sensitivity on the sums
    rounding: float  # what rounding adds to a difference for each unit of β_t + β_{t-1}
    stretch: float  # factor, a touch above 1, for the rounding of the rows of the prefix sums
    # records of each group in a round, on average; sums are divided by it
    group_rates: tuple[float, ...]
    effective_batch: float  # records of a batch from the mixture that are as good as a round's
    convexity: float  # μ_c: the risk has μ_c/2 ‖w - w_1‖² on top
    strength: float = 0.0  # of the learner
    # of what a paper plan states for L + H‖w_i - x_{i-1}‖, so that the noise is the paper's; 0 for
    # the proved sensitivity
    papers_factor: float = 0.0

    def sensitivity(self, weight: Any, before: Any, moved: Any) -> Any:
        """Return Δ_t for a record that counts once, of β_t, β_{t-1} and ‖x_t - x_{t-1}‖.

        It is (β_t - β_{t-1}) Γ + β_{t-1} min(H ‖x_t - x_{t-1}‖, 2Γ), and rounding
        (`docs/theory/online-to-batch.md`, section 2), known before the round is read.
        """
        diameter = self.problem.pair_diameter
        changed = np.minimum(self.problem.smoothness * moved, 2.0 * diameter)
        exact = np.abs(weight - before) * diameter + before * changed
        return self.stretch * (exact + (weight + before) * self.rounding)

    def papers_sensitivity(self, step: Any, farthest: Any) -> Any:
        """Return the sensitivity with which the multiplier is the paper's noise, for a distance."""
        reach = self.problem.lipschitz + self.problem.smoothness * farthest
        return self.papers_factor * reach * step ** (self.power - 1.0)

    def regulariser(self, step: Any, noise_norm: Any) -> tuple[Any, Any]:
        """Return ξ_t and ν_t of ξ_t‖w - w_1‖ + ν_t‖w - w_1‖², which betting has on top."""
        sampled = step ** (self.power - 0.5) / math.sqrt(self.effective_batch)
        return self.problem.lipschitz * sampled + noise_norm, self.problem.smoothness * sampled


def round_weight(step: int, power: float) -> float:
    """Return β_t = t^k, and 0 for t = 0 whatever k is: 0^0 would be 1."""
    return float(step) ** power if step else 0.0


def round_weights(n_rounds: int, power: float) -> FloatArray:
    """Return β_1, …, β_n."""
    return np.asarray(np.arange(1.0, n_rounds + 1.0) ** power)


# --- the plan of least bound --------------------------------------------------------------------

MIN_ROUNDS = 4
# Deviation of the output's noise over what it would be if all sums had one and the same noise.
ADDED_UP = 0.6
MIXTURE = "the risk of a fixed mixture of the groups is minimised, not that of the worst-off one"
# A parameter-free learner hears at most so many deviations of the norm of the noise.
CLIPPED_DEVIATIONS = 4.0

# The schedule, and its bound on the excess risk of the mixture.
Bounded = tuple[OnlineToBatchSchedule, float]


def least_bound_plan(problem: Problem, multiplier: float, solver: OnlineToBatch) -> Bounded:
    """Plan for the least bound over whatever the parameters leave open."""
    sizes, batch = np.asarray(problem.queue_sizes, dtype=float), solver.batch_size

    def planned(n_rounds: int) -> Bounded:
        if np.isinf(sizes).any():
            # batches in the proportions of the mixture, as far as groups that end allow
            rates = np.minimum(float(batch or 1) * np.asarray(problem.prior), sizes / n_rounds)
        elif batch is None:
            rates = sizes / n_rounds
        else:
            rates = sizes * min(batch / sizes.sum(), 1.0 / n_rounds)
        return planned_rounds(problem, multiplier, solver, n_rounds, rates)

    numbers = numbers_of_rounds(solver, problem.n_records / (batch or 1), fewest=MIN_ROUNDS)
    return first_with_least_bound(map(planned, numbers), itemgetter(1))


def planned_rounds(
    problem: Problem, multiplier: float, solver: OnlineToBatch, n_rounds: int, rates: FloatArray
) -> Bounded:
    """Plan a number of rounds that read so many records of each group, or of all places."""
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
    # bets may go anywhere in the ball; weights that grow like t up to the initial distance are
    # so far from their average
    learner = learners.make_learner(solver.learner)
    initial_distance = solver.initial_distance * problem.reach
    is_free = isinstance(learner, learners.ParameterFree)
    reach = problem.diameter if is_free else initial_distance / (solver.exponent + 2.0)
    weights = round_weights(n_rounds, solver.exponent)
    moved = reach * weights / np.cumsum(weights)
    moved[0] = 0.0
    units = schedule.sensitivity(weights, np.append(0.0, weights[:-1]), moved)
    noise = multiplier * float((prior / group_rates).max())
    noise_stds = noise * np.maximum.accumulate(units) * mechanism.standard_deviations()
    least_bound = betting_bound if is_free else strength_bound
    bound, strength = least_bound(schedule, learner, initial_distance, noise_stds)
    return replace(schedule, strength=strength), bound


def strength_bound(
    schedule: OnlineToBatchSchedule,
    learner: learners.Learner,
    initial_distance: float,
    noise_stds: FloatArray,
) -> tuple[float, float]:
    """Return the planning bound and the strength that makes it least.

    `docs/theory/online-to-batch.md`, section 5, has it. The noises are those of a coordinate of
    each sum.
    """
    problem, convexity = schedule.problem, schedule.convexity
    weights = round_weights(schedule.n_rounds + 1, schedule.power)
    totals = np.cumsum(weights)
    curve = problem.smoothness * problem.loss.n_outputs
    # below this steps may swing
    least = max(curve * float(np.max(weights**2 / totals)), 1e-300)
    strengths = least * 2.0 ** np.arange(0.0, 60.0, 0.25)
    if learner.strength is not None:
        strengths = np.array([float(learner.strength)])
    # the output is linear in the sums' noise where nothing answers to it
    of_output = ADDED_UP * weights[1:] / totals[-1] * np.cumsum(noise_stds)
    # one after the other, as there may be a round a record
    curved = 0.5 * convexity * totals[:-1]
    std = np.array([(of_output / (strength + curved)).sum() for strength in strengths])
    # a direction of curvature h answers to noise where h times this is above 1
    length = totals[-1] / strengths
    answered = np.minimum(curve, problem.n_weights / length)
    noise = np.minimum(0.5 * answered * std**2, problem.lipschitz * std)
    bounds = 0.5 * initial_distance**2 * (strengths / totals[-1] + convexity) + noise
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(strengths[best])


def betting_bound(
    schedule: OnlineToBatchSchedule, learner: Any, initial_distance: float, noise_stds: FloatArray
) -> tuple[float, float]:
    """Return the bound for a parameter-free learner at the initial distance, and its largest norm.

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


# --- the paper's --------------------------------------------------------------------------------

# More rounds of single records would take minutes, and a plan for them gigabytes.
MAX_ROUNDS = 2_000_000


def paper_plan(problem: Problem, multiplier: float, solver: OnlineToBatch) -> Bounded:
    """Plan with the paper's parameters, whose noise is accounted for exactly.

    `docs/theory/online-to-batch.md`, section 5, has them. Of T rounds the last reads none, as its
    sum would never be used. (Zhang, Tran and Cutkosky 2022, Algorithm 1, equation (6), Theorems 4,
    6, 8 and 10)
    """
    own = solver.batch_size or 1
    asked = math.inf if solver.n_rounds is None else solver.n_rounds + 1
    n_rounds = max(1, int(min(problem.n_records / own, asked)) - 1)
    if n_rounds > MAX_ROUNDS:
        raise InputError(
            f"batch_size or n_rounds of OnlineToBatch must be set with schedule='paper' where a "
            f"round a record is more than {MAX_ROUNDS:,} rounds, got {n_rounds:,}."
        )
    sizes, prior = np.asarray(problem.group_sizes, dtype=float), np.asarray(problem.prior)
    if math.isfinite(problem.n_records):
        rates = min(own, problem.n_records) * sizes / problem.n_records
    else:  # what a group that ends cannot give, those without end do
        rates, endless = np.minimum(own * prior, sizes / n_rounds), prior * np.isinf(sizes)
        rates += (own - rates.sum()) * endless / endless.sum()
    schedule, bound = planned_rounds(problem, multiplier, solver, n_rounds, rates)
    mechanism = prefix_sums(solver, problem, n_rounds)
    factor = 2.0 * (schedule.power + 1.0) * math.sqrt(math.log2(2.0 * (n_rounds + 1)))
    schedule = replace(schedule, papers_factor=factor / mechanism.column_norm)
    learner = learners.make_learner(solver.learner)
    remark, strength = "the paper's parameters, with noise accounted for exactly", schedule.strength
    if isinstance(learner, learners.ParameterFree):
        remark += "; its constants of the regulariser hold an unstated one, and are not used"
    else:
        stds = mechanism.standard_deviations()
        bound, strength = papers_bound(schedule, learner, stds)
    fraction = _proved_fraction(schedule)
    schedule = replace(schedule, papers_factor=schedule.papers_factor * fraction)
    multiplier /= fraction
    return replace(schedule, strength=strength, remark=remark, multiplier=multiplier), bound


def _proved_fraction(schedule: OnlineToBatchSchedule) -> float:
    """Return the largest proved sensitivity of a round over the paper's, wherever weights go.

    For a round it is the quotient of a concave function of ‖w_t - x_{t-1}‖ in two linear pieces and
    a linear one, so it is largest at an end of a piece.
    """
    problem, rounds = schedule.problem, np.arange(1.0, schedule.n_rounds + 1.0)
    weights, diameter = rounds**schedule.power, problem.diameter
    before, part = np.append(0.0, weights[:-1]), weights / np.cumsum(weights)
    capped = 2.0 * problem.pair_diameter / np.maximum(problem.smoothness * part, 1e-200)
    largest = 0.0
    for farthest in (np.zeros_like(part), np.minimum(capped, diameter), diameter + 0.0 * part):
        papers = schedule.papers_sensitivity(rounds, farthest)
        proved = schedule.sensitivity(weights, before, part * farthest)
        largest = max(largest, float((proved / papers).max()))
    return min(1.0, largest * (1.0 + 1e-9))


def papers_bound(
    schedule: OnlineToBatchSchedule, learner: learners.Learner, stds: FloatArray
) -> tuple[float, float]:
    """Return the theorem's bound on the excess risk, and the strength that makes it least.

    `docs/theory/online-to-batch.md`, section 4, with nothing known of σ_G and σ_H but L and H, and
    weights that are a diameter apart.
    """
    problem, convexity = schedule.problem, schedule.convexity
    radius, diameter = problem.radius, problem.diameter
    weights = round_weights(schedule.n_rounds + 1, schedule.power)
    totals, before = np.cumsum(weights), np.append(0.0, weights[:-1])
    moved = diameter * weights / totals
    changes = (weights - before) * problem.lipschitz + before * problem.smoothness * moved
    sampled = np.sqrt(np.cumsum(changes[:-1] ** 2) / schedule.effective_batch)
    influence = float((np.asarray(problem.prior) / schedule.group_rates).max())
    units = schedule.papers_sensitivity(np.arange(1.0, schedule.n_rounds + 1.0), diameter)
    scales = schedule.multiplier * influence * np.maximum.accumulate(units)
    noise = math.sqrt(problem.n_weights) * (scales * stds)
    errors = sampled + noise
    # of the public regulariser, half of which is curvature
    norms = 1.5 * weights * convexity * diameter
    if isinstance(learner, learners.OptimisticFTRL):
        norms += changes + np.append(0.0, noise) + np.append(noise, sampled[-1])
    else:
        norms += weights * problem.lipschitz + np.append(errors, 0.0)
    curved = 0.5 * convexity * totals
    middle = math.sqrt(float((norms**2).sum())) / radius
    # where the learner's own convexity regularises, hardly any strength may be the best
    strengths = middle * 2.0 ** np.arange(-30.0 if convexity else 0.0, 0.25, 0.25)
    if learner.strength is not None:
        strengths = np.array([float(learner.strength)])
    regret = np.array([(norms**2 / (2.0 * (each + curved))).sum() for each in strengths])
    total = float(totals[-1])
    rest = diameter * float(errors.sum()) / total
    if convexity:
        rest = float((2.0 * errors**2 / (weights[:-1] * convexity)).sum()) / total
        rest += 0.5 * convexity * radius**2
    bounds = (0.5 * strengths * radius**2 + regret) / total + rest
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(strengths[best])


# --- the game -----------------------------------------------------------------------------------


class OnlineToBatchGame(StreamGame):
    """One learner on the gradients of a risk: Algorithm 1 of Zhang, Tran and Cutkosky."""

    _schedule: OnlineToBatchSchedule

    def __init__(
        self, plan: Plan, noise: NoiseSource, start: Solution | None, learner: learners.Learner
    ) -> None:
        super().__init__(plan, noise, start)
        # what a record of each group counts for in a round
        self._fractions: FloatArray = self._prior / np.asarray(self._schedule.group_rates)
        self._influence = float(self._fractions.max())
        self._bets = isinstance(learner, learners.ParameterFree)
        self._player = learner.start(self._first, plan.problem.radius, self._schedule.strength)
        self._total = 0.0  # β_{1:t}
        self._here = self._before = self._first  # x_t and x_{t-1}
        self._weights = self._first  # w_t
        self._farthest = 0.0  # largest ‖w_i - x_{i-1}‖
        self._largest = 0.0  # largest sensitivity stated so far
        self._move()

    def finish(self) -> Solution:
        return Solution(self._here.copy(), None, self._n_played)

    def _dealt(self, used: Sequence[float], n_rounds: int) -> Iterable[Any]:
        if not self._schedule.papers_factor:
            return super()._dealt(used, n_rounds)
        # all rounds read as many: groups take turns, each spread evenly over the run, and which
        # come when follows from counts alone
        n_read, sizes = round(n_rounds * sum(self._schedule.rates)), [int(n) for n in used]
        places = np.concatenate([(np.arange(n) + 0.5) / n for n in sizes])
        groups = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(places, kind="stable")][:n_read]
        rounds = np.arange(len(groups)) * n_rounds // max(1, len(groups))
        counts = np.bincount(rounds * len(sizes) + groups, minlength=n_rounds * len(sizes))
        return counts.reshape(n_rounds, len(sizes)).tolist()

    def _play_round(self, oracle: SampleOracle, sizes: list[int]) -> None:
        problem, schedule, step = self._problem, self._schedule, self._n_played
        here = round_weight(step, schedule.power), self._here
        before = round_weight(step - 1, schedule.power), self._before
        # known before any record of the round is read
        moved = float(np.linalg.norm(self._here - self._before))
        stated = float(schedule.sensitivity(here[0], before[0], moved))
        if schedule.papers_factor:
            stated = max(stated, schedule.papers_sensitivity(step, self._farthest))
        self._largest = max(self._largest, self._influence * stated)
        difference = np.zeros(problem.n_weights)
        for group, size in enumerate(sizes):
            if size and isinstance(oracle, RecordOracle) and problem.hidden is not None:
                rows, values, codes = oracle.draw_places(size)
                factors = self._fractions[codes]
                difference += difference_sum(problem, rows, values, here, before, factors)
            elif size:
                rows, targets = oracle.draw(group, size)
                batch = difference_sum(problem, rows, np.asarray(targets), here, before)
                difference += self._fractions[group] * batch
        gradient = self._sums.release(difference, sensitivity=self._largest)
        self._teach(gradient, here[0])
        self._move()

    def _teach(self, gradient: FloatArray, weight: float) -> None:
        """Tell the learner the loss of the round, of which all is released or public."""
        schedule, center = self._schedule, self._here
        # the regulariser's gradient at x_t is public; half of its convexity goes to the learner
        convexity = weight * schedule.convexity
        curvature = convexity / 2.0
        if self._bets:  # on a gradient that is shortened and regularised
            std = schedule.multiplier * self._largest * self._sums.unit_std
            noise_norm = math.sqrt(len(gradient)) * std
            longest = weight * self._problem.lipschitz + CLIPPED_DEVIATIONS * noise_norm
            norm = float(np.linalg.norm(gradient))
            if norm > longest:
                gradient = gradient * (longest / norm)
            slope, curve = schedule.regulariser(float(self._n_played), noise_norm)
            away = self._weights - self._first
            distance = float(np.linalg.norm(away))
            if distance > 0.0:
                gradient = gradient + slope / distance * away
            curvature, center = 2.0 * curve, self._first
        linear = gradient + convexity * (self._here - self._first)
        self._player.update(linear, curvature, center)

    def _move(self) -> None:
        """Go on to the next round: w_t, and x_t as the average with it."""
        weight = round_weight(self._n_played + 1, self._schedule.power)
        self._total += weight
        self._weights = self._player.predict()
        away = self._weights - self._here
        self._farthest = max(self._farthest, float(np.linalg.norm(away)))
        # an average of points in the ball, which rounding must not take out of it
        mean = self._here + (weight / self._total) * away
        self._before, self._here = self._here, project_to_ball(mean, self._problem.radius)


def difference_sum(
    problem: Problem,
    rows: FloatArray,
    targets: ArrayLike,
    here: tuple[float, FloatArray],
    before: tuple[float, FloatArray],
    factors: FloatArray | None = None,
) -> FloatArray:
    """Return the sum over a batch of β_t ∇ℓ(x_t) - β_{t-1} ∇ℓ(x_{t-1}), of the same records.

    Each counts once, or as often as its factor says.
    """
    weight, point = here
    _, slopes = steps.batch_losses(problem, rows, targets, point)
    slopes = weight * slopes
    weight_before, point_before = before
    if weight_before:
        _, old = steps.batch_losses(problem, rows, targets, point_before)
        slopes = slopes - weight_before * old
    if factors is not None:
        slopes = (slopes.T * factors).T
    return steps.gradient_sum(problem, rows, slopes, len(rows))
