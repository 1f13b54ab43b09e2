"""The proved sensitivity of sums whose terms are rounded one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_dpwg._checks import non_negative, positive_finite, whole_number

# Unit roundoff of double precision.
_UNIT = 2.0**-53
# Magnitudes up to so many steps leave room, below 2⁵³, for what rounding adds to the sums.
_STEPS = 2.0**52
# Relative error of a loss or a slope, in roundings of a score: a margin for exp, log and the like.
_ROUNDINGS_OF_A_RECORD = 16


@dataclass(frozen=True)
class SumGrid:
    """Steps of sums of losses and gradients.

    Parameters
    ----------
    loss_step, gradient_step : float
        Powers of two that what each record adds is rounded to multiples of; 0 to round nothing.
    """

    loss_step: float
    gradient_step: float


def grid_step(bound: float, n_terms: int) -> float:
    """Return the finest power of two of which sums of so many rounded terms are exact multiples.

    Multiples of the step, of which no sum exceeds ``2**53`` steps, are floating-point numbers:
    adding them is exact in any order.

    Parameters
    ----------
    bound : float
        Bound on a term's magnitude; positive.
    n_terms : int
        Most terms of a sum, at most 2⁵².

    Returns
    -------
    float
        The step h, with ``n_terms * bound <= 2**52 * h``.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import grid_step
    >>> grid_step(1.0, 1_000_000) == 2.0**-32
    True
    """
    bound = positive_finite(bound, "bound")
    n_terms = whole_number(n_terms, "n_terms", least=1)
    if n_terms > _STEPS:
        raise ValueError(f"n_terms must be at most 2**52, got {n_terms!r}.")
    # as mantissas and exponents nothing overflows, and rounding is upwards
    mantissa, exponent = math.frexp(bound)
    count_mantissa, count_exponent = math.frexp(float(n_terms))
    product = mantissa * count_mantissa * (1.0 + 4.0 * _UNIT)
    power = exponent + count_exponent - 52 + (product > 1.0) - (product <= 0.5)
    return math.ldexp(1.0, max(power, -960))


def summation_slack(step: float, *, n_dimensions: int = 1) -> float:
    """Bound what rounding of terms adds to how far one record moves a sum of them.

    Each coordinate of a term is rounded to the nearest multiple of the step, and those are added
    exactly, in whatever order.

    Parameters
    ----------
    step : float
        Step of the grid, from `grid_step`; positive.
    n_dimensions : int, default=1
        Coordinates of a term.

    Returns
    -------
    float
        What is added to the L2 sensitivity where a record is replaced; half of it is where one
        joins or leaves.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    ``√d step``: half a step in every coordinate of either record. ``docs/theory/sums.md`` has the
    proof.

    References
    ----------
    J. Demmel and H. D. Nguyen (2013). *Fast reproducible floating-point summation*: terms that are
    rounded to a common step before they are added.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import grid_step, summation_slack
    >>> summation_slack(grid_step(1.0, 1_000_000), n_dimensions=50) < 1e-8
    True
    """
    step = positive_finite(step, "step")
    n_dimensions = whole_number(n_dimensions, "n_dimensions", least=1)
    return math.sqrt(n_dimensions) * step * (1.0 + 4.0 * _UNIT)


def record_rounding(size: float, n_dimensions: int) -> float:
    """Bound what rounding adds to a number or vector that is computed from one record alone.

    Parameters
    ----------
    size : float
        What a relative error counts from: bounds on the result, and on the score times the
        derivative of the result in it.
    n_dimensions : int
        Number of weights d: columns of a row times outputs.

    Returns
    -------
    float
        ``16 (d + 16) 2⁻⁵³ size``.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    size = non_negative(size, "size")
    n_dimensions = whole_number(n_dimensions, "n_dimensions", least=1)
    return _ROUNDINGS_OF_A_RECORD * (n_dimensions + 16.0) * _UNIT * size


def weighting_slack(bound: float, *, n_records: int, n_groups: int) -> float:
    """Bound what rounding of a weighted sum of group means adds to a sensitivity.

    Parameters
    ----------
    bound : float
        Bound on the Euclidean norm of a mean; positive.
    n_records : int
        Records of all groups together.
    n_groups : int
        Number of groups p.

    Returns
    -------
    float
        What is added, times the largest ratio of a group's weight to its size: at least
        ``1 / n_records``, so that the rounding of both neighbours' sums is at most this times the
        ratio.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    bound = positive_finite(bound, "bound")
    n_records = whole_number(n_records, "n_records", least=1)
    n_groups = whole_number(n_groups, "n_groups", least=1)
    return 4.0 * (n_groups + 16.0) * _UNIT * bound * n_records


# The proved sensitivity of a sum of outer products.


def moment_sensitivity(norm: float) -> float:
    """Bound how far one record moves a sum of outer products of vectors with themselves.

    The sum is ``Σ v v'`` over the records, as the vector of its upper triangle with every entry off
    the diagonal times √2, whose Euclidean norm is the Frobenius norm of the matrix. Entries that
    are the same for all records may be left out.

    Parameters
    ----------
    norm : float
        Bound on the norm of v; positive.

    Returns
    -------
    float
        L2 sensitivity ``√2 norm²`` to replacing one record.

    Raises
    ------
    ValueError
        If the bound is not positive and finite.

    Notes
    -----
    ``‖v v' - u u'‖² = ‖v‖⁴ + ‖u‖⁴ - 2 <u, v>²``, at most ``2 norm⁴``, which vectors at right
    angles attain. ``docs/theory/moments.md`` has the proof.

    References
    ----------
    D. Vu and A. Slavkovic (2009). *Differential Privacy for Clinical Trial Data*, releases
    sufficient statistics; Y.-X. Wang (2018). *Revisiting differentially private linear regression*,
    arXiv:1803.02596, those of regression.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import moment_sensitivity
    >>> round(moment_sensitivity(1.0), 3)
    1.414
    """
    return math.sqrt(2.0) * positive_finite(norm, "norm") ** 2
