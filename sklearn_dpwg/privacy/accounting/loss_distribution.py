"""Privacy-loss distributions of mixed mechanisms, by dp_accounting, in units of Δ.

dp_accounting's accountant refuses Laplace noise under REPLACE_ONE, and reads Gaussian multipliers
there as σ/C with Δ = 2C. So the loss distributions of single mechanisms are composed here directly,
each of the worst pair of neighbours in units of Δ:

- Gaussian: N(0, z²) against N(1, z²); the pair for ADD_OR_REMOVE_ONE at sensitivity 1.
- Laplace: Lap(0, z) against Lap(1, z); likewise.
- Discrete Laplace of scale b on whole numbers, shifted by m of them; likewise.
- Poisson-sampled Gaussian, in units of C = Δ/2: (1-q) N(0, 4z²) + q N(±1, 4z²); the pair for
  REPLACE_ONE at standard deviation 2z.

A pair that dominates each release gives a product that dominates the composition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy.accounting.composition import Composition, event_of_composition, joint

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
    from dp_accounting.rdp import RdpAccountant


# dp_accounting inverts the privacy loss at tens of thousands of grid points one by one. Here all
# are inverted at once, by the same formulas; the rest, rounding included, is dp_accounting's.


def gaussian_loss(deviation: float, interval: float) -> PrivacyLossDistribution:
    """Return the privacy-loss distribution of N(0, s²) against N(1, s²) on a grid of losses."""
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    pair = GaussianPrivacyLoss(deviation)
    return _on_grid(pair, interval, lambda epsilons: -0.5 - epsilons * deviation**2)


def sampled_gaussian_loss(
    deviation: float, rate: float, interval: float
) -> PrivacyLossDistribution:
    """Return that of (1-q) N(0, s²) + q N(-1, s²) against (1-q) N(0, s²) + q N(1, s²), q = rate."""
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    replace_one = AdjacencyType.REPLACE
    pair = GaussianPrivacyLoss(deviation, sampling_prob=rate, adjacency_type=replace_one)
    return _on_grid(pair, interval, lambda epsilons: _sampled_cutoffs(epsilons, deviation, rate))


def _on_grid(
    pair: GaussianPrivacyLoss, interval: float, cutoffs_of: Callable[[FloatArray], FloatArray]
) -> PrivacyLossDistribution:
    """Return a pair's pessimistic distribution; cutoffs are the largest noise with loss ≥ ε."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    bounds = pair.connect_dots_bounds()
    lowest = math.floor(bounds.epsilon_lower / interval)
    highest = math.ceil(bounds.epsilon_upper / interval)
    epsilons = np.arange(lowest, highest + 1) * interval
    cutoffs = cutoffs_of(epsilons)
    # δ(ε): the upper distribution's mass where the loss exceeds ε, minus e^ε times the lower one's;
    # this is largest at the exact cutoff, so rounding of a cutoff changes it to second order only
    deltas = pair.mu_upper_cdf(cutoffs) - np.exp(epsilons + pair.mu_lower_log_cdf(cutoffs))
    deltas = np.clip(deltas, 0.0, 1.0)
    pmf = create_pmf_pessimistic_connect_dots_fixed_gap(interval, lowest, highest, deltas)
    return PrivacyLossDistribution(pmf)


def _sampled_cutoffs(epsilons: FloatArray, deviation: float, rate: float) -> FloatArray:
    """Return the largest noise whose loss is at least each ε: s² (asinh(-α sinh(ε/2)) - ε/2)."""
    half_epsilons = 0.5 * np.abs(epsilons)
    log_alpha = 0.5 / deviation**2 + math.log1p(-rate) - math.log(rate)
    with np.errstate(divide="ignore"):  # where ε is 0; a logarithm, as α sinh(|ε|/2) overflows
        log_term = (
            log_alpha + half_epsilons + np.log1p(-np.exp(-2.0 * half_epsilons)) - math.log(2.0)
        )
    asinh = np.logaddexp(0.5 * np.logaddexp(0.0, 2.0 * log_term), log_term)
    return np.asarray(deviation**2 * (-np.sign(epsilons) * asinh - 0.5 * epsilons))


# Largest relative increase of the variance of the loss by the grid.
_GRID_VARIANCE = 1e-4
# Largest number of grid points of the widest mechanism before composition, some 1 µs each.
_MAX_POINTS = 40_000
# Least number of grid points of the total loss: a few Laplace losses end at sharp edges.
_MIN_POINTS = 4_000
# Standard deviations at which dp_accounting cuts Gaussian tails (log mass -50), rounded up.
_TAIL = 10.0


@lru_cache(maxsize=64)
def privacy_loss(
    composition: Composition, coarseness: float = 1.0
) -> tuple[PrivacyLossDistribution, float]:
    """Return the privacy-loss distribution of a composition, and the rounding error of its δ.

    ``coarseness`` multiplies the grid's width: a coarser grid takes less time, and increases δ.
    The distribution is pessimistic but for rounding in dp_accounting's Fourier transforms: k-fold
    composition raises coefficients near 1 to the power k, which loses about k units of rounding.
    Errors measured against the closed form for k up to 300,000 stay below half of k·2⁻⁵³.
    """
    from dp_accounting.pld import privacy_loss_distribution as distributions

    interval = coarseness * _interval(composition)
    pieces = []
    if composition.mu > 0.0:
        pieces.append((gaussian_loss(1.0 / composition.mu, interval), 1))
    for multiplier, count in composition.laplace:
        laplace = distributions.from_laplace_mechanism(
            multiplier, value_discretization_interval=interval
        )
        pieces.append((laplace, count))
    for scale, shift, count in composition.discrete:
        with np.errstate(over="ignore"):  # exp(1/scale), by which scipy divides
            discrete = distributions.from_discrete_laplace_mechanism(
                1.0 / scale, sensitivity=shift, value_discretization_interval=interval
            )
        pieces.append((discrete, count))
    for rate, multiplier, count in composition.sampled:
        pieces.append((sampled_gaussian_loss(2.0 * multiplier, rate, interval), count))
    composed = reduce(
        lambda total, distribution: total.compose(distribution),
        [piece if count == 1 else piece.self_compose(count) for piece, count in pieces],
    )
    return composed, rounding_of_delta(composition)


def rounding_of_delta(composition: Composition) -> float:
    """Return a bound on the error of δ by floating-point FFTs; 0 for a single release."""
    kinds = (composition.laplace, composition.discrete, composition.sampled)
    counts = [release[-1] for kind in kinds for release in kind]
    counts += [1] * (composition.mu > 0.0)
    n_composed = sum(counts) + len(counts)  # 2 for a single release, which needs no FFT
    return 0.0 if n_composed == 2 else n_composed * 2.0**-53


def _interval(composition: Composition) -> float:
    """Return the width of the grid of privacy losses, small compared with their spread.

    Linear interpolation on a grid of width h adds h²/6 to the variance of each of k losses, so h
    follows from k and the variance of their sum. A fixed width, as 1e-4, would be inaccurate for
    ε = 0.01, and exhaust memory for wide losses.
    """
    variance = guess_mu(composition) ** 2
    kinds = (composition.laplace, composition.sampled, composition.discrete)
    n_losses = 1 + sum(release[-1] for kind in kinds for release in kind)
    # range of the loss of a single release of each kind
    widths = [2.0 * _TAIL * composition.mu]
    widths += [2.0 / multiplier for multiplier, _ in composition.laplace]
    total_width = widths[0] + sum(2.0 * n / multiplier for multiplier, n in composition.laplace)
    widths += [2.0 * shift / scale for scale, shift, _ in composition.discrete]
    total_width += sum(2.0 * n * shift / scale for scale, shift, n in composition.discrete)
    for rate, multiplier, count in composition.sampled:
        shift = 0.5 / multiplier  # C/σ: half of Δ, over the noise's standard deviation
        unsampled = shift * (_TAIL + shift)
        sampled = math.log1p(rate * math.expm1(min(unsampled, 700.0)))
        widths.append(2.0 * max(sampled, unsampled + math.log(rate)))
        total_width += count * widths[-1]
    fine = math.sqrt(_GRID_VARIANCE * variance / n_losses)
    # at least `_MIN_POINTS` for the total loss, but at most `_MAX_POINTS` for the widest one
    return max(min(fine, total_width / _MIN_POINTS), max(widths) / _MAX_POINTS)


def guess_mu(composition: Composition) -> float:
    """Return an estimate of the Gaussian-DP parameter: the total loss's standard deviation."""
    variance = composition.mu**2
    for multiplier, count in composition.laplace:
        variance += count * min(1.0 / multiplier, 1.7) ** 2  # a loss of Laplace noise saturates
    for scale, shift, count in composition.discrete:
        variance += count * min(shift / scale, 1.7) ** 2
    for rate, multiplier, count in composition.sampled:
        variance += count * math.log1p(rate**2 * math.expm1(min(multiplier**-2, 50.0)))
    for mean, _, run, count in composition.selected:
        variance += count * (guess_mu(run) ** 2 + math.log(mean))
    return math.sqrt(variance)


# Rényi orders: those near 1 matter for large ε, the largest for ε of about 0.01.
_ORDERS = (
    *(1.0 + i / 10.0 for i in range(1, 100)),
    *range(11, 64),
    *(int(64 * 1.1**i) for i in range(1, 80)),
)


@lru_cache(maxsize=32)
def renyi_accountant(composition: Composition) -> RdpAccountant:
    """Return dp_accounting's Rényi accountant with the whole composition, in units of Δ.

    In these units the worst pairs of Gaussian and Laplace noise are those of sensitivity 1, which
    are those of ADD_OR_REMOVE_ONE. The accountant does not support discrete Laplace noise: the
    continuous noise that dominates it takes its place (docs/theory/noise.md, Theorem 5).
    """
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    if composition.sampled:
        raise UnsupportedMechanismError(
            "A selection among runs and releases on sampled records have no accountant in common "
            "when one record is replaced."
        )
    accountant = RdpAccountant(_ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE)
    return accountant.compose(event_of_composition(_continuous(composition)))


def _continuous(composition: Composition) -> Composition:
    """Return a composition that dominates this one, discrete noise replaced by Laplace noise."""
    laplace = [Composition(laplace=composition.laplace)]
    for scale, shift, count in composition.discrete:
        half = 0.5 / scale
        # log cosh(half) is half + log1p(exp(-2 half)) - log 2
        loss = shift / scale + 2.0 * (half + math.log1p(math.exp(-2.0 * half)) - math.log(2.0))
        laplace.append(Composition(laplace=((1.0 / loss, count),)))
    selected = tuple(
        (mean, shape, _continuous(run), n) for mean, shape, run, n in composition.selected
    )
    rest = replace(composition, laplace=(), discrete=(), selected=selected)
    return joint([rest, *laplace])
