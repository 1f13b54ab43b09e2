"""The first of two stages, where groups are hidden: noisy counts, before anything is planned."""

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

# By how much replacing a record by any other moves the counts: one falls and one rises.
SENSITIVITY = math.sqrt(2.0)


@dataclass(frozen=True)
class CountStage:
    """What is fixed before the sizes of hidden groups are released, whatever they are.

    For every value of the counts the second stage is at least as private as what is reserved, so
    counts and reserve together dominate the fit. A budget alone would not do: plans of different
    profiles could each keep it, and a choice among them by the counts would not.
    """

    release: Release | None  # the counts; None with one group, which has all records
    # what the second stage costs at most: one Gaussian release, or, where it samples, what it will
    # release exactly
    reserved: tuple[Release, ...]
    budget: Budget  # of the second stage alone

    @property
    def releases(self) -> tuple[Release, ...]:
        """The counts, where they are released."""
        return () if self.release is None else (self.release,)

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count; 0 with one group."""
        return std_of_count(self.release)

    def covers(self, releases: Sequence[Release]) -> bool:
        """Return whether a second stage is Gaussian within the reserve, or the reserve itself.

        Gaussian is what every record is read for, in no part alone: a record that changes its group
        would pay for both. It keeps its place, and so the draws of fresh records that it is in.
        """
        if all(
            each.mechanism == "gaussian" and each.part is None and each.sampling_rate == 1.0
            for each in (*self.reserved, *releases)
        ):
            spent, reserved = (
                math.fsum(each.paid_count / each.noise_multiplier**2 for each in some)
                for some in (releases, self.reserved)
            )
            return spent <= reserved
        return sorted(map(repr, releases)) == sorted(map(repr, self.reserved))

    def __str__(self) -> str:
        text = "Two stages, whose cost was fixed before: noisy counts of the groups, then a plan."
        if self.release is None:
            return text
        return (
            f"{text}\nA count has noise of standard deviation {self.count_std:.3g}; a group not "
            f"above {HiddenGroups(1, self.count_std).floor:,} may be empty: it is not learned for."
        )


def std_of_count(release: Release | None) -> float:
    """Return the standard deviation of the noise on a count; 0 where none is released."""
    return 0.0 if release is None else SENSITIVITY * release.noise_multiplier


def whole_sizes(noisy: FloatArray, *, n_records: int, floor: int) -> tuple[int, ...]:
    """Return what stands for the sizes of groups: counts brought to their total, none too small."""
    # the nearest numbers of at least 0 that add up to the total: all shifted by one, none below 0
    falling = np.sort(noisy)[::-1]
    shifts = (n_records - np.cumsum(falling)) / (np.arange(len(noisy)) + 1.0)
    is_positive = falling + shifts > 0.0
    is_positive[0] = True  # the total is, but noise far above 2**53 of it rounds it away
    shift = shifts[np.flatnonzero(is_positive)[-1]]
    nearest = np.rint(np.maximum(noisy + shift, 0.0))
    return tuple(int(size) for size in np.maximum(nearest, min(floor, n_records)))


def release_sizes(
    release: Release | None, counts: Sequence[int], noise: NoiseSource
) -> tuple[int, ...]:
    """Release the counts of groups, but of one group nothing; return what stands for sizes."""
    n_records = sum(counts)
    if release is None:
        return (n_records,)
    exact = np.asarray(counts, dtype=float)
    noisy = noise.gaussian(exact, sensitivity=SENSITIVITY, release=release)
    floor = HiddenGroups(n_records, std_of_count(release)).floor
    return whole_sizes(noisy, n_records=n_records, floor=floor)
