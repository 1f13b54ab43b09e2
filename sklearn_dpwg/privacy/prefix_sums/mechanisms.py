"""Three ways to correlate the noise of prefix sums: fresh, convolved, and on a binary tree."""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy.noise.rows import GaussianRows
from sklearn_dpwg.privacy.prefix_sums.base import PrefixSums, PrefixSumStream


class _FreshStream(PrefixSumStream):
    def __init__(
        self, mechanism: PrefixSums, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(mechanism, rows, sensitivity)
        self._noisy_sum = np.zeros(mechanism.n_dimensions)

    def _add(self, vector: FloatArray) -> FloatArray:
        self._noisy_sum += self._rows.add(vector, self._scale)
        return self._noisy_sum.copy()


class IndependentNoise(PrefixSums):
    """Independent noise on every vector, which adds up: C is the identity, B = A.

    This is noisy gradient descent in one pass, the baseline. The noise of sum t is √t, the worst
    √T; the differences have the least noise of all.
    """

    name = "independent"
    _stream = _FreshStream

    @property
    def column_norm(self) -> float:
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


# Within a block rows are multiplied directly; blocks meet each other by FFT.
_BLOCK = 64


def _convolve(rows: FloatArray, kernel: FloatArray) -> FloatArray:
    """Return the first ``len(kernel)`` rows of the convolution of the columns with a kernel."""
    n_fft = fft.next_fast_len(len(rows) + len(kernel) - 1, real=True)
    spectrum = fft.rfft(kernel, n_fft)[:, None]
    result = np.empty((len(kernel), rows.shape[1]))
    # few columns at a time, so that the work space stays small
    width = max(1, 2**20 // n_fft)
    for start in range(0, rows.shape[1], width):
        columns = slice(start, start + width)
        product = fft.rfft(rows[:, columns], n_fft, axis=0)
        product *= spectrum
        result[:, columns] = fft.irfft(product, n_fft, axis=0, overwrite_x=True)[: len(kernel)]
    return result


class _OnlineConvolution:
    """Gives row t of the convolution as soon as row t of the input is there.

    Whenever a multiple of a power of two of blocks is complete, what they add to the equally many
    rows that follow is computed at once: the blocks of every earlier row are those of the binary
    digits of the block number. All T rows of width d take O(d T log² T) time and O(d T) memory.
    """

    def __init__(self, kernel: FloatArray, n_columns: int) -> None:
        self._kernel = kernel
        self._reversed = np.ascontiguousarray(kernel[:_BLOCK][::-1])
        self._input = np.empty((len(kernel), n_columns))
        self._output = np.zeros((len(kernel), n_columns))
        self._n_rows = 0

    def add(self, row: FloatArray) -> FloatArray:
        """Return the next row of the convolution."""
        step = self._n_rows
        self._input[step] = row
        start = step - step % _BLOCK
        recent = self._input[start : step + 1]
        result: FloatArray = self._reversed[-len(recent) :] @ recent
        result += self._output[step]
        self._n_rows = step = step + 1
        if step % _BLOCK == 0:
            length = step & -step
            end = min(step + length, len(self._kernel))
            if step < end:
                ahead = _convolve(
                    self._input[step - length : step], self._kernel[: length + end - step]
                )
                self._output[step:end] += ahead[length:]
        return result


class _ConvolvedStream(PrefixSumStream):
    """Rows of C G get their noise one by one, and B turns them into sums."""

    def __init__(
        self, mechanism: SquareRootToeplitz, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(mechanism, rows, sensitivity)
        kernel = mechanism.coefficients()
        self._encoder = _OnlineConvolution(kernel, mechanism.n_dimensions)
        self._decoder = _OnlineConvolution(kernel, mechanism.n_dimensions)

    def _add(self, vector: FloatArray) -> FloatArray:
        return self._decoder.add(self._rows.add(self._encoder.add(vector), self._scale))


class SquareRootToeplitz(PrefixSums):
    """Noise on the convolution with the square root of the all-ones triangle: B = C.

    Its worst noise is the least of all mechanisms here, and it remembers O(d T) numbers. Every row
    is convolved as it comes: a noise scale may follow from the sums before it, and secure noise
    hides a value that is rounded to its grid, so it must be added to a row of C G itself.
    (Fichtenberger, Henzinger and Upadhyay 2023; ``docs/theory/prefix-sums.md``)
    """

    name = "toeplitz"
    _stream = _ConvolvedStream

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


class _TreeStream(PrefixSumStream):
    def __init__(
        self, mechanism: PrefixSums, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(mechanism, rows, sensitivity)
        # the last node of each height, and the last sum that ended with one
        self._nodes = [np.zeros(mechanism.n_dimensions)] * mechanism.n_steps.bit_length()
        self._noisy_sums = list(self._nodes)

    def _add(self, vector: FloatArray) -> FloatArray:
        height = (self.n_added & -self.n_added).bit_length() - 1
        node = vector.copy()
        for left in self._nodes[:height]:
            node += left
        self._nodes[height] = node
        noisy_sum = self._rows.add(node, self._scale)
        start = self.n_added & (self.n_added - 1)
        if start:
            noisy_sum = noisy_sum + self._noisy_sums[(start & -start).bit_length() - 1]
        self._noisy_sums[height] = noisy_sum
        return noisy_sum.copy()


class BinaryTree(PrefixSums):
    """Noise on the nodes of a binary tree: a sum is that of one node a binary digit of t.

    Step t completes one node that a later sum reads: the last 2^h vectors, where 2^h is the
    largest power of two that divides t. It remembers O(d log T) numbers. (Chan, Shi and Song 2011;
    Kairouz et al. 2021; ``docs/theory/prefix-sums.md``)
    """

    name = "tree"
    _stream = _TreeStream

    @property
    def column_norm(self) -> float:
        """Largest column norm of C, that of the first vector: √(⌊log₂ T⌋ + 1)."""
        return math.sqrt(self.n_steps.bit_length())

    def row_norms(self) -> FloatArray:
        return np.sqrt([float(step.bit_count()) for step in range(1, self.n_steps + 1)])

    def increment_norms(self) -> FloatArray:
        # one node comes, and as many go as are below it: as often as two divides the step
        steps = range(1, self.n_steps + 1)
        return np.sqrt([float((step & -step).bit_length()) for step in steps])

    def factors(self) -> tuple[FloatArray, FloatArray]:
        decoder, encoder = np.zeros((2, self.n_steps, self.n_steps))
        for step in range(1, self.n_steps + 1):
            start = step - (step & -step)
            encoder[step - 1, start:step] = 1.0
            if start:
                decoder[step - 1] = decoder[start - 1]
            decoder[step - 1, step - 1] = 1.0
        return decoder, encoder


# one line a mechanism
PREFIX_SUMS: dict[str, type[PrefixSums]] = {
    "independent": IndependentNoise,
    "toeplitz": SquareRootToeplitz,
    "tree": BinaryTree,
}


def make_prefix_sums(noise: str, *, n_steps: int, n_dimensions: int) -> PrefixSums:
    """Return the mechanism of a name.

    Parameters
    ----------
    noise : {"independent", "toeplitz", "tree"}
        Name of the mechanism.
    n_steps : int
        Largest number of vectors T, known in advance.
    n_dimensions : int
        Numbers in a vector.

    Returns
    -------
    PrefixSums
        The mechanism.
    """
    if noise not in PREFIX_SUMS:
        raise InputError(f"noise must be one of {sorted(PREFIX_SUMS)}, got {noise!r}.")
    return PREFIX_SUMS[noise](n_steps, n_dimensions)
