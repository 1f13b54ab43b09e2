"""Thresholds from counts of scores by group, class and bin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sklearn_dpwg._typing import FloatArray

# Rates that thresholds are sought for; finer ones differ by less than the noise.
_RATES = np.linspace(0.0, 1.0, 401)
# A score that nobody has, so that a threshold there chooses nobody.
NOBODY = np.inf


def worst_error(
    counts: FloatArray, edges: FloatArray, per_group: bool, max_gap: float, miss_cost: float
) -> FloatArray:
    """Return the thresholds at which the largest error rate of a group is least."""
    errors = _errors(counts, miss_cost) / counts.sum(axis=(1, 2))[:, None]
    candidates = np.append(edges[:-1], NOBODY)
    if per_group:
        return np.asarray(candidates[errors.argmin(axis=1)])
    return np.full(len(counts), candidates[errors.max(axis=0).argmin()])


def selection_rate(
    counts: FloatArray, edges: FloatArray, per_group: bool, max_gap: float, miss_cost: float
) -> FloatArray:
    """Return thresholds with equal shares of chosen records and the fewest errors."""
    errors = _errors(counts, miss_cost)
    return _equalised(errors, counts.sum(axis=1), edges, per_group, max_gap)


def true_positive_rate(
    counts: FloatArray, edges: FloatArray, per_group: bool, max_gap: float, miss_cost: float
) -> FloatArray:
    """Return thresholds with equal shares of chosen positives and the fewest errors."""
    return _equalised(_errors(counts, miss_cost), counts[:, 1], edges, per_group, max_gap)


Rule = Callable[[FloatArray, FloatArray, bool, float, float], FloatArray]
RULES: dict[str, Rule] = {
    "selection_rate": selection_rate,
    "true_positive_rate": true_positive_rate,
    "worst_error": worst_error,
}


def _errors(counts: FloatArray, miss_cost: float) -> FloatArray:
    """Return the errors of each group with a threshold at each edge; the last chooses nobody."""
    chosen = _from_edge_on(counts)
    missed = chosen[:, 1, :1] - chosen[:, 1]
    return np.asarray(chosen[:, 0] + miss_cost * missed)


def _from_edge_on(counts: FloatArray) -> FloatArray:
    """Return sums over the bins at and above each edge."""
    falling = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([falling, np.zeros((*counts.shape[:-1], 1))], axis=-1)


def _equalised(
    errors: FloatArray, counted: FloatArray, edges: FloatArray, per_group: bool, max_gap: float
) -> FloatArray:
    """Return thresholds whose rates of what is counted differ by at most a gap."""
    chosen = _from_edge_on(counted)
    rates = chosen / np.maximum(chosen[:, :1], np.finfo(float).tiny)
    if not per_group:
        is_near = np.ptp(rates, axis=0) <= max_gap
        total = np.where(is_near, errors.sum(axis=0), np.inf)
        return np.full(len(errors), np.append(edges[:-1], NOBODY)[total.argmin()])
    places = np.stack([_places_of(of_group) for of_group in rates])
    costs = np.stack(
        [
            np.interp(at, np.arange(len(edges)), of_group)
            for at, of_group in zip(places, errors, strict=True)
        ]
    )
    width = int(max_gap * (len(_RATES) - 1) + 1e-9)
    windows = np.lib.stride_tricks.sliding_window_view(costs, width + 1, axis=1)
    start = int(windows.min(axis=2).sum(axis=0).argmin())
    best = start + windows[:, start].argmin(axis=1)
    at = places[np.arange(len(errors)), best]
    found = np.interp(at, np.arange(len(edges)), edges)
    return np.where(best == 0, NOBODY, found)


def _places_of(rates: FloatArray) -> FloatArray:
    """Return the places, in bins, at which a falling curve of rates takes each of the rates."""
    return np.interp(_RATES, rates[::-1], np.arange(len(rates), dtype=np.float64)[::-1])
