"""Losses with a kink where the score meets the target."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses.base import Loss, LossConstants, SmoothedLoss


class KinkedLoss(Loss):
    """A loss ``max(p e, q e)`` of the residual ``e = a - y``, with slopes ``p <= 0 <= q``.

    Hinge, absolute and quantile loss are of this kind; a new one states its slopes and its
    constants.

    Notes
    -----
    With ``c = (p+q)/2`` and ``g = (q-p)/2`` the loss is ``c e + g |e|``. Its smooth stand-in of
    width h replaces ``|e|`` by ``(e²/h + h)/2`` for ``|e| <= h``. That is the loss itself where
    ``|e| >= h`` and never below it, and its derivative s lies in [p, q] everywhere. So ``s e`` is
    a line of slope s that nowhere exceeds the loss, ``max(p e, q e) >= s e``. At ``|e| >= h`` it
    touches the loss; within, the stand-in exceeds it by
    ``g (h/2 - e²/(2h))``, at most ``g h/2``.
    """

    smooth: ClassVar[bool] = False

    @abstractmethod
    def slopes(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slopes on both sides of the kink.

        Parameters
        ----------
        targets : ndarray of shape (n_records,)
            Encoded targets.

        Returns
        -------
        lower, upper : ndarray of shape (n_records,)
            Slopes p <= 0 for scores below the target and q >= 0 above.
        """

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the loss and a subgradient, 0 at the kink."""
        residual = scores - targets
        lower, upper = self.slopes(targets)
        slope = np.where(residual > 0.0, upper, np.where(residual < 0.0, lower, 0.0))
        return slope * residual, slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Return zeros, the second derivative wherever there is one."""
        return np.zeros_like(scores)

    def smoothed(self, width: float) -> SmoothedLoss:
        """Return the loss with a parabola in place of the kink."""
        return _RoundedKink(self, width)


@dataclass(frozen=True)
class _RoundedKink(SmoothedLoss):
    """The stand-in of `KinkedLoss`."""

    loss: KinkedLoss
    width: float
    name: ClassVar[str] = "rounded_kink"

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        residual, tilt, opening, share = self._parts(scores, targets)
        # (e²/h + h)/2 is |e| and this, which is 0 from |e| = h on
        excess = 0.5 * self.width * (1.0 - np.abs(share)) ** 2
        slope = tilt + opening * share
        return tilt * residual + opening * (np.abs(residual) + excess), slope

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        _, _, opening, share = self._parts(scores, targets)
        return np.asarray(np.where(np.abs(share) < 1.0, opening / self.width, 0.0))

    def supporting_value(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        residual, tilt, opening, share = self._parts(scores, targets)
        return np.asarray((tilt + opening * share) * residual)

    def constants(self, score_bound: float) -> LossConstants:
        exact = self.loss.constants(score_bound)
        # the opening (q-p)/2 is at most L, as both slopes are within it
        return replace(
            exact,
            supremum=exact.supremum + exact.lipschitz * self.width / 2.0,
            zero_score=exact.zero_score + exact.lipschitz * self.width / 2.0,
            smoothness=exact.lipschitz / self.width,
        )

    def _parts(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return e, c, g and e/h cut to [-1, 1]."""
        residual = scores - targets
        lower, upper = self.loss.slopes(targets)
        share = np.clip(residual / self.width, -1.0, 1.0)
        return residual, 0.5 * (lower + upper), 0.5 * (upper - lower), share
