"""A learner behind noisy prefix sums."""

from __future__ import annotations

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners.learner import WeightPlayer
from sklearn_dpwg.privacy.prefix_sums import PrefixSumStream


class PrivatePlayer(WeightPlayer):
    """Hands a player the differences of noisy prefix sums instead of the linear parts.

    Everything that the player sees is a function of the released sums, so its weights are as
    private as the sums are. A player that adds the differences up, like that of `FTRL`, has the
    released sum itself.

    Parameters
    ----------
    player : WeightPlayer
        Any player.
    stream : PrefixSumStream
        An opened stream of the linear parts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.learners import FTRL, PrivatePlayer
    >>> from sklearn_dpwg.privacy import NoiseSource
    >>> from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
    >>> sums = make_prefix_sums("toeplitz", n_steps=100, n_dimensions=2)
    >>> release = sums.release("gradient sums", noise_multiplier=4.0)
    >>> stream = sums.open(NoiseSource(releases=[release]), release, sensitivity=2.0)
    >>> player = PrivatePlayer(FTRL().start(2, radius=1.0, strength=50.0), stream)
    >>> player.update(np.array([0.6, -0.8]))
    >>> player.predict().shape
    (2,)
    """

    def __init__(self, player: WeightPlayer, stream: PrefixSumStream) -> None:
        self._player = player
        self._stream = stream
        self._noisy_sum: FloatArray | float = 0.0

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        return self._player.predict(hint)

    def update(
        self,
        linear: FloatArray,
        curvature: float = 0.0,
        center: FloatArray | None = None,
        *,
        sensitivity: float | None = None,
    ) -> None:
        """Take the loss of the round; only its linear part may be private.

        Parameters
        ----------
        linear : ndarray of shape (n_weights,)
            Linear part, read from private records.
        curvature : float, default=0.0
            Curvature, at least 0, from public facts and earlier releases.
        center : ndarray of shape (n_weights,), optional
            Where the curved part is least, from public facts and earlier releases; the default
            None is the origin.
        sensitivity : float, optional
            By how much one record can move the linear part, if the stream was opened without.
        """
        noisy_sum = self._stream.add(linear, sensitivity)
        self._player.update(noisy_sum - self._noisy_sum, curvature, center)
        self._noisy_sum = noisy_sum
