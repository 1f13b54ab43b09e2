"""Records in memory that are handed out in partitions, as a source does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from sklearn_dpwg.data.groups import take_rows
from sklearn_dpwg.data.records import Table


@dataclass
class Part:
    """A partition, which counts how often it is read."""

    table: Table
    n_reads: int = 0
    n_label_reads: int = 0
    # makes another table of every reading but the first of its rows or labels
    change: Callable[[Table, int], Table] = field(default=lambda table, n_reads: table)

    def read(self) -> Table:
        self.n_reads += 1
        return self.change(self.table, self.n_reads + self.n_label_reads)

    def read_labels(self) -> Table:
        self.n_label_reads += 1
        result = self.change(self.table, self.n_reads + self.n_label_reads)
        return replace(result, X=result.X[:0])


class Partitioned:
    """A source of arrays or frames, cut at some places."""

    def __init__(self, X: Any, y: Any, groups: Any = None, *, cuts: Any = (), spool: Any = None):
        self.X, self.y, self.groups, self.spool = X, y, groups, spool
        edges = [0, *sorted(cuts), X.shape[0]]
        self.parts = [
            Part(Table(*(None if all_ is None else _cut(all_, a, b) for all_ in (X, y, groups))))
            for a, b in pairwise(edges)
        ]

    def partitions(self) -> list[Part]:
        return self.parts


def _cut(values: Any, start: int, stop: int) -> Any:
    return take_rows(values, np.arange(start, stop))
