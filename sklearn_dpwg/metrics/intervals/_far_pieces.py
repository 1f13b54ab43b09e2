"""Pieces of rates that are rejected for certain, by a bound that costs nothing."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import IntegerNoise

# Parts of the exponent that would be best for normal noise; every exponent gives a bound.
_PARTS = np.array([0.25, 0.5, 0.75, 1.0])
# So near to 1/scale an exponent still has a finite moment of Laplace noise.
_LARGEST_EXPONENT = 0.95


def n_surely_rejected(
    observed: tuple[int, int],
    noise: IntegerNoise,
    n_cells: tuple[int, int],
    most: int,
    level: float,
    n_places: int,
) -> int:
    """Return how many of the first pieces have P(statistic ≥ observed) at most the level.

    That is by Chernoff's bound with Hoeffding's for the true hits, for every total up to the most.
    Where w = place / n_places the statistic has a mean of at most total / (2 n_places), and it is
    w misses below the hits.
    """
    hits, misses = observed
    w = np.arange(n_places + 1) / n_places
    distance = (1.0 - w) * hits - w * misses - most / (2.0 * n_places)
    variance = 0.25 * most + noise.std**2 * (n_cells[0] * (1.0 - w) ** 2 + n_cells[1] * w**2)
    exponents = (distance / np.maximum(variance, 1e-300))[:, None] * _PARTS
    if noise.mechanism == "laplace":
        largest = _LARGEST_EXPONENT / (noise.scale * np.maximum(w, 1.0 - w))
        exponents = np.minimum(exponents, largest[:, None])
    exponents = np.maximum(exponents, 0.0)  # a distance below 0 bounds nothing
    bound = (
        exponents**2 * (most / 8.0)
        - exponents * distance[:, None]
        + n_cells[0] * _log_moment(noise, exponents * (1.0 - w)[:, None])
        + n_cells[1] * _log_moment(noise, exponents * w[:, None])
    ).min(axis=1)
    return int(np.argmax(np.append(bound > math.log(level), True)))


def _log_moment(noise: IntegerNoise, exponent: FloatArray) -> FloatArray:
    """Return log E exp(exponent · noise), for Gaussian noise a bound that is as good."""
    if noise.mechanism == "gaussian":
        return 0.5 * (noise.scale * exponent) ** 2
    a = math.exp(-1.0 / noise.scale)
    return 2.0 * math.log1p(-a) - np.log1p(-a * np.exp(exponent)) - np.log1p(-a * np.exp(-exponent))
