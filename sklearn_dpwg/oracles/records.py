"""Encoded records, handed out group by group in a random order."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from scipy.sparse import issparse

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.oracles.base import SampleOracle
from sklearn_dpwg.records import GroupedRecords

# Small draws are gathered this many records at a time: a gather costs more than a slice of one.
_AHEAD = 256


class RecordOracle(SampleOracle):
    """Hands out `GroupedRecords` without replacement, to fresh solvers on fixed data.

    Each group is shuffled once and consumed by position. Groups are 0, 1, ..., rows have norm at
    most 1 and targets are in the form that the loss expects.

    Parameters
    ----------
    records : GroupedRecords
        Records sorted by group; not copied.
    rng : Generator
        Where the order comes from.

    Attributes
    ----------
    group_sizes : tuple of int
        Records of each group, drawn or not.
    """

    def __init__(self, records: GroupedRecords, rng: np.random.Generator) -> None:
        self.group_sizes = records.group_sizes
        self._rows, self._targets = records.rows, records.targets
        self._row_scale = records.row_scale[:, None]
        self._is_sparse = issparse(records.rows)
        self._order = [
            rng.permutation(np.arange(start, stop))
            for start, stop in zip(records.starts[:-1], records.starts[1:], strict=True)
        ]
        self._n_drawn = [0] * len(self._order)
        nothing = (np.empty((0, records.rows.shape[1])), np.empty(0))
        self._ahead = [nothing] * len(self._order)
        self._ahead_from = [0] * len(self._order)

    def draw(self, group: Hashable, size: int) -> tuple[FloatArray, FloatArray]:
        assert isinstance(group, int)
        start, order = self._n_drawn[group], self._order[group]
        stop = start + size
        if stop > len(order) or size < 1:
            raise OracleError(
                f"group {group} has {len(order) - start} record(s) left, and {size} were asked for."
            )
        rows, targets = self._ahead[group]
        if stop - self._ahead_from[group] > len(targets):
            chosen = order[start : max(stop, start + _AHEAD)]
            # a few rows at a time, so sparse ones may as well be dense
            rows = self._rows[chosen].toarray() if self._is_sparse else self._rows.take(chosen, 0)
            rows, targets = rows * self._row_scale.take(chosen, axis=0), self._targets.take(chosen)
            self._ahead[group], self._ahead_from[group] = (rows, targets), start
        self._n_drawn[group] = stop
        taken = slice(start - self._ahead_from[group], stop - self._ahead_from[group])
        return rows[taken], targets[taken]
