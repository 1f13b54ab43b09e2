"""Records of one partition of a collection, on a worker."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_dpwg.distributed._tasks import Failure, Held, without_values
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.groups import GroupBy, find_groups

NO_SPARSE = (
    "X has sparse blocks, which are not taken from a cluster: pass dense blocks, "
    "X.map_blocks(lambda rows: rows.toarray()), or sparse rows in memory."
)


class TablePartition:
    """Records as they are, before any is looked at; the ``repr`` shows none.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (n_records, n_features)
        Rows.
    y : ndarray of shape (n_records,)
        Targets.
    groups : ndarray, Series or DataFrame with n_records entries, optional
        Groups; None for none.
    """

    def __init__(self, X: Any, y: NDArray[Any], groups: Any = None) -> None:
        self.X = X
        self.y = y
        self.groups = groups

    def __repr__(self) -> str:
        return "TablePartition()"

    def read(self) -> TablePartition:
        """Return the records."""
        return self

    def read_labels(self) -> TablePartition:
        """Return targets and groups alone."""
        return TablePartition(self.X[:0], self.y, self.groups)


class MakeTable:
    """Task that makes a `TablePartition` of the parts of each collection that belong together."""

    def __init__(self, place: int, group_by: GroupBy | None) -> None:
        self._place = place
        self._group_by = group_by

    def __repr__(self) -> str:
        return "<table>"

    def __call__(self, X: Any, y: Any, groups: Any) -> Held | Failure:
        try:
            return Held(self._table(X, y, groups))
        except Exception as error:
            return Failure(without_values(error))

    def _table(self, X: Any, y: Any, groups: Any) -> TablePartition:
        if issparse(X):
            raise InputError(NO_SPARSE)
        y = np.asarray(y)
        groups = find_groups(X, groups, self._group_by)
        for name, part in (("y", y), ("groups", groups)):
            if part is not None and len(part) != len(X):
                raise InputError(
                    f"Partition {self._place} of X has {len(X)} rows, and that of {name} has "
                    f"{len(part)}: X, y and groups must be cut at the same rows."
                )
        return TablePartition(X, y, groups)
