"""Private prefix sums: the sum of a stream of vectors, released after every step.

Every mechanism factors the all-ones lower triangle as A = B C and releases B (C G + Z), where the
rows of G are the vectors and Z is Gaussian noise: a record that moves one vector by at most Δ moves
C G by at most the largest column norm of C times Δ, and all sums together are one Gaussian release.
What they differ in is the noise of the sums, which is that of B Z, and what they remember.
C is lower triangular in time, so a row of C G is known when it is released, and the vectors may be
chosen by whoever has seen all sums before (Denisov et al. 2022; ``docs/theory/prefix-sums.md``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft

from sklearn_dpwg._checks import FloatArray, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError, PlanExceededError
from sklearn_dpwg.privacy.noise.source import GaussianRows, NeverCopied, NoiseSource
from sklearn_dpwg.privacy.release import Release

# Roundings of the rows of C G for each doubling of the steps, in units of these; a margin for FFTs.
_ROUNDINGS = 256.0


# One of the matrices B and C, applied row by row: returns the next row of the product, a new array.
_Factor = Callable[[FloatArray], FloatArray]


class PrefixSums(ABC):
    """A way to release all prefix sums of at most T vectors, known from public facts."""

    def __init__(self, n_steps: int, n_dimensions: int) -> None:
        self.n_steps = whole_number(n_steps, "n_steps", least=1)
        self.n_dimensions = whole_number(n_dimensions, "n_dimensions", least=1)

    @property
    @abstractmethod
    def column_norm(self) -> float:
        """Largest column norm of C: how far C G moves if one vector moves by 1 in the L2 norm."""

    @abstractmethod
    def row_norms(self) -> FloatArray:
        """Return the row norms of B: the noise of every sum per unit of noise in Z."""

    @abstractmethod
    def increment_norms(self) -> FloatArray:
        """Return the noise of the differences of successive sums per unit of noise in Z.

        The first is that of the first sum itself.
        """

    @abstractmethod
    def _begin(self) -> tuple[_Factor, _Factor]:
        """Return B and C at the first step of a stream."""

    @property
    def worst_standard_deviation(self) -> float:
        """Largest noise of a sum per unit of the steps' sensitivity at noise multiplier 1."""
        return float(self.standard_deviations().max())

    @property
    def rounding(self) -> float:
        """What computing C G in floating point costs, over the norm of the vectors.

        ``docs/theory/prefix-sums.md``, section 5, says by how much sensitivities have to be larger.
        """
        n_roundings = _ROUNDINGS * (math.log2(self.n_steps) + 8.0)
        return 2.0 * n_roundings * 2.0**-53 * self.n_steps / self.column_norm

    def standard_deviations(self) -> FloatArray:
        """Return the noise of every sum if a record moves one vector by 1 and noise is 1-GDP."""
        return self.row_norms() * self.column_norm


class PrefixSumStream(NeverCopied):
    """Noisy prefix sums of the vectors added so far, one Gaussian release, spent by the first one.

    Its multiplier is the noise of Z over the largest column norm times the steps' sensitivity. A
    stream may end early, at no lower cost. Its exact sums are secrets.
    """

    def __init__(self, mechanism: PrefixSums, noise: NoiseSource, release: Release) -> None:
        self._mechanism, self._noise, self._release = mechanism, noise, release
        self._shape = (mechanism.n_dimensions,)
        self._stds, self._column_norm = mechanism.standard_deviations(), mechanism.column_norm
        self._decoder, self._encoder = mechanism._begin()
        self._rows: GaussianRows | None = None
        self._scale = 0.0
        self.n_added = 0  # vectors so far
        self.noisy_sum: FloatArray | float = 0.0  # what was released last,
        self.unit_std = 0.0  # and its noise, per unit of the multiplier and of sensitivity

    def add(self, vector: ArrayLike, sensitivity: float) -> FloatArray:
        """Add a vector and return the noisy sum of all so far, a new array.

        One record can move this vector by the sensitivity in the L2 norm, and no other. Both may
        follow from the noisy sums before; a sensitivity below an earlier one counts as that one.
        """
        values = np.array(vector, dtype=np.float64)
        if values.shape != self._shape:
            raise InputError(f"vector must have shape {self._shape}, got shape {values.shape}.")
        # one product sees NaN and infinity in less time than numpy.isfinite takes
        if not math.isfinite(values.dot(values)):
            raise InputError("vector must be finite, got NaN, infinity or numbers near it.")
        n_steps = self._mechanism.n_steps
        if self.n_added == n_steps:
            raise PlanExceededError(
                f"The stream was planned for {n_steps} steps, and all were taken."
            )
        stated = self._column_norm * positive_finite(sensitivity, "sensitivity")
        if self._rows is None:
            shape = (n_steps, *self._shape)
            self._rows = self._noise.gaussian_rows(shape, release=self._release)
        self._scale, self.unit_std = max(self._scale, stated), float(self._stds[self.n_added])
        self.n_added += 1
        self.noisy_sum = self._decoder(self._rows.add(self._encoder(values), self._scale))
        return self.noisy_sum


# --- fresh noise ---------------------------------------------------------------------------------


class _RunningSum:
    def __init__(self, n_columns: int) -> None:
        self._sum = np.zeros(n_columns)

    def add(self, row: FloatArray) -> FloatArray:
        self._sum += row
        return self._sum.copy()


class IndependentNoise(PrefixSums):
    """Independent noise on every vector, which adds up: C is the identity, B = A.

    This is noisy gradient descent in one pass, the baseline. The noise of sum t is √t, the worst
    √T; the differences have the least noise of all.
    """

    column_norm = 1.0
    rounding = 0.0  # the rows are the vectors

    def row_norms(self) -> FloatArray:
        return np.sqrt(np.arange(1.0, self.n_steps + 1.0))

    def increment_norms(self) -> FloatArray:
        return np.ones(self.n_steps)

    def _begin(self) -> tuple[_Factor, _Factor]:
        return _RunningSum(self.n_dimensions).add, lambda row: row


# --- convolutions --------------------------------------------------------------------------------


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


class SquareRootToeplitz(PrefixSums):
    """Noise on the convolution with the square root of the all-ones triangle: B = C.

    Its worst noise is the least of all mechanisms here, and it remembers O(d T) numbers. Every row
    is convolved as it comes: a noise scale may follow from the sums before it, and secure noise
    hides a value that is rounded to its grid, so it must be added to a row of C G itself.
    (Fichtenberger, Henzinger and Upadhyay 2023; ``docs/theory/prefix-sums.md``)
    """

    @property
    def column_norm(self) -> float:
        return float(np.linalg.norm(self.coefficients()))  # of the first vector: √(Σ c_k²)

    def coefficients(self) -> FloatArray:
        """Return c_0, …, c_{T-1}, the first column of either factor."""
        twice = 2.0 * np.arange(1.0, self.n_steps)
        return np.cumprod(np.append(1.0, (twice - 1.0) / twice))

    def row_norms(self) -> FloatArray:
        return np.sqrt(np.cumsum(self.coefficients() ** 2))

    def increment_norms(self) -> FloatArray:
        differences = np.diff(self.coefficients(), prepend=0.0)
        return np.sqrt(np.cumsum(differences**2))

    def _begin(self) -> tuple[_Factor, _Factor]:
        kernel, n_columns = self.coefficients(), self.n_dimensions
        return _OnlineConvolution(kernel, n_columns).add, _OnlineConvolution(kernel, n_columns).add


# --- a tree --------------------------------------------------------------------------------------


class _TreeNodes:
    """Gives the node that ends with step t: the sum of the last 2^h vectors, 2^h dividing t."""

    def __init__(self, n_steps: int, n_columns: int) -> None:
        self._nodes = [np.zeros(n_columns)] * n_steps.bit_length()  # the last one of each height
        self._step = 0

    def add(self, row: FloatArray) -> FloatArray:
        self._step += 1
        height = (self._step & -self._step).bit_length() - 1
        node = row.copy()
        for left in self._nodes[:height]:
            node += left
        self._nodes[height] = node
        return node


class _SumsOfNodes:
    """Gives the sum up to step t: that of its node and of the sum where the node begins."""

    def __init__(self, n_steps: int, n_columns: int) -> None:
        self._sums = [np.zeros(n_columns)] * n_steps.bit_length()  # the last one of each height
        self._step = 0

    def add(self, row: FloatArray) -> FloatArray:
        self._step += 1
        start = self._step & (self._step - 1)
        total = row + self._sums[(start & -start).bit_length() - 1] if start else row
        self._sums[(self._step & -self._step).bit_length() - 1] = total
        return total.copy()


class BinaryTree(PrefixSums):
    """Noise on the nodes of a binary tree: a sum is that of one node a binary digit of t.

    Step t completes one node that a later sum reads: the last 2^h vectors, where 2^h is the
    largest power of two that divides t. It remembers O(d log T) numbers. (Chan, Shi and Song 2011;
    Kairouz et al. 2021; ``docs/theory/prefix-sums.md``)
    """

    @property
    def column_norm(self) -> float:
        return math.sqrt(self.n_steps.bit_length())  # of the first vector: √(⌊log₂ T⌋ + 1)

    def row_norms(self) -> FloatArray:
        return np.sqrt([float(step.bit_count()) for step in range(1, self.n_steps + 1)])

    def increment_norms(self) -> FloatArray:
        # one node comes, and as many go as are below it: as often as two divides the step
        steps = range(1, self.n_steps + 1)
        return np.sqrt([float((step & -step).bit_length()) for step in steps])

    def _begin(self) -> tuple[_Factor, _Factor]:
        size = self.n_steps, self.n_dimensions
        return _SumsOfNodes(*size).add, _TreeNodes(*size).add


PREFIX_SUMS: dict[str, type[PrefixSums]] = {
    "independent": IndependentNoise,
    "toeplitz": SquareRootToeplitz,
    "tree": BinaryTree,
}


def make_prefix_sums(noise: str, *, n_steps: int, n_dimensions: int) -> PrefixSums:
    """Return the mechanism of a name, for at most so many vectors of so many numbers."""
    if noise not in PREFIX_SUMS:
        raise InputError(f"noise must be one of {sorted(PREFIX_SUMS)}, got {noise!r}.")
    return PREFIX_SUMS[noise](n_steps, n_dimensions)
