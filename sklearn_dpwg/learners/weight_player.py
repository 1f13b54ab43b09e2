"""The contract of whoever plays weights."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sklearn_dpwg._typing import FloatArray


class WeightPlayer(ABC):
    """Plays weights in a ball, one round after another, and hears a loss after each.

    The loss of a round is ⟨linear, w⟩ + curvature/2 ‖w - center‖².
    """

    @abstractmethod
    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        """Return the weights to play now.

        Parameters
        ----------
        hint : ndarray of shape (n_weights,), optional
            Guess of the linear part that comes next; a good one lowers the regret.

        Returns
        -------
        ndarray of shape (n_weights,)
            Weights in the ball, a new array.
        """

    @abstractmethod
    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        """Hear the loss of the round.

        Parameters
        ----------
        linear : ndarray of shape (n_weights,)
            Linear part, usually a gradient at the weights that were played.
        curvature : float, default=0.0
            Curvature, at least 0.
        center : ndarray of shape (n_weights,), optional
            Where the curved part is least; the default None is the origin.
        """
