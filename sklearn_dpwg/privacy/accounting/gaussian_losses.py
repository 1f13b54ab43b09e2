"""Privacy-loss distributions of Gaussian noise, as dp_accounting makes them, a grid at a time.

dp_accounting inverts the privacy loss at each of tens of thousands of grid points in Python. Here
they are inverted together, by the same formulas; all else, the pessimistic rounding too, is its.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sklearn_dpwg._typing import FloatArray

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss


def gaussian_loss(deviation: float, interval: float) -> PrivacyLossDistribution:
    """Return the distribution of N(0, s²) against N(1, s²), in steps of the interval."""
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    pair = GaussianPrivacyLoss(deviation)
    return _on_grid(pair, interval, lambda epsilons: -0.5 - epsilons * deviation**2)


def sampled_gaussian_loss(
    deviation: float, rate: float, interval: float
) -> PrivacyLossDistribution:
    """Return that of (1-q) N(0, s²) + q N(-1, s²) against (1-q) N(0, s²) + q N(1, s²), q < 1."""
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    replaced = AdjacencyType.REPLACE
    pair = GaussianPrivacyLoss(deviation, sampling_prob=rate, adjacency_type=replaced)
    return _on_grid(pair, interval, lambda epsilons: _sampled_cutoffs(epsilons, deviation, rate))


def _on_grid(
    pair: GaussianPrivacyLoss, interval: float, cutoffs_of: Callable[[FloatArray], FloatArray]
) -> PrivacyLossDistribution:
    """Connect the dots of δ(ε) on a grid, from above."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    bounds = pair.connect_dots_bounds()
    lowest = math.floor(bounds.epsilon_lower / interval)
    highest = math.ceil(bounds.epsilon_upper / interval)
    epsilons = np.arange(lowest, highest + 1) * interval
    cutoffs = cutoffs_of(epsilons)
    # the mass where the loss is above ε, less e^ε of the other's; a cutoff that is off by its
    # rounding changes that by the square
    deltas = pair.mu_upper_cdf(cutoffs) - np.exp(epsilons + pair.mu_lower_log_cdf(cutoffs))
    deltas = np.clip(deltas, 0.0, 1.0)
    pmf = create_pmf_pessimistic_connect_dots_fixed_gap(interval, lowest, highest, deltas)
    return PrivacyLossDistribution(pmf)


def _sampled_cutoffs(epsilons: FloatArray, deviation: float, rate: float) -> FloatArray:
    """Return the largest noise whose loss is at least each ε: s² (asinh(-α sinh(ε/2)) - ε/2)."""
    half = 0.5 * np.abs(epsilons)
    log_alpha = 0.5 / deviation**2 + math.log1p(-rate) - math.log(rate)
    with np.errstate(divide="ignore"):  # where ε is 0
        log_term = log_alpha + half + np.log1p(-np.exp(-2.0 * half)) - math.log(2.0)
    grown = np.logaddexp(0.5 * np.logaddexp(0.0, 2.0 * log_term), log_term)
    return np.asarray(deviation**2 * (-np.sign(epsilons) * grown - 0.5 * epsilons))
