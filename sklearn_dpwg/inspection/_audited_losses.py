"""Losses that an audit may release: clipped, in whole units, summed by group."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.inspection._audited_rows import Codes, blocks
from sklearn_dpwg.inspection.loss_sums import LossSums
from sklearn_dpwg.privacy import Release

# A bound on losses is so many units: no rounding of a loss is more than a millionth of the bound.
UNITS = 2**20
# Of a loss's epsilon the sums have more, as they say the mean, and squares its interval alone.
SHARE_OF_SUMS = 0.6
# A probability below 0.01 counts as 0.01: a loss without bound cannot be released.
_LEAST_PROBABILITY = 0.01


def _log_loss(positive: NDArray[np.bool_], score: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(np.where(positive, score, 1.0 - score)))


def _squared_error(positive: NDArray[np.bool_], score: FloatArray) -> FloatArray:
    return np.asarray((positive - score) ** 2)


Loss = Callable[[NDArray[np.bool_], FloatArray], FloatArray]

# Each loss with what it is clipped to.
LOSSES: Mapping[str, tuple[Loss, float]] = MappingProxyType(
    {
        "log_loss": (_log_loss, -math.log(_LEAST_PROBABILITY)),
        "squared_error": (_squared_error, 1.0),
    }
)


def loss_sums(
    names: Sequence[str],
    sums: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    releases: Sequence[tuple[Release, Release]],
) -> tuple[LossSums, ...]:
    """Return released sums and squares in the units of the losses; without releases exact ones."""
    found = []
    for place, (name, pair) in enumerate(zip(names, sums, strict=True)):
        bound = LOSSES[name][1]
        units = (bound / UNITS, bound**2 / (4 * UNITS))
        first, second = (
            tuple((one * unit).tolist()) for one, unit in zip(pair, units, strict=True)
        )
        stds = [_std(release) * UNITS for release in releases[place]] if releases else [0.0, 0.0]
        sum_std, square_std = (std * unit for std, unit in zip(stds, units, strict=True))
        found.append(LossSums(name, bound, first, second, sum_std, square_std))
    return tuple(found)


def _std(release: Release) -> float:
    """Return the deviation of the noise in units of the sensitivity, which is large."""
    return release.noise_multiplier * (1.0 if release.mechanism == "gaussian" else math.sqrt(2.0))


def whole_sums(
    name: str,
    positive: NDArray[np.bool_],
    score: FloatArray,
    codes: Codes,
    n_groups: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each group the sums of centred losses and of centred squares, in units.

    A centred loss is within half the bound of 0, its square within an eighth of the squared bound
    of that; in units either is at most ``UNITS // 2`` in size, so that replacing a record, its
    group included, moves all sums together by at most ``UNITS``.
    """
    loss, bound = LOSSES[name]
    # whole numbers below 2**53, which floats add without error in any order
    sums, total_squares = np.zeros(n_groups), np.zeros(n_groups)
    for rows in blocks(len(codes)):
        clipped = np.clip(loss(positive[rows], score[rows]), 0.0, bound)
        centred = clipped / bound - 0.5
        squares = np.rint(centred * centred * (4 * UNITS)) - UNITS // 2
        sums += np.bincount(codes[rows], np.rint(centred * UNITS), n_groups)
        total_squares += np.bincount(codes[rows], squares, n_groups)
    return sums.astype(np.int64), total_squares.astype(np.int64)
