"""Counts of scores by group, class and bin, and what is made of noisy ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg._typing import FloatArray

# How far noise is trusted less than its size says: what is drawn to the usual is weighed as if by
# so many times the records that noise may feign. `benchmarks/thresholds.py trust` prints others.
TRUST = 3.0


def checked_edges(score_edges: Sequence[float] | ArrayLike | None, n_bins: int) -> FloatArray:
    """Return the public edges of the bins of scores, from 0 to 1; those between may be stated."""
    if score_edges is None:
        return np.linspace(0.0, 1.0, whole_number(n_bins, "n_bins", least=2) + 1)
    try:
        between = np.asarray(score_edges, dtype=np.float64)
    except (TypeError, ValueError):
        between = np.empty(0)
    edges = np.concatenate([[0.0], between.ravel(), [1.0]])
    if between.ndim != 1 or not between.size or not bool((np.diff(edges) > 0.0).all()):
        raise ValueError(
            f"score_edges must hold rising numbers between 0 and 1, at least one, got "
            f"{score_edges!r}."
        )
    return edges


def count_scores(
    scores: FloatArray,
    is_positive: NDArray[np.bool_],
    codes: NDArray[np.intp],
    n_groups: int,
    edges: FloatArray,
) -> NDArray[np.int64]:
    """Return how many records of each group and class have a score in each bin.

    A record is in one cell, whatever its score is: a NaN, too, which counts in the first bin.
    """
    n_bins = len(edges) - 1
    inside = np.searchsorted(edges, np.nan_to_num(scores, nan=0.0), side="right") - 1
    bins = np.clip(inside, 0, n_bins - 1)
    cells = (codes * 2 + is_positive) * n_bins + bins
    counts = np.bincount(cells, minlength=n_groups * 2 * n_bins)
    return counts.reshape(n_groups, 2, n_bins).astype(np.int64)


def likely_counts(
    noisy: ArrayLike, edges: FloatArray, noise_std: float, trust: float = TRUST
) -> FloatArray:
    """Return counts of at least 0 that noisy ones may stand for, quieter than they are.

    Where noise is loud, how the scores of a group lie is drawn to how all lie, and which share of a
    bin is positive to that of all groups, which is drawn to what the scores say themselves.
    """
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups, _, n_bins = cells.shape
    pooled, claimed = cells.sum(axis=0), (edges[:-1] + edges[1:]) / 2
    in_bins = on_simplex(cells.sum(axis=1))
    of_all = on_simplex(pooled.sum(axis=0)[None])[0]
    of_all = of_all / of_all.sum() if of_all.any() else np.diff(edges)
    # noise on the sum of half of a group's cells; where nobody is, one record stands for all
    added = trust * noise_std * np.sqrt(n_bins) + (in_bins.sum(axis=1, keepdims=True) == 0.0)
    loud = trust * noise_std
    overall = _share(pooled[1], pooled.sum(axis=0), claimed, loud * np.sqrt(n_groups))
    shares = _share(cells[:, 1], in_bins, overall, loud)
    in_bins = in_bins + added * of_all
    return np.stack([in_bins * (1.0 - shares), in_bins * shares], axis=1)


def _share(
    positives: FloatArray, totals: FloatArray, usual: FloatArray, added: float
) -> FloatArray:
    """Return shares of positives, with so many records of the usual share added to every bin."""
    totals, added = np.maximum(totals, 0.0), max(added, 1e-9)
    return np.asarray((np.clip(positives, 0.0, totals) + added * usual) / (totals + added))


def on_simplex(cells: FloatArray) -> FloatArray:
    """Return the nearest rows that are not negative and have the same sums, or none below 0."""
    totals = np.maximum(cells.sum(axis=1, keepdims=True), 0.0)
    falling = -np.sort(-cells, axis=1)
    ranks = np.arange(1, cells.shape[1] + 1)
    levels = (np.cumsum(falling, axis=1) - totals) / ranks
    n_kept = np.maximum((falling > levels).sum(axis=1), 1)
    level = np.take_along_axis(levels, n_kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(cells - level, 0.0))
