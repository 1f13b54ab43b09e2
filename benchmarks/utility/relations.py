"""Neighbouring relations of the methods, and what turns one into another.

Every figure is at (ε, δ) for *replacing* one record by another of the same group, as this package
promises it. A method that promises less or more is converted before it is run.
"""

from __future__ import annotations

import math
from functools import cache

from sklearn_dpwg.privacy import Budget, Release, calibrate, gdp_mu


def replace_sensitivity(clip: float, weight: float = 1.0) -> float:
    """Return how far replacing a record moves a sum of weighted vectors no longer than `clip`."""
    return 2.0 * clip * weight


def replace_from_add_remove(epsilon: float, delta: float) -> tuple[float, float]:
    """Return what an add-or-remove guarantee promises when a record is removed, another added."""
    return 2.0 * epsilon, (1.0 + math.exp(epsilon)) * delta


@cache
def total_mu(epsilon: float, delta: float) -> float:
    """Return the parameter μ of a Gaussian release that spends a budget."""
    return gdp_mu(epsilon, delta)


@cache
def noise_multiplier(
    n_steps: int, epsilon: float, delta: float, sampling_rate: float = 1.0
) -> float:
    """Return σ/Δ of each of many Gaussian releases that spend a budget, Δ for a replaced record."""
    release = Release("gradient", "gaussian", 1.0, n_steps, sampling_rate=sampling_rate)
    return calibrate([release], Budget(epsilon, delta))[0].noise_multiplier
