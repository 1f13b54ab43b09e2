"""Disjoint parts of every group, by public sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def part_sizes(group_sizes: Sequence[int], shares: Sequence[float]) -> tuple[tuple[int, ...], ...]:
    """Return how many records of each group each part gets.

    At least 1, where a group has as many as there are parts, together the whole group, and
    otherwise as near to the shares, which sum to 1, as whole numbers are.
    """
    n_parts = len(shares)
    ends = np.cumsum(np.asarray(shares, dtype=float))[:, None] * np.asarray(group_sizes)
    ends = np.round(ends).astype(int)
    ends[-1] = group_sizes
    for part in range(n_parts - 1):  # at least one record for each part, and for those behind it
        least = 1 if part == 0 else ends[part - 1] + 1
        ends[part] = np.clip(ends[part], least, np.asarray(group_sizes) - (n_parts - 1 - part))
    sizes = np.diff(ends, axis=0, prepend=0)
    return tuple(tuple(int(size) for size in part) for part in sizes)


def parts_of_hidden(
    group_sizes: Sequence[int], shares: Sequence[float]
) -> tuple[tuple[int, ...], ...]:
    """Return what stands for the sizes of parts of hidden groups: shares of theirs, at least 1.

    Parts are cut from places among all records, so that how many of a group are in one is not known
    any better.
    """
    sizes = np.outer(np.asarray(shares, dtype=float), np.asarray(group_sizes))
    return tuple(tuple(int(size) for size in np.maximum(1, np.round(part))) for part in sizes)
