"""Releases of the online solver: every line that hands records to noise, and what a plan pays.

Each record plays one role, fixed by its position in its batch: `gradient_sum` of `batch_sums` reads
the first ones, `clipped_losses` those behind them, and nothing else reads what is private. Where
groups are hidden it plays both.
`NoisySums`, `release_mean_loss` and `release_losses` add the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.prefix_sums import PrefixSumStream, make_prefix_sums
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.steps import BLOCK_ROWS, batch_losses, gradient_sum, refuse_rounding
from sklearn_dpwg.solvers.stream.schedule import OCOSchedule, OnlineToBatchSchedule

SUMS = "gradient sums"
LOSSES = "group losses"


@dataclass(frozen=True)
class PlannedReleases:
    """Releases of both players, each for the whole budget, as they read disjoint records.

    Where groups are hidden both read all of them and divide the budget, as one Gaussian release.
    """

    gradient: Release
    feedback: Release | None

    @classmethod
    def within(
        cls, problem: Problem, budget: Budget, n_rounds: int, weight_share: float = 0.5
    ) -> PlannedReleases:
        """Return the releases whose noise just keeps the budget."""
        one_part = problem.n_groups == 1
        if problem.hidden is not None and not one_part:
            shares = {SUMS: weight_share, LOSSES: 1.0 - weight_share}
            wanted = [Release(name, "gaussian", each**-0.5, 1) for name, each in shares.items()]
            return cls(*calibrate(wanted, budget))
        sums = Release(SUMS, "gaussian", 1.0, 1, part=None if one_part else 0)
        (gradient,) = calibrate([sums], budget)
        if one_part:
            return cls(gradient, None)
        # rounds read disjoint batches: a record is in one of them and pays for one
        losses = Release(LOSSES, "laplace", 1.0, n_rounds, part=1, draws_per_record=1)
        return cls(gradient, calibrate([losses], budget)[0])

    @property
    def all(self) -> tuple[Release, ...]:
        """The releases of a plan."""
        return (self.gradient,) if self.feedback is None else (self.gradient, self.feedback)

    @property
    def feedback_multiplier(self) -> float:
        """Noise per unit of sensitivity on the losses, 0 where none are released."""
        return 0.0 if self.feedback is None else self.feedback.noise_multiplier


def clipped_losses(schedule: OCOSchedule, values: FloatArray, n_weight: int) -> FloatArray:
    """Return the losses, up to the ceiling, of the records behind those for the weights."""
    return np.asarray(np.minimum(values[n_weight:], schedule.ceiling))


class NoisySums:
    """Noisy sums of all vectors so far, which open with the first one."""

    def __init__(
        self, schedule: OCOSchedule | OnlineToBatchSchedule, noise: NoiseSource, release: Release
    ) -> None:
        self._schedule, self._noise, self._release = schedule, noise, release
        self._stream: PrefixSumStream | None = None
        self.noisy_sum: FloatArray | float = 0.0  # what was released last,
        self.unit_std = 0.0  # and its noise, per unit of the multiplier and of sensitivity

    def rise(self, vector: FloatArray, sensitivity: float) -> FloatArray:
        """Add a vector and return what the noisy sum rose by, which is as private as the sums."""
        before = self.noisy_sum
        return self.release(vector, sensitivity) - before

    def release(self, vector: FloatArray, sensitivity: float) -> FloatArray:
        """Add a vector, which a record moves by so much, and return the noisy sum."""
        if self._stream is None:
            facts = {"n_steps": self._schedule.n_rounds, "n_dimensions": len(vector)}
            mechanism = make_prefix_sums(self._schedule.noise, **facts)
            self._stds = mechanism.standard_deviations()
            self._stream = mechanism.open(self._noise, self._release, sensitivity=None)
        noisy_sum = self._stream.add(vector, sensitivity)
        self.noisy_sum, self.unit_std = noisy_sum, float(self._stds[self._stream.n_added - 1])
        return noisy_sum


def release_mean_loss(
    clipped: FloatArray, schedule: OCOSchedule, noise: NoiseSource, release: Release
) -> float:
    """Return the mean loss of a sampled round's batch, above the infimum, with noise."""
    size = int(schedule.feedback_rates[0])
    mean = float((clipped - schedule.center).sum()) / size
    return float(noise.laplace(mean, sensitivity=schedule.feedback_range / size, release=release))


def release_losses(
    sums: FloatArray,
    is_read: NDArray[np.bool_],
    schedule: OCOSchedule,
    noise: NoiseSource,
    release: Release,
) -> FloatArray:
    """Return a weighted round's sums of losses over their public rates, with noise.

    A group that the round reads no records of has a loss of 0 without noise.
    """
    rates = np.asarray(schedule.feedback_rates)
    units = np.where(is_read, schedule.feedback_range / rates, 0.0)
    return noise.laplace(sums / rates, sensitivity=units, release=release)


def sums_by_group(values: FloatArray, codes: NDArray[np.intp], n_groups: int) -> FloatArray:
    """Return the sum of the values in each group; block by block, as `gradient_sum`."""
    total = np.zeros(n_groups)
    for start in range(0, len(values), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        total += np.bincount(codes[block], values[block], n_groups)
    return total


def of_records(factors: FloatArray, slopes: FloatArray) -> FloatArray:
    """Return the slopes of records, each times a factor of its own."""
    return np.asarray((slopes.T * factors).T)


def oco_plan(
    problem: Problem,
    budget: Budget,
    releases: PlannedReleases,
    schedule: OCOSchedule,
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule; refused where rounding could show a record."""
    several, n_rounds = problem.n_groups > 1, schedule.n_rounds
    rates = np.add(schedule.weight_rates, schedule.feedback_rates)
    if schedule.places is not None:
        rates = np.array([schedule.places])
    weighted = schedule.play == "weighted"
    if several:
        refuse_rounding(
            float(rates.max()) * schedule.ceiling / schedule.feedback_range,
            f"a batch of {rates.max():,.3g} records",
            "take more rounds",
        )
    n_drawn = n_rounds * float(rates.sum() if weighted else rates[0])
    return Plan.of(
        "oco",
        problem,
        budget,
        releases=releases.all,
        schedule=schedule,
        bounds=bounds,
        n_steps=n_rounds,
        early_stop=not weighted,
        n_drawn=round(min(n_drawn, problem.n_records)),
    )


# Of online-to-batch: `difference_sum` alone reads records.
BATCH_SUMS = "sums of gradient differences"


def planned_release(budget: Budget) -> Release:
    """Return the release whose noise just keeps the budget: all sums are one, exactly."""
    (release,) = calibrate([Release(BATCH_SUMS, "gaussian", 1.0, 1)], budget)
    return release


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
    _, slopes = batch_losses(problem, rows, targets, point)
    slopes = weight * slopes
    weight_before, point_before = before
    if weight_before:
        _, old = batch_losses(problem, rows, targets, point_before)
        slopes = slopes - weight_before * old
    if factors is not None:
        slopes = of_records(factors, slopes)
    return gradient_sum(problem, rows, slopes, len(rows))


def batch_plan(
    problem: Problem,
    budget: Budget,
    release: Release,
    schedule: OnlineToBatchSchedule,
    bound: float,
) -> Plan:
    """Return the plan of a schedule whose bound is on the risk of the mixture."""
    n_rounds = schedule.n_rounds
    n_drawn = n_rounds * float(sum(schedule.queue_rates))
    return Plan.of(
        "online-to-batch",
        problem,
        budget,
        releases=(release,),
        schedule=schedule,
        bounds=bound / np.asarray(schedule.mixture),
        n_steps=n_rounds,
        n_drawn=round(min(n_drawn, problem.n_records)),
    )
