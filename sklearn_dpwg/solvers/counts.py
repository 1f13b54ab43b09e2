"""Hidden groups: noisy counts of the groups are released first; a plan from them follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import HiddenGroups
from sklearn_dpwg.privacy import Budget, NoiseSource, Release

COUNTS, RESERVED = "group counts", "everything after the counts"
# Fraction of the budget (of μ²) that the counts are released with (benchmarks/replace_one.py
# fraction).
COUNT_FRACTION = 0.03
# L2 sensitivity of the counts: a record that changes its group lowers one and raises another by 1.
SENSITIVITY = math.sqrt(2.0)


@dataclass(frozen=True)
class CountStage:
    """The release of group counts, and the cost reserved for the plan that is made from them.

    Counts and reserve together dominate the fit, as the second stage costs at most the reserve for
    every value of the counts. An (ε, δ) for it would not be enough: plans of different privacy
    profiles could each keep it, but a choice among them by the counts might not.
    """

    release: Release | None  # of the counts; None with one group, which has all records
    # largest cost of the second stage: one Gaussian release, or its exact releases if it samples
    reserved: tuple[Release, ...]
    budget: Budget  # of the second stage alone

    @property
    def releases(self) -> tuple[Release, ...]:
        """The release of the counts as a tuple, empty with one group."""
        return () if self.release is None else (self.release,)

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count; 0 with one group."""
        return std_of_count(self.release)

    def covers(self, releases: Sequence[Release]) -> bool:
        """Return whether a second stage with these releases costs at most the reserve.

        Gaussian releases on all records compare by their μ². Others (sampled, or on a part of the
        records, where a record that changes its group would pay for two) must be the reserve.
        """
        every_release = (*self.reserved, *releases)
        if all(
            (release.mechanism, release.part, release.sampling_rate) == ("gaussian", None, 1.0)
            for release in every_release
        ):
            return squared_mu(releases) <= squared_mu(self.reserved)
        return sorted(map(repr, releases)) == sorted(map(repr, self.reserved))

    def __str__(self) -> str:
        text = "Two stages, whose cost was fixed before: noisy counts of the groups, then a plan."
        if self.release is None:
            return text
        return (
            f"{text}\nA count has noise of standard deviation {self.count_std:.3g}; a group not "
            f"above {HiddenGroups(1, self.count_std).floor:,} may be empty: it is not learned for."
        )


def squared_mu(releases: Sequence[Release]) -> float:
    """Return μ² of Gaussian releases on all records."""
    return math.fsum(release.paid_count / release.noise_multiplier**2 for release in releases)


def std_of_count(release: Release | None) -> float:
    """Return the standard deviation of the noise on a group's count; 0 without a release."""
    return 0.0 if release is None else SENSITIVITY * release.noise_multiplier


def whole_sizes(noisy: FloatArray, *, n_records: int, floor: int) -> tuple[int, ...]:
    """Return group sizes from noisy counts, (n_groups,): whole numbers of at least `floor`."""
    # project to the numbers of at least 0 that add up to n_records: shift all by one, cut at 0
    descending = np.sort(noisy)[::-1]
    shifts = (n_records - np.cumsum(descending)) / (np.arange(len(noisy)) + 1.0)
    is_positive = descending + shifts > 0.0
    is_positive[0] = True  # true without rounding; counts above 2**53 n_records round to 0
    shift = shifts[np.flatnonzero(is_positive)[-1]]
    projected = np.rint(np.maximum(noisy + shift, 0.0))
    return tuple(int(size) for size in np.maximum(projected, min(floor, n_records)))


def release_sizes(
    release: Release | None, counts: Sequence[int], noise: NoiseSource
) -> tuple[int, ...]:
    """Release noisy counts of the groups (not of a single one); return the sizes to plan with."""
    n_records = sum(counts)
    if release is None:
        return (n_records,)
    exact = np.asarray(counts, dtype=float)
    noisy = noise.gaussian(exact, sensitivity=SENSITIVITY, release=release)
    floor = HiddenGroups(n_records, std_of_count(release)).floor
    return whole_sizes(noisy, n_records=n_records, floor=floor)
