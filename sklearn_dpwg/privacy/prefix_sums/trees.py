"""The binary tree."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.privacy.noise.rows import GaussianRows
from sklearn_dpwg.privacy.prefix_sums.base import (
    PrefixSums,
    PrefixSumStream,
    sums_over_bits,
    trailing_zeros,
)


class BinaryTree(PrefixSums):
    """Noise on the nodes of a binary tree: a sum is that of one node a binary digit of t.

    Step t completes one node that a later sum reads: the last 2^h vectors, where 2^h is the
    largest power of two that divides t. A vector is in at most ⌊log₂ T⌋ + 1 of them, and a sum has
    as many as t has binary ones. It remembers O(d log T) numbers. (Chan, Shi and Song 2011; Kairouz
    et al. 2021, *Practical and private (deep) learning without sampling or shuffling*)
    """

    name = "tree"

    @property
    def n_rows(self) -> int:
        """Rows of C: T, a node a step."""
        return self.n_steps

    @property
    def column_norm(self) -> float:
        """Largest column norm of C, that of the first vector: √(⌊log₂ T⌋ + 1)."""
        return math.sqrt(self.n_steps.bit_length())

    def row_norms(self) -> FloatArray:
        return np.sqrt(sums_over_bits(self.n_steps, np.ones(self.n_steps.bit_length())))

    def increment_norms(self) -> FloatArray:
        # one node comes, and as many go as are below it
        return np.sqrt(trailing_zeros(self.n_steps) + 1.0)

    def factors(self) -> tuple[FloatArray, FloatArray]:
        decoder, encoder = np.zeros((2, self.n_steps, self.n_steps))
        for step in range(1, self.n_steps + 1):
            start = step - (step & -step)
            encoder[step - 1, start:step] = 1.0
            if start:
                decoder[step - 1] = decoder[start - 1]
            decoder[step - 1, step - 1] = 1.0
        return decoder, encoder

    def _make_stream(self, rows: GaussianRows, sensitivity: float | None) -> PrefixSumStream:
        return _BinaryStream(self, rows, sensitivity)


class _BinaryStream(PrefixSumStream):
    def __init__(
        self, mechanism: BinaryTree, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(
            mechanism.n_steps, mechanism.n_dimensions, mechanism.column_norm, sensitivity
        )
        self._rows = rows
        n_levels = mechanism.n_steps.bit_length()
        nothing = np.zeros(mechanism.n_dimensions)
        # the last node of each height, and the last sum that ended with one
        self._nodes = [nothing] * n_levels
        self._noisy_sums = [nothing] * n_levels

    def _add(self, vector: FloatArray) -> FloatArray:
        step = self.n_added
        height = (step & -step).bit_length() - 1
        node = vector.copy()
        for left in self._nodes[:height]:
            node += left
        self._nodes[height] = node
        noisy_sum = self._rows.add(node, self._scale)
        start = step & (step - 1)
        if start:
            noisy_sum += self._noisy_sums[(start & -start).bit_length() - 1]
        self._noisy_sums[height] = noisy_sum
        return noisy_sum.copy()


# The binary tree with Honaker's streaming reduction of variance.


class HonakerTree(PrefixSums):
    """Noise on all nodes of a binary tree, each estimated from itself and all nodes below it.

    A node's own noisy sum and the sum of its children's estimates are two independent estimates of
    one number; they are averaged in inverse proportion to their variances. Only nodes that are
    complete are used ("estimation from below"), so it works on a stream. The same sensitivity as
    `BinaryTree`, about 0.76 of its noise at many steps, up to twice its draws, the same memory
    O(d log T). (Honaker 2015, *Efficient use of differentially private binary trees*; Kairouz et
    al. 2021, Appendix B)
    """

    name = "honaker"

    @property
    def n_rows(self) -> int:
        """Rows of C: the nodes that T steps complete, 2T less the binary ones of T."""
        return 2 * self.n_steps - self.n_steps.bit_count()

    @property
    def column_norm(self) -> float:
        """Largest column norm of C, that of the first vector: √(⌊log₂ T⌋ + 1)."""
        return math.sqrt(self.n_steps.bit_length())

    def row_norms(self) -> FloatArray:
        return np.sqrt(sums_over_bits(self.n_steps, self._variances()))

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
        return np.sqrt(increments[trailing_zeros(self.n_steps)])

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
        """Return the variance of a node's estimate at every height, 1/(2 - 2^-h)."""
        halves: FloatArray = 0.5 ** np.arange(self.n_steps.bit_length(), dtype=np.float64)
        return 1.0 / (2.0 - halves)

    def _make_stream(self, rows: GaussianRows, sensitivity: float | None) -> PrefixSumStream:
        return _HonakerStream(self, rows, sensitivity)


class _HonakerStream(PrefixSumStream):
    def __init__(
        self, mechanism: HonakerTree, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        super().__init__(
            mechanism.n_steps, mechanism.n_dimensions, mechanism.column_norm, sensitivity
        )
        self._rows = rows
        n_levels = mechanism.n_steps.bit_length()
        nothing = np.zeros(mechanism.n_dimensions)
        # the last node of each height, its estimate and that one's variance; and the last sum
        # that ended with one
        self._nodes = [nothing] * n_levels
        self._estimates = [nothing] * n_levels
        self._variances = [0.0] * n_levels
        self._noisy_sums = [nothing] * n_levels

    def _add(self, vector: FloatArray) -> FloatArray:
        step, own_variance = self.n_added, self._scale**2
        node = vector.copy()
        estimate = self._rows.add(node, self._scale)
        variance = own_variance
        height = 0
        while not step >> height & 1:
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
        start = step & (step - 1)
        if start:
            noisy_sum = estimate + self._noisy_sums[(start & -start).bit_length() - 1]
        else:
            noisy_sum = estimate.copy()
        self._noisy_sums[height] = noisy_sum
        return noisy_sum.copy()
