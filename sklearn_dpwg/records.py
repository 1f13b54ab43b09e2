"""The private rows, clipped and sorted by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Squares of longer rows, and their products with weights, may not be floating-point numbers.
_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class GroupedRecords:
    """Records sorted by group.

    Parameters
    ----------
    rows : ndarray of shape (n_records, n_features)
        Rows in the caller's units, those of one group together.
    row_scale : ndarray of shape (n_records,)
        Factor that brings each row to norm at most 1.
    targets : ndarray of shape (n_records,)
        Targets in the form that the loss expects.
    starts : ndarray of shape (n_groups + 1,)
        Group i holds the records ``starts[i]:starts[i + 1]``.

    Notes
    -----
    The factor is kept beside the rows, so that rows already sorted are not copied at all.
    """

    rows: FloatArray
    row_scale: FloatArray
    targets: FloatArray
    starts: NDArray[np.intp]

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of records in each group."""
        return tuple(int(size) for size in np.diff(self.starts))

    def take(self, positions: Sequence[NDArray[np.intp]]) -> GroupedRecords:
        """Copy some records of every group.

        Parameters
        ----------
        positions : sequence of ndarray
            For each group the positions in it, from 0; may be empty.

        Returns
        -------
        GroupedRecords
            Those records, in the same groups.
        """
        starts = np.zeros_like(self.starts)
        np.cumsum([len(of_group) for of_group in positions], out=starts[1:])
        taken = np.concatenate(
            [of_group + start for of_group, start in zip(positions, self.starts, strict=False)]
        )
        return GroupedRecords(self.rows[taken], self.row_scale[taken], self.targets[taken], starts)


@dataclass(frozen=True)
class RecordEncoder:
    """Turns validated arrays into `GroupedRecords` by public rules alone.

    Parameters
    ----------
    n_groups : int
        Number of groups; group codes run from 0.
    data_norm : float
        Public bound on the norm of a row: longer rows are shortened to it, and all are divided
        by it.
    """

    n_groups: int
    data_norm: float

    def encode(
        self, rows: FloatArray, targets: FloatArray, group_codes: NDArray[np.intp]
    ) -> GroupedRecords:
        """Sort by group and find each row's factor.

        Parameters
        ----------
        rows : ndarray of shape (n_records, n_features)
            Rows in the caller's units; finite.
        targets : ndarray of shape (n_records,)
            Encoded targets.
        group_codes : ndarray of shape (n_records,)
            Group of each record, 0..n_groups-1.

        Returns
        -------
        GroupedRecords
            The records; ``rows`` is the caller's array itself where it was sorted already and
            no row is longer than 1e100, and a copy otherwise.
        """
        starts = np.zeros(self.n_groups + 1, dtype=np.intp)
        np.cumsum(np.bincount(group_codes, minlength=self.n_groups), out=starts[1:])
        if np.any(group_codes[1:] < group_codes[:-1]):
            order = np.argsort(group_codes, kind="stable")
            rows, targets = rows[order], targets[order]
        # einsum reads each row once and makes no squared copy of the matrix
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        scale = 1.0 / np.maximum(norms, self.data_norm)
        extreme = norms > _LARGEST if self.data_norm > 1.0 / _LARGEST else norms >= 0
        if np.any(extreme):
            rows = rows.copy(order="K")  # layout must not depend on the values
            rows[extreme] = _scaled(rows[extreme], self.data_norm)
            scale[extreme] = 1.0
        return GroupedRecords(rows, scale, targets, starts)


def _scaled(rows: FloatArray, data_norm: float) -> FloatArray:
    """Clip rows to a norm and divide by it, with no step that leaves floating point."""
    sizes = np.abs(rows).max(axis=1, initial=0.0)[:, None]
    directions = rows / np.where(sizes > 0, sizes, 1.0)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        shares = np.minimum(sizes / data_norm * lengths, 1.0)
    return np.asarray(directions * (shares / np.maximum(lengths, 1.0)))
