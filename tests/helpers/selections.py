"""Selections whose records are listed, and records that stand in for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.risks.record_block import Selection


@dataclass(frozen=True)
class EveryRecord:
    """The selection of all."""

    by_place: bool = False

    def positions(self, group: int, first: int, stop: int) -> np.ndarray:
        return np.arange(first, stop, dtype=np.intp)


@dataclass(frozen=True)
class Listed:
    """The ranks of each group that take part; a group that is not listed has none."""

    ranks: Sequence[Any]
    by_place: bool = False

    def positions(self, group: int, first: int, stop: int) -> np.ndarray:
        if group >= len(self.ranks):
            return np.zeros(0, dtype=np.intp)
        of_group = np.asarray(self.ranks[group], dtype=np.intp)
        return of_group[(of_group >= first) & (of_group < stop)]


def everybody(sizes: Sequence[int]) -> Listed:
    """Return the selection of all records of groups of these sizes."""
    return Listed([np.arange(size) for size in sizes])


def chosen(selection: Selection, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the ranks that a selection chooses of each group."""
    return [selection.positions(group, 0, size) for group, size in enumerate(sizes)]


def with_records(risks: GroupRisks, **changes: Any) -> GroupRisks:
    """Return group risks of records some arrays of which are others."""
    records = replace(risks.records, **changes)
    return GroupRisks(records, risks.loss, risks.intercept_scaling)
