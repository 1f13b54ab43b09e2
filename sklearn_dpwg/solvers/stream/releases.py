"""Releases of the online solver: every line that hands records to noise, and what a plan pays.

Each record plays one role, fixed by its position in its batch: `gradient_sum` of `batch_sums` reads
the first ones, `clipped_losses` those behind them, and nothing else reads what is private.
`GradientSums`, `release_mean_loss` and `release_losses` add the noise.
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
from sklearn_dpwg.solvers.steps import batch_losses, gradient_sum, refuse_rounding
from sklearn_dpwg.solvers.stream.learners import WeightPlayer
from sklearn_dpwg.solvers.stream.schedule import OCOSchedule, OnlineToBatchSchedule

SUMS = "gradient sums"
LOSSES = "group losses"


@dataclass(frozen=True)
class PlannedReleases:
    """Releases of both players, each for the whole budget, as they read disjoint records."""

    gradient: Release
    feedback: Release | None

    @classmethod
    def within(cls, problem: Problem, budget: Budget, n_rounds: int) -> PlannedReleases:
        """Return the releases whose noise just keeps the budget."""
        one_part = problem.n_groups == 1
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


class GradientSums:
    """The weights player behind noisy sums of gradients, which open with the first gradient.

    Without a fixed sensitivity every gradient comes with its own.
    """

    def __init__(
        self,
        player: WeightPlayer,
        schedule: OCOSchedule,
        noise: NoiseSource,
        release: Release,
        *,
        sensitivity: float | None,
    ) -> None:
        self._player, self._schedule, self._noise = player, schedule, noise
        self._release, self._sensitivity = release, sensitivity
        self._stream: PrefixSumStream | None = None
        self._noisy_sum: FloatArray | float = 0.0

    def release(
        self,
        gradient: FloatArray,
        curvature: float = 0.0,
        center: FloatArray | None = None,
        *,
        sensitivity: float | None = None,
    ) -> None:
        """Hand the player the difference of noisy sums in place of a gradient.

        Everything that it sees is a function of the released sums, so its weights are as private.
        """
        if self._stream is None:
            mechanism = make_prefix_sums(
                self._schedule.noise,
                n_steps=self._schedule.n_rounds,
                n_dimensions=len(gradient),
            )
            self._stream = mechanism.open(self._noise, self._release, sensitivity=self._sensitivity)
        noisy_sum = self._stream.add(gradient, sensitivity)
        self._player.update(noisy_sum - self._noisy_sum, curvature, center)
        self._noisy_sum = noisy_sum


def release_mean_loss(
    clipped: FloatArray, schedule: OCOSchedule, noise: NoiseSource, release: Release
) -> float:
    """Return the mean loss of a sampled round's batch, above the infimum, with noise."""
    size = int(schedule.feedback_rates[0])
    mean = float((clipped - schedule.infimum).sum()) / size
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


# Releases of the online-to-batch solver: every line that hands records to noise, and its price.
#
# `difference_sum` is all that reads records, and `DifferenceSums.release` alone adds the noise.

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
) -> FloatArray:
    """Return the sum over a batch of β_t ∇ℓ(x_t) - β_{t-1} ∇ℓ(x_{t-1}), of the same records."""
    weight, point = here
    _, slopes = batch_losses(problem, rows, targets, point)
    slopes = weight * slopes
    weight_before, point_before = before
    if weight_before:
        _, old = batch_losses(problem, rows, targets, point_before)
        slopes = slopes - weight_before * old
    return gradient_sum(problem, rows, slopes, len(rows))


class DifferenceSums:
    """Noisy sums of all differences so far, which open with the first difference."""

    def __init__(
        self, schedule: OnlineToBatchSchedule, noise: NoiseSource, release: Release
    ) -> None:
        self._schedule, self._noise, self._release = schedule, noise, release
        self._stream: PrefixSumStream | None = None

    def release(self, difference: FloatArray, sensitivity: float) -> FloatArray:
        """Add a difference and return the noisy sum: the gradient of the risk so far, times β_t."""
        if self._stream is None:
            mechanism = make_prefix_sums(
                self._schedule.noise,
                n_steps=self._schedule.n_rounds,
                n_dimensions=len(difference),
            )
            self._stream = mechanism.open(self._noise, self._release, sensitivity=None)
        return self._stream.add(difference, sensitivity)


def batch_plan(
    problem: Problem,
    budget: Budget,
    release: Release,
    schedule: OnlineToBatchSchedule,
    bound: float,
) -> Plan:
    """Return the plan of a schedule whose bound is on the risk of the mixture.

    Where all groups have the same best weights, a bound e on the mixture's excess is one of e/λ_i
    on that of group i.
    """
    n_rounds = schedule.n_rounds
    n_drawn = n_rounds * float(sum(schedule.rates))
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
