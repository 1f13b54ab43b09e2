"""Logistic loss of three or more classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, softmax

from sklearn_dpwg.losses.base import FloatArray, Loss, LossConstants, Task


@dataclass(frozen=True)
class MultinomialLogLoss(Loss):
    """Cross-entropy of the softmax of k scores; targets are class indices 0..k-1.

    Parameters
    ----------
    n_outputs : int
        Number of classes k, at least 2.

    Notes
    -----
    The derivative is p - e_y with p the softmax, of norm at most ``√2 (1 - p_y)``. A score
    vector of norm r has differences of at most √2 r between two entries, so
    ``1 - p_y <= q = (k-1)e^{√2 r} / (1 + (k-1)e^{√2 r})`` and the value is at most
    ``log(1 + (k-1)e^{√2 r})``. By convexity and symmetry in the other k - 1 scores the least
    value spreads them evenly: ``log(1 + (k-1)e^{-r √(k/(k-1))})``. The second derivative
    diag(p) - ppᵀ has norm at most 1/2.
    """

    n_outputs: int
    name: ClassVar[str] = "log_loss"
    task: ClassVar[Task] = "multiclass"
    kernel: ClassVar[str | None] = "multinomial_log"

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``logsumexp(a) - a_y`` and ``softmax(a) - e_y``.

        Parameters
        ----------
        scores : ndarray of shape (n_records, n_outputs)
            Decision values.
        targets : ndarray of shape (n_records,)
            Class indices, as floats.

        Returns
        -------
        values : ndarray of shape (n_records,)
            Losses.
        derivatives : ndarray of shape (n_records, n_outputs)
            Derivatives.
        """
        label = targets.astype(np.intp)[:, None]
        normaliser = logsumexp(scores, axis=1, keepdims=True)
        values = (normaliser - np.take_along_axis(scores, label, axis=1))[:, 0]
        derivatives = np.exp(scores - normaliser)
        one_less = np.take_along_axis(derivatives, label, axis=1) - 1.0
        np.put_along_axis(derivatives, label, one_less, axis=1)
        return values, derivatives

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return ``diag(p) - p pᵀ`` with p the softmax.

        Parameters
        ----------
        scores : ndarray of shape (n_records, n_outputs)
            Decision values.
        targets : ndarray of shape (n_records,)
            Not used.

        Returns
        -------
        ndarray of shape (n_records, n_outputs, n_outputs)
            Second derivatives.
        """
        probability = softmax(scores, axis=1)
        curvature = -probability[:, :, None] * probability[:, None, :]
        diagonal = np.arange(self.n_outputs)
        curvature[:, diagonal, diagonal] += probability
        return curvature

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        scores : ndarray of shape (n_records, n_outputs)
            Decision values.

        Returns
        -------
        ndarray of shape (n_records, n_outputs)
            The softmax of the scores.
        """
        return np.asarray(softmax(scores, axis=1))

    def constants(self, score_bound: float) -> LossConstants:
        """Return L, range and H for score vectors of norm at most ``score_bound``.

        Parameters
        ----------
        score_bound : float
            Bound r on the Euclidean norm of the score vector.

        Returns
        -------
        LossConstants
            L = √2 q, H = 1/2, Γ = 2L and the range of the class notes.
        """
        others = math.log(self.n_outputs - 1)
        worst = math.sqrt(2.0) * score_bound + others
        spread = math.sqrt(self.n_outputs / (self.n_outputs - 1))
        best = others - score_bound * spread
        lipschitz = math.sqrt(2.0) / (1.0 + math.exp(-worst))
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=float(np.logaddexp(0.0, best)),
            supremum=float(np.logaddexp(0.0, worst)),
            zero_score=math.log(self.n_outputs),
            smoothness=0.5,
            gradient_diameter=2.0 * lipschitz,
        )
