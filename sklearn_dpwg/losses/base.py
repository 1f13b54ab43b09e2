"""Contract of a loss: values, derivatives, and constants over a bounded score."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Literal, Self

from sklearn_dpwg._checks import Rules
from sklearn_dpwg._typing import FloatArray

Task = Literal["binary", "multiclass", "regression"]

# Supremum, infimum and their difference are each rounded by at most two units in the last place
# of the supremum.
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
        Largest loss of a record whose score is zero: what predicting nothing costs at most.
    smoothness : float
        Bound H on the largest eigenvalue of the second derivative in the score; ``inf`` for a
        loss that is not smooth.
    gradient_diameter : float
        Bound Γ on ``‖∇ℓ(w, z) − ∇ℓ(w, z')‖`` over all weights in the ball and all pairs of
        records; never above ``2 * lipschitz``.
    """

    score_bound: float
    lipschitz: float
    infimum: float
    supremum: float
    zero_score: float
    smoothness: float
    gradient_diameter: float

    def __post_init__(self) -> None:
        """Refuse what no loss can have."""
        for name in ("score_bound", "lipschitz", "smoothness", "gradient_diameter"):
            value = getattr(self, name)
            if not value >= 0.0 or (value == math.inf and name != "smoothness"):
                raise ValueError(f"{name} of a loss must be finite and at least 0, got {value!r}.")
        if not -math.inf < self.infimum <= self.zero_score <= self.supremum < math.inf:
            raise ValueError(
                f"infimum, zero_score and supremum of a loss must be finite and in this order, got "
                f"{self.infimum!r}, {self.zero_score!r} and {self.supremum!r}."
            )

    @property
    def loss_range(self) -> float:
        """The range B, supremum minus infimum, never rounded down."""
        return self.range_up_to(math.inf)

    def range_up_to(self, ceiling: float) -> float:
        """Return the range of losses of which each counts for at most a ceiling.

        Parameters
        ----------
        ceiling : float
            The most that a loss counts for; ``inf`` for no ceiling.

        Returns
        -------
        float
            The smaller of ceiling and supremum, minus the infimum. For scores near zero the two
            are nearly equal and their difference is rounding, so some units in the last place are
            added: it is never below the true range.
        """
        highest = min(ceiling, self.supremum)
        return highest - self.infimum + _ROUNDING_UNITS * math.ulp(highest)


class Loss(ABC):
    """A convex loss of a linear score.

    A loss sees scores and encoded targets, never rows. ``n_outputs`` is the number of scores a
    record has; with one, scores are one-dimensional. ``task`` says what targets are: -1 or 1 of a
    "binary" loss, class indices of a "multiclass" one, numbers in [-Y, Y] of a "regression" loss,
    which has a field ``target_bound`` for Y. A loss with parameters is a frozen dataclass; those
    that a user may choose come first, and ``rules`` (or ``__post_init__``) check them. A loss whose
    scores mean probabilities has a method ``probabilities(scores)``, and a classifier with it has
    ``predict_proba``. ``kernel`` names the branch of the compiled pass (`sklearn_dpwg.kernels`)
    that computes this very loss, with ``kernel_parameter``; every class states its own, and one
    without is computed by its methods, block by block.
    """

    name: ClassVar[str]
    task: ClassVar[Task]
    smooth: ClassVar[bool] = True
    kernel: ClassVar[str | None] = None
    rules: ClassVar[Rules] = Rules("Loss")
    n_outputs: int = 1

    def __post_init__(self) -> None:
        self.rules.check(self)

    @property
    def kernel_parameter(self) -> float:
        """The number that the kernel's formula needs, if any."""
        return 0.0

    @abstractmethod
    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the loss of each record and its derivative in the score.

        Parameters
        ----------
        scores : ndarray of shape (n_records,) or (n_records, n_outputs)
            Decision values.
        targets : ndarray of shape (n_records,)
            Encoded targets.

        Returns
        -------
        values : ndarray of shape (n_records,)
            Losses.
        derivatives : ndarray of the shape of ``scores``
            Derivatives in the score.
        """

    @abstractmethod
    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the second derivative of each record's loss in the score.

        Parameters
        ----------
        scores : ndarray of shape (n_records,) or (n_records, n_outputs)
            Decision values.
        targets : ndarray of shape (n_records,)
            Encoded targets.

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
        scores : ndarray of shape (n_records,) or (n_records, n_outputs)
            Decision values.
        targets : ndarray of shape (n_records,)
            Encoded targets.

        Returns
        -------
        ndarray of shape (n_records,)
            Losses.
        """
        return self.value_and_derivative(scores, targets)[0]

    def with_bounded_slope(self) -> Loss:
        """Return the loss to learn with in place of this one where noise is added.

        Returns
        -------
        Loss
            One of the same scores and targets that fits of little budget do better with: this loss
            itself, unless it says otherwise.
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

        Raises
        ------
        TypeError
            If the loss states none.
        """
        raise TypeError(f"{type(self).__name__} has no smoothed() and cannot be solved exactly.")

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
            This loss.

        Raises
        ------
        ValueError
            If a name is unknown or a value out of range; nothing is changed then.
        """
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}, only {sorted(known)}."
                )
        if parameters:
            checked = type(self)(**known | parameters)
            for name, value in checked.get_params().items():
                object.__setattr__(self, name, value)  # plans hold copies of their own
        return self


class SmoothedLoss(Loss):
    """A smooth loss that stands in for one with kinks."""

    @abstractmethod
    def supporting_value(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return what lines below the original loss are worth at the scores.

        Parameters
        ----------
        scores : ndarray of shape (n_records,)
            Decision values.
        targets : ndarray of shape (n_records,)
            Encoded targets.

        Returns
        -------
        ndarray of shape (n_records,)
            For each record, the value at its score of a line whose slope is the derivative of the
            smooth loss there, and which is nowhere above the original loss.
        """
