"""The binary tree."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy.noise.rows import GaussianRows
from sklearn_dpwg.privacy.prefix_sums._binary import sums_over_bits, trailing_zeros
from sklearn_dpwg.privacy.prefix_sums.base import PrefixSums
from sklearn_dpwg.privacy.prefix_sums.stream import PrefixSumStream


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
        return _Stream(self, rows, sensitivity)


class _Stream(PrefixSumStream):
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
