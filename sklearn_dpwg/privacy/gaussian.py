"""Gaussian differential privacy in closed form.

A release is μ-GDP if telling two neighbouring data sets apart from it is no easier than telling
N(0, 1) from N(μ, 1) by one draw (Dong, Roth & Su 2022). Gaussian noise of standard deviation σ on
a value of L2 sensitivity Δ is exactly (Δ/σ)-GDP, and releases compose as μ² = Σ μ_j².
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from sklearn_dpwg._checks import FloatArray, non_negative, open_unit
from sklearn_dpwg.exceptions import InputError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


def gdp_delta(epsilon: ArrayLike, mu: ArrayLike) -> FloatArray:
    """Return the exact δ(ε) of a μ-GDP release, to a relative 1e-12 down to the smallest floats.

    δ(ε) = Φ(-x) - exp(ε) Φ(-x-μ) with x = ε/μ - μ/2 (Balle & Wang 2018, Theorem 8). As
    exp(ε) φ(x+μ) = φ(x), that is φ(x) [R(x) - R(x+μ)] with Mills' ratio R, in which nothing
    overflows; where μ is small the difference is the integral of -R'(t) = 1 - t R(t).
    """
    with np.errstate(under="ignore"):
        return np.exp(_log_gdp_delta(epsilon, mu))


@lru_cache(maxsize=256)  # calibration and the guarantee need the same value
def gdp_epsilon(delta: float, mu: float) -> float:
    """Return the smallest ε at which a μ-GDP release is (ε, δ)-DP.

    It is rounded up so that ``gdp_delta(epsilon, mu) <= delta`` in floating point.
    """
    delta, mu = open_unit(delta, "delta"), non_negative(mu, "mu")
    if mu == math.inf:
        return math.inf
    if gdp_delta(0.0, mu) <= delta:
        return 0.0
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        return float(_log_gdp_delta(epsilon, mu)) - log_delta

    # δ(ε) < Φ(-x), and that is δ where x = ε/μ - μ/2 is the normal quantile of 1 - δ
    upper = mu * (mu / 2.0 - float(ndtri(delta))) * (1.0 + 1e-12)
    while excess(upper) > 0.0:  # by rounding only
        upper *= 1.0 + 1e-9
    epsilon = float(brentq(excess, 0.0, upper, xtol=1e-300, rtol=1e-15, maxiter=500))
    step = 1e-16
    while gdp_delta(epsilon, mu) > delta:
        epsilon *= 1.0 + step
        step *= 2.0
    return epsilon


@lru_cache(maxsize=256)  # every plan and every guarantee needs the value of its budget
def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ such that μ-GDP implies (ε, δ)-DP, infinite for infinite ε.

    It is rounded down so that ``gdp_delta(epsilon, mu) <= delta`` in floating point.
    """
    epsilon, delta = non_negative(epsilon, "epsilon"), open_unit(delta, "delta")
    if epsilon == math.inf:
        return math.inf
    log_delta = math.log(delta)

    def excess(mu: float) -> float:
        return float(_log_gdp_delta(epsilon, mu)) - log_delta

    # δ(ε) < Φ(μ/2 - ε/μ) bounds μ from below; the root is written without cancellation
    quantile = -float(ndtri(delta))
    root = math.hypot(quantile, math.sqrt(2.0 * epsilon))
    lower = 2.0 * epsilon / (quantile + root) if quantile > 0.0 else root - quantile
    lower = max(lower * (1.0 - 1e-12), min(delta, 1.0))  # δ(ε) ≤ δ(0) < 0.4 μ
    while excess(lower) > 0.0:
        lower *= 1.0 - 1e-9
    upper = 2.0 * lower
    while excess(upper) <= 0.0:
        upper *= 2.0
    mu = float(brentq(excess, lower, upper, xtol=1e-300, rtol=1e-15, maxiter=500))
    step = 1e-16
    while gdp_delta(epsilon, mu) > delta:
        mu *= 1.0 - step
        step *= 2.0
    return mu


def _log_gdp_delta(epsilon: ArrayLike, mu: ArrayLike) -> FloatArray:
    """Return log δ(ε) of μ-GDP releases, -inf where δ is 0; formulas as in `gdp_delta`."""
    epsilons, mus = np.broadcast_arrays(
        np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64)
    )
    for name, values in (("epsilon", epsilons), ("mu", mus)):
        if not np.all(values >= 0.0):
            raise InputError(f"{name} must be at least 0 everywhere, got {values!r}.")
    is_inner = (mus > 0.0) & (mus < np.inf) & (epsilons < np.inf)
    inner_mus = np.where(is_inner, mus, 1.0)
    with np.errstate(over="ignore", divide="ignore", under="ignore"):
        start = np.where(is_inner, epsilons, 0.0) / inner_mus - inner_mus / 2.0  # x
        # for x < -1: log Φ(-x) + log(1 - φ(x) R(x+μ) / Φ(-x)); otherwise log φ(x) [R(x) - R(x+μ)]
        near = log_ndtr(-start) + np.log1p(
            -np.exp(
                -0.5 * np.minimum(start, 0.0) ** 2
                - _LOG_ROOT_2PI
                + np.log(_mills_ratio(np.maximum(start + inner_mus, 0.0)))
                - log_ndtr(-np.minimum(start, 0.0))
            )
        )
        far_start = np.maximum(start, -1.0)
        far = -0.5 * far_start**2 - _LOG_ROOT_2PI + np.log(_mills_difference(far_start, inner_mus))
        log_delta = np.where(start < -1.0, near, far)
    outer = np.where((mus == np.inf) & (epsilons < np.inf), 0.0, -np.inf)
    result: FloatArray = np.where(is_inner, np.minimum(log_delta, 0.0), outer)[()]
    return result


def _mills_ratio(x: Any) -> Any:
    """Return Mills' ratio R(x) = (1 - Φ(x)) / φ(x)."""
    return _ROOT_HALF_PI * erfcx(x / math.sqrt(2.0))


def _mills_difference(start: FloatArray, width: FloatArray) -> FloatArray:
    """Return R(x) - R(x + width), x the ``start``, at least -1: by quadrature if width < 1/2."""
    short_width = np.minimum(width, 0.5)
    nodes = start[..., None] + 0.5 * short_width[..., None] * (_NODES + 1.0)
    short = 0.5 * short_width * (_mills_slope(nodes) @ _WEIGHTS)
    return np.where(width < 0.5, short, _mills_ratio(start) - _mills_ratio(start + width))


def _mills_slope(x: FloatArray) -> FloatArray:
    """Return -R'(x) = 1 - x R(x), for x > 50 by its asymptotic series, free of cancellation."""
    if np.all(x <= 50.0):
        return np.asarray(1.0 - x * _mills_ratio(x))
    tail = 1.0 / np.maximum(x, 50.0) ** 2
    series = tail * (1.0 - tail * (3.0 - tail * (15.0 - tail * (105.0 - tail * 945.0))))
    inner = np.minimum(x, 50.0)
    return np.where(x > 50.0, series, 1.0 - inner * _mills_ratio(inner))


def gdp_type_two_error(alpha: ArrayLike, mu: float) -> FloatArray:
    """Return the least type-II error of tests with type-I error α, for a μ-GDP release.

    It is the trade-off curve Φ(Φ⁻¹(1-α) - μ) (Dong, Roth & Su 2022, equation 6).
    """
    levels = np.asarray(alpha, dtype=np.float64)
    if mu == math.inf:
        return np.zeros_like(levels)[()]
    with np.errstate(under="ignore"):
        errors: FloatArray = ndtr(-ndtri(levels) - mu)
    return errors
