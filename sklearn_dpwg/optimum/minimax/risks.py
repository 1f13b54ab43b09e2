"""The four risks of a pair of weights and group weights (Kang et al., Definition 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import FloatArray, positive_finite, real_number
from sklearn_dpwg.data.risks import RiskFunctions
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.optimum.minimax.game import Regulariser, project_to_simplex
from sklearn_dpwg.optimum.saddle_point import smooth_optimum


def plain_risk(
    risks: RiskFunctions,
    weights: ArrayLike,
    group_weights: ArrayLike,
    *,
    regulariser: Regulariser | None = None,
) -> float:
    """Return the plain risk ``F(w, λ) = Σ λ_i L_i(w)``.

    Parameters
    ----------
    risks : RiskFunctions
        Group risks L_i of records (`risks.GroupRisks`) or of a population (`PopulationRisks`).
    weights : array-like of shape (n_weights,)
        Weights w.
    group_weights : array-like of shape (n_groups,)
        Distribution λ over the groups.
    regulariser : Regulariser, optional
        Public part of F; none by default.

    Returns
    -------
    float
        In units of the loss.
    """
    w, mixture = _pair(risks, weights, group_weights, regulariser)
    value = float(mixture @ risks.risks(w))
    if regulariser is not None:
        value += _cost(regulariser.of_weights, w - regulariser.center)
        value -= _cost(regulariser.of_dual, mixture - regulariser.prior)
    return value


def primal_risk(
    risks: RiskFunctions, weights: ArrayLike, *, regulariser: Regulariser | None = None
) -> float:
    """Return the primal risk ``max_v F(w, v)``: without a regulariser the largest group risk.

    Parameters
    ----------
    risks : RiskFunctions
        Group risks of records or of a population.
    weights : array-like of shape (n_weights,)
        Weights w.
    regulariser : Regulariser, optional
        Public part of F; none by default.

    Returns
    -------
    float
        In units of the loss.
    """
    w, _ = _pair(risks, weights, None, regulariser)
    return _largest(risks.risks(w), regulariser) + _cost_of_weights([w], regulariser)


def strong_gap(
    risks: RiskFunctions,
    weights: ArrayLike,
    group_weights: ArrayLike,
    *,
    radius: float,
    regulariser: Regulariser | None = None,
    tolerance: float = 1e-8,
) -> float:
    """Return the strong primal–dual gap ``max_v F(w, v) - min_u F(u, λ)`` over the ball.

    Parameters
    ----------
    risks : RiskFunctions
        Smooth group risks of records or of a population.
    weights : array-like of shape (n_weights,)
        Weights w, in the ball.
    group_weights : array-like of shape (n_groups,)
        Distribution λ over the groups.
    radius : float
        Radius of the ball that u is in.
    regulariser : Regulariser, optional
        Public part of F; none by default.
    tolerance : float, default=1e-8
        What the minimum may be too high, and so the gap too low, by.

    Returns
    -------
    float
        At least ``-tolerance``; 0 at a saddle point.

    Raises
    ------
    ValueError
        If the arguments do not fit, or if the minimum cannot be certified, as with a loss that is
        not smooth.
    """
    one_run: tuple[Any, Any] = [weights], [group_weights]
    return weak_gap(risks, *one_run, radius=radius, regulariser=regulariser, tolerance=tolerance)


def weak_gap(
    risks: RiskFunctions | Sequence[RiskFunctions],
    weights: ArrayLike,
    group_weights: ArrayLike,
    *,
    radius: float,
    regulariser: Regulariser | None = None,
    tolerance: float = 1e-8,
) -> float:
    """Return the weak primal–dual gap ``max_v mean_r F(w_r, v) - min_u mean_r F(u, λ_r)``.

    Parameters
    ----------
    risks : RiskFunctions or sequence of them
        Smooth group risks: of one population or the same records for all runs, or those of the
        records of each run.
    weights : array-like of shape (n_runs, n_weights)
        Weights w_r of each run, in the ball.
    group_weights : array-like of shape (n_runs, n_groups)
        Group weights λ_r of each run.
    radius : float
        Radius of the ball that u is in.
    regulariser : Regulariser, optional
        Public part of F; none by default.
    tolerance : float, default=1e-8
        What the minimum may be too high, and so the gap too low, by.

    Returns
    -------
    float
        At most the mean of the strong gaps; that of one run is its strong gap.

    Raises
    ------
    ValueError
        If the arguments do not fit, or if the minimum cannot be certified.

    Notes
    -----
    Means stand in for the expectations of the definition, over records and noise.
    """
    radius, tolerance = positive_finite(radius, "radius"), positive_finite(tolerance, "tolerance")
    points, mixtures = _runs(weights, "weights"), _runs(group_weights, "group_weights")
    own = list(risks) if isinstance(risks, Sequence) else [risks] * len(points)
    if not points or not len(points) == len(mixtures) == len(own):
        raise InputError(
            f"weights must hold at least one run, and as many as group_weights and a sequence of "
            f"risks, got {len(points)}, {len(mixtures)} and {len(own)}."
        )
    runs = [_pair(*each, regulariser) for each in zip(own, points, mixtures, strict=True)]
    means = np.mean([each.risks(w) for each, (w, _) in zip(own, runs, strict=True)], axis=0)
    highest = _largest(means, regulariser) + _cost_of_weights([w for w, _ in runs], regulariser)
    parts = [(each, mixture / len(runs)) for each, (_, mixture) in zip(own, runs, strict=True)]
    if not isinstance(risks, Sequence):  # F is linear in λ but for the regulariser
        parts = [(risks, np.mean([mixture for _, mixture in runs], axis=0))]
    mixed = _Mixture(tuple(parts), regulariser)
    found = smooth_optimum(mixed, radius=radius, tolerance=tolerance)
    if not found.gap <= tolerance:
        raise InputError(
            f"tolerance must be one that the least risk of a mixture can be certified to, which "
            f"needs a smooth loss, got {tolerance!r} and a gap of {found.gap:.3g}."
        )
    lowest = float(mixed.risks(found.weights)[0])
    if regulariser is not None:
        costs = [_cost(regulariser.of_dual, mixture - regulariser.prior) for _, mixture in runs]
        lowest -= float(np.mean(costs))
    return highest - lowest


def _pair(
    risks: RiskFunctions,
    weights: ArrayLike,
    group_weights: ArrayLike | None,
    regulariser: Regulariser | None,
) -> tuple[FloatArray, FloatArray]:
    """Return weights and a distribution as arrays of the right shapes."""
    if not hasattr(risks, "risks_and_gradients"):
        raise InputTypeError(
            f"risks must be group risks, as GroupRisks of records or PopulationRisks of a "
            f"population, got {type(risks).__name__}."
        )
    if regulariser is not None:
        _check_regulariser(regulariser, risks)
    w = _numbers(weights, "weights")
    if w.shape != (risks.n_weights,):
        raise InputError(f"weights must have shape ({risks.n_weights},), got {w.shape}.")
    if group_weights is None:
        return w, np.zeros(risks.n_groups)
    mixture = _numbers(group_weights, "group_weights")
    if mixture.shape != (risks.n_groups,) or not (mixture >= 0.0).all():
        raise InputError(
            f"group_weights must be {risks.n_groups} numbers of at least 0, got {group_weights!r}."
        )
    if not abs(mixture.sum() - 1.0) <= 1e-6:
        raise InputError(f"group_weights must add up to 1, got a sum of {mixture.sum()!r}.")
    return w, mixture


def _runs(values: ArrayLike, name: str) -> list[Any]:
    """Return what each run has."""
    if np.ndim(values) == 0 if isinstance(values, np.ndarray) else not isinstance(values, Sequence):
        raise InputError(f"{name} must hold a vector for each run, got {values!r}.")
    return list(values)  # type: ignore[arg-type]


def _check_regulariser(regulariser: Regulariser, risks: RiskFunctions) -> None:
    """Refuse what is no regulariser of this game."""
    if not isinstance(regulariser, Regulariser):
        raise InputTypeError(f"regulariser must be a Regulariser or None, got {regulariser!r}.")
    for name in ("of_weights", "of_dual"):
        strength = real_number(getattr(regulariser, name), f"{name} of regulariser")
        if not 0.0 <= strength < math.inf:
            raise InputError(
                f"{name} of regulariser must be at least 0 and finite, got {strength!r}."
            )
    for name, wanted in (("center", risks.n_weights), ("prior", risks.n_groups)):
        if (got := np.shape(getattr(regulariser, name))) != (wanted,):
            raise InputError(f"{name} of regulariser must have shape ({wanted},), got {got}.")


def _numbers(values: ArrayLike, name: str) -> FloatArray:
    """Return values as an array of finite numbers."""
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if not np.isfinite(found).all():
        raise InputError(f"{name} must hold finite numbers, got {values!r}.")
    return found


def _cost(strength: float, offset: FloatArray) -> float:
    return 0.5 * strength * float(offset @ offset)


def _cost_of_weights(points: list[FloatArray], regulariser: Regulariser | None) -> float:
    if regulariser is None:
        return 0.0
    return float(np.mean([_cost(regulariser.of_weights, w - regulariser.center) for w in points]))


def _largest(values: FloatArray, regulariser: Regulariser | None) -> float:
    """Return ``max_v v·L - ρ/2 ‖v - π‖²`` over distributions, at the projection of ``π + L/ρ``."""
    if regulariser is None or regulariser.of_dual == 0.0:
        return float(values.max())
    best = project_to_simplex(regulariser.prior + values / regulariser.of_dual)
    return float(best @ values) - _cost(regulariser.of_dual, best - regulariser.prior)


@dataclass(frozen=True, eq=False)
class _Mixture:
    """The risk of fixed mixtures of groups, with the weights' regulariser, as that of one group."""

    parts: tuple[tuple[RiskFunctions, FloatArray], ...]
    regulariser: Regulariser | None
    n_groups: ClassVar[int] = 1

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return self.parts[0][0].n_weights

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the risk of the mixtures."""
        return self.risks_and_gradients(weights)[0]

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the risk of the mixtures and its gradient."""
        value, gradient = np.zeros(()), np.zeros_like(weights)
        for of_part, mixture in self.parts:
            risks, gradients = of_part.risks_and_gradients(weights)
            value, gradient = value + mixture @ risks, gradient + mixture @ gradients
        if self.regulariser is not None:
            value = value + _cost(self.regulariser.of_weights, weights - self.regulariser.center)
            gradient = gradient + self.regulariser.slope(weights)
        return value[None], gradient[None]

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of the mixtures."""
        found = np.zeros((len(weights), len(weights)))
        for of_part, mixture in self.parts:
            found += of_part.hessian(weights, mixture)
        if self.regulariser is not None:
            found += self.regulariser.of_weights * np.eye(len(weights))
        return group_weights[0] * found


# A known population as group risks.

# Differences of gradients over so long a step make Hessians, which only speed up a search whose
# certificate needs gradients alone.
DIFFERENCE = 1e-5


class KnownPopulation(Protocol):
    """What is asked of a population; those of `sklearn_dpwg.datasets` answer."""

    coef: FloatArray
    group_weights: FloatArray

    def group_risks(self, coef: FloatArray) -> FloatArray:
        """Return the expected loss of each group."""

    def group_gradients(self, coef: FloatArray) -> FloatArray:
        """Return the gradients of the expected losses."""


class PopulationRisks:
    """The expected losses of a population's groups, in place of means over records."""

    def __init__(self, population: KnownPopulation) -> None:
        self.population = population
        self.n_groups = len(population.group_weights)
        self.n_weights = len(population.coef)

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the expected losses."""
        if ceiling is not None:
            raise InputError(f"ceiling must be None for a population, got {ceiling!r}.")
        return self.population.group_risks(weights)

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the expected losses and their gradients."""
        risks = self.risks(weights, ceiling=ceiling)
        return risks, self.population.group_gradients(weights)

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of a mixture, by differences of gradients, to about ten digits."""
        columns = [
            group_weights
            @ (
                self.population.group_gradients(weights + step)
                - self.population.group_gradients(weights - step)
            )
            for step in DIFFERENCE * np.eye(self.n_weights)
        ]
        found = np.array(columns) / (2.0 * DIFFERENCE)
        return np.asarray((found + found.T) / 2.0)
