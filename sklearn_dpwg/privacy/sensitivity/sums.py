"""What rounding adds to how far a record moves sums: docs/theory/sums.md has the proofs."""

from __future__ import annotations

import math

from sklearn_dpwg._checks import non_negative, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError

# Unit roundoff of double precision.
_UNIT = 2.0**-53
# Magnitudes up to so many steps leave room, below 2⁵³, for what rounding adds to the sums.
_STEPS = 2.0**52
# Relative error of a loss or a slope, in roundings of a score: a margin for exp, log and the like.
_ROUNDINGS_OF_A_RECORD = 16


def grid_step(bound: float, n_terms: int) -> float:
    """Return the finest power of two h with ``n_terms * bound <= 2**52 * h``.

    Multiples of h, of which no sum exceeds ``2**53`` of them, are floating-point numbers, and
    adding them is exact in any order.
    """
    bound = positive_finite(bound, "bound")
    n_terms = whole_number(n_terms, "n_terms", least=1)
    if n_terms > _STEPS:
        raise InputError(f"n_terms must be at most 2**52, got {n_terms!r}.")
    # as mantissas and exponents nothing overflows, and rounding is upwards
    mantissa, exponent = math.frexp(bound)
    count_mantissa, count_exponent = math.frexp(float(n_terms))
    product = mantissa * count_mantissa * (1.0 + 4.0 * _UNIT)
    power = exponent + count_exponent - 52 + (product > 1.0) - (product <= 0.5)
    return math.ldexp(1.0, max(power, -960))


def record_rounding(size: float, n_dimensions: int) -> float:
    """Bound what rounding adds to a number or vector that is computed from one record alone.

    A relative error counts from ``size``: bounds on the result, and on the score times the
    derivative of the result in it. Weights, columns times outputs, are ``n_dimensions``.
    """
    size = non_negative(size, "size")
    n_dimensions = whole_number(n_dimensions, "n_dimensions", least=1)
    return _ROUNDINGS_OF_A_RECORD * (n_dimensions + 16.0) * _UNIT * size


def weighting_slack(bound: float, *, n_records: int, n_groups: int) -> float:
    """Bound what rounding of a weighted sum of group means, of norm up to a bound, adds to Δ.

    It is to be multiplied by the largest ratio of a group's weight to its size: at least
    ``1 / n_records``, so the rounding of both neighbours' sums is at most this times the ratio.
    """
    bound = positive_finite(bound, "bound")
    n_records = whole_number(n_records, "n_records", least=1)
    n_groups = whole_number(n_groups, "n_groups", least=1)
    return 4.0 * (n_groups + 16.0) * _UNIT * bound * n_records


def moment_sensitivity(norm: float) -> float:
    """Bound how far one record moves a sum of outer products of vectors with themselves.

    The sum is ``Σ v v'``, every v of at most this norm, as the vector of its upper triangle with
    every entry off the diagonal times √2; docs/theory/moments.md has the proof. (Vu and Slavkovic
    2009; Wang 2018, *Revisiting differentially private linear regression*)
    """
    return math.sqrt(2.0) * positive_finite(norm, "norm") ** 2
