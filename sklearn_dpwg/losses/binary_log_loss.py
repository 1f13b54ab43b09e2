"""Logistic loss of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from sklearn_dpwg.losses.base import FloatArray, Loss, LossConstants, Task
from sklearn_dpwg.losses.gradient_diameter import gradient_diameter


@dataclass(frozen=True)
class BinaryLogLoss(Loss):
    """Logistic loss ``log(1 + exp(-y a))`` of a score a and a target y in {-1, 1}.

    Notes
    -----
    For ``|a| <= r``: the derivative is ``-y expit(-y a)``, so L = 1/(1+exp(-r)); the value lies
    in [log(1+exp(-r)), log(1+exp(r))], whose width is exactly r; the second derivative is at
    most 1/4.

    The gradient in the weights is ``u expit(<w, u>)`` with ``u = -y x`` in the unit ball, and
    expit is 1/4-Lipschitz, which is what :func:`gradient_diameter` needs.
    """

    name: ClassVar[str] = "log_loss"
    task: ClassVar[Task] = "binary"
    kernel: ClassVar[str | None] = "binary_log"

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``log(1 + exp(-y a))`` and ``-y expit(-y a)``.

        Parameters
        ----------
        scores : ndarray of shape (n_records,)
            Decision values.
        targets : ndarray of shape (n_records,)
            -1 or 1.

        Returns
        -------
        values, derivatives : ndarray of shape (n_records,)
            Losses and derivatives.
        """
        margin = targets * scores
        return np.logaddexp(0.0, -margin), -targets * expit(-margin)

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return ``expit(a) expit(-a)``.

        Parameters
        ----------
        scores : ndarray of shape (n_records,)
            Decision values.
        targets : ndarray of shape (n_records,)
            Not used: the curvature is the same for both classes.

        Returns
        -------
        ndarray of shape (n_records,)
            Second derivatives, at most 1/4.
        """
        return np.asarray(expit(scores) * expit(-scores))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        scores : ndarray of shape (n_records,)
            Decision values.

        Returns
        -------
        ndarray of shape (n_records, 2)
            ``expit(-a)`` and ``expit(a)``.
        """
        return np.column_stack([expit(-scores), expit(scores)])

    def constants(self, score_bound: float) -> LossConstants:
        """Return L, range, H and Γ for ``|a| <= score_bound``.

        Parameters
        ----------
        score_bound : float
            Bound r on the decision value.

        Returns
        -------
        LossConstants
            L = expit(r), B = r, H = 1/4, Γ by certified search.
        """
        lipschitz = float(expit(score_bound))
        return LossConstants(
            score_bound=score_bound,
            lipschitz=lipschitz,
            infimum=float(np.logaddexp(0.0, -score_bound)),
            supremum=float(np.logaddexp(0.0, score_bound)),
            zero_score=float(np.log(2.0)),
            smoothness=0.25,
            gradient_diameter=min(
                2.0 * lipschitz,
                gradient_diameter(_expit, score_bound, derivative_slope=0.25),
            ),
        )


def _expit(score: FloatArray) -> FloatArray:
    return np.asarray(expit(score))
