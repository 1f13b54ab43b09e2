"""Neighbouring relations of the methods, and what turns one into another.

Every figure is at (ε, δ) for *replacing* one record by another of the same group, as this package
promises it. A method that promises less or more is converted before it is run.
"""

from __future__ import annotations

import math
from functools import cache

from sklearn_dpwg.privacy import Budget, Release, calibrate, gdp_mu

# Method to (its relation, what was done about it).
RELATIONS = {
    "ours": ("replace one record within its group", "nothing to convert"),
    "dp-gd": (
        "replace one record within its group",
        "noise by exact Gaussian accounting for the sensitivity 2C max λ_i/n_i of a replacement",
    ),
    "dp-sgd group-dro": (
        "Opacus: add or remove one record",
        "noise calibrated by privacy-loss distributions for replacing a record, about 1.7 times as "
        "much at equal ε",
    ),
    "amp": (
        "replace one record within its group",
        "twice the δ of a Gaussian release of μ = 2fC/σ at ε less the curvature's share, as proved "
        "in its module",
    ),
    "dp-newton": (
        "replace one record within its group",
        "noise by exact Gaussian accounting, for 2C max λ_i/n_i on gradients and √2 B max λ_i/n_i "
        "on Hessians",
    ),
    "diffprivlib": (
        "replace one record by any other, of any group (Chaudhuri et al. 2011), δ = 0",
        "nothing to convert: it implies ours; δ is left unspent, as it cannot use it",
    ),
    "paper": ("replace one record within its group", "nothing to convert"),
}


def replace_sensitivity(clip: float, weight: float = 1.0) -> float:
    """Return how far replacing a record moves a sum of vectors no longer than a bound.

    Parameters
    ----------
    clip : float
        Bound C on the norm of one record's vector; adding or removing it moves the sum by C.
    weight : float, default=1.0
        Factor of the record's vector in the sum.

    Returns
    -------
    float
        2 C times the weight.
    """
    return 2.0 * clip * weight


def replace_from_add_remove(epsilon: float, delta: float) -> tuple[float, float]:
    """Return what an add-or-remove guarantee promises when a record is replaced.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee for adding or removing one record.

    Returns
    -------
    tuple of float
        ``2 ε`` and ``(1 + e^ε) δ``: removing one record, then adding another.
    """
    return 2.0 * epsilon, (1.0 + math.exp(epsilon)) * delta


@cache
def total_mu(epsilon: float, delta: float) -> float:
    """Return the parameter μ of a Gaussian release that spends a budget."""
    return gdp_mu(epsilon, delta)


@cache
def noise_multiplier(
    n_steps: int, epsilon: float, delta: float, sampling_rate: float = 1.0
) -> float:
    """Return σ/Δ of each of many Gaussian releases, Δ for a replaced record, calibrated exactly.

    Parameters
    ----------
    n_steps : int
        How many.
    epsilon, delta : float
        The budget.
    sampling_rate : float, default=1.0
        Rate of Poisson sampling.

    Returns
    -------
    float
        The multiplier.
    """
    release = Release("gradient", "gaussian", 1.0, n_steps, sampling_rate=sampling_rate)
    return calibrate([release], Budget(epsilon, delta))[0].noise_multiplier
