"""Counts of hidden groups: the line at which true sizes meet noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.problem import HiddenGroups
from sklearn_dpwg.solvers.counts.stage import (
    SENSITIVITY,
    CountStage,
    std_of_count,
    whole_sizes,
)


def release_sizes(
    stage: CountStage, codes: NDArray[np.intp], n_groups: int, noise: NoiseSource
) -> tuple[int, ...]:
    """Release the counts of the groups, and return what stands for sizes for ever.

    Positive whole numbers: the counts, brought to the number of records, and at least so large as
    to be told from noise.
    """
    return count_groups(stage.release, codes, n_groups, noise)


def count_groups(
    release: Release | None, codes: NDArray[np.intp], n_groups: int, noise: NoiseSource
) -> tuple[int, ...]:
    """Release the counts of the groups, of one group nothing, and return what stands for sizes."""
    if release is None:
        return (len(codes),)
    counts = np.bincount(codes, minlength=n_groups).astype(float)
    noisy = noise.gaussian(counts, sensitivity=SENSITIVITY, release=release)
    hidden = HiddenGroups(len(codes), 0.0, std_of_count(release))
    return whole_sizes(noisy, n_records=len(codes), floor=hidden.floor)
