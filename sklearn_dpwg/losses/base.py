"""Interface of a loss: values, derivatives, and constants for scores of bounded norm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from inspect import signature
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, Rules
from sklearn_dpwg.exceptions import InputError, InputTypeError

Task = Literal["binary", "multiclass", "regression"]

# Supremum, infimum and their difference each have an error of at most 2 units in the last place.
_ROUNDING_UNITS = 6


@dataclass(frozen=True)
class LossConstants:
    """Bounds that hold for every record whose score has norm at most ``score_bound``.

    Everything is stated for rows of norm 1; rows of norm C multiply ``lipschitz`` and
    ``gradient_diameter`` by C and ``smoothness`` by C².

    Parameters
    ----------
    score_bound : float
        Bound r on the norm of the score ``W x``.
    lipschitz : float
        Bound L on the norm of the derivative in the score.
    infimum, supremum : float
        Bounds on the value of the loss; their difference is the range B.
    zero_score : float
        Largest loss of a record whose score is zero, as every score of zero weights.
    smoothness : float
        Bound H on the largest eigenvalue of the second derivative in the score; ``inf`` for a
        loss that is not smooth.
    derivative : callable, optional
        Where every gradient is ``u f(<w, u>)`` with u in the unit ball, the function f, hashable,
        which must fall nowhere: `gradient_diameter` may then be less than ``2 * lipschitz``.
    """

    score_bound: float
    lipschitz: float
    infimum: float
    supremum: float
    zero_score: float
    smoothness: float
    derivative: Callable[[FloatArray], FloatArray] | None = None

    def __post_init__(self) -> None:
        """Refuse constants that contradict each other or are not finite."""
        for name in ("score_bound", "lipschitz", "smoothness"):
            value = getattr(self, name)
            if not value >= 0.0 or (value == math.inf and name != "smoothness"):
                raise InputError(f"{name} of a loss must be finite and at least 0, got {value!r}.")
        if not -math.inf < self.infimum <= self.zero_score <= self.supremum < math.inf:
            raise InputError(
                f"infimum, zero_score and supremum of a loss must be finite and in this order, got "
                f"{self.infimum!r}, {self.zero_score!r} and {self.supremum!r}."
            )

    @cached_property
    def gradient_diameter(self) -> float:
        """Bound Γ on ``‖∇ℓ(w, z) - ∇ℓ(w, z')‖`` over weights w of the ball and records z, z'."""
        if self.derivative is None:
            return 2.0 * self.lipschitz
        return min(2.0 * self.lipschitz, gradient_diameter(self.derivative, self.score_bound))

    @property
    def loss_range(self) -> float:
        """The range B, supremum minus infimum, never rounded down."""
        return self.range_up_to(math.inf)

    def range_up_to(self, loss_clip: float) -> float:
        """Return the range of losses that are clipped from above.

        Parameters
        ----------
        loss_clip : float
            The most that a loss counts for; ``inf`` for no clip.

        Returns
        -------
        float
            The smaller of clip and supremum, minus the infimum, never rounded down.
        """
        highest = min(loss_clip, self.supremum)
        return highest - self.infimum + _ROUNDING_UNITS * math.ulp(highest)


class Loss(ABC):
    """A convex loss of a linear score.

    A loss sees scores and encoded targets, never rows. ``n_outputs`` is the number of scores a
    record has; with one, scores are one-dimensional. ``task`` says what targets are: -1 or 1 of a
    "binary" loss, class indices of a "multiclass" one, numbers in [-Y, Y] of a "regression" loss,
    which has a field ``target_bound`` for Y. A loss with parameters is a frozen dataclass; those
    that a user may choose come first, and ``rules`` (or ``__post_init__``) check them. A loss whose
    scores mean probabilities has a method ``probabilities(scores)``, and a classifier with it has
    ``predict_proba``. A loss with `ends` can have its slope limited for each record, as centred
    rows need.
    """

    name: ClassVar[str]
    task: ClassVar[Task]
    smooth: ClassVar[bool] = True
    rules: ClassVar[Rules] = Rules("Loss")
    n_outputs: int = 1

    def __post_init__(self) -> None:
        self.rules.check(self)

    @abstractmethod
    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the loss of each record and its derivative in the score.

        Parameters
        ----------
        scores, targets : ndarray
            Decision values of shape (n_records,) or (n_records, n_outputs), and encoded targets of
            shape (n_records,).

        Returns
        -------
        values, derivatives : ndarray
            Losses, and derivatives in the score of the shape of ``scores``.
        """

    @abstractmethod
    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the second derivative of each record's loss in the score.

        Parameters
        ----------
        scores, targets : ndarray
            As of `value_and_derivative`.

        Returns
        -------
        ndarray of shape (n_records,) or (n_records, n_outputs, n_outputs)
            Second derivatives.
        """

    @abstractmethod
    def constants(self, score_bound: float) -> LossConstants:
        """Return the bounds that hold for scores of norm at most ``score_bound``.

        Parameters
        ----------
        score_bound : float
            Bound r on the norm of a record's score, radius times row norm.

        Returns
        -------
        LossConstants
            Lipschitz constant, range, smoothness and gradient diameter for rows of norm 1.
        """

    def value(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the loss of each record.

        Parameters
        ----------
        scores, targets : ndarray
            As of `value_and_derivative`.

        Returns
        -------
        ndarray of shape (n_records,)
            Losses.
        """
        return self.value_and_derivative(scores, targets)[0]

    def ends(self, targets: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the interval of scores in which each record's slope is at most its limit.

        A loss with this method must be at least 0 at every score.

        Parameters
        ----------
        targets, limits : ndarray of shape (n_records,)
            Encoded targets, and positive bounds on the derivative, which is steeper at some scores.

        Returns
        -------
        low, high : ndarray of shape (n_records,)
            Ends of the interval, infinite on a side where the loss is nowhere steeper.
        """
        raise InputTypeError(f"slopes of {self!r} cannot be limited: it has no ends().")

    @property
    def has_ends(self) -> bool:
        """Whether slopes can be limited; those of several outputs can without `ends`."""
        return self.n_outputs > 1 or type(self).ends is not Loss.ends

    def with_bounded_slope(self) -> Loss:
        """Return a loss like this one with smaller slopes, which private fits learn with.

        Returns
        -------
        Loss
            Of the same scores and targets; this loss itself, unless it says otherwise.
        """
        return self

    def smoothed(self, width: float) -> SmoothedLoss:
        """Return a smooth loss near this one, with which the exact solver certifies its optimum.

        Only a loss that is not smooth needs it, and only for ``epsilon=inf``.

        Parameters
        ----------
        width : float
            How far from a kink, in the score, the smooth loss may differ.

        Returns
        -------
        SmoothedLoss
            A loss that tends to this one with the width.
        """
        raise InputTypeError(
            f"{type(self).__name__} has no smoothed() and cannot be solved exactly."
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, by which scikit-learn clones and searches.

        Parameters
        ----------
        deep : bool, default=True
            Not used: parameters are plain values.

        Returns
        -------
        dict
            Names and values.
        """
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters in place, as ``loss__name`` of an estimator does.

        Parameters
        ----------
        **parameters : dict
            Names and values.

        Returns
        -------
        Loss
            This loss, not changed at all where a name is unknown or a value out of range.
        """
        checked = type(self)(**self.get_params() | parameters)
        for name, value in checked.get_params().items():
            object.__setattr__(self, name, value)  # plans hold copies of their own
        return self


# Limits the search to about a second and a few hundred MiB.
_MAX_CELLS = 2**20


@lru_cache(maxsize=256)
def gradient_diameter(
    derivative: Callable[[FloatArray], FloatArray], score_bound: float, tolerance: float = 2e-3
) -> float:
    """Return an upper bound on the distance of two records' gradients, by branch and bound.

    Gradients are ``u f(<w, u>)`` with u in the unit ball, ``‖w‖ <= r`` and f a derivative that
    never falls. If two u have angles s and t to the plane orthogonal to w, and ``F = f(r sin s)``,
    ``G = f(r sin t)``, the largest squared distance is ``(F sin s - G sin t)² + (|F| cos s + |G|
    cos t)²``. The search over cells of angles overestimates it by at most the relative tolerance,
    unless it would need over a million cells: ``docs/theory/losses.md`` has the proof.
    """

    def slope_at(angle: FloatArray) -> FloatArray:
        return derivative(score_bound * np.sin(np.clip(angle, -np.pi / 2, np.pi / 2)))

    def curve(angle: FloatArray, half_width: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (F sin s, |F| cos s) at centres of cells, and its largest change in a cell."""
        value = slope_at(angle)
        above = slope_at(angle + half_width) - value
        below = value - slope_at(angle - half_width)
        if min(above.min(), below.min()) < -1e-12 * np.abs(value).max():
            raise InputError("derivative must fall nowhere, as that of a convex loss does.")
        across = np.abs(value) * np.cos(angle)
        reach = (np.maximum(above, below) + np.abs(value) * half_width) * (1.0 + 1e-12)
        return value * np.sin(angle), across, reach

    n_cells, best = 32, 0.0
    width = np.pi / n_cells
    first: NDArray[Any]
    second: NDArray[Any]
    first, second = np.triu_indices(n_cells)  # the distance is symmetric in the two records
    while True:
        # the curve is evaluated once a cell, though a cell is in many pairs
        cells, places = np.unique(np.concatenate([first, second]), return_inverse=True)
        along, across, reach = curve(width * (cells + 0.5) - np.pi / 2, width / 2)
        left, right = places[: len(first)], places[len(first) :]
        distance = np.hypot(along[left] - along[right], across[left] + across[right])
        bounds = distance + reach[left] + reach[right]
        best, bound = max(best, float(distance.max())), float(bounds.max())
        if bound <= (1.0 + tolerance) * best or len(first) > _MAX_CELLS:
            return bound
        # pairs of cells that may hold the maximum are divided into four
        kept = bounds >= best
        width /= 2
        first = (2 * first[kept, None] + [0, 0, 1, 1]).ravel()
        second = (2 * second[kept, None] + [0, 1, 0, 1]).ravel()


@dataclass(frozen=True)
class CutLine:
    """The derivative ``f(t) = (t + shift)/width`` of a loss in the score, clipped to [low, high].

    It is hashable, as `gradient_diameter` caches by it.
    """

    shift: float
    width: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def __call__(self, scores: FloatArray) -> FloatArray:
        return np.clip((scores + self.shift) / self.width, self.low, self.high)


def constants_at_the_ends(
    loss: Loss,
    score_bound: float,
    *,
    lipschitz: float | None = None,
    smoothness: float = math.inf,
    derivative: Callable[[FloatArray], FloatArray] | None = None,
) -> LossConstants:
    """Return the constants of a loss that falls in the margin, or grows with the residual's size.

    A convex loss is largest and steepest at the extreme scores and targets, where it is evaluated.
    """
    if loss.task == "binary":
        scores, targets = np.array([-score_bound, 0.0, score_bound]), np.ones(3)
        values, slopes = loss.value_and_derivative(scores, targets)
        supremum, zero_score, infimum = values.tolist()
    else:
        bound: float = loss.target_bound  # type: ignore[attr-defined]
        largest = score_bound + bound
        residuals = np.array([largest, -largest, bound, -bound])
        values, slopes = loss.value_and_derivative(residuals, np.zeros(4))
        supremum, zero_score, infimum = float(values.max()), float(values[2:].max()), 0.0
    lipschitz = float(np.abs(slopes).max()) if lipschitz is None else lipschitz
    return LossConstants(
        score_bound, lipschitz, infimum, supremum, zero_score, smoothness, derivative
    )


class KinkedLoss(Loss):
    """A loss ``max(p e, q e)`` of the residual ``e = a - y``, with slopes ``p <= 0 <= q``.

    With ``c = (p+q)/2`` and ``g = (q-p)/2`` the loss is ``c e + g |e|``. Its smooth stand-in of
    width h replaces ``|e|`` by ``(e²/h + h)/2`` for ``|e| <= h``: never below the loss, above it by
    ``g h/2`` at most, of a derivative s in [p, q], so that ``s e`` is nowhere above the loss.
    """

    smooth: ClassVar[bool] = False

    @abstractmethod
    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each record's slopes: p for scores below the target, q for scores above."""

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the loss and a subgradient, 0 at the kink."""
        residual = scores - targets
        lower, upper = self.slopes(targets)
        slope = np.where(residual > 0.0, upper, np.where(residual < 0.0, lower, 0.0))
        return slope * residual, slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        return np.zeros_like(scores)

    def ends(self, targets: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower, upper = self.slopes(targets)
        low = np.where(-lower > limits, targets, -np.inf)
        return low, np.where(upper > limits, targets, np.inf)

    def smoothed(self, width: float) -> SmoothedLoss:
        """Return the loss with a parabola in place of the kink."""
        return SmoothedLoss(self, width)

    def constants(self, score_bound: float) -> LossConstants:
        return constants_at_the_ends(self, score_bound)


@dataclass(frozen=True)
class SmoothedLoss(Loss):
    """The smooth stand-in of a `KinkedLoss`, or lines of its slopes below the kinked loss."""

    loss: KinkedLoss
    width: float
    # True for the lines s·e instead, tangent slopes s of the stand-in through residual 0
    is_lines: bool = field(default=False, repr=False)
    name: ClassVar[str] = "rounded_kink"

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        residual, tilt, opening, fraction = self._parts(scores, targets)
        # (e²/h + h)/2 - |e|, and 0 for |e| >= h
        excess = 0.5 * self.width * (1.0 - np.abs(fraction)) ** 2
        slope = tilt + opening * fraction
        if self.is_lines:
            return slope * residual, slope
        return tilt * residual + opening * (np.abs(residual) + excess), slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        _, _, opening, fraction = self._parts(scores, targets)
        return np.asarray(np.where(np.abs(fraction) < 1.0, opening / self.width, 0.0))

    def constants(self, score_bound: float) -> LossConstants:
        exact = self.loss.constants(score_bound)
        # the opening g = (q-p)/2 is at most L, as both slopes are within [-L, L]
        return replace(
            exact,
            supremum=exact.supremum + exact.lipschitz * self.width / 2.0,
            zero_score=exact.zero_score + exact.lipschitz * self.width / 2.0,
            smoothness=exact.lipschitz / self.width,
        )

    def _parts(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the residual e, tilt c, opening g, and e/h clipped to [-1, 1]."""
        residual = scores - targets
        lower, upper = self.loss.slopes(targets)
        fraction = np.clip(residual / self.width, -1.0, 1.0)
        return residual, 0.5 * (lower + upper), 0.5 * (upper - lower), fraction
