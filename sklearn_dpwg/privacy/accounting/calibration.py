"""The least noise that keeps a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from scipy.optimize import brentq

from sklearn_dpwg.exceptions import CalibrationError
from sklearn_dpwg.privacy.accounting.accountant import composition_delta, worst_epsilon
from sklearn_dpwg.privacy.accounting.composition import Composition, compositions_of_releases
from sklearn_dpwg.privacy.accounting.loss_distribution import guess_mu
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.privacy.release import Budget, Release

# Pays for the discreteness of noise on a grid (docs/theory/noise.md) and for the root search.
_ROUNDING = 1e-6
_MAX_ROUNDING = 0.1

# Roots are found on grids so many times as coarse first. From there secants are tried, from so near
# and so many times; where the excess is below `_CLOSE` the next one is within 2e-7.
_COARSE = 8.0
_NEAR, _MOST_SECANTS, _CLOSE = 0.5, 5, 1e-5

# The least noise multiplier of a sampled release: a twentieth of Δ shows every record that joins.
_LEAST_SAMPLED = 0.05


def calibrate(releases: Sequence[Release], budget: Budget) -> tuple[Release, ...]:
    """Scale all noise by one factor, the smallest that keeps a budget.

    Parameters
    ----------
    releases : sequence of Release
        At least one. Their noise multipliers matter only relative to each other.
    budget : Budget
        The (ε, δ) that no part of the records may exceed; ε must be finite.

    Returns
    -------
    tuple of Release
        The releases in their order, each noise multiplier times the common factor, which is
        rounded up by a relative 1e-6 (by more only where δ is near the accountant's resolution).

    Raises
    ------
    CalibrationError
        If accounting afresh exceeds the budget, or δ alone would pay for samples so rare.
    UnsupportedMechanismError
        If δ is too small for the accountant to resolve so many releases.

    Notes
    -----
    Gaussian releases have a closed form. For the others the search runs on the μ whose Gaussian
    would have the same δ(ε), which is nearly inversely proportional to the factor.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Budget, Release, calibrate
    >>> plan = [Release("gradient", "gaussian", 1.0, max_count=100)]
    >>> round(calibrate(plan, Budget(1.0, 1e-6))[0].noise_multiplier, 2)
    42.25
    """
    if budget.epsilon == math.inf:
        raise ValueError(
            "budget.epsilon must be finite: without a privacy target there is nothing to release "
            "with noise, compute the exact solution instead."
        )
    parts = tuple(
        dict.fromkeys(composition for _, composition in compositions_of_releases(releases))
    )
    gaussian_mu = max((part.mu for part in parts if part.is_gaussian), default=0.0)
    factor = gaussian_mu / budget.mu
    others = tuple(part for part in parts if not part.is_gaussian)
    if others:
        factor = max(factor, _search(others, budget))
    rounding = _ROUNDING
    while rounding < _MAX_ROUNDING:
        calibrated = tuple(release.scaled(factor * (1.0 + rounding)) for release in releases)
        paid = (part for _, part in compositions_of_releases(calibrated))
        epsilon = worst_epsilon(paid, budget.delta)
        if epsilon <= budget.epsilon:
            return calibrated
        rounding *= 2.0  # an accountant at the limit of its resolution is not quite monotone
    raise CalibrationError(
        f"Calibrated noise gives epsilon = {epsilon!r}, above the budget of {budget.epsilon!r} at "
        f"delta = {budget.delta!r}."
    )


@lru_cache(maxsize=256)  # a warning plans anew for other sizes, most often with the same noise
def _search(parts: tuple[Composition, ...], budget: Budget) -> float:
    """Return a factor at most 2e-7 from the smallest for compositions without closed form."""

    def excess(log_factor: float, coarseness: float = 1.0) -> float:
        """Log of the equivalent Gaussian's μ over the budget's; decreasing."""
        factor = math.exp(log_factor)
        deltas = (composition_delta(p.scaled(factor), budget.epsilon, coarseness) for p in parts)
        delta = min(max(*deltas, 1e-300), 1.0 - 1e-12)
        return math.log(gdp_mu(budget.epsilon, delta) / budget.mu)

    sampled = [multiplier for part in parts for _, multiplier, _ in part.sampled]
    least = math.log(_LEAST_SAMPLED / min(sampled)) if sampled else -math.inf
    start = max(least, math.log(max(map(guess_mu, parts)) / budget.mu))
    rough = _root(lambda at: excess(at, _COARSE), start, least, budget, tolerance=1e-4)
    ahead = 0.01
    slope = (excess(rough + ahead, _COARSE) - excess(rough, _COARSE)) / ahead
    near = _by_secants(excess, rough, slope, least)
    return math.exp(_root(excess, start, least, budget) if near is None else near)


def _root(
    excess: Callable[[float], float],
    start: float,
    least: float,
    budget: Budget,
    tolerance: float = 2e-7,
) -> float:
    """Return where the excess is 0, found from anywhere."""
    start_excess = excess(start)
    stride = abs(start_excess) + 1e-3
    end, end_excess = start, start_excess
    while end_excess != 0.0 and (end_excess > 0.0) == (start_excess > 0.0):
        if end == least and end_excess < 0.0:
            raise CalibrationError(
                f"Samples this rare would keep delta = {budget.delta!r} with next to no noise, and "
                "show every record that joins: choose a larger sampling_rate, more draws or a "
                "smaller delta."
            )
        start = end
        end = max(least, end + math.copysign(stride, start_excess))
        end_excess = excess(end)
        stride *= 2.0
    return float(brentq(excess, start, end, xtol=tolerance, rtol=1e-12))


def _by_secants(
    excess: Callable[[float], float], start: float, slope: float, least: float
) -> float | None:
    """Return the same from a start beside it; None where that is not so, or the root too small."""
    start_excess = excess(start)
    for _ in range(_MOST_SECANTS):
        if not -4.0 < slope < -0.2 or abs(start_excess) > _NEAR:
            return None
        end = start - start_excess / slope
        if end <= least or abs(start_excess) < _CLOSE:
            return end if end > least else None
        end_excess = excess(end)
        slope = (end_excess - start_excess) / (end - start)
        start, start_excess = end, end_excess
    return None


def predict_multiplier(n_draws: int, sampling_rate: float, budget: Budget) -> float:
    """Predict the noise multiplier that `calibrate` will find for one Gaussian release.

    For comparing plans only: it is no bound, and noise is always calibrated afterwards. In units
    of C = Δ/2, with deviation s = σ/C, the two sides of one draw are N(0, s²) times
    1 - q + q exp(±x/s² - 1/(2s²)), and for small q the log of their quotient has variance
    4q² sinh(1/s²). By the central limit theorem T draws cost μ² ≈ 4 T q² sinh(1/s²), which is
    solved for s. (Bu, Dong, Long and Su 2020, for neighbours of another size)
    """
    if sampling_rate == 1.0:
        return math.sqrt(n_draws) / budget.mu
    in_units_of_norm = math.asinh((budget.mu / (2.0 * sampling_rate)) ** 2 / n_draws) ** -0.5
    return in_units_of_norm / 2.0
