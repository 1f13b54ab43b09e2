"""Weighted sums of clipped gradients and losses for many models at once.

Columns of a matrix of weights are models of their own, so that one pass over the rows serves every
parameter, budget and seed. A row times its slope is the gradient: clipping it is clipping the
slope.
"""

from __future__ import annotations

import numpy as np

from utility.tasks import Part

# Scores of a block stay in the cache.
BLOCK_ELEMENTS = 250_000


def equal_pieces(values: np.ndarray) -> list[tuple[slice, np.floating]]:
    """Return where equal values stand side by side, and these."""
    edges = np.flatnonzero(np.diff(values)) + 1
    ends = [*edges, len(values)]
    return [(slice(a, b), values[a]) for a, b in zip([0, *edges], ends, strict=True)]


class ClippedGradients:
    """Sums over records of factor times clipped gradient; equal clips side by side are quick."""

    def __init__(
        self, part: Part, factors: np.ndarray, clips: np.ndarray, *, is_classification: bool
    ) -> None:
        dtype = part.rows.dtype
        self.is_classification = is_classification
        self.targets = part.targets.astype(dtype)
        norms = np.sqrt(np.einsum("ij,ij->i", part.rows, part.rows))
        self.inverse_norms = 1.0 / np.maximum(norms, np.finfo(dtype).tiny ** 0.5)
        if is_classification:
            # 1/(1 + exp(m)) = (1 - tanh(m/2))/2, and one tanh is faster than exp and division
            self.rows = part.rows * (0.5 * self.targets)[:, None]
            self.weighted = self.rows * factors.astype(dtype)[:, None]
            self.constant = -self.weighted.sum(axis=0, keepdims=True).T
        else:
            self.rows = part.rows
            self.weighted = self.rows * factors.astype(dtype)[:, None]
            self.constant = np.zeros((self.rows.shape[1], 1), dtype=dtype)
        self.pieces = equal_pieces(clips.astype(dtype))

    def _slopes(self, block: slice, weights: np.ndarray) -> np.ndarray:
        """Return clipped residuals, or 1 - 2 times the clipped slopes of the margins."""
        result = self.rows[block] @ weights
        if self.is_classification:
            np.tanh(result, out=result)
        else:
            result -= self.targets[block, None]
        for columns, clip in self.pieces:
            limits = clip * self.inverse_norms[block, None]
            own = result[:, columns]
            if not self.is_classification:
                np.clip(own, -limits, limits, out=own)
            elif limits.min() < 1.0:
                np.maximum(own, 1.0 - 2.0 * limits, out=own)
        return result

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """Return the sums, of shape (d, k), at weights of that shape."""
        weights = weights.astype(self.rows.dtype, copy=False)
        total = np.repeat(self.constant, weights.shape[1], axis=1)
        step = max(64, BLOCK_ELEMENTS // weights.shape[1])
        for first in range(0, len(self.rows), step):
            block = slice(first, first + step)
            total += self.weighted[block].T @ self._slopes(block, weights)
        return total


def project(weights: np.ndarray, radius: float) -> np.ndarray:
    """Return columns that are no longer than a radius."""
    lengths = np.linalg.norm(weights, axis=0)
    return weights * np.minimum(1.0, radius / np.maximum(lengths, 1e-300))
