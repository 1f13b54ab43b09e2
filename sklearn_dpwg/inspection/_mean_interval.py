"""Intervals of mean losses from noisy sums."""

from __future__ import annotations

import math

from scipy.special import ndtri

from sklearn_dpwg.inspection.loss_sums import LossSums
from sklearn_dpwg.metrics.intervals import Interval


def mean_interval(
    loss: LossSums, group: int, size: float, size_std: float, confidence: float
) -> Interval:
    """Return a normal interval of a mean loss, of a group whose size may itself be noisy.

    The variance of the losses is raised by a quantile of the noise in it, so that noise does not
    make it too small; what noise in the sum and in the size adds is known.
    """
    if size < 1.0:
        return Interval(math.nan, 0.0, loss.bound, confidence)
    z = float(ndtri(0.5 + 0.5 * confidence))
    shift = loss.sums[group] / size
    square = loss.bound**2 / 8.0 + loss.squares[group] / size
    raised = square - shift**2 + z * loss.square_noise_std / size
    # no loss between 0 and the bound varies more
    variance = min(max(raised, 0.0), loss.bound**2 / 4.0)
    noise = math.hypot(loss.sum_noise_std, shift * size_std) / size
    half = z * math.hypot(math.sqrt(variance / size), noise)
    mean = min(max(0.5 * loss.bound + shift, 0.0), loss.bound)
    return Interval(mean, max(0.0, mean - half), min(loss.bound, mean + half), confidence)
