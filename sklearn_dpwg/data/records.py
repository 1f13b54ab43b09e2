"""The private records: raw (`Table`), and clipped and sorted by group (`GroupedRecords`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.rows import canonical_rows, whole_rows

# Advice in errors on columns without numbers, by the kind of their values.
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
    """Raw records in memory, as one `Partition`; its ``repr`` shows no value."""

    # array, csr_array or frame; from `read_labels` it has all columns but no rows
    X: Any
    y: Any  # targets; None for records without targets
    groups: Any = None  # array, Series or DataFrame; None for records without groups

    def read(self) -> Table:
        """Return the table: it is in memory already."""
        return self

    def read_labels(self) -> Table:
        """Return targets and groups of all records, and X with no rows."""
        return Table(self.X[:0], self.y, self.groups)


@dataclass(frozen=True, eq=False)
class GroupedRecords:
    """Records sorted by group, as `RecordEncoder` returns them."""

    # float32 rows of norm at most 1, in whole multiples of 2^-16; (n_records, n_features)
    rows: Any
    targets: FloatArray  # targets in the form that the loss expects; (n_records,)
    starts: NDArray[np.intp]  # group i holds the records `starts[i]:starts[i + 1]`; (n_groups + 1,)
    # bound on the derivative of each record's loss in its score; None for no bound; (n_records,)
    slope_limits: FloatArray | None = None
    # position of each record in the data as passed, increasing within each group; kept where groups
    # are hidden, None where they are public; (n_records,)
    places: NDArray[np.intp] | None = None

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of records in each group."""
        return tuple(np.diff(self.starts).tolist())

    def take(self, positions: Sequence[NDArray[np.intp]]) -> GroupedRecords:
        """Return copies of the records at ``positions[i]`` in each group i, counted from 0."""
        starts = np.zeros_like(self.starts)
        np.cumsum([len(group_positions) for group_positions in positions], out=starts[1:])
        taken = np.concatenate(
            # starts has one more entry, the end
            [in_group + start for in_group, start in zip(positions, self.starts, strict=False)]
        )
        limits = None if self.slope_limits is None else self.slope_limits[taken]
        places = None if self.places is None else self.places[taken]
        return GroupedRecords(self.rows[taken], self.targets[taken], starts, limits, places)

    def at_places(self, choose: Callable[[int, int], NDArray[np.intp]]) -> list[NDArray[np.intp]]:
        """Return each group's positions of the records whose places ``choose(first, stop)`` has."""
        assert self.places is not None
        if not len(self.places):
            return [self.places] * (len(self.starts) - 1)
        first = int(self.places.min())
        is_chosen = np.zeros(int(self.places.max()) + 1 - first, dtype=bool)
        is_chosen[choose(first, first + len(is_chosen)) - first] = True
        group_places = np.split(self.places - first, self.starts[1:-1])
        return [np.flatnonzero(is_chosen[places]) for places in group_places]


@dataclass(frozen=True)
class RecordEncoder:
    """Makes `GroupedRecords` from validated arrays; its rules depend on public facts alone."""

    n_groups: int  # number of groups; group codes run from 0
    # public bound on the norm of a row: longer rows are shortened to it, and all are divided by it
    data_norm: float
    hides_groups: bool = False  # whether groups are protected, so that places are kept
    first_place: int = 0  # number of records before these in the data as passed

    def encode(
        self, rows: Any, targets: FloatArray, group_codes: NDArray[np.intp]
    ) -> GroupedRecords:
        """Return copies of the records sorted by group, rows clipped and rounded by `whole_rows`.

        Rows are finite, dense or sparse, in the units of `data_norm`; codes are 0..n_groups-1.
        """
        starts = np.zeros(self.n_groups + 1, dtype=np.intp)
        np.cumsum(np.bincount(group_codes, minlength=self.n_groups), out=starts[1:])
        if issparse(rows):
            rows = canonical_rows(rows)
        order = None
        if np.any(group_codes[1:] < group_codes[:-1]):
            # the smallest type, as numpy sorts integers of 16 bits or less by radix, which is fast
            codes = group_codes.astype(np.min_scalar_type(self.n_groups))
            order = np.argsort(codes, kind="stable")
            targets = targets[order]
        places = None
        if self.hides_groups:
            places = (np.arange(len(targets)) if order is None else order) + self.first_place
        whole = whole_rows(rows, self.data_norm, order)
        return GroupedRecords(whole, targets, starts, places=places)
