"""Blocks of rows, and their shares among the tasks of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray

IndexArray = NDArray[np.intp]

# Enough tasks for a few cores to finish together, few enough for their partial sums.
MAX_TASKS = 16


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows of each group cut into blocks, whose sums are added up one by one."""

    edges: IndexArray  # block b holds the rows `edges[b]:edges[b + 1]`; (n_blocks + 1,)
    starts: IndexArray  # group i holds the blocks `starts[i]:starts[i + 1]`; (n_groups + 1,)

    @classmethod
    def of(cls, starts: IndexArray, block_rows: int) -> Blocks:
        """Cut groups ``starts[i]:starts[i + 1]`` into blocks, by their sizes alone."""
        counts = -(np.diff(starts) // -block_rows)
        of_group = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(of_group[-1]) - np.repeat(of_group[:-1], counts)
        edges = np.repeat(starts[:-1], counts) + block_rows * within
        return cls(np.append(edges, starts[-1]), of_group)


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows, or blocks of rows, cut where a task ends and where a group ends.

    It depends on sizes only, never on the number of cores, so sums that are combined in its order
    are the same bit for bit on every number of threads.
    """

    n_groups: int
    # group of each segment, in ascending order; a group without records has none; (n_segments,)
    groups: IndexArray
    firsts: IndexArray  # a segment holds the rows `firsts[s]:lasts[s]`; (n_segments,)
    lasts: IndexArray
    tasks: list[slice]  # the segments of each task

    @classmethod
    def of(cls, starts: IndexArray, n_tasks: int) -> Partition:
        """Cut rows ``starts[i]:starts[i + 1]`` of groups into at most `MAX_TASKS` even tasks."""
        n_tasks = max(1, min(n_tasks, MAX_TASKS))
        cuts = np.linspace(starts[0], starts[-1], n_tasks + 1).astype(np.intp)
        points = np.union1d(cuts, starts)
        firsts, lasts = points[:-1], points[1:]
        groups = np.searchsorted(starts, firsts, side="right") - 1
        bounds = np.unique(np.searchsorted(firsts, cuts)).tolist()
        tasks = [slice(*pair) for pair in pairwise(bounds)]
        return cls(len(starts) - 1, groups, firsts, lasts, tasks)

    def segments(self, part: slice) -> Iterator[tuple[int, int, int]]:
        """Yield the group, the first row and the end of some segments."""
        columns = (self.groups[part], self.firsts[part], self.lasts[part])
        for group, first, last in zip(*columns, strict=True):
            yield int(group), int(first), int(last)

    def sum_by_group(self, parts: FloatArray) -> FloatArray:
        """Add up one entry a segment, in the order of the rows; 0 for a group without records."""
        if np.array_equal(self.groups, np.arange(self.n_groups)):
            return parts
        totals = np.zeros((self.n_groups, *parts.shape[1:]))
        for segment, group in enumerate(self.groups):
            totals[group] += parts[segment]
        return totals
