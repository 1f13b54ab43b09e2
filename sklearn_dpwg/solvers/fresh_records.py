"""Common parts of `OCO` and `OnlineToBatch`: rounds of fresh records, noise on prefix sums.

Each record is read once, in a round that depends on group sizes and its position alone. An online
learner gets the noisy sums of the rounds' vectors.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, accepted_by, key_of, one_of, positive, whole
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, Release
from sklearn_dpwg.privacy.prefix_sums import (
    PREFIX_SUMS,
    PrefixSums,
    PrefixSumStream,
    make_prefix_sums,
)
from sklearn_dpwg.solvers import steps
from sklearn_dpwg.solvers.learners import Learner, make_learner
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import FreshSolver, Game, Solution

# Candidate numbers of rounds between a number and twice the number.
ROUNDS_PER_DOUBLING = 4


@dataclass(eq=False, repr=False)
class StreamSolver(FreshSolver):
    """Base class with the parameters of both solvers; their docstrings describe them."""

    learner: str | Learner = "ftrl"
    _: KW_ONLY
    noise: str | None = None
    n_rounds: int | None = None
    batch_size: int | None = None
    schedule: Literal["planned", "paper"] = "planned"
    initial_distance: float = 0.4
    max_rounds: int = 256
    horizon: int = 10

    knows_hidden_groups: ClassVar[bool] = True

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if math.isinf(problem.n_records) and self.n_rounds is None:
            raise InputError(
                f"n_rounds of {type(self).__name__} must be set where a group has no end (a size "
                f"of infinity), got None."
            )
        schedule, releases, bounds = self._plan_parts(problem, budget)
        n_rounds, early_stop = schedule.n_rounds, schedule.stops_early
        n_drawn = round(min(n_rounds * schedule.records_per_round, problem.n_records))
        facts = {"n_steps": n_rounds, "early_stop": early_stop, "n_drawn": n_drawn}
        return Plan(self.name, problem, budget, tuple(releases), schedule, bounds, **facts)

    @abstractmethod
    def _plan_parts(self, problem: Problem, budget: Budget) -> PlanParts:
        """Return the schedule, releases and bounds: the paper's, or those of the least bound."""

    @property
    def mechanism(self) -> str:
        """Name of the prefix-sum mechanism; the papers' is the tree."""
        return self.noise or ("tree" if self.schedule == "paper" else "toeplitz")


# Allowed values of each parameter.
RULES: dict[str, Any] = {
    "n_rounds": whole(or_none=True),
    "batch_size": whole(or_none=True),
    "horizon": whole(),
    "max_rounds": whole(),
    "initial_distance": positive(),
    "schedule": one_of("planned", "paper"),
    "noise": key_of(PREFIX_SUMS, or_none=True),
    "learner": accepted_by(make_learner),
}
# Text for both docstrings, which `documented` inserts.
SHARED_PARAMETERS = {
    "noise, n_rounds, batch_size": """\
    noise : {"toeplitz", "tree", "independent"}, optional
        Mechanism of the prefix sums. Planned: Toeplitz, with the least noise, which stores a vector
        of weights per round; the tree stores one per doubling of rounds, and is the paper's.
    n_rounds : int, optional
        Largest number of rounds that read records.
    batch_size : int, optional
        Records per round that weights learn from, of all groups together unless a round reads one
        group. Planned: 1 where groups are infinite.
""",
    "initial_distance, max_rounds, horizon": """\
    initial_distance : float, default=0.4
        Distance from the first weights (0 or a start) to the solution that the learner's strength
        is planned for, as a fraction of the radius, of 20 at most.
    max_rounds : int, default=256
        Largest number of rounds that a plan may choose by itself.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first.
""",
}


def prefix_sums(solver: StreamSolver, problem: Problem, n_rounds: int) -> PrefixSums:
    """Return the mechanism for noisy sums of gradients over this number of rounds."""
    return make_prefix_sums(solver.mechanism, n_steps=n_rounds, n_dimensions=problem.n_weights)


def numbers_of_rounds(solver: StreamSolver, most: float, *, fewest: int) -> list[int]:
    """Return the candidate numbers of rounds up to `most`; one, if rounds or batches are set.

    Candidates are multiples of the horizon, so that all ``partial_fit`` calls play equally many.
    """
    if solver.n_rounds is not None or solver.batch_size is not None:
        return [max(1, int(min(solver.n_rounds or most, most)))]
    most = max(1, int(min(most, solver.max_rounds)))
    fewest = min(fewest, most)
    n_candidates = 1 + math.ceil(ROUNDS_PER_DOUBLING * math.log2(most / fewest))
    rounds_per_call = np.geomspace(fewest, most, n_candidates) / solver.horizon
    return sorted({min(most, math.ceil(n) * solver.horizon) for n in rounds_per_call})


@dataclass(frozen=True, kw_only=True)
class StreamSchedule:
    """Public numbers that the rounds of both solvers need besides the records and the noise."""

    problem: Problem = field(repr=False)
    n_rounds: int  # largest number of rounds that read records
    noise: str  # name of the prefix-sum mechanism
    worst_std: float  # deviation of the noisiest sum, per unit of noise multiplier and sensitivity
    # mean number of records per round: of each group, or of all where groups are hidden
    rates: tuple[float, ...]
    stops_early: bool = False  # whether play may end before all records are used
    remark: str = ""

    __repr__ = short_repr

    @property
    def records_per_round(self) -> float:
        """Mean number of records per round; of one group where play may stop early."""
        return float(self.rates[0] if self.stops_early else sum(self.rates))

    def __str__(self) -> str:
        text = (
            f"up to {self.n_rounds:,} rounds of {self.records_per_round:,.4g} fresh records, "
            f"{self.noise} noise on sums\n{self.remark}"
        )
        return text.strip()


# A schedule, its releases, and for each group the excess bound if it is the worst-off one.
PlanParts = tuple[Any, Sequence[Release], FloatArray]


def rates_of_groups(problem: Problem, rates: FloatArray) -> tuple[float, ...]:
    """Return each group's mean records per round; hidden groups share all in proportion to size."""
    if problem.hidden is not None:
        rates = rates[0] * np.asarray(problem.group_sizes, dtype=float) / problem.n_records
    return tuple(rates.tolist())


# Sensitivities of a round's sums, rounding included: docs/theory/oco.md, section 5, and
# docs/theory/online-to-batch.md, section 2. Rounds read whole numbers of records, shared evenly.


def round_sensitivity(
    problem: Problem, mechanism: PrefixSums, loss_clip: float, play: str, rates: FloatArray
) -> tuple[float, float]:
    """Return by how much a record moves a round's sum of gradients, and its group's sum of losses.

    The first is per unit of the record's largest factor, and covers rounding in all later rows of
    the prefix sums. ``rates`` are records per round, a row for each player: weights, groups.
    """
    constants = problem.constants
    gradient_error, loss_error = steps.record_errors(problem, min(loss_clip, constants.supremum))
    gradient_norm = problem.lipschitz + gradient_error
    loss_range = constants.range_up_to(loss_clip) + 2.0 * loss_error
    n_weight, n_feedback = map(float, rates.max(axis=1))
    if play == "weighted":
        # at most 4 records of a group more than its rate, as each role has a fraction of them
        n_weight = float((np.ceil(rates[0]) + 4).sum())
        n_feedback = math.ceil(n_feedback) + 4
    sum_errors = [steps.rounding_of_sum(n, problem.n_groups) for n in (n_weight, n_feedback)]
    # errors of the sums of both neighbours, and of the prefix-sum rows with these sums
    gradients_error, losses_error = (2.0 * e + mechanism.rounding * (1.0 + e) for e in sum_errors)
    if problem.hidden is None:  # sums of losses have independent noise, not prefix sums
        losses_error = 2.0 * sum_errors[1]
    diameter = problem.pair_diameter + 2.0 * gradient_error
    diameter += gradients_error * n_weight * gradient_norm
    feedback = loss_range + losses_error * n_feedback * loss_range
    return diameter * (1.0 + 2.0**-49), feedback * (1.0 + 2.0**-49)


def difference_rounding(
    problem: Problem, mechanism: PrefixSums, rates: FloatArray
) -> tuple[float, float]:
    """Return two numbers that cover rounding in the sensitivity of a difference of gradients.

    The first is added per unit of β_t + β_{t-1}; the second is a factor for the rounding of the
    prefix-sum rows.
    """
    gradient_error, _ = steps.record_errors(problem, problem.constants.supremum)
    gradient_norm = problem.lipschitz + gradient_error
    # at most 2 records of a group more than its rate
    n_read = float((np.ceil(rates) + 2).sum())
    sum_error = steps.rounding_of_sum(n_read, problem.n_groups)
    # bound on a difference's norm over its sensitivity, which is that of one record
    norm_ratio = n_read * max(1.0, gradient_norm / problem.pair_diameter) * (1.0 + sum_error)
    # of the norm of a step, and of the products here
    norm_error = (problem.n_weights + 64.0) * 2.0**-52
    added = 2.0 * gradient_error + 2.0 * sum_error * n_read * gradient_norm
    return added, (1.0 + mechanism.rounding * norm_ratio) * (1.0 + norm_error)


def sums_by_group(values: FloatArray, codes: NDArray[np.intp], n_groups: int) -> FloatArray:
    """Return the sum of the values in each group, added in blocks for the bounds on rounding."""
    total = np.zeros(n_groups)
    for start in range(0, len(values), steps.BLOCK_ROWS):
        block = slice(start, start + steps.BLOCK_ROWS)
        total += np.bincount(codes[block], values[block], n_groups)
    return total


class StreamGame(Game):
    """Plays rounds as long as all groups have records for one; groups run out together."""

    _schedule: StreamSchedule
    _n_played = 0

    def __init__(self, plan: Plan, noise: NoiseSource, start: Solution | None) -> None:
        self._problem, self._schedule, self._noise = plan.problem, plan.schedule, noise
        self._initial_weights = np.zeros(plan.problem.n_weights)
        self._prior = np.asarray(plan.schedule.problem.prior)
        if start is not None:
            self._initial_weights = project_to_ball(start.weights, plan.problem.radius)
            if start.group_weights is not None:  # public or released, like the weights
                self._prior = start.group_weights / start.group_weights.sum()
        self._sums = self._noisy_sums(plan.releases[0], plan.problem.n_weights)

    def _noisy_sums(self, release: Release, n_dimensions: int) -> PrefixSumStream:
        """Return the noisy sums of one vector per round, before the first vector."""
        facts = {"n_steps": self._schedule.n_rounds, "n_dimensions": n_dimensions}
        mechanism = make_prefix_sums(self._schedule.noise, **facts)
        return PrefixSumStream(mechanism, self._noise, release)

    @property
    def is_over(self) -> bool:
        return self._n_played == self._schedule.n_rounds

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        before = self._n_played
        for sizes in self._rounds(available):
            self._n_played += 1
            self._play_round(oracle, sizes)
        return self._n_played - before

    def _rounds(self, available: Sequence[float]) -> Iterable[Any]:
        """Return the records that `_play_round` reads, for each round that they suffice for."""
        rates, n_left = self._schedule.rates, self._schedule.n_rounds - self._n_played
        # a relative 1e-9 ignores the rounding of rates
        n_covered = np.floor((np.asarray(available) / rates) * (1 + 1e-9)).min()
        n_rounds = max(0, int(min(n_left, n_covered)))
        n_needed = [math.ceil(n_rounds * rate * (1 - 1e-9)) for rate in rates]
        n_used = [min(*pair) for pair in zip(available, n_needed, strict=True)]
        return self._shares(n_used, n_rounds)

    def _shares(self, n_used: Sequence[float], n_rounds: int) -> Iterable[Any]:
        """Return for each round its number of records of each group, or of all, shared evenly."""
        ends = [np.arange(n_rounds + 1) * int(n) // max(1, n_rounds) for n in n_used]
        return np.diff(np.array(ends), axis=1).T.tolist()

    @abstractmethod
    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        """Play a round on fresh records, given the round's entry of `_rounds`."""
