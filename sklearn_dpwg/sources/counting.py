"""Sizes of the groups of a source, for a plan before its fit."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from sklearn_dpwg._lazy_data import is_source
from sklearn_dpwg.groups import count_labels, encode_groups, label_column
from sklearn_dpwg.sources.partition import Source, reading


def group_sizes(source: Source) -> dict[Hashable, int]:
    """Count the records of each group, in one pass that reads no rows.

    Parameters
    ----------
    source : Source
        Records with groups.

    Returns
    -------
    dict
        Number of records by label, in the order that a fit gives the groups, for
        ``estimator.plan(group_sizes=group_sizes(source), n_features=...)``.

    Raises
    ------
    TypeError
        If it is no source: a frame counts its records by itself.
    ValueError
        If the source has no groups, or a group is missing.

    Notes
    -----
    The counts are exact. A fit counts them among the public facts, unless
    ``neighbours="replace-any"`` protects who is in which group.
    """
    if not is_source(source):
        raise TypeError(
            f"source must be a ParquetSource, an ArraySource or another source, got "
            f"{type(source).__name__}: make ParquetSource(..., groups=...) of a path or a "
            f"LazyFrame, and count a frame by frame.groupby(...).size(), one of dask with "
            f".compute() behind it."
        )
    found: list[Hashable] = []
    counts: list[int] = []
    with reading(source) as parts:
        for partition in parts:
            table = partition.read_labels()
            if table.groups is None:
                raise ValueError(f"source must have groups to count, got {source!r}.")
            labels, of_each = count_labels(table.groups, len(table.groups))
            found += labels
            counts += of_each.tolist()
    if not found:
        raise ValueError(f"source must have at least one record, got none in {source!r}.")
    codes, labels_in_order = encode_groups(label_column(found), len(found), None)
    sizes = np.bincount(codes, weights=counts).astype(np.int64)
    return dict(zip(labels_in_order.tolist(), sizes.tolist(), strict=True))
