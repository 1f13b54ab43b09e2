"""A distribution over groups, kept as logarithms."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray

# Below so many groups lists of floats take less time than arrays.
_FEW = 64
# No logarithm falls below: infinities would meet in a NaN. No such weight can ever come back.
_LEAST_LOG = -1e300


class LogWeights:
    """Weights that add up to 1, lowered by factors of any size without a NaN."""

    def __init__(self, weights: FloatArray) -> None:
        self._is_long = len(weights) > _FEW
        self._logs: list[float] | FloatArray = np.log(weights)
        self._weights: list[float] | FloatArray = weights
        if not self._is_long:
            self._logs, self._weights = self._logs.tolist(), weights.tolist()

    def weights(self) -> FloatArray:
        """Return the weights as an array of its own."""
        return np.array(self._weights)

    def logs(self) -> FloatArray:
        """Return the logarithms of the weights as an array of its own."""
        return np.array(self._logs)

    def weight(self, group: int) -> float:
        """Return the weight of one group; 0 where it is too small for a float."""
        return float(self._weights[group])

    def lower(self, group: int, amount: float) -> None:
        """Subtract an amount, at least 0 and maybe infinite, from the logarithm of one weight."""
        self._logs[group] = max(self._logs[group] - amount, _LEAST_LOG)
        self._normalise()

    def lower_all(self, amounts: FloatArray) -> None:
        """Subtract finite amounts from all logarithms."""
        logs = np.maximum(self._logs - (amounts - amounts.min()), _LEAST_LOG)
        self._logs = logs if self._is_long else logs.tolist()
        self._normalise()

    def sample(self, uniform: float) -> int:
        """Return the group where the cumulated weights pass a number in [0, 1)."""
        if self._is_long:
            bounds = np.cumsum(self._weights)
            group = int(np.searchsorted(bounds, uniform * bounds[-1], side="right"))
            return min(group, int(np.flatnonzero(self._weights)[-1]))
        left = uniform
        for group, weight in enumerate(self._weights):
            left -= weight
            if left < 0.0:
                return group
        return max(group for group, weight in enumerate(self._weights) if weight)

    def _normalise(self) -> None:
        if self._is_long:
            logs = np.asarray(self._logs)
            logs -= logs.max()
            with np.errstate(under="ignore"):
                weights = np.exp(logs)
            total = weights.sum()
            logs -= math.log(total)
            np.maximum(logs, _LEAST_LOG, out=logs)
            weights /= total
            self._logs, self._weights = logs, weights
            return
        top = max(self._logs)
        exp = math.exp
        powers = [exp(log - top) for log in self._logs]
        total = sum(powers)
        shift = top + math.log(total)
        self._logs = [log - shift for log in self._logs]
        self._weights = [power / total for power in powers]
