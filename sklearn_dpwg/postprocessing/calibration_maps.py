"""Calibrated probabilities from counts of scores by group, class and bin."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.postprocessing.score_counts import likely_counts


def calibrated_shares(
    noisy: ArrayLike, edges: FloatArray, noise_std: float, per_group: bool
) -> FloatArray:
    """Return for each group the share of positives in each bin, rising with the score."""
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups = len(cells)
    if not per_group:
        cells, noise_std = cells.sum(axis=0, keepdims=True), noise_std * np.sqrt(n_groups)
    likely = likely_counts(cells, edges, noise_std)
    in_bins = likely.sum(axis=1)
    claimed = (edges[:-1] + edges[1:]) / 2
    shares = np.where(in_bins > 0.0, likely[:, 1] / np.maximum(in_bins, 1e-300), claimed)
    rising = [
        isotonic_regression(of_group, sample_weight=weights + 1e-9, y_min=0.0, y_max=1.0)
        for of_group, weights in zip(shares, in_bins, strict=True)
    ]
    return np.repeat(rising, n_groups // len(rising), axis=0)


def calibrated(
    scores: FloatArray, codes: NDArray[np.intp], edges: FloatArray, shares: FloatArray
) -> FloatArray:
    """Return the probability of each score, linear between the middles of bins."""
    middles = (edges[:-1] + edges[1:]) / 2
    found = np.empty(len(scores))
    for code, of_group in enumerate(shares):
        members = codes == code
        found[members] = np.interp(scores[members], middles, of_group)
    return found
