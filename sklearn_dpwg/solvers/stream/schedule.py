"""What the solvers of a stream are told, what their rounds read, and what a record moves in one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np

from sklearn_dpwg._checks import (
    FloatArray,
    Rules,
    accepted_by,
    any_number,
    key_of,
    one_of,
    positive,
    share,
    whole,
    within,
)
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, PrefixSums, make_prefix_sums
from sklearn_dpwg.solvers.steps import record_errors, rounding_of_sum, shown
from sklearn_dpwg.solvers.stream.learners import Learner, ParameterFree, make_learner

# What both solvers are told, and what each parameter may be.


@dataclass(eq=False, repr=False)
class StreamParameters:
    """Parameters that both solvers document; ``None`` means planned."""

    learner: str | Learner = "ftrl"
    _: KW_ONLY
    noise: str | None = None
    n_rounds: int | None = None
    batch_size: int | None = None
    schedule: Literal["planned", "paper"] = "planned"
    aim: float = 0.4
    max_rounds: int = 256
    horizon: int = 10

    @property
    def mechanism(self) -> str:
        """Name of the prefix-sum mechanism; the papers' is the tree."""
        if self.noise is not None:
            return self.noise
        return "tree" if self.schedule == "paper" else "toeplitz"


def opened(parameters: StreamParameters, problem: Problem, n_rounds: int) -> PrefixSums:
    """Return the mechanism for so many rounds."""
    return make_prefix_sums(parameters.mechanism, n_steps=n_rounds, n_dimensions=problem.n_weights)


def refuse_no_end(parameters: StreamParameters, n_records: float) -> None:
    """Refuse groups without end where nothing says how many rounds there are."""
    if math.isinf(n_records) and parameters.n_rounds is None:
        raise InputError(
            f"n_rounds of {type(parameters).__name__} must be set where a group has no end (a size "
            f"of infinity), got None."
        )


def numbers_of_rounds(
    parameters: StreamParameters, most: float, *, fewest: int, is_dealt: bool
) -> list[int]:
    """Return numbers of rounds to try, at most so many; whether batches fix their number.

    Those of a plan for many calls divide among them.
    """
    if parameters.n_rounds is not None:
        return [max(1, int(min(parameters.n_rounds, most)))]
    if is_dealt:
        return [max(1, int(most))]
    most = max(1, int(min(most, parameters.max_rounds)))
    fewest = min(fewest, most)
    n_tried = 1 + math.ceil(ROUNDS_PER_DOUBLING * math.log2(most / fewest))
    tried = np.geomspace(fewest, most, n_tried) / parameters.horizon
    return sorted({min(most, math.ceil(number) * parameters.horizon) for number in tried})


_RULES: dict[str, Any] = {
    "n_rounds": whole(or_none=True),
    "batch_size": whole(or_none=True),
    "horizon": whole(),
    "max_rounds": whole(),
    "aim": positive(),
    "schedule": one_of("planned", "paper"),
    "noise": key_of(PREFIX_SUMS, or_none=True),
    "learner": accepted_by(make_learner),
}
ROUNDS_PER_DOUBLING = 4


@dataclass(eq=False, repr=False)
class OCOParameters(StreamParameters):
    """Parameters of `OCO`, which documents them."""

    _: KW_ONLY
    play: Literal["weighted", "sampled"] | None = None
    weight_share: float | None = None
    group_rate: float | None = None
    loss_ceiling: float | None = None
    averaging: float = 2.0


def _learner_has_a_strength(parameters: OCOParameters) -> None:
    """Refuse a learner that no regulariser holds, which the noise could not be planned for."""
    if isinstance(make_learner(parameters.learner), ParameterFree):
        raise InputError(
            f"learner of OCO must be one that a strength regularises, such as 'ftrl', got "
            f"{parameters.learner!r}: OnlineToBatch takes it."
        )


OCO_RULES = Rules(
    "OCO",
    _learner_has_a_strength,
    **_RULES,
    group_rate=positive(or_none=True),
    weight_share=share(or_none=True),
    averaging=within(0.0, 100.0),
    loss_ceiling=any_number(or_none=True),
    play=one_of("weighted", "sampled", or_none=True),
)


@dataclass(eq=False, repr=False)
class OnlineToBatchParameters(StreamParameters):
    """Parameters of `OnlineToBatch`, which documents them."""

    learner: str | Learner = "optimistic"
    _: KW_ONLY
    power: float | None = None
    convexity: float = 0.0

    @property
    def exponent(self) -> float:
        """Power k of the rounds' weights t^k; the paper's is 3 for parameter-free learners."""
        if self.power is not None:
            return float(self.power)
        papers = self.schedule == "paper" and isinstance(make_learner(self.learner), ParameterFree)
        return 3.0 if papers else 1.0


BATCH_RULES = Rules(
    "OnlineToBatch", **_RULES, power=within(0.0, 10.0, or_none=True), convexity=within(0.0, 1e100)
)


# The plan's step is at most this over H: gradient descent on a loss of curvature H is stable up to
# there, and may swing for ever beyond.
LONGEST_STEP = 2.0


@dataclass(frozen=True)
class StrengthRule:
    """Strength of the weights player's regularisation, given the noise of its sums.

    It makes the weights' part of the planning bound least: `docs/theory/oco.md`, section 6.
    """

    n_rounds: int  # T
    aim: float  # norm a of the weights that are aimed at
    smoothness: float  # H of the loss in the weights, times the outputs; may be infinite
    lipschitz: float  # constant L of the loss in the weights
    fixed: float | None = None  # a strength that does not follow the noise

    # what is left of the variance of the last sum's noise in the averaged weights: 0.28 to 0.38
    # for the square-root Toeplitz mechanism with 8 to 1024 rounds
    # (tests/solvers/oco/test_planning.py)
    averaged_variance = 0.35

    def strength(self, noise_std: float) -> float:
        """Return the strength γ for the deviation of a coordinate of the noisiest sum."""
        if self.fixed is not None:
            return self.fixed
        variance = self.averaged_variance * noise_std**2
        general = self.n_rounds * (self.lipschitz**2 + 2.0 * self.lipschitz * math.sqrt(variance))
        if math.isinf(self.smoothness):
            return math.sqrt(general) / self.aim
        curved = (2.0 * self.n_rounds * variance * self.smoothness / self.aim**2) ** (1.0 / 3.0)
        return max(curved, self.smoothness / LONGEST_STEP)

    def bounds(self, noise_stds: FloatArray, n_rounds: FloatArray) -> FloatArray:
        """Return the weights' part of planning bounds, each where so many rounds are played."""
        # groups of one size have one bound
        distinct, which = np.unique(noise_stds, return_inverse=True)
        step = (1.0 / np.array([self.strength(float(std)) for std in distinct]))[which]
        moved = step * noise_stds * math.sqrt(self.averaged_variance)
        noise = self.lipschitz * moved
        plain = 0.5 * step * self.lipschitz**2
        if not math.isinf(self.smoothness):
            noise, plain = np.minimum(noise, 0.5 * self.smoothness * moved**2), 0.0 * plain
        return np.asarray(self.aim**2 / (2.0 * step * n_rounds) + noise + plain)


@dataclass(frozen=True)
class OCOSchedule:
    """Everything that a game needs besides the records and the noise."""

    # whether a round takes records of every group, or of one group drawn from the group weights
    play: Literal["weighted", "sampled"]
    n_rounds: int  # at most
    noise: str  # name of the prefix-sum mechanism
    gradient_multiplier: float  # noise per unit of sensitivity on the sums
    feedback_multiplier: float  # the same on the losses; 0 where none are released
    gradient_diameter: float  # Γ, by which a record moves its own gradient at most, and rounding
    ceiling: float  # a record's loss counts for at most this in the feedback,
    # and what exceeds this: the infimum, or where groups are hidden the middle of the range
    center: float
    # by how much one record moves the sums of losses that the group player is told: ceiling minus
    # infimum, and rounding
    feedback_range: float
    prior: tuple[float, ...]  # first group weights
    # records of each group that the weights player reads in a round, on average; the gradients of
    # a round are summed and divided by it
    weight_rates: tuple[float, ...]
    feedback_rates: tuple[float, ...]  # the same for the group player
    group_rate: float  # step size η of the group player
    # U of a sampled game, whose group player is told U minus the noisy loss, clipped to [0, 2U]
    feedback_bound: float
    noise_correction: tuple[float, ...]  # of a weighted game: log E exp(η N) of each loss's noise N
    strength_rule: StrengthRule
    averaging: float  # round t counts in the averages in proportion to t to this power
    worst_std: float  # deviation of the noisiest sum, per unit of noise and sensitivity
    remark: str = ""
    # where groups are hidden, the places of a round, each of which both players read
    places: float | None = None

    __repr__ = short_repr

    def __str__(self) -> str:
        """Return a few lines for people."""
        one_group = len(self.prior) == 1
        weighted = self.play == "weighted"
        own = sum(self.weight_rates) if weighted else self.weight_rates[0]
        other = sum(self.feedback_rates) if weighted else self.feedback_rates[0]
        whose = "all groups" if weighted else "one group, drawn from the group weights"
        read = f"{own:,.4g} fresh records for the weights"
        if self.places is not None:
            read = f"{self.places:,.4g} fresh records, whatever groups they are in"
        elif not one_group:
            read += f" and {other:,.4g} for the group weights, of {whose}"
        lines = [f"up to {self.n_rounds:,} rounds, each of {read}"]
        lines.append(
            f"{self.noise} noise on gradient sums, at most {self.worst_std:.3g} times that of one "
            f"release; round t counts by t^{self.averaging:g} in the averages"
        )
        if not one_group:
            lines.append(
                f"group weights start at {shown(self.prior)}, rate {self.group_rate:.3g}, "
                f"losses counted up to {self.ceiling:.3g}"
            )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)


# Shares of the records that the weights player may get, and the numbers of rounds that are tried.
WEIGHT_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
FEWEST_ROUNDS = 8
# A game of so many groups, the smallest of which has records for so many rounds, draws them
# (benchmarks/oco.py groups).
SAMPLED_GROUPS, ROUNDS_OF_A_GROUP = 8, 2.0


@dataclass(frozen=True)
class Design:
    """One way to deal the records to rounds and players."""

    play: Literal["weighted", "sampled"]  # a round takes records of every group, or of a drawn one
    n_rounds: int
    # records of each group, or of all places, that the weights player reads in a round
    weight_rates: FloatArray
    feedback_rates: FloatArray  # the same for the group player; both on average
    weight_share: float  # of the records, or where places are for both players, of the μ²


def rates_of_groups(problem: Problem, rates: FloatArray) -> FloatArray:
    """Return records of each group in a round; of places as many as its size says."""
    if problem.hidden is None:
        return rates
    return rates[0] * np.asarray(problem.group_sizes, dtype=float) / problem.n_records


def designs(problem: Problem, parameters: OCOParameters) -> Iterator[Design]:
    """Yield the designs that the parameters leave open, at least one."""
    several, hidden = problem.n_groups > 1, problem.hidden is not None
    sizes = np.asarray(problem.queue_sizes, dtype=float)
    p = len(sizes)
    if several and not hidden and sizes.min() < 2:
        raise InputError(
            "OCO needs at least 2 records of every group, one for each player, got a group of 1: "
            "merge it or leave it out."
        )
    unbounded = bool(np.isinf(sizes).any())
    refuse_no_end(parameters, sizes.max())
    n_records = float(sizes.sum())
    batch = parameters.batch_size
    if batch is None and unbounded:
        batch = 1
    play = parameters.play or _best_play(parameters, problem)
    shares: tuple[float, ...] = WEIGHT_SHARES if several else (1.0,)
    if parameters.weight_share is not None and several:
        shares = (parameters.weight_share,)
    for kept in shares:
        # records of a round: those for the weights, and those for the groups with them
        size = batch
        if size is not None and several and not hidden:
            size += _feedback_size(size, kept)
        least = 2 if size is None and play == "sampled" else size or 1
        for n_rounds in numbers_of_rounds(
            parameters, n_records / least, fewest=FEWEST_ROUNDS, is_dealt=size is not None
        ):
            if play == "weighted":
                total = n_records / n_rounds if size is None else float(size)
                total = min(total, n_records / n_rounds)
                parts = np.full(p, 1.0 / p) if unbounded else sizes / n_records
                rates = total * parts
                feedback = np.zeros(p)
                if hidden:
                    yield Design("weighted", n_rounds, rates, rates, kept)
                    continue
                if several:
                    of_all = np.minimum(n_rounds * rates, sizes)
                    _refuse_too_few(of_all.min(), batch, n_rounds)
                    # both players of a small group get a record
                    weights = np.clip(np.round(kept * of_all), 1.0, of_all - 1.0)
                    if unbounded:
                        weights = kept * of_all
                    feedback = (of_all - weights) / n_rounds
                yield Design("weighted", n_rounds, rates - feedback, feedback, kept)
            else:
                own = batch if batch is not None else max(1, int(kept * n_records / n_rounds))
                other = _feedback_size(own, kept) if several else 0
                rates, feedback = np.full(p, float(own)), np.full(p, float(other))
                yield Design("sampled", n_rounds, rates, feedback, kept)


def _best_play(parameters: OCOParameters, problem: Problem) -> Literal["weighted", "sampled"]:
    """Return how groups are played where nobody says: drawn where they are many, and lasting."""
    sizes = problem.queue_sizes
    batch, n_rounds = parameters.batch_size, parameters.n_rounds or parameters.max_rounds
    if batch is None and not math.isinf(sum(sizes)):
        drawn = sum(sizes) / n_rounds
    else:
        drawn = 2.0 * (batch or 1)
    is_lasting = min(sizes) >= ROUNDS_OF_A_GROUP * drawn and problem.fresh_calls <= 1
    return "sampled" if len(sizes) >= SAMPLED_GROUPS and is_lasting else "weighted"


def _refuse_too_few(expected: float, batch_size: int | None, n_rounds: int) -> None:
    """Refuse batches in which a player would get fewer than no records of a small group."""
    if expected < 2.0 * (1.0 - 1e-9):
        raise InputError(
            f"batch_size of OCO must let every group have 2 records in all rounds, one for each "
            f"player, got {batch_size!r}, which in {n_rounds:,} round(s) leaves a group "
            f"{expected:.2g}: take larger batches, more rounds, or merge the group."
        )


def _feedback_size(batch_size: int, share: float) -> int:
    return max(1, round(batch_size * (1.0 - share) / share))


_UNIT = 2.0**-53
# A weighted round has at most so many records of a group more than its rate: each role's are a
# share of whole records, dealt evenly in whole numbers.
_MORE_THAN_THE_RATE = 4


@dataclass(frozen=True)
class RoundSensitivity:
    """Sensitivities of a round: docs/theory/oco.md, section 5."""

    # by how much a record moves the sum of gradients of a round and, by rounding, all later rows of
    # the prefix sums, over the largest factor of a record
    gradient_diameter: float
    feedback_range: float  # by how much a record moves the sum of losses of its group in a round

    @classmethod
    def of(
        cls,
        problem: Problem,
        mechanism: PrefixSums,
        ceiling: float,
        design: Design,
    ) -> Self:
        """Return the numbers of a design from public facts alone."""
        weight_rates, feedback_rates = design.weight_rates, design.feedback_rates
        constants, n_groups = problem.constants, problem.n_groups
        of_gradient, of_loss = record_errors(problem, min(ceiling, constants.supremum))
        gradient = problem.lipschitz + of_gradient
        loss_range = constants.range_up_to(ceiling) + 2.0 * of_loss
        if design.play == "weighted":
            n_weight = float((np.ceil(weight_rates) + _MORE_THAN_THE_RATE).sum())
            n_feedback = float(np.ceil(feedback_rates).max()) + _MORE_THAN_THE_RATE
        else:
            n_weight, n_feedback = float(weight_rates.max()), float(feedback_rates.max())
        # of the sums of both neighbours, and of the rows that these sums are in
        error = rounding_of_sum(n_weight, n_groups)
        of_sum = 2.0 * error + mechanism.rounding * (1.0 + error)
        diameter = problem.pair_diameter + 2.0 * of_gradient + of_sum * n_weight * gradient
        error = rounding_of_sum(n_feedback, n_groups)
        of_losses = 2.0 * error
        if problem.hidden is not None:  # whose sums of losses are in rows as well
            of_losses += mechanism.rounding * (1.0 + error)
        feedback = loss_range + of_losses * n_feedback * loss_range
        return cls(diameter * (1.0 + 16.0 * _UNIT), feedback * (1.0 + 16.0 * _UNIT))


# A round has at most so many records of a group more than its rate: whole numbers, dealt evenly.
_MORE_THAN_THE_BATCH_RATE = 2


def round_weight(step: int, power: float) -> float:
    """Return β_t = t^k, and 0 for t = 0 whatever k is: 0^0 would be 1."""
    return float(step) ** power if step else 0.0


@dataclass(frozen=True)
class DifferenceSensitivity:
    """Sensitivities of all rounds: docs/theory/online-to-batch.md, section 2."""

    gradient_diameter: float  # diameter Γ of the gradients that a record can have at one point
    smoothness: float  # smoothness H of a record's loss in the weights
    rounding: float  # what rounding adds for each unit of β_t + β_{t-1}
    stretch: float  # factor, a touch above 1, for the rounding of the rows of the prefix sums

    @classmethod
    def of(cls, problem: Problem, mechanism: PrefixSums, rates: FloatArray) -> Self:
        """Return the numbers of a plan from public facts alone."""
        of_gradient, _ = record_errors(problem, problem.constants.supremum)
        gradient, diameter = problem.lipschitz + of_gradient, problem.pair_diameter
        n_read = float((np.ceil(rates) + _MORE_THAN_THE_BATCH_RATE).sum())
        error = rounding_of_sum(n_read, problem.n_groups)
        # a difference is at most as many times longer than its sensitivity as there are records,
        # and as gradients are longer than their diameter
        longest = n_read * max(1.0, gradient / diameter) * (1.0 + error)
        # of the norm of a step, of the products here
        of_norm = 2.0 * (problem.n_weights + 64.0) * _UNIT
        return cls(
            gradient_diameter=diameter,
            smoothness=problem.smoothness,
            rounding=2.0 * of_gradient + 2.0 * error * n_read * gradient,
            stretch=(1.0 + mechanism.rounding * longest) * (1.0 + of_norm),
        )

    def of_round(self, weight: float, before: float, moved: float) -> float:
        """Return Δ_t for a record that counts once, of β_t, β_{t-1} and ‖x_t - x_{t-1}‖."""
        return float(self.of_rounds(np.array(weight), np.array(before), np.array(moved)))

    def of_rounds(self, weights: FloatArray, before: FloatArray, moved: FloatArray) -> FloatArray:
        """Return the same for many rounds."""
        diameter = self.gradient_diameter
        changed = np.minimum(self.smoothness * moved, 2.0 * diameter)
        exact = np.abs(weights - before) * diameter + before * changed
        return np.asarray(self.stretch * (exact + (weights + before) * self.rounding))


def round_weights(n_rounds: int, power: float) -> FloatArray:
    """Return β_1, …, β_n."""
    return np.asarray(np.arange(1.0, n_rounds + 1.0) ** power)


@dataclass(frozen=True)
class Regulariser:
    """What a parameter-free learner's losses have on top: ξ_t‖w - w_1‖ + ν_t‖w - w_1‖²."""

    lipschitz: float  # L
    smoothness: float  # H
    batch_size: float  # b

    def of_round(self, step: int, power: float, noise_norm: float) -> tuple[float, float]:
        """Return ξ_t and ν_t."""
        sampled = float(step) ** (power - 0.5) / math.sqrt(self.batch_size)
        return self.lipschitz * sampled + noise_norm, self.smoothness * sampled

    def of_rounds(
        self, n_rounds: int, power: float, noise_norms: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ξ_1, … and ν_1, …."""
        sampled = round_weights(n_rounds, power - 0.5) / math.sqrt(self.batch_size)
        return self.lipschitz * sampled + noise_norms, self.smoothness * sampled


@dataclass(frozen=True)
class OnlineToBatchSchedule:
    """Everything that a game needs besides the records and the noise."""

    n_rounds: int  # rounds that read records; one more set of weights follows from the last
    power: float  # k: round t counts in the averages by t^k
    noise: str  # name of the prefix-sum mechanism
    multiplier: float  # noise per unit of sensitivity on the sums
    sensitivity: DifferenceSensitivity
    mixture: tuple[float, ...]  # weights of the groups in the risk that is minimised
    # records of each group in a round, on average; sums are divided by it
    rates: tuple[float, ...]
    strength: float  # of the learner
    convexity: float  # μ_c: the risk has μ_c/2 ‖w - w_1‖² on top
    regulariser: Regulariser | None  # of a parameter-free learner
    # of what a paper plan states for L + H‖w_i - x_{i-1}‖, so that the noise is the paper's; 0 for
    # the proved sensitivity
    papers_factor: float
    lipschitz: float  # L of the loss in the weights
    worst_std: float  # deviation of the noisiest sum, per unit of noise and sensitivity
    remark: str = ""
    places: float | None = None  # where groups are hidden, the places of a round

    __repr__ = short_repr

    @property
    def queue_rates(self) -> FloatArray:
        """Records of a round, on average: of each group, or of all places."""
        return np.asarray(self.rates if self.places is None else [self.places])

    def papers_sensitivity(self, step: int, farthest: Any) -> Any:
        """Return the sensitivity with which the multiplier is the paper's noise, for a distance."""
        reach = self.lipschitz + self.sensitivity.smoothness * farthest
        return self.papers_factor * reach * float(step) ** (self.power - 1.0)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"{self.n_rounds:,} rounds, each of {sum(self.queue_rates):,.4g} fresh records, read "
            f"once; round t counts by t^{self.power:g} in the output",
            f"{self.noise} noise on sums of gradient differences, at most {self.worst_std:.3g} "
            f"times that of one release; a record moves a difference by what its gradient can "
            f"change, not by its gradient",
        ]
        if len(self.mixture) > 1:
            lines.append(
                f"minimises the risk of the fixed mixture {shown(self.mixture)}, not that of the "
                f"worst group: the bound is for groups with the same best weights"
            )
        if self.convexity:
            lines.append(
                f"the risk has {self.convexity:.3g}/2 times the squared distance from the start "
                f"on top"
            )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)
