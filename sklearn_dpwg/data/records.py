"""The private rows, clipped and sorted by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.kernels.passes import canonical_rows, row_norms, rows_at, sorted_by_group

# What to do with columns that hold no numbers, by what they hold.
ADVICE = {
    "strings": (
        "encode them with public categories, as PublicSchema or OneHotEncoder(categories=[...]) "
        "does, or pass them as groups"
    ),
    "dates or times": (
        "make numbers of them by a public range and unit, as PublicSchema does with its Date, or "
        "days since 2020-01-01 that BoundedScaler scales by public bounds"
    ),
    "complex numbers": "pass real and imaginary parts as columns of their own",
    "lists or structs": "make a column of its own of each number in them",
    "missing values alone": "leave the column out",
}

# Squares of longer rows, and their products with weights, may not be floating-point numbers.
_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class GroupedRecords:
    """Records sorted by group; factors lie beside rows, so that sorted ones are not copied."""

    # rows in the caller's units and precision, those of one group together; (n_records, n_features)
    rows: Any
    row_scale: FloatArray  # factor that brings each row to norm at most 1; (n_records,)
    targets: FloatArray  # targets in the form that the loss expects; (n_records,)
    starts: NDArray[np.intp]  # group i holds the records `starts[i]:starts[i + 1]`; (n_groups + 1,)
    # bound on the derivative of each record's loss in its score; None for no bound; (n_records,)
    slope_limits: FloatArray | None = None
    # place of each record among all that were passed, increasing in each group: what is known of a
    # record whose group is not. None where groups are public; (n_records,)
    places: NDArray[np.intp] | None = None

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of records in each group."""
        return tuple(int(size) for size in np.diff(self.starts))

    def take(self, positions: Sequence[NDArray[np.intp]]) -> GroupedRecords:
        """Copy the records at some positions of every group, counted from 0; it may have none."""
        starts = np.zeros_like(self.starts)
        np.cumsum([len(of_group) for of_group in positions], out=starts[1:])
        taken = np.concatenate(
            [of_group + start for of_group, start in zip(positions, self.starts, strict=False)]
        )
        rows = rows_at(self.rows, taken)
        limits = None if self.slope_limits is None else self.slope_limits[taken]
        places = None if self.places is None else self.places[taken]
        scale, targets = self.row_scale[taken], self.targets[taken]
        return GroupedRecords(rows, scale, targets, starts, limits, places)

    def at_places(self, choose: Callable[[int, int], NDArray[np.intp]]) -> list[NDArray[np.intp]]:
        """Return for each group the positions in it of the records at places chosen of a range."""
        assert self.places is not None
        if not len(self.places):
            return [self.places] * (len(self.starts) - 1)
        first = int(self.places.min())
        is_chosen = np.zeros(int(self.places.max()) + 1 - first, dtype=bool)
        is_chosen[choose(first, first + len(is_chosen)) - first] = True
        by_group = np.split(self.places - first, self.starts[1:-1])
        return [np.flatnonzero(is_chosen[part]) for part in by_group]


@dataclass(frozen=True)
class RecordEncoder:
    """Turns validated arrays into `GroupedRecords` by public rules alone."""

    n_groups: int  # number of groups; group codes run from 0
    # public bound on the norm of a row: longer rows are shortened to it, and all are divided by it
    data_norm: float
    # whether the group of a record is protected: then the order of groups does not decide whether
    # rows lie by rows or by columns, and places are kept
    hides_groups: bool = False
    # whether a copy of many narrow rows may lie by columns, which passes read faster: not in
    # blocks, as borders must not decide how rows lie
    by_columns: bool = False
    first_place: int = 0  # number of records in front of these

    def encode(
        self, rows: Any, targets: FloatArray, group_codes: NDArray[np.intp]
    ) -> GroupedRecords:
        """Sort by group and find each row's factor.

        Rows are dense or sparse, finite, in the caller's units, group codes 0..n_groups-1. The
        result is on the caller's memory where rows were sorted already and in either order of
        memory, none is longer than 1e100, and each place of a sparse row is held once. Otherwise it
        is a copy of the same precision, and a row's numbers are together if its order changed and
        `by_columns` does not allow for others.
        """
        starts = np.zeros(self.n_groups + 1, dtype=np.intp)
        np.cumsum(np.bincount(group_codes, minlength=self.n_groups), out=starts[1:])
        given = rows
        if issparse(rows):
            rows = canonical_rows(rows)
        elif not (rows.flags.c_contiguous or rows.flags.f_contiguous):
            # a copy that extreme rows ask for later would lie in memory otherwise, where the scores
            # of the other records might be rounded otherwise
            rows = np.ascontiguousarray(rows)
        is_by_rows = not self.by_columns and (issparse(rows) or rows.flags.c_contiguous)
        is_sorted = not np.any(group_codes[1:] < group_codes[:-1])
        if is_sorted and (is_by_rows or not self.hides_groups):
            norms, order = row_norms(rows), np.arange(len(group_codes))
        else:
            rows, targets, norms, order = sorted_by_group(
                rows, targets, group_codes, starts, by_columns=self.by_columns
            )
        extreme = norms > _LARGEST if self.data_norm > 1.0 / _LARGEST else norms >= 0
        scale = 1.0 / np.maximum(norms, self.data_norm, out=norms)
        if np.any(extreme):
            rows = _own(rows, given)
            found = np.flatnonzero(extreme)
            _replace(rows, found, self.data_norm)
            # what was rounded to single precision may be longer than 1 again
            scale[found] = 1.0 / np.maximum(row_norms(rows[found]), 1.0)
        places = order + self.first_place if self.hides_groups else None
        return GroupedRecords(rows, scale, targets, starts, places=places)


def _own(rows: Any, given: Any) -> Any:
    """Return rows that may be written to: a copy if they are on the caller's memory."""
    if isinstance(rows, csr_array):
        if not np.may_share_memory(rows.data, given.data):
            return rows
        return csr_array((rows.data.copy(), rows.indices, rows.indptr), shape=rows.shape)
    # layout must not depend on the values
    return rows.copy(order="K") if np.may_share_memory(rows, given) else rows


def _replace(rows: Any, which: NDArray[np.intp], data_norm: float) -> None:
    """Clip some rows to a norm and divide by it, in place."""
    if not isinstance(rows, csr_array):
        rows[which] = _scaled(rows[which].astype(np.float64), data_norm)
        return
    for row in which:
        entries = slice(rows.indptr[row], rows.indptr[row + 1])
        short = _scaled(rows.data[None, entries].astype(np.float64), data_norm)
        rows.data[entries] = short[0]


def _scaled(rows: FloatArray, data_norm: float) -> FloatArray:
    """Clip rows to a norm and divide by it, with no step that leaves floating point."""
    sizes = np.abs(rows).max(axis=1, initial=0.0)[:, None]
    directions = rows / np.where(sizes > 0, sizes, 1.0)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        shares = np.minimum(sizes / data_norm * lengths, 1.0)
    return np.asarray(directions * (shares / np.maximum(lengths, 1.0)))
