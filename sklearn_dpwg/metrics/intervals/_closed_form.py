"""Wilson's interval with noise, and Fieller's for a ratio: the closed forms."""

from __future__ import annotations

import math

from scipy.special import ndtri


def fieller_wilson(
    hits: float, misses: float, variances: tuple[float, float], confidence: float
) -> tuple[float, float]:
    """Return the rates θ with ((1−θ) hits − θ misses)² at most z² times its variance.

    That is Pθ(1−θ) + (1−θ)² v₁ + θ² v₂ with P = hits + misses. Counts below 0 are put to 0 first,
    so the set holds their rate. It is a quadratic inequality in θ; where that bounds nothing, all
    rates are returned.
    """
    hits, misses = max(hits, 0.0), max(misses, 0.0)
    total = hits + misses
    square = float(ndtri(0.5 * (1.0 + confidence))) ** 2
    first, second = variances
    quadratic = total * total + square * (total - first - second)
    linear = hits * total + square * (0.5 * total - first)
    constant = hits * hits - square * first
    discriminant = linear * linear - quadratic * constant
    if quadratic <= 0.0 or discriminant < 0.0:
        return 0.0, 1.0
    root = math.sqrt(discriminant)
    low, high = (linear - root) / quadratic, (linear + root) / quadratic
    return min(max(low, 0.0), 1.0), max(min(high, 1.0), 0.0)


def wilson(
    successes: float, total: float, variance: float, confidence: float
) -> tuple[float, float]:
    """Return the rates θ with (successes − θ total)² at most z² (total θ(1−θ) + variance)."""
    successes = min(max(successes, 0.0), total)
    square = float(ndtri(0.5 * (1.0 + confidence))) ** 2
    quadratic = total * (total + square)
    linear = total * (successes + 0.5 * square)
    constant = successes * successes - square * variance
    root = math.sqrt(max(linear * linear - quadratic * constant, 0.0))
    return max((linear - root) / quadratic, 0.0), min((linear + root) / quadratic, 1.0)
