"""Disjoint parts of every group, by public sizes and a public permutation of positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


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


def draw_parts(
    group_sizes: Sequence[int],
    sizes_of_parts: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> tuple[tuple[NDArray[np.intp], ...], ...]:
    """Return, for each part and group, the increasing positions of its records in the group.

    Notes
    -----
    Each group's positions are permuted at random and cut into pieces. Which record is where
    follows from positions and random numbers alone, which have nothing to do with the records, so
    a record that replaces another is in the same part, and given these numbers the parts are
    disjoint data sets.
    """
    orders = [rng.permutation(size) for size in group_sizes]
    taken = np.zeros(len(group_sizes), dtype=int)
    parts = []
    for sizes in sizes_of_parts:
        ends = taken + np.asarray(sizes)
        parts.append(
            tuple(
                np.sort(order[start:end])
                for order, start, end in zip(orders, taken, ends, strict=True)
            )
        )
        taken = ends
    return tuple(parts)
