"""The square root of the all-ones triangle."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.privacy.noise.rows import GaussianRows
from sklearn_dpwg.privacy.prefix_sums.base import (
    OnlineConvolution,
    PrefixSums,
    PrefixSumStream,
    convolve,
)


class SquareRootToeplitz(PrefixSums):
    """Noise on the convolution with the square root of the all-ones triangle: B = C.

    Both factors are lower-triangular Toeplitz matrices with c_0 = 1 and c_k = c_{k-1}(2k-1)/(2k),
    the power series of 1/√(1-x). The worst noise, Σ c_k², is about (log(16 T) + 0.577)/π, of which
    log(T)/π is the least that any factorisation has. It remembers O(d T) numbers.

    Seeded noise of a fixed sensitivity is convolved by FFT when the stream is opened. Otherwise
    every row is convolved as it comes: a noise scale may follow from the sums before it, and secure
    noise hides a value that is rounded to its grid, so it must be added to a row of C G itself.
    (Fichtenberger, Henzinger and Upadhyay 2023, *Constant matters: fine-grained error bound on
    differentially private continual observation*. The lower bound: Matoušek, Nikolov and Talwar
    2020, *Factorization norms and hereditary discrepancy*)
    """

    name = "toeplitz"

    @property
    def n_rows(self) -> int:
        """Rows of C: T."""
        return self.n_steps

    @property
    def column_norm(self) -> float:
        """Largest column norm of C, that of the first vector: √(Σ c_k²)."""
        return float(np.linalg.norm(self.coefficients()))

    def coefficients(self) -> FloatArray:
        """Return c_0, …, c_{T-1}, the first column of either factor."""
        twice = 2.0 * np.arange(1.0, self.n_steps)
        return np.cumprod(np.append(1.0, (twice - 1.0) / twice))

    def row_norms(self) -> FloatArray:
        return np.sqrt(np.cumsum(self.coefficients() ** 2))

    def increment_norms(self) -> FloatArray:
        differences = np.diff(self.coefficients(), prepend=0.0)
        return np.sqrt(np.cumsum(differences**2))

    def factors(self) -> tuple[FloatArray, FloatArray]:
        steps = np.arange(self.n_steps)
        lags = steps[:, None] - steps
        root = np.where(lags >= 0, self.coefficients()[np.maximum(lags, 0)], 0.0)
        return root, root

    def _make_stream(self, rows: GaussianRows, sensitivity: float | None) -> PrefixSumStream:
        if sensitivity is not None and rows.seeded:
            return _DrawnAhead(self, rows, sensitivity)
        return _RowByRow(self, rows, sensitivity)


class _DrawnAhead(PrefixSumStream):
    """All correlated noise B Z is there from the start."""

    def __init__(
        self, mechanism: SquareRootToeplitz, rows: GaussianRows, sensitivity: float
    ) -> None:
        super().__init__(
            mechanism.n_steps, mechanism.n_dimensions, mechanism.column_norm, sensitivity
        )
        self._noise = convolve(rows.draw_all(self._scale), mechanism.coefficients())
        self._sum = np.zeros(mechanism.n_dimensions)

    def _add(self, vector: FloatArray) -> FloatArray:
        self._sum += vector
        return self._sum + self._noise[self.n_added - 1]


class _RowByRow(PrefixSumStream):
    """Rows of C G get their noise one by one, and B turns them into sums."""

    def __init__(
        self, mechanism: SquareRootToeplitz, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(
            mechanism.n_steps, mechanism.n_dimensions, mechanism.column_norm, sensitivity
        )
        self._rows = rows
        kernel = mechanism.coefficients()
        self._encoder = OnlineConvolution(kernel, mechanism.n_dimensions)
        self._decoder = OnlineConvolution(kernel, mechanism.n_dimensions)

    def _add(self, vector: FloatArray) -> FloatArray:
        return self._decoder.add(self._rows.add(self._encoder.add(vector), self._scale))


# Fresh noise on every vector.


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
