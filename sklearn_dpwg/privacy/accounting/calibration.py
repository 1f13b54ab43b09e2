"""Cost of releases, δ(ε) and ε(δ), and the least noise for a budget.

Noise multipliers are in units of Δ, the sensitivity under the relation of the guarantee, so nothing
here depends on the relation otherwise. Only sampled releases assume that records are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from sklearn_dpwg._checks import FloatArray, non_negative, open_unit
from sklearn_dpwg.exceptions import InputError, UnsupportedMechanismError
from sklearn_dpwg.privacy.accounting.composition import (
    Composition,
    composition_of_event,
    dominating,
    event_of_composition,
    moved_event,
    part_events,
)
from sklearn_dpwg.privacy.accounting.loss_distribution import (
    guess_mu,
    privacy_loss,
    renyi_accountant,
    rounding_of_delta,
)
from sklearn_dpwg.privacy.gaussian import gdp_delta, gdp_epsilon, gdp_mu, gdp_type_two_error
from sklearn_dpwg.privacy.release import Budget, Release

if TYPE_CHECKING:
    from dp_accounting import DpEvent


# δ at which the Rényi accountant is asked for ε, to bound the whole curve δ(ε) of selections.
_STATED_DELTAS = 10.0 ** -np.arange(0.5, 12.25, 0.25)


def delta_of(event: DpEvent, epsilon: float) -> float:
    """Return an upper bound on δ(ε) of an event (see `epsilon_of`), exact for Gaussians."""
    epsilons = np.array(non_negative(epsilon, "epsilon"))
    return float(composition_deltas(composition_of_event(event), epsilons))


def epsilon_of(event: DpEvent, delta: float) -> float:
    """Return an upper bound on ε(δ) of an event, exact for unsampled Gaussians.

    Parameters
    ----------
    event : DpEvent
        Gaussian, Laplace, discrete Laplace or Poisson-sampled Gaussian event, or a composition of
        such events; noise multipliers in units of the replace-one sensitivity Δ (see `Release`).
    delta : float
        δ, strictly between 0 and 1.

    Returns
    -------
    float
        ε at least 0; infinite for an event without noise.

    Raises
    ------
    UnsupportedMechanismError
        If no tight accountant exists for the event, or δ is too small for so many releases.
    """
    return composition_epsilon(composition_of_event(event), open_unit(delta, "delta"))


def is_gaussian(event: DpEvent) -> bool:
    """Return whether an event has Gaussian noise only, without sampling or selection of runs."""
    return composition_of_event(event).is_gaussian


def composition_deltas(
    composition: Composition, epsilons: FloatArray, coarseness: float = 1.0
) -> FloatArray:
    """Return upper bounds on δ of a composition at every ε; a coarser grid is faster and looser."""
    if not composition.is_private:
        return np.ones_like(epsilons)
    if composition.is_gaussian:
        return gdp_delta(epsilons, composition.mu)
    pure_epsilon = composition.pure_epsilon
    if _is_one_laplace(composition):
        return np.maximum(0.0, -np.expm1((epsilons - pure_epsilon) / 2.0))
    if composition.selected:
        return _selected_deltas(composition, epsilons)
    is_inner = (epsilons < pure_epsilon) & (epsilons < np.inf)
    deltas = np.zeros_like(epsilons)
    distribution, error = privacy_loss(composition, coarseness)
    inner = epsilons[is_inner]
    inner_deltas = np.empty_like(inner)
    # dp_accounting takes several values only if sorted and below 700: others are passed singly
    order = np.argsort(inner)
    n_small = int(np.sum(inner < 600.0)) if inner.size > 1 else 0
    inner_deltas[order[:n_small]] = distribution.get_delta_for_epsilon(inner[order[:n_small]])
    for index in order[n_small:]:
        inner_deltas[index] = distribution.get_delta_for_epsilon(float(inner[index]))
    deltas[is_inner] = np.clip(inner_deltas + error, 0.0, 1.0)
    return deltas


def _selected_deltas(composition: Composition, epsilons: FloatArray) -> FloatArray:
    """Return upper bounds on δ of a composition with selections of runs, at every ε.

    The Rényi accountant's own δ(ε) is loose where δ is large. But each pair (ε', δ') that the
    accountant states implies a whole curve: δ' for ε ≥ ε', and 1 - (1 - δ')(1 + e^ε)/(1 + e^ε')
    for ε < ε', that of randomised response, which dominates every (ε', δ')-DP mechanism (Kairouz,
    Oh and Viswanath 2015). The result is the least of all these bounds.
    """
    own_deltas = np.array(_accountant_deltas(composition, tuple(epsilons.ravel().tolist())))
    accountant = renyi_accountant(composition)
    stated_epsilons = np.array([accountant.get_epsilon(float(delta)) for delta in _STATED_DELTAS])
    # log (1 + e^ε)/(1 + e^ε'), and 0 for ε ≥ ε'
    lower_epsilons = np.minimum(epsilons[..., None], stated_epsilons)
    log_fractions = np.logaddexp(0.0, lower_epsilons) - np.logaddexp(0.0, stated_epsilons)
    implied_deltas = (-np.expm1(np.log1p(-_STATED_DELTAS) + log_fractions)).min(axis=-1)
    return np.clip(np.minimum(own_deltas.reshape(epsilons.shape), implied_deltas), 0.0, 1.0)


@lru_cache(maxsize=8)  # a curve takes a second, and both a plan and the guarantee of its fit ask
def _accountant_deltas(composition: Composition, epsilons: tuple[float, ...]) -> list[float]:
    """Return δ at every ε as the Rényi accountant states it."""
    accountant = renyi_accountant(composition)
    return [accountant.get_delta(epsilon) for epsilon in epsilons]


def composition_epsilon(composition: Composition, delta: float) -> float:
    """Return an upper bound on ε(δ) of a composition, exact where there is a closed form."""
    if not composition.is_private:
        return math.inf
    if composition.is_gaussian:
        return gdp_epsilon(delta, composition.mu)
    if _is_one_laplace(composition):
        return max(0.0, composition.pure_epsilon + 2.0 * math.log1p(-delta))
    if composition.selected:
        return float(renyi_accountant(composition).get_epsilon(delta))
    _check_resolved(composition, delta)
    distribution, error = privacy_loss(composition)
    epsilon = float(distribution.get_epsilon_for_delta(delta - error))
    return min(epsilon, composition.pure_epsilon)


def _check_resolved(composition: Composition, delta: float, margin: float = 0.0) -> None:
    """Refuse a δ that is not above the accountant's rounding error, twofold and with a margin."""
    error = rounding_of_delta(composition)
    least = 2.0 * error + (margin if error or composition.sampled else 0.0)
    if delta < least:
        raise UnsupportedMechanismError(
            f"delta must be at least {1.05 * least:.1e} for so many releases of sampled records or "
            f"of other than Gaussian noise, got {delta!r}: choose a larger delta, fewer steps, or "
            f"sampling_rate=1.0."
        )


def worst_epsilon(compositions: Iterable[Composition], delta: float) -> float:
    """Return the largest ε at δ of the compositions, one for each part of the records."""
    return max([composition_epsilon(composition, delta) for composition in compositions])


def _is_one_laplace(composition: Composition) -> bool:
    """Return whether the composition is a single Laplace release, which has a closed form."""
    return (
        composition.mu == 0.0
        and not composition.sampled
        and not composition.discrete
        and sum(count for _, count in composition.laplace) == 1
    )


# Number of ε at which the curve δ(ε) bounds a trade-off curve.
_N_EPSILONS = 1000


def worst_deltas(compositions: Sequence[Composition], epsilons: FloatArray) -> FloatArray:
    """Return the largest δ of the compositions, one for each part of the records, at every ε."""
    return np.max([composition_deltas(part, epsilons) for part in compositions], axis=0)


def type_two_errors(compositions: Sequence[Composition], alphas: FloatArray) -> FloatArray:
    """Return the least type-II error at each type-I error, exact for Gaussians.

    Otherwise it is a lower bound: with δ(ε) the largest of the compositions, the type-II error at
    α is at least 1 - δ(ε) - e^ε α and e^-ε (1 - δ(ε) - α) for every ε (Dong, Roth & Su 2022,
    Proposition 6). Taking finitely many ε only lowers the bound.
    """
    if all(composition.is_gaussian for composition in compositions):
        return gdp_type_two_error(alphas, max(composition.mu for composition in compositions))
    mu = max(map(guess_mu, compositions))
    pure_epsilon = max(composition.pure_epsilon for composition in compositions)
    # δ is 0 from the pure ε on, and negligible 8 standard deviations μ above the mean loss μ²/2
    largest_epsilon = min(mu * (mu / 2.0 + 8.0), pure_epsilon, 600.0)
    epsilons = np.linspace(0.0, largest_epsilon, _N_EPSILONS)
    deltas = worst_deltas(compositions, epsilons)
    lower_bounds = np.concatenate(
        [
            1.0 - deltas - np.exp(epsilons) * alphas[..., None],
            np.exp(-epsilons) * (1.0 - deltas - alphas[..., None]),
        ],
        axis=-1,
    )
    errors: FloatArray = np.clip(lower_bounds.max(axis=-1), 0.0, 1.0)
    return errors


def events_for_records(events: Sequence[DpEvent], n_records: int) -> tuple[DpEvent, ...]:
    """Return events for neighbours that differ in k records, in any parts.

    k replacements move a value by at most kΔ, so multipliers are divided by k, and the shift of
    discrete noise is multiplied by k. This covers k records in one part, and k records in several
    equal parts (docs/theory/noise.md). If parts differ and are not all Gaussian, they are replaced
    by one event that dominates each of them.
    """
    compositions = [composition_of_event(event) for event in events]
    intro = "The guarantee for several records of one person is unknown where"
    if any(composition.sampled for composition in compositions):
        raise UnsupportedMechanismError(
            f"{intro} records are sampled (PoissonSampledDpEvent): they may join the same draw "
            "or different ones."
        )
    if any(composition.selected for composition in compositions):
        raise UnsupportedMechanismError(
            f"{intro} the best of several runs was selected: they may be in the parts that "
            "fitted and in those that scored."
        )
    if len(set(compositions)) > 1 and not all(each.is_gaussian for each in compositions):
        events = [event_of_composition(dominating(compositions))]
    return tuple(moved_event(event, n_records) for event in events)


# Relative margin of the noise, for its grid (docs/theory/noise.md) and for the root search; it is
# doubled up to the largest while the budget is exceeded.
_ROUNDING = 1e-6
_MAX_ROUNDING = 0.1

# Coarseness of the grid of privacy losses for the first, rough root search.
_COARSE = 8.0
# The secant method runs for so many steps, if the excess is at most `_NEAR`. Where it is below
# `_CLOSE` the next step is within 2e-7 of the root.
_NEAR, _MAX_SECANTS, _CLOSE = 0.5, 5, 1e-5
# Probability that dp_accounting cuts off of a distribution, with room for a few compositions.
_TRUNCATED = 1e-14

# The least noise multiplier of a sampled release: a twentieth of Δ shows every record that joins.
_MIN_SAMPLED = 0.05


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
    ValueError
        If even the noise with the largest margin exceeds the budget, or if the sampling rate is so
        low that δ allows next to no noise.
    UnsupportedMechanismError
        If δ is too small for the accountant to resolve so many releases.

    Notes
    -----
    Gaussian releases have a closed form. For others the factor is the root of a function of μ, the
    parameter of the Gaussian with the same δ at ε, which is nearly proportional to 1/factor.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Budget, Release, calibrate
    >>> plan = [Release("gradient", "gaussian", 1.0, max_count=100)]
    >>> round(calibrate(plan, Budget(1.0, 1e-6))[0].noise_multiplier, 2)
    42.25
    """
    if budget.epsilon == math.inf:
        raise InputError(
            "budget.epsilon must be finite: without a privacy target there is nothing to release "
            "with noise, compute the exact solution instead."
        )
    parts = dict.fromkeys(map(composition_of_event, part_events(releases)))
    gaussian_parts = [part for part in parts if part.is_gaussian]
    factor = max([part.mu for part in gaussian_parts], default=0.0) / budget.mu
    other_parts = tuple([part for part in parts if part not in gaussian_parts])
    if other_parts:
        factor = max(factor, _search_factor(other_parts, budget))
    rounding = _ROUNDING
    while rounding < _MAX_ROUNDING:
        calibrated = tuple([release.scaled(factor * (1.0 + rounding)) for release in releases])
        epsilon = worst_epsilon(map(composition_of_event, part_events(calibrated)), budget.delta)
        if epsilon <= budget.epsilon:
            return calibrated
        rounding *= 2.0  # an accountant at the limit of its resolution is not quite monotone
    raise InputError(
        f"Calibrated noise gives epsilon = {epsilon!r}, above the budget of {budget.epsilon!r} at "
        f"delta = {budget.delta!r}."
    )


@lru_cache(maxsize=256)  # a warning plans again for other sizes, most often with the same noise
def _search_factor(parts: tuple[Composition, ...], budget: Budget) -> float:
    """Return the least factor on the noise of all parts that keeps the budget, to within 2e-7."""
    epsilons = np.array(budget.epsilon)

    def excess(log_factor: float, coarseness: float = 1.0) -> float:
        """Log of μ, of the Gaussian with the same δ, over the budget's μ; decreasing."""
        factor = math.exp(log_factor)
        deltas = [composition_deltas(part.scaled(factor), epsilons, coarseness) for part in parts]
        delta = min(max(*map(float, deltas), 1e-300), 1.0 - 1e-12)  # strictly between 0 and 1
        return math.log(gdp_mu(budget.epsilon, delta) / budget.mu)

    for part in parts:
        if not part.selected:
            _check_resolved(part, budget.delta, _TRUNCATED)
    sampled_multipliers = [multiplier for part in parts for _, multiplier, _ in part.sampled]
    least = math.log(_MIN_SAMPLED / min(sampled_multipliers)) if sampled_multipliers else -math.inf
    guess = max(least, math.log(max(map(guess_mu, parts)) / budget.mu))
    # coarse grids give a rough root and a slope, from which a few secants on fine grids suffice
    rough_root = _root(lambda x: excess(x, _COARSE), guess, least, budget, tolerance=1e-4)
    step = 0.01
    slope = (excess(rough_root + step, _COARSE) - excess(rough_root, _COARSE)) / step
    root = _root_by_secants(excess, rough_root, slope, least)
    return math.exp(_root(excess, guess, least, budget) if root is None else root)


def _root(
    excess: Callable[[float], float],
    start: float,
    least: float,
    budget: Budget,
    tolerance: float = 2e-7,
) -> float:
    """Return the root of a decreasing function: double steps until the sign changes, then Brent."""
    start_excess = excess(start)
    stride = abs(start_excess) + 1e-3
    end, end_excess = start, start_excess
    while end_excess != 0.0 and (end_excess > 0.0) == (start_excess > 0.0):
        if end == least and end_excess < 0.0:
            raise InputError(
                f"Samples this rare would keep delta = {budget.delta!r} with next to no noise, and "
                "show every record that joins: choose a larger sampling_rate, more draws or a "
                "smaller delta."
            )
        start = end
        end = max(least, end + math.copysign(stride, start_excess))
        end_excess = excess(end)
        stride *= 2.0
    return float(brentq(excess, start, end, xtol=tolerance, rtol=1e-12))


def _root_by_secants(
    excess: Callable[[float], float], start: float, slope: float, least: float
) -> float | None:
    """Return the root by secants from a start near it; None if they fail or reach ``least``."""
    start_excess = excess(start)
    for _ in range(_MAX_SECANTS):
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
    """Predict the noise multiplier σ/Δ that `calibrate` returns for one Gaussian release.

    The prediction only compares plans: it is no bound, and noise is always calibrated afterwards.
    T is ``n_draws`` and q the ``sampling_rate``. In units of C = Δ/2, with s = σ/C, the two
    densities of one draw are N(0, s²) times 1 - q + q exp(±x/s² - 1/(2s²)); for small q the log of
    their quotient has variance 4q² sinh(1/s²). By the central limit theorem T draws cost
    μ² ≈ 4 T q² sinh(1/s²), which is solved for s. (Bu, Dong, Long and Su 2020: add-or-remove)
    """
    if sampling_rate == 1.0:
        return math.sqrt(n_draws) / budget.mu
    noise_over_norm = math.asinh((budget.mu / (2.0 * sampling_rate)) ** 2 / n_draws) ** -0.5  # s
    return noise_over_norm / 2.0
