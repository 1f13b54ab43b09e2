"""The private records: as they come, and clipped and sorted by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.rows import canonical_rows, whole_rows

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
    "complex numbers": "Complex data not supported, but real and imaginary parts as columns are",
}


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Raw records in memory, which are a partition; its ``repr`` shows none of them."""

    # rows as an array, a csr_array or a frame; of a partition's labels alone it has no rows, and
    # columns and types as in full
    X: Any
    y: Any  # targets, None of records without any
    groups: Any = None  # an array, Series or DataFrame; None for none

    def read(self) -> Table:
        """Return the records."""
        return self

    def read_labels(self) -> Table:
        """Return the records without their rows."""
        return Table(self.X[:0], self.y, self.groups)


@dataclass(frozen=True, eq=False)
class GroupedRecords:
    """Records sorted by group, their rows in whole numbers."""

    # rows of norm at most 1, in whole multiples of 2^-16 and in single precision, which holds them,
    # those of one group together; (n_records, n_features)
    rows: Any
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
        return tuple(np.diff(self.starts).tolist())

    def take(self, positions: Sequence[NDArray[np.intp]]) -> GroupedRecords:
        """Copy the records at some positions of every group, counted from 0; it may have none."""
        starts = np.zeros_like(self.starts)
        np.cumsum([len(of_group) for of_group in positions], out=starts[1:])
        taken = np.concatenate(
            [of_group + start for of_group, start in zip(positions, self.starts, strict=False)]
        )
        limits = None if self.slope_limits is None else self.slope_limits[taken]
        places = None if self.places is None else self.places[taken]
        return GroupedRecords(self.rows[taken], self.targets[taken], starts, limits, places)

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
    hides_groups: bool = False  # whether the group of a record is protected: places are then kept
    first_place: int = 0  # number of records in front of these

    def encode(
        self, rows: Any, targets: FloatArray, group_codes: NDArray[np.intp]
    ) -> GroupedRecords:
        """Sort by group and cut to whole numbers, in a copy.

        Rows are dense or sparse, finite, in the caller's units, group codes 0..n_groups-1.
        """
        starts = np.zeros(self.n_groups + 1, dtype=np.intp)
        np.cumsum(np.bincount(group_codes, minlength=self.n_groups), out=starts[1:])
        if issparse(rows):
            rows = canonical_rows(rows)
        order = None
        if np.any(group_codes[1:] < group_codes[:-1]):
            # codes of 16 bits or less are sorted by radix
            codes = group_codes.astype(np.min_scalar_type(self.n_groups))
            order = np.argsort(codes, kind="stable")
            targets = targets[order]
        places = None
        if self.hides_groups:
            places = (np.arange(len(targets)) if order is None else order) + self.first_place
        whole = whole_rows(rows, self.data_norm, order)
        return GroupedRecords(whole, targets, starts, places=places)
