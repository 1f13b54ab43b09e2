"""Cost of releases, δ(ε) and ε(δ) for replace-one neighbours, and the least noise for a budget.

Multipliers are in units of Δ, the sensitivity to the neighbours that a guarantee is about; the
relation changes nothing else, but that sampling is about replacements.
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


# At which the accountant of selections states ε for a profile.
_STATED_DELTAS = 10.0 ** -np.arange(0.5, 12.25, 0.25)


def delta_of(event: DpEvent, epsilon: float) -> float:
    """Return an upper bound on δ(ε) of an event as `epsilon_of` takes it, exact for Gaussians."""
    epsilons = np.array(non_negative(epsilon, "epsilon"))
    return float(composition_deltas(composition_of_event(event), epsilons))


def epsilon_of(event: DpEvent, delta: float) -> float:
    """Return an upper bound on ε(δ) of an event, exact for unsampled Gaussians.

    Parameters
    ----------
    event : DpEvent
        Gaussian, Laplace, discrete Laplace and Poisson-sampled Gaussian events and compositions of
        them, noise multipliers in units of the replace-one sensitivity Δ (see `Release`).
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
    """Return whether an event is one of Gaussian noise alone, neither sampled nor selected."""
    return composition_of_event(event).is_gaussian


def composition_deltas(
    composition: Composition, epsilons: FloatArray, coarseness: float = 1.0
) -> FloatArray:
    """Return δ of a composition at every ε, sooner and a little too large on a coarser grid."""
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
    values = np.empty_like(inner)
    order = np.argsort(inner)  # dp_accounting wants many at a time sorted, and overflows at 700
    n_small = int(np.sum(inner < 600.0)) if inner.size > 1 else 0
    values[order[:n_small]] = distribution.get_delta_for_epsilon(inner[order[:n_small]])
    for index in order[n_small:]:
        values[index] = distribution.get_delta_for_epsilon(float(inner[index]))
    deltas[is_inner] = np.clip(values + error, 0.0, 1.0)
    return deltas


def _selected_deltas(composition: Composition, epsilons: FloatArray) -> FloatArray:
    """Return δ of selections at every ε: the least of the accountant's own and of what follows.

    A tail bound on a Rényi divergence is poor where δ is large. But each pair (ε', δ') that the
    accountant states implies a whole profile: δ' from ε' on, and 1 - (1 - δ')(1 + e^ε)/(1 + e^ε')
    below, that of randomised response, which dominates whatever is (ε', δ')-DP (Kairouz, Oh and
    Viswanath 2015).
    """
    deltas = np.array(_accountant_deltas(composition, tuple(epsilons.ravel().tolist())))
    accountant = renyi_accountant(composition)
    stated = np.array([accountant.get_epsilon(float(delta)) for delta in _STATED_DELTAS])
    # log (1 + e^ε)/(1 + e^ε'), which grows with ε up to 0 at ε'
    fractions = np.logaddexp(0.0, np.minimum(epsilons[..., None], stated)) - np.logaddexp(
        0.0, stated
    )
    implied = -np.expm1(np.log1p(-_STATED_DELTAS) + fractions)
    return np.clip(np.minimum(deltas.reshape(epsilons.shape), implied.min(axis=-1)), 0.0, 1.0)


@lru_cache(maxsize=8)  # a second for a curve, which a plan shows and then the guarantee of its fit
def _accountant_deltas(composition: Composition, epsilons: tuple[float, ...]) -> list[float]:
    accountant = renyi_accountant(composition)
    return [accountant.get_delta(epsilon) for epsilon in epsilons]


def composition_epsilon(composition: Composition, delta: float) -> float:
    """Return ε(δ) of a composition."""
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


def _check_resolved(composition: Composition, delta: float, apart: float = 0.0) -> None:
    """Refuse a δ below the rounding of the accountant, or as near to it."""
    error = rounding_of_delta(composition)
    least = 2.0 * error + (apart if error or composition.sampled else 0.0)
    if delta < least:
        raise UnsupportedMechanismError(
            f"delta must be at least {1.05 * least:.1e} for so many releases of sampled records or "
            f"of other than Gaussian noise, got {delta!r}: choose a larger delta, fewer steps, or "
            f"sampling_rate=1.0."
        )


def worst_epsilon(compositions: Iterable[Composition], delta: float) -> float:
    """Return the largest ε at δ of any part."""
    return max([composition_epsilon(composition, delta) for composition in compositions])


def _is_one_laplace(composition: Composition) -> bool:
    return (
        composition.mu == 0.0
        and not composition.sampled
        and not composition.discrete
        and sum(count for _, count in composition.laplace) == 1
    )


# At which trade-off curves are bounded by duality.
_N_EPSILONS = 1000


def worst_deltas(compositions: Sequence[Composition], epsilons: FloatArray) -> FloatArray:
    """Return the largest δ of any part at every ε."""
    return np.max([composition_deltas(part, epsilons) for part in compositions], axis=0)


def type_two_errors(compositions: Sequence[Composition], alphas: FloatArray) -> FloatArray:
    """Return the least type-II error at each type-I error, exact for Gaussians.

    Otherwise by duality from the pointwise maximum of δ(ε): the error is at least
    1 - δ(ε) - e^ε α and e^-ε (1 - δ(ε) - α) for every ε (Dong, Roth & Su 2022, Proposition 6).
    A finite set of ε makes the curve lower, which is on the safe side.
    """
    if all(composition.is_gaussian for composition in compositions):
        return gdp_type_two_error(alphas, max(composition.mu for composition in compositions))
    spread = max(map(guess_mu, compositions))
    pure = max(composition.pure_epsilon for composition in compositions)
    epsilons = np.linspace(0.0, min(spread * (spread / 2.0 + 8.0), pure, 600.0), _N_EPSILONS)
    deltas = worst_deltas(compositions, epsilons)
    lines = np.concatenate(
        [
            1.0 - deltas - np.exp(epsilons) * alphas[..., None],
            np.exp(-epsilons) * (1.0 - deltas - alphas[..., None]),
        ],
        axis=-1,
    )
    errors: FloatArray = np.clip(lines.max(axis=-1), 0.0, 1.0)
    return errors


def events_for_records(events: Sequence[DpEvent], n_records: int) -> tuple[DpEvent, ...]:
    """Return events that cover the replacement of k records at once, wherever they lie.

    The sensitivity to k replacements is at most kΔ, so multipliers shrink k-fold where all k
    records lie in one part, and discrete noise is shifted k times as far. Records spread over
    parts that are alike are no worse off (docs/theory/noise.md). Where parts differ and are not all
    Gaussian, one event that is at least as bad as each part takes their place.
    """
    compositions = [composition_of_event(event) for event in events]
    unknown = "The guarantee for several records of one person is unknown where"
    if any(composition.sampled for composition in compositions):
        raise UnsupportedMechanismError(
            f"{unknown} records are sampled (PoissonSampledDpEvent): they may join the same draw "
            "or different ones."
        )
    if any(composition.selected for composition in compositions):
        raise UnsupportedMechanismError(
            f"{unknown} the best of several runs was selected: they may be in the parts that "
            "fitted and in those that scored."
        )
    if len(set(compositions)) > 1 and not all(one.is_gaussian for one in compositions):
        events = [event_of_composition(dominating(compositions))]
    return tuple(moved_event(event, n_records) for event in events)


# Pays for the discreteness of noise on a grid (docs/theory/noise.md) and for the root search.
_ROUNDING = 1e-6
_MAX_ROUNDING = 0.1

# Roots are searched on grids so many times as coarse first. From there secants are tried, from so
# near and so many times; where the excess is below `_CLOSE` the next one is within 2e-7.
_COARSE = 8.0
_NEAR, _MAX_SECANTS, _CLOSE = 0.5, 5, 1e-5
# What dp_accounting cuts off of a distribution, with room for a few compositions.
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
        raise InputError(
            "budget.epsilon must be finite: without a privacy target there is nothing to release "
            "with noise, compute the exact solution instead."
        )
    parts = dict.fromkeys(map(composition_of_event, part_events(releases)))
    gaussian = [part for part in parts if part.is_gaussian]
    factor = max([part.mu for part in gaussian], default=0.0) / budget.mu
    others = tuple([part for part in parts if part not in gaussian])
    if others:
        factor = max(factor, _search(others, budget))
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


@lru_cache(maxsize=256)  # a warning plans anew for other sizes, most often with the same noise
def _search(parts: tuple[Composition, ...], budget: Budget) -> float:
    """Return a factor at most 2e-7 from the smallest for compositions without closed form."""
    epsilons = np.array(budget.epsilon)

    def excess(log_factor: float, coarseness: float = 1.0) -> float:
        """Log of the equivalent Gaussian's μ over the budget's; decreasing."""
        factor = math.exp(log_factor)
        deltas = [composition_deltas(each.scaled(factor), epsilons, coarseness) for each in parts]
        delta = min(max(*map(float, deltas), 1e-300), 1.0 - 1e-12)
        return math.log(gdp_mu(budget.epsilon, delta) / budget.mu)

    for part in parts:
        if not part.selected:
            _check_resolved(part, budget.delta, _TRUNCATED)
    sampled = [multiplier for part in parts for _, multiplier, _ in part.sampled]
    least = math.log(_MIN_SAMPLED / min(sampled)) if sampled else -math.inf
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
    """Return where the excess is 0, from any start."""
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


def _by_secants(
    excess: Callable[[float], float], start: float, slope: float, least: float
) -> float | None:
    """Return the same from a start beside it; None where that is not so, or the root too small."""
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
