"""What every loss states: values, derivatives, and constants over a bounded score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


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

    @property
    def loss_range(self) -> float:
        """The range B, supremum minus infimum."""
        return self.supremum - self.infimum


class Loss(ABC):
    """A convex loss of a linear score.

    A loss sees scores and encoded targets, never rows. ``n_outputs`` is the number of scores a
    record has; with one, scores are one-dimensional.
    """

    name: ClassVar[str]
    smooth: ClassVar[bool] = True
    n_outputs: int = 1

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
