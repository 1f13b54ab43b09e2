"""Fresh noise on every vector."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy.noise.rows import GaussianRows
from sklearn_dpwg.privacy.prefix_sums.base import PrefixSums
from sklearn_dpwg.privacy.prefix_sums.stream import PrefixSumStream


class IndependentNoise(PrefixSums):
    """Independent noise on every vector, which adds up: C is the identity, B = A.

    This is noisy gradient descent in one pass, the baseline. The noise of sum t is √t, the worst
    √T; the differences have the least noise of all.

    Independent noise on every *sum* (C = A, B the identity) has noise √T at every step, never
    less than this.
    """

    name = "independent"

    @property
    def n_rows(self) -> int:
        """Rows of C: T."""
        return self.n_steps

    @property
    def column_norm(self) -> float:
        """Largest column norm of C: 1."""
        return 1.0

    @property
    def rounding(self) -> float:
        """Nothing: the rows are the vectors."""
        return 0.0

    def row_norms(self) -> FloatArray:
        return np.sqrt(np.arange(1.0, self.n_steps + 1.0))

    def increment_norms(self) -> FloatArray:
        return np.ones(self.n_steps)

    def factors(self) -> tuple[FloatArray, FloatArray]:
        return np.tri(self.n_steps), np.eye(self.n_steps)

    def _make_stream(self, rows: GaussianRows, sensitivity: float | None) -> PrefixSumStream:
        return _Stream(self, rows, sensitivity)


class _Stream(PrefixSumStream):
    def __init__(
        self, mechanism: IndependentNoise, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(
            mechanism.n_steps, mechanism.n_dimensions, mechanism.column_norm, sensitivity
        )
        self._rows = rows
        self._noisy_sum = np.zeros(mechanism.n_dimensions)

    def _add(self, vector: FloatArray) -> FloatArray:
        self._noisy_sum += self._rows.add(vector, self._scale)
        return self._noisy_sum.copy()
