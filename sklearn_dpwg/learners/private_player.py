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

        Curvature and centre are from public facts and earlier releases. By how much one record can
        move the linear part is said here, if the stream was opened without.
        """
        noisy_sum = self._stream.add(linear, sensitivity)
        self._player.update(noisy_sum - self._noisy_sum, curvature, center)
        self._noisy_sum = noisy_sum
