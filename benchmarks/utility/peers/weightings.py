"""How much each group counts in a risk that a peer minimises, and the noise that hides a record.

Every figure is at (ε, δ) for *replacing* one record by another of the same group, as this package
promises it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.privacy.gaussian import gdp_mu
from utility.tasks import Part, Task

# Fractions go with sizes to a power; "mixed" adds a fifth of equal fractions to four of the
# average.
POWERS = {"average": 1.0, "half": 0.5, "balanced": 0.0}
MIXED_BALANCE = 0.2
FAIRER = ("mixed", "half", "balanced")
WEIGHTINGS = ("average", *FAIRER)


def group_fractions(sizes: np.ndarray, weighting: str) -> np.ndarray:
    """Return how much each group counts; records of a group count alike."""
    if weighting == "mixed":
        ends = [group_fractions(sizes, end) for end in ("average", "balanced")]
        return (1.0 - MIXED_BALANCE) * ends[0] + MIXED_BALANCE * ends[1]
    fractions = np.where(np.asarray(sizes) > 0, np.asarray(sizes, float) ** POWERS[weighting], 0.0)
    return fractions / fractions.sum()


def largest_factor(sizes: np.ndarray, weighting: str) -> float:
    """Return the most that one record counts."""
    return float((group_fractions(sizes, weighting) / np.maximum(sizes, 1)).max())


def record_factors(task: Task, part: Part, weighting: str) -> np.ndarray:
    """Return what each record of a part counts; groups that were thinned keep their fractions."""
    sizes = np.bincount(part.codes, minlength=len(task.group_labels))
    fractions = group_fractions(task.group_sizes, weighting)
    return (fractions / np.maximum(sizes, 1))[part.codes]


def row_bound(task: Task) -> float:
    """Return the public bound on the norm of a unit row."""
    return float(np.sqrt(1.0 + task.fit_intercept))


total_mu = cache(gdp_mu)


def replace_sensitivity(clip: float, weight: float = 1.0) -> float:
    """Return how far replacing a record moves a sum of weighted vectors no longer than `clip`."""
    return 2.0 * clip * weight


@cache
def noise_multiplier(n_steps: int, epsilon: float, delta: float) -> float:
    """Return σ/Δ of each of many Gaussian releases that spend a budget, Δ for a replaced record."""
    release = Release("gradient", "gaussian", 1.0, n_steps)
    return calibrate([release], Budget(epsilon, delta))[0].noise_multiplier
