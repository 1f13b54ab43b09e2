"""Private prefix sums: the sum of a stream of vectors, released after every step.

Every mechanism factors the all-ones lower triangle as A = B C and releases B (C G + Z), where the
rows of G are the vectors and Z is Gaussian noise. A record that moves one vector by at most Δ moves
C G by at most Δ times the largest column norm of C, and all sums together are one Gaussian release.
Mechanisms differ in the noise of the sums, B Z, and in the memory that they need.
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

# Relative rounding error of C G, in roundoffs for each doubling of the steps; a margin for FFTs.
_ROUNDINGS = 256.0


# B or C, row by row: maps the next row of a matrix to the next row of the product, a new array.
_Factor = Callable[[FloatArray], FloatArray]


class PrefixSums(ABC):
    """A mechanism for all prefix sums of at most T = ``n_steps`` vectors: the factors B and C."""

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
        """Return the noise of each sum minus the one before (0 for the first) per unit in Z."""

    @abstractmethod
    def _begin(self) -> tuple[_Factor, _Factor]:
        """Return B and C as functions of the next row, for a new stream."""

    @property
    def worst_standard_deviation(self) -> float:
        """Largest of the `standard_deviations`."""
        return float(self.standard_deviations().max())

    @property
    def rounding(self) -> float:
        """What the rounding of C G adds to the sensitivity, per unit of the norm of the vectors.

        Proved in ``docs/theory/prefix-sums.md``, section 5; two neighbours, hence the factor 2.
        """
        n_roundings = _ROUNDINGS * (math.log2(self.n_steps) + 8.0)
        return 2.0 * n_roundings * 2.0**-53 * self.n_steps / self.column_norm

    def standard_deviations(self) -> FloatArray:
        """Return the noise of every sum at sensitivity 1 of the vectors and noise multiplier 1."""
        return self.row_norms() * self.column_norm


class PrefixSumStream(NeverCopied):
    """Noisy prefix sums of vectors that are added one by one: one Gaussian release.

    The first vector spends the release. Its noise multiplier is the noise of Z over the largest
    column norm of C times the sensitivity of the vectors. Ending early does not lower the cost.
    """

    def __init__(self, mechanism: PrefixSums, noise: NoiseSource, release: Release) -> None:
        self._mechanism, self._noise, self._release = mechanism, noise, release
        self._shape = (mechanism.n_dimensions,)
        self._stds, self._column_norm = mechanism.standard_deviations(), mechanism.column_norm
        self._decoder, self._encoder = mechanism._begin()
        self._rows: GaussianRows | None = None
        self._sensitivity = 0.0  # of the rows of C G: the largest so far
        self.n_added = 0  # vectors so far
        self.noisy_sum: FloatArray | float = 0.0  # the last sum that was released
        self.unit_std = 0.0  # its noise at noise multiplier 1 and sensitivity 1

    def add(self, vector: ArrayLike, sensitivity: float) -> FloatArray:
        """Add a vector and return the noisy sum of all vectors so far, a new array.

        A record moves at most one vector, and this one by at most ``sensitivity`` in the L2 norm.
        Both arguments may depend on earlier noisy sums. The noise is for the largest sensitivity
        so far.
        """
        values = np.array(vector, dtype=np.float64)
        if values.shape != self._shape:
            raise InputError(f"vector must have shape {self._shape}, got shape {values.shape}.")
        # the product is not finite if an entry is not; this is faster than numpy.isfinite
        if not math.isfinite(values.dot(values)):
            raise InputError("vector must be finite, got NaN, infinity or numbers near it.")
        n_steps = self._mechanism.n_steps
        if self.n_added == n_steps:
            raise PlanExceededError(
                f"The stream was planned for {n_steps} steps, and all were taken."
            )
        row_sensitivity = self._column_norm * positive_finite(sensitivity, "sensitivity")
        if self._rows is None:
            shape = (n_steps, *self._shape)
            self._rows = self._noise.gaussian_rows(shape, release=self._release)
        self._sensitivity = max(self._sensitivity, row_sensitivity)
        self.unit_std = float(self._stds[self.n_added])
        self.n_added += 1
        self.noisy_sum = self._decoder(self._rows.add(self._encoder(values), self._sensitivity))
        return self.noisy_sum


class _RunningSum:
    """The all-ones triangle: `add` takes the next row and returns the sum of all so far."""

    def __init__(self, n_columns: int) -> None:
        self._sum = np.zeros(n_columns)

    def add(self, row: FloatArray) -> FloatArray:
        self._sum += row
        return self._sum.copy()


class IndependentNoise(PrefixSums):
    """Independent noise on every vector: C is the identity and B = A.

    The baseline, as in noisy gradient descent in one pass. The noise of sum t is √t, at worst √T;
    differences of successive sums have less noise than with any other mechanism.
    """

    column_norm = 1.0
    rounding = 0.0  # the rows are the vectors

    def row_norms(self) -> FloatArray:
        return np.sqrt(np.arange(1.0, self.n_steps + 1.0))

    def increment_norms(self) -> FloatArray:
        return np.ones(self.n_steps)

    def _begin(self) -> tuple[_Factor, _Factor]:
        return _RunningSum(self.n_dimensions).add, lambda row: row


# Rows in a block: products within a block are direct, those between blocks use the FFT.
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
    """Convolution with a kernel, row by row: `add` takes input row t and returns output row t.

    When block number k is complete and 2^h is the largest power of two that divides k, the last
    2^h blocks are convolved at once and added to the next 2^h blocks of outputs. So every output
    row gets every earlier block once: the blocks form runs, one for each binary digit of the block
    number. T rows of width d take O(d T log² T) time and O(d T) memory.
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
    """Both factors are the square root of the all-ones triangle, a convolution: B = C.

    Its largest noise is the least of all mechanisms here; it stores O(d T) numbers. Rows are
    convolved one by one, because a noise scale may depend on earlier sums, and because secure
    noise rounds a value to its grid, so it must be added to the row of C G itself.
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


class _TreeNodes:
    """C of a tree: `add` takes vector t and returns the node that ends at step t."""

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
    """B of a tree: `add` takes node t and returns sum t: the node plus the sum before the node."""

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
    """Noise on the nodes of a binary tree: sum t adds one node for each binary digit 1 of t.

    Step t completes one node that later sums read: the sum of the last 2^h vectors, where 2^h is
    the largest power of two that divides t. It stores O(d log T) numbers. (Chan, Shi and Song 2011;
    Kairouz et al. 2021; ``docs/theory/prefix-sums.md``)
    """

    @property
    def column_norm(self) -> float:
        return math.sqrt(self.n_steps.bit_length())  # of the first vector: √(⌊log₂ T⌋ + 1)

    def row_norms(self) -> FloatArray:
        return np.sqrt([float(step.bit_count()) for step in range(1, self.n_steps + 1)])

    def increment_norms(self) -> FloatArray:
        # sum t reads the new node instead of the h nodes below it, if 2^h divides t: h + 1 nodes
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
    """Return the mechanism of this name, for at most n_steps vectors of n_dimensions numbers."""
    if noise not in PREFIX_SUMS:
        raise InputError(f"noise must be one of {sorted(PREFIX_SUMS)}, got {noise!r}.")
    return PREFIX_SUMS[noise](n_steps, n_dimensions)
