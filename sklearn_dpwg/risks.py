"""Group risks and their derivatives: the only place that reads rows in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.losses import Loss
from sklearn_dpwg.records import GroupedRecords

FloatArray = NDArray[np.float64]

# A block of rows stays in the second-level cache between its two products; blocks of 128 KiB
# to 1 MiB are within a tenth of each other on the machines tried.
BLOCK_BYTES = 2**18


@dataclass(eq=False)
class GroupRisks:
    """Mean loss of each group, as a function of the weights.

    Parameters
    ----------
    records : GroupedRecords
        Rows sorted by group.
    loss : Loss
        Loss of one record.
    intercept_scaling : float
        Value of the constant column behind the features; 0 for none.

    n_passes : int, default=0
        How many times the rows have been read in full; counted, not set.
    """

    records: GroupedRecords
    loss: Loss
    intercept_scaling: float = 1.0
    n_passes: int = 0

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of records in each group."""
        return self.records.group_sizes

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.records.starts) - 1

    @property
    def n_columns(self) -> int:
        """Columns of a row with the intercept's."""
        return self.records.rows.shape[1] + (self.intercept_scaling > 0)

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""
        return self.loss.n_outputs * self.n_columns

    def sample(self, group_sizes: Sequence[int], rng: np.random.Generator) -> GroupRisks:
        """Return the risks of some records of each group, drawn without replacement.

        Parameters
        ----------
        group_sizes : sequence of int
            How many records of each group, at least one and at most as many as there are.
        rng : numpy.random.Generator
            Source of the draws.

        Returns
        -------
        GroupRisks
            Risks of a copy of those records, in their order.
        """
        records = self.records
        chosen = np.concatenate(
            [
                start + np.sort(rng.choice(n_there, n_wanted, replace=False, shuffle=False))
                for start, n_there, n_wanted in zip(
                    records.starts[:-1], self.group_sizes, group_sizes, strict=True
                )
            ]
        )
        part = GroupedRecords(
            records.rows[chosen],
            records.row_scale[chosen],
            records.targets[chosen],
            np.append(0, np.cumsum(group_sizes)),
        )
        return GroupRisks(part, self.loss, self.intercept_scaling)

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the mean loss of each group.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights, one output after the other, the intercept last in each.
        ceiling : float, optional
            Each record's loss counts for at most this much.

        Returns
        -------
        ndarray of shape (n_groups,)
            Mean losses.
        """
        self.n_passes += 1
        totals = np.zeros(self.n_groups)
        for group, block, scores in self._scored_blocks(weights):
            values = self.loss.value(scores, self.records.targets[block])
            totals[group] += _clipped_sum(values, ceiling)
        return totals / self.group_sizes

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's mean loss and its gradient, in one pass over the rows.

        Rows are sorted by group, so the gradients of all groups cost no more than the gradient
        of one weighted sum.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        ceiling : float, optional
            Each record's loss counts for at most this much; gradients are not affected.

        Returns
        -------
        risks : ndarray of shape (n_groups,)
            Mean losses.
        gradients : ndarray of shape (n_groups, n_weights)
            Gradients of the mean losses (not clipped).
        """
        self.n_passes += 1
        records, n_features = self.records, self.records.rows.shape[1]
        totals = np.zeros(self.n_groups)
        gradients = np.zeros((self.n_groups, self.loss.n_outputs, self.n_columns))
        for group, block, scores in self._scored_blocks(weights):
            values, slopes = self.loss.value_and_derivative(scores, records.targets[block])
            totals[group] += _clipped_sum(values, ceiling)
            slopes = slopes.reshape(len(values), -1)
            if self.intercept_scaling > 0:
                gradients[group, :, -1] += self.intercept_scaling * slopes.sum(axis=0)
            slopes = slopes * records.row_scale[block, None]
            gradients[group, :, :n_features] += slopes.T @ records.rows[block]
        sizes = np.asarray(self.group_sizes, dtype=float)
        flat = gradients.reshape(self.n_groups, self.n_weights)
        return totals / sizes, flat / sizes[:, None]

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of the weighted sum of the groups' mean losses.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        group_weights : ndarray of shape (n_groups,)
            Weight of each group; groups of weight 0 are not read.

        Returns
        -------
        ndarray of shape (n_weights, n_weights)
            The Hessian, symmetric.
        """
        self.n_passes += 1
        records, n_outputs, n_columns = self.records, self.loss.n_outputs, self.n_columns
        hessian = np.zeros((n_outputs, n_columns, n_outputs, n_columns))
        record_weights = group_weights / np.asarray(self.group_sizes, dtype=float)
        for group, block, scores in self._scored_blocks(weights, group_weights != 0):
            curvature = self.loss.curvature(scores, records.targets[block])
            curvature = curvature.reshape(-1, n_outputs, n_outputs) * record_weights[group]
            rows = records.rows[block] * records.row_scale[block, None]
            if self.intercept_scaling > 0:
                constant = np.full((len(rows), 1), self.intercept_scaling)
                rows = np.hstack([rows, constant])
            for first in range(n_outputs):
                for second in range(first + 1):
                    product = rows.T @ (curvature[:, first, second, None] * rows)
                    hessian[first, :, second, :] += product
                    if first != second:
                        hessian[second, :, first, :] += product
        return hessian.reshape(self.n_weights, self.n_weights)

    def _scored_blocks(
        self, weights: FloatArray, wanted: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield (group, rows, scores) for blocks of rows that fit the cache."""
        records = self.records
        matrix = weights.reshape(self.loss.n_outputs, self.n_columns)
        n_features = records.rows.shape[1]
        feature_weights = np.ascontiguousarray(matrix[:, :n_features].T)
        intercept = np.zeros(self.loss.n_outputs)
        if self.intercept_scaling > 0:
            intercept = self.intercept_scaling * matrix[:, -1]
        block_rows = max(64, BLOCK_BYTES // (8 * max(n_features, 1)))
        for group, (start, stop) in enumerate(
            zip(records.starts[:-1], records.starts[1:], strict=True)
        ):
            if wanted is not None and not wanted[group]:
                continue
            for first in range(start, stop, block_rows):
                block = slice(first, min(first + block_rows, stop))
                scores = records.rows[block] @ feature_weights
                scores = scores * records.row_scale[block, None] + intercept
                yield group, block, scores[:, 0] if self.loss.n_outputs == 1 else scores


def _clipped_sum(values: FloatArray, ceiling: float | None) -> float:
    return float((values if ceiling is None else np.minimum(values, ceiling)).sum())
