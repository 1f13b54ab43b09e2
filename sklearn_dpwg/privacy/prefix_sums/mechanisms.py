"""Four ways to correlate the noise of prefix sums: fresh, convolved, and on two binary trees."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
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


class _DrawnAhead(PrefixSumStream):
    """All correlated noise B Z is there from the start."""

    def __init__(
        self, mechanism: SquareRootToeplitz, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(mechanism, rows, sensitivity)
        self._noise = _convolve(rows.draw_all(self._scale), mechanism.coefficients())
        self._sum = np.zeros(mechanism.n_dimensions)

    def _add(self, vector: FloatArray) -> FloatArray:
        self._sum += vector
        return self._sum + self._noise[self.n_added - 1]


class _RowByRow(PrefixSumStream):
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

    Its worst noise is the least of all mechanisms here, and it remembers O(d T) numbers. Seeded
    noise of a fixed sensitivity is convolved by FFT when the stream is opened. Otherwise every row
    is convolved as it comes: a noise scale may follow from the sums before it, and secure noise
    hides a value that is rounded to its grid, so it must be added to a row of C G itself.
    (Fichtenberger, Henzinger and Upadhyay 2023; ``docs/theory/prefix-sums.md``)
    """

    name = "toeplitz"

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


def _sums_over_bits(n_steps: int, values: FloatArray) -> FloatArray:
    """Return, for every step from 1 on, the sum of the values at its binary ones."""
    sums = np.zeros(2 ** n_steps.bit_length())
    for digit, value in enumerate(values):
        sums[2**digit : 2 ** (digit + 1)] = sums[: 2**digit] + value
    return sums[1 : n_steps + 1]


def _trailing_zeros(n_steps: int) -> NDArray[np.int64]:
    """Return, for every step from 1 on, how often two divides it."""
    steps = np.arange(1, n_steps + 1, dtype=np.int64)
    # frexp is exact where a logarithm may round
    return np.frexp((steps & -steps).astype(np.float64))[1].astype(np.int64) - 1


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
        return self._sum_with(self._rows.add(node, self._scale), height)

    def _sum_with(self, noisy_node: FloatArray, height: int) -> FloatArray:
        """Return the sum that ends with a node of a height, a new array."""
        start = self.n_added & (self.n_added - 1)
        if start:
            noisy_node = noisy_node + self._noisy_sums[(start & -start).bit_length() - 1]
        self._noisy_sums[height] = noisy_node
        return noisy_node.copy()


class BinaryTree(PrefixSums):
    """Noise on the nodes of a binary tree: a sum is that of one node a binary digit of t.

    Step t completes one node that a later sum reads: the last 2^h vectors, where 2^h is the
    largest power of two that divides t. It remembers O(d log T) numbers. (Chan, Shi and Song 2011;
    Kairouz et al. 2021; ``docs/theory/prefix-sums.md``)
    """

    name = "tree"
    _stream: ClassVar[type[PrefixSumStream]] = _TreeStream

    @property
    def column_norm(self) -> float:
        """Largest column norm of C, that of the first vector: √(⌊log₂ T⌋ + 1)."""
        return math.sqrt(self.n_steps.bit_length())

    def row_norms(self) -> FloatArray:
        return np.sqrt(_sums_over_bits(self.n_steps, self._variances()))

    def increment_norms(self) -> FloatArray:
        # one node comes, and as many go as are below it
        return np.sqrt(_trailing_zeros(self.n_steps) + 1.0)

    def factors(self) -> tuple[FloatArray, FloatArray]:
        decoder, encoder = np.zeros((2, self.n_steps, self.n_steps))
        for step in range(1, self.n_steps + 1):
            start = step - (step & -step)
            encoder[step - 1, start:step] = 1.0
            if start:
                decoder[step - 1] = decoder[start - 1]
            decoder[step - 1, step - 1] = 1.0
        return decoder, encoder

    def _variances(self) -> FloatArray:
        """Return the variance of a node's estimate at every height."""
        return np.ones(self.n_steps.bit_length())


class _HonakerStream(_TreeStream):
    def __init__(
        self, mechanism: PrefixSums, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(mechanism, rows, sensitivity)
        # of the last node of each height
        self._estimates = list(self._nodes)
        self._variances = [0.0] * len(self._nodes)

    def _add(self, vector: FloatArray) -> FloatArray:
        own_variance = self._scale**2
        node = vector.copy()
        estimate = self._rows.add(node, self._scale)
        variance = own_variance
        height = 0
        while not self.n_added >> height & 1:
            # the parent of this node and of the last one of its height
            self._nodes[height], node = node, node + self._nodes[height]
            estimate += self._estimates[height]
            below = variance + self._variances[height]
            share = below / (own_variance + below)
            estimate *= 1.0 - share
            estimate += share * self._rows.add(node, self._scale)
            variance = own_variance * share
            height += 1
        self._nodes[height], self._estimates[height] = node, estimate
        self._variances[height] = variance
        return self._sum_with(estimate, height)


class HonakerTree(BinaryTree):
    """Noise on all nodes of a binary tree, each estimated from itself and all nodes below it.

    A node's own noisy sum and the sum of its children's estimates are averaged in inverse
    proportion to their variances; only nodes that are complete are used. The same sensitivity as
    `BinaryTree`, about 0.76 of its noise at many steps, up to twice its draws, the same memory.
    (Honaker 2015; ``docs/theory/prefix-sums.md``)
    """

    name = "honaker"
    _stream = _HonakerStream

    @property
    def n_rows(self) -> int:
        """Rows of C: the nodes that T steps complete, 2T less the binary ones of T."""
        return 2 * self.n_steps - self.n_steps.bit_count()

    def increment_norms(self) -> FloatArray:
        # The difference at a step is the new node's estimate, less the estimates of its left
        # child, of its right child's left child, and so on: walk down the right children, the
        # estimate of each with the share that is left of it.
        variances = self._variances()
        increments = np.ones(len(variances))
        for height in range(1, len(variances)):
            share, total = 1.0, 0.0
            for level in range(height, 0, -1):
                own = variances[level]  # weight of the node itself, as its own variance is 1
                total += (share * own) ** 2
                share *= 1.0 - own
                total += (share - 1.0) ** 2 * variances[level - 1]
            increments[height] = total + share**2
        return np.sqrt(increments[_trailing_zeros(self.n_steps)])

    def factors(self) -> tuple[FloatArray, FloatArray]:
        variances = self._variances()
        decoder = np.zeros((self.n_steps, self.n_rows))
        encoder = np.zeros((self.n_rows, self.n_steps))
        estimates: dict[tuple[int, int], FloatArray] = {}
        row = 0
        for end in range(1, self.n_steps + 1):
            for height in range((end & -end).bit_length()):
                start = end - 2**height
                encoder[row, start:end] = 1.0
                estimate = np.zeros(self.n_rows)
                if height:
                    middle = end - 2 ** (height - 1)
                    estimate += estimates[start, middle] + estimates[middle, end]
                    estimate *= 1.0 - variances[height]
                estimate[row] = variances[height]
                estimates[start, end] = estimate
                row += 1
            end_of_rest = end & (end - 1)
            decoder[end - 1] = estimates[end_of_rest, end]
            if end_of_rest:
                decoder[end - 1] += decoder[end_of_rest - 1]
        return decoder, encoder

    def _variances(self) -> FloatArray:
        """Return 1/(2 - 2^-h)."""
        halves: FloatArray = 0.5 ** np.arange(self.n_steps.bit_length(), dtype=np.float64)
        return 1.0 / (2.0 - halves)


# one line a mechanism
PREFIX_SUMS: dict[str, type[PrefixSums]] = {
    "honaker": HonakerTree,
    "independent": IndependentNoise,
    "toeplitz": SquareRootToeplitz,
    "tree": BinaryTree,
}


def make_prefix_sums(noise: str, *, n_steps: int, n_dimensions: int) -> PrefixSums:
    """Return the mechanism of a name.

    Parameters
    ----------
    noise : {"honaker", "independent", "toeplitz", "tree"}
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
