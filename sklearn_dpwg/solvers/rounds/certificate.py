"""Phases that are solved to a public gap: the gap, and how far one record moves what is found."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.optimum.saddle_point import attainable_gap
from sklearn_dpwg.privacy.sensitivity.saddle_point import (
    hidden_group_sensitivities,
    saddle_point_sensitivities,
)
from sklearn_dpwg.solvers.steps import influence, record_errors

_UNIT = 2.0**-53
# Of a mean of sums that are exact, in four parts, beside one for each cell of a group.
_ROUNDINGS_OF_A_MEAN = 16
# Digits that a logarithm of a group weight may take before the point, as roundings.
_LOG_WEIGHT = 750.0
# The certified distance to the exact solution may add this share to a sensitivity, where floating
# point can show so small a gap.
SLACK = 0.01


class Phase(NamedTuple):
    """Objective of one phase, the gap that it is solved to, and its sensitivity."""

    mu_weights: float  # regularisation μ_w
    mu_groups: float  # regularisation μ_λ
    tolerance: float  # gap that is reached on every data set
    sensitivity: float  # largest distance that one record moves what is found
    total_weight: float  # bound on how often records count together, in units of their mean


def solved_phase(solved: Problem, prior: Any, *, mu_weights: float, mu_groups: float) -> Phase:
    """Return a phase around a prior with the gap that it must certify and its sensitivity.

    The gap is a public number that floating point can show on every data set. The sensitivity pays
    for the gap and for the rounding of its certificate.
    """
    strengths = {"mu_weights": mu_weights, "mu_groups": mu_groups}
    exact = sensitivities(solved, prior, mu_weights=[mu_weights], mu_groups=mu_groups)[0]
    tolerance, paid = certified(solved, float(exact), prior=prior, **strengths)
    total = total_weight(solved, mu_groups, prior)
    return Phase(mu_weights, mu_groups, float(tolerance), float(capped(solved, paid)), total)


def sensitivities(solved: Problem, prior: Any, *, mu_weights: Any, mu_groups: float) -> FloatArray:
    """Return how far replacing one record moves the exact minimiser of a phase, by strength.

    Where groups overlap it is the sum over the groups of a record; if group weights are fixed, what
    a record weighs in the mixture times the diameter of gradients, over the strength
    (docs/theory/overlapping-groups.md, Lemmas 3 and 4).
    """
    of_gradient, of_loss = record_errors(solved, solved.constants.supremum)
    if solved.cells is not None and mu_groups == math.inf:
        diameter = solved.gradient_diameter + 2.0 * of_gradient
        moved = diameter * influence(solved, np.asarray(prior)) * (1.0 + 16.0 * _UNIT)
        return np.asarray(moved / np.asarray(mu_weights))
    facts: dict[str, Any] = {
        "lipschitz": solved.lipschitz + of_gradient,
        "gradient_diameter": solved.gradient_diameter + 2.0 * of_gradient,
        "loss_range": solved.loss_range + 2.0 * of_loss,
        "strong_convexities": mu_weights,
        "entropy_weight": mu_groups,
        "prior": prior,
    }
    if solved.hidden is not None:
        return hidden_group_sensitivities(normalisers=solved.group_sizes, **facts)
    facts["group_sizes"] = solved.group_sizes
    if solved.cells is not None:
        of_groups = saddle_point_sensitivities(**facts, by_group=True)
        return np.array([solved.cells.influence(each) for each in of_groups])
    return saddle_point_sensitivities(**facts)


def certified(
    solved: Problem, exact: Any, *, mu_weights: Any, mu_groups: float, prior: Any = None
) -> tuple[Any, Any]:
    """Return the gap that a phase must certify and the sensitivity that pays for it.

    From the sensitivity of exact solutions; both one for each strength if there are several. What a
    run pays is `capped`.
    """
    rounding = rounding_of_minimiser(
        solved, mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    slope = total_weight(solved, mu_groups, prior) * solved.lipschitz
    attainable = attainable_gap(
        solved.radius, slope, mu_weights, solved.radius, mu_groups=mu_groups
    )
    # a gap α is two distances √(2α/μ_w): a hundredth of the exact one, or what rounding is worth
    wanted = mu_weights * (SLACK * exact / 2.0) ** 2 / 2.0
    visible = np.minimum(attainable, mu_weights * (rounding / 2.0) ** 2 / 2.0)
    tolerance = np.maximum(wanted, visible)
    paid = exact + 2.0 * np.sqrt(2.0 * tolerance / mu_weights) + rounding
    return tolerance, paid * (1.0 + 16.0 * _UNIT)


def capped(solved: Problem, paid: Any) -> Any:
    """Return a sensitivity, at most the diameter of the ball, in which all weights are.

    Strengths are planned without it: a bound would fall again where the strength is so small that
    noise of the ball's size no longer grows, and choose to learn nothing.
    """
    return np.minimum(paid, solved.diameter * (1.0 + 8.0 * (solved.n_weights + 16.0) * _UNIT))


def total_weight(solved: Problem, mu_groups: float, prior: Any = None) -> float:
    """Bound how often records count together, in units of their mean.

    Hidden groups may be larger than what stands for their sizes: for given group weights
    ``Σ π_i n_i/m_i`` is at most ``K max_i π_i/m_i``, and for any weights ``K / min_i m_i``.
    """
    if solved.hidden is None:
        return 1.0
    divisors = np.asarray(solved.group_sizes, dtype=float)
    weights = np.ones(len(divisors)) if prior is None or mu_groups < math.inf else np.asarray(prior)
    return max(1.0, solved.n_records * float((weights / divisors).max()))


# Rounding of the certificate: docs/theory/phased-erm-sensitivity.md.


def rounding_of_minimiser(
    solved: Problem, *, mu_weights: Any, mu_groups: float, prior: Any = None
) -> Any:
    """Bound how much farther apart rounding lets two neighbours' certified weights be.

    It is ``4 δ/μ_w``, where δ bounds the error of a gradient of the objective, and what evaluating
    the certificate adds; one number for each strength if there are several.
    """
    of_gradient, of_loss = record_errors(solved, solved.constants.supremum)
    total = total_weight(solved, mu_groups, prior)
    n_groups, lipschitz = solved.n_groups, total * (solved.lipschitz + of_gradient)
    n_cells = 1 if solved.cells is None else len(solved.cells.sizes)
    relative = (_ROUNDINGS_OF_A_MEAN + n_cells) * _UNIT
    loss = max(abs(solved.constants.supremum), abs(solved.constants.infimum)) + of_loss
    # of the logarithm of a group weight: of its risk, and of the exponent itself
    risk = total * (relative * loss + of_loss) / mu_groups
    exponent = 4.0 * _UNIT * (total * solved.loss_range / mu_groups + _LOG_WEIGHT + n_groups)
    of_weights = min(2.0, math.expm1(min(2.0 * (risk + exponent), 2.0)))
    error = (
        total * relative * solved.rounding_factor * (solved.summed_norm + of_gradient)
        + total * of_gradient
        + lipschitz * (of_weights + (n_groups + 8.0) * _UNIT)
        + 16.0 * _UNIT * mu_weights * solved.radius
    )
    # a step of the certificate ends at most so many radii away from the centre
    stretch = 4.0 + 2.0 * lipschitz / (mu_weights * solved.radius)
    of_step = 16.0 * (solved.n_weights + 16.0) * _UNIT * solved.radius * np.sqrt(stretch)
    return 4.0 * error / mu_weights + 2.0 * of_step
