"""Raw tables to rows of norm at most 1, by what is public of their columns.

A `Schema` maps column names to kinds, each with public bounds or a public list of levels. Encoding
learns nothing: a row is encoded the same way whatever the other rows are. Each column becomes a
*block* of numbers of norm at most 1, so that a row of m blocks, divided by √m, has norm at most 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.preprocessing._column_kinds import Column, check_flags

# Rounding of the entries and of a sum of their squares stays far below this share of a norm.
ROUNDING = 2.0**-40

# Rows are sparse where at most this share of their numbers can differ from 0.
SPARSE_SHARE = 0.1


@dataclass(frozen=True)
class Schema:
    """Public facts about the columns of a table, and the encoding that follows from them."""

    # the columns that are encoded, in this order, by name; others are left out
    columns: Mapping[Any, Column]
    # bound on the norm of a row of blocks, by which all rows are divided: the square root of the
    # number of columns, and a little more for rounding
    row_norm: float = field(init=False)
    feature_names: tuple[str, ...] = field(init=False, repr=False)  # names of the encoded columns

    def __post_init__(self) -> None:
        """Check the facts; the mapping is copied, so that nobody changes it afterwards."""
        if not self.columns:
            raise ValueError("columns must name at least one column, got none.")
        for name, column in self.columns.items():
            check_flags(column, feature_name(name))
            column.check(feature_name(name))
        names = [
            out for name, column in self.columns.items() for out in column.names(feature_name(name))
        ]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise ValueError(
                f"columns must give each encoded column a name, {twice[0]!r} is twice."
            )
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "feature_names", tuple(names))
        object.__setattr__(self, "row_norm", norm_bound(len(self.columns)))

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse, which the schema decides and never the data."""
        stored = sum(column.n_stored for column in self.columns.values())
        return stored <= SPARSE_SHARE * len(self.feature_names)

    def check_names(self, names: Iterable[Hashable]) -> None:
        """Refuse a table without one of the columns, or with two of its name."""
        found = Counter(names)
        for name in self.columns:
            if found[name] != 1:
                raise ValueError(f"X must have one column {name!r}, got {found[name] or 'none'}.")

    def encode(self, frame: pd.DataFrame, *, sparse: bool | None = None) -> FloatArray | csr_array:
        """Encode a table."""
        self.check_names(frame.columns)
        places, values, first = [], [], 0
        for name, column in self.columns.items():
            series: pd.Series = frame[name].reset_index(drop=True)
            block = column.encode(series, feature_name(name))
            places.append(block.places + first)
            values.append(block.values)
            first += column.width
        at, entries = np.column_stack(places), np.column_stack(values) / self.row_norm
        if not (self.is_sparse if sparse is None else sparse):
            rows = np.zeros((len(frame), first))
            np.put_along_axis(rows, at, entries, axis=1)
            return rows
        starts = np.arange(len(frame) + 1) * at.shape[1]
        return csr_array((entries.ravel(), at.ravel(), starts), shape=(len(frame), first))


def norm_bound(n_blocks: int) -> float:
    """Return what no row of blocks of norm at most 1 is longer than, also by rounding."""
    return math.sqrt(n_blocks) * (1.0 + ROUNDING)


def feature_name(name: Hashable) -> str:
    """Return the name of a column as text; that of the column at a position is "x" before it."""
    return f"x{name}" if isinstance(name, int) else str(name)
