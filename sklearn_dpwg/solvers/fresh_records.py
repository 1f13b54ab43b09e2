"""Rounds of fresh records, with noise on prefix sums: what the solvers of a stream share.

`OCO` and `OnlineToBatch` read each record once, in the round that counts and an order of positions
decide. An online learner hears the noisy sums of what the rounds add up to.
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

# Numbers of rounds that plans try.
ROUNDS_PER_DOUBLING = 4


@dataclass(eq=False, repr=False)
class StreamSolver(FreshSolver):
    """Parameters of both solvers, which document them; ``None`` means planned."""

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
        schedule, releases, bounds = self._scheduled(problem, budget)
        n_steps, early_stop = schedule.n_rounds, schedule.stops_early
        n_drawn = round(min(n_steps * schedule.of_round, problem.n_records))
        planned = self.name, problem, budget, tuple(releases), schedule, bounds
        return Plan(*planned, n_steps, early_stop, n_drawn)

    @abstractmethod
    def _scheduled(self, problem: Problem, budget: Budget) -> Planned:
        """Return the schedule of least bound, or the paper's."""

    @property
    def mechanism(self) -> str:
        """Name of the prefix-sum mechanism; the papers' is the tree."""
        return self.noise or ("tree" if self.schedule == "paper" else "toeplitz")


# What each parameter may be.
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
# What both documentations say of them, for `documented`.
SHARED_PARAMETERS = {
    "noise, n_rounds, batch_size": """\
    noise : {"toeplitz", "tree", "independent"}, optional
        Mechanism of the prefix sums. Toeplitz, the planned one, has the least noise and remembers a
        number a weight and round, the trees a number a weight and doubling. The paper's is the
        tree.
    n_rounds : int, optional
        Most rounds that read records.
    batch_size : int, optional
        Records of a round that weights learn from, of all groups together unless one is drawn.
        Where groups have no end, 1.
""",
    "initial_distance, max_rounds, horizon": """\
    initial_distance : float, default=0.4
        Distance from the first weights, 0 or a start, that the learner's strength is planned for,
        as a fraction of the radius, of 20 at most.
    max_rounds : int, default=256
        Largest number of rounds that a plan may choose by itself.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first.
""",
}


# Rounds, and what they read.


def prefix_sums(solver: StreamSolver, problem: Problem, n_rounds: int) -> PrefixSums:
    """Return the mechanism for the gradients of so many rounds."""
    return make_prefix_sums(solver.mechanism, n_steps=n_rounds, n_dimensions=problem.n_weights)


def numbers_of_rounds(solver: StreamSolver, most: float, *, fewest: int) -> list[int]:
    """Return numbers of rounds to try, at most so many; batches of a size fix theirs.

    Those of a plan for many calls divide among them.
    """
    if solver.n_rounds is not None or solver.batch_size is not None:
        return [max(1, int(min(solver.n_rounds or most, most)))]
    most = max(1, int(min(most, solver.max_rounds)))
    fewest = min(fewest, most)
    n_tried = 1 + math.ceil(ROUNDS_PER_DOUBLING * math.log2(most / fewest))
    tried = np.geomspace(fewest, most, n_tried) / solver.horizon
    return sorted({min(most, math.ceil(number) * solver.horizon) for number in tried})


@dataclass(frozen=True, kw_only=True)
class StreamSchedule:
    """What the rounds of both solvers need besides the records and the noise."""

    problem: Problem = field(repr=False)
    n_rounds: int  # at most so many read records
    noise: str  # name of the prefix-sum mechanism
    worst_std: float  # deviation of the noisiest sum, per unit of noise and sensitivity
    rates: tuple[float, ...]  # records of a round, on average: of each group, or of all places
    stops_early: bool = False  # whether play may end before all records are used
    remark: str = ""

    __repr__ = short_repr

    @property
    def of_round(self) -> float:
        """Records of a round; where play may stop early a round reads one group."""
        return float(self.rates[0] if self.stops_early else sum(self.rates))

    def __str__(self) -> str:
        text = (
            f"up to {self.n_rounds:,} rounds of {self.of_round:,.4g} fresh records, {self.noise} "
            f"noise on sums\n{self.remark}"
        )
        return text.strip()


# A schedule, its releases, and the bounds on the excess risk if a group is the worst-off one.
Planned = tuple[Any, Sequence[Release], FloatArray]


def rates_of_groups(problem: Problem, rates: FloatArray) -> tuple[float, ...]:
    """Return records of each group in a round; of places as many as its size says."""
    if problem.hidden is not None:
        rates = rates[0] * np.asarray(problem.group_sizes, dtype=float) / problem.n_records
    return tuple(rates.tolist())


# How far a record and rounding move what a round adds: docs/theory/oco.md, section 5, and
# docs/theory/online-to-batch.md, section 2. A round reads whole numbers of records, dealt evenly.


def round_sensitivity(
    problem: Problem, mechanism: PrefixSums, loss_clip: float, play: str, rates: FloatArray
) -> tuple[float, float]:
    """Return by how much a record moves the sum of gradients of a round, and that of losses.

    The first counts what rounding moves in all later rows of the prefix sums, and is over the
    largest factor of a record; the second is of its group.
    """
    constants = problem.constants
    of_gradient, of_loss = steps.record_errors(problem, min(loss_clip, constants.supremum))
    gradient = problem.lipschitz + of_gradient
    loss_range = constants.range_up_to(loss_clip) + 2.0 * of_loss
    n_weight, n_feedback = map(float, rates.max(axis=1))
    if play == "weighted":
        # at most 4 records of a group more than its rate, as each role has a fraction of them
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


def difference_rounding(
    problem: Problem, mechanism: PrefixSums, rates: FloatArray
) -> tuple[float, float]:
    """Return what rounding adds to a difference of gradients for a unit of weight, and its factor.

    The factor is for the rows of the prefix sums that a difference is in.
    """
    of_gradient, _ = steps.record_errors(problem, problem.constants.supremum)
    gradient = problem.lipschitz + of_gradient
    # at most 2 records of a group more than its rate
    n_read = float((np.ceil(rates) + 2).sum())
    error = steps.rounding_of_sum(n_read, problem.n_groups)
    # a difference is at most as many times longer than its sensitivity as there are records, and as
    # gradients are longer than their diameter
    longest = n_read * max(1.0, gradient / problem.pair_diameter) * (1.0 + error)
    # of the norm of a step, of the products here
    of_norm = (problem.n_weights + 64.0) * 2.0**-52
    rounding = 2.0 * of_gradient + 2.0 * error * n_read * gradient
    return rounding, (1.0 + mechanism.rounding * longest) * (1.0 + of_norm)


def sums_by_group(values: FloatArray, codes: NDArray[np.intp], n_groups: int) -> FloatArray:
    """Return the sum of the values in each group; block by block, as `gradient_sum`."""
    total = np.zeros(n_groups)
    for start in range(0, len(values), steps.BLOCK_ROWS):
        block = slice(start, start + steps.BLOCK_ROWS)
        total += np.bincount(codes[block], values[block], n_groups)
    return total


class StreamGame(Game):
    """Rounds that are played while every group has records for one: all are used up together."""

    _schedule: StreamSchedule
    _n_played = 0

    def __init__(self, plan: Plan, noise: NoiseSource, start: Solution | None) -> None:
        self._problem, self._schedule, self._noise = plan.problem, plan.schedule, noise
        self._first = np.zeros(plan.problem.n_weights)
        self._prior = np.asarray(plan.schedule.problem.prior)
        if start is not None:
            self._first = project_to_ball(start.weights, plan.problem.radius)
            if start.group_weights is not None:  # public or released, like the weights
                self._prior = start.group_weights / start.group_weights.sum()
        self._sums = self._noisy_sums(plan.releases[0], plan.problem.n_weights)

    def _noisy_sums(self, release: Release, n_dimensions: int) -> PrefixSumStream:
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
        """Return what `_play_round` reads in each round that there are records for."""
        rates, left = self._schedule.rates, self._schedule.n_rounds - self._n_played
        enough = np.floor((np.asarray(available) / rates) * (1 + 1e-9)).min()
        n_rounds = max(0, int(min(left, enough)))
        of_all = [math.ceil(n_rounds * rate * (1 - 1e-9)) for rate in rates]
        return self._dealt([min(*pair) for pair in zip(available, of_all, strict=True)], n_rounds)

    def _dealt(self, used: Sequence[float], n_rounds: int) -> Iterable[Any]:
        """Return how many records of each group, or of all, each round gets, evenly."""
        steps = np.arange(n_rounds + 1)
        ends = [steps * int(n) // max(1, n_rounds) for n in used]
        return np.diff(np.array(ends), axis=1).T.tolist()

    @abstractmethod
    def _play_round(self, oracle: SampleOracle, sizes: Any) -> None:
        """Play a round on so many fresh records."""
