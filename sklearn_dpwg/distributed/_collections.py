"""Dask arrays and frames as partitions that a fit can read."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sklearn_dpwg.distributed._cluster import lazy_task
from sklearn_dpwg.distributed.table_partition import NO_SPARSE, MakeTable
from sklearn_dpwg.groups import GroupBy

_FRAMES = ("DataFrame", "Series")


def is_collection(value: Any) -> bool:
    """Tell whether a value is a collection of dask, without importing dask.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    bool
        Whether dask computes it when asked: arrays, frames, bags and delayed values.
    """
    if "dask" not in sys.modules:  # nobody has made one
        return False
    from dask import is_dask_collection

    return bool(is_dask_collection(value))


def hold_collections(
    engine: Any, X: Any, y: Any, groups: Any = None, *, group_by: GroupBy | None = None
) -> list[Any]:
    """Return handles of the partitions of collections that are cut at the same rows.

    Nothing is computed before a pass, and what a pass has read it forgets. Rows that are cut
    differently are found by the first pass.

    Parameters
    ----------
    engine : DaskEngine
        The engine that will read them.
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows.
    y : dask.array.Array or dask.dataframe.Series
        Targets.
    groups : dask.array.Array, dask.dataframe.Series or dask.dataframe.DataFrame, optional
        Groups.
    group_by : column name or index, sequence of them, or callable, optional
        Where groups are in the rows, if they were not passed.

    Returns
    -------
    list
        Handles of `TablePartition` objects, in the order of the records.

    Raises
    ------
    TypeError
        If one of them is no such collection.
    ValueError
        If they are cut differently, have another number of dimensions, or sparse blocks.
    """
    if groups is not None and group_by is not None:
        raise ValueError("groups were passed and group_by is set: use one of them, not both.")
    passed = {"X": X, "y": y} | ({} if groups is None else {"groups": groups})
    for name, value in passed.items():
        _check_kind(name, value)
    cuts = {name: _cut(value) for name, value in passed.items()}
    for name, cut in cuts.items():
        _check_cut(cuts["X"], name, cut)
    parts = [_parts(value) for value in passed.values()]
    if groups is None:
        parts.append([None] * len(parts[0]))
    return [
        lazy_task(MakeTable(place, group_by), *part)
        for place, part in enumerate(zip(*parts, strict=True))
    ]


def whole_rows(X: Any) -> Any:
    """Return a dask array of rows whose blocks have all columns."""
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def is_array(value: Any) -> bool:
    """Tell whether a collection is a dask array."""
    from dask.array import Array

    return isinstance(value, Array)


def is_frame(value: Any) -> bool:
    """Tell whether a collection is a dask DataFrame or Series, without importing them."""
    return any(
        kind.__name__ in _FRAMES and kind.__module__.partition(".")[0] == "dask"
        for kind in type(value).__mro__
    )


def refuse_sparse(X: Any) -> None:
    """Refuse a dask array whose blocks are sparse."""
    kind = type(X._meta).__module__.partition(".")[0]
    if issparse(X._meta) or kind == "sparse":
        raise ValueError(NO_SPARSE)


def _check_kind(name: str, value: Any) -> None:
    """Refuse what is no array or frame of dask of the right dimensions."""
    allowed = {"X": (2,), "y": (1,), "groups": (1, 2)}[name]
    if not (is_collection(value) and (is_array(value) or is_frame(value))):
        where = "" if name == "X" else " where X is one, cut at the same rows"
        maker = "dask.array.from_array"
        if hasattr(type(value), "to_dataframe"):  # a bag
            maker = "its to_dataframe()"
        raise TypeError(
            f"{name} must be a dask array or frame{where}, got {type(value).__name__}: make one "
            f"of it, for instance by {maker}."
        )
    if value.ndim not in allowed:
        words = " or ".join(map(str, allowed)) + " dimension" + "s" * (allowed != (1,))
        raise ValueError(f"{name} must have {words}, got {value.ndim}{_column_of(name, value)}.")
    if is_array(value):
        refuse_sparse(value)


def _column_of(name: str, value: Any) -> str:
    """Say how to pass a table as the one column that is wanted."""
    if name != "y" or value.ndim != 2:
        return ""
    if is_array(value):
        return ": pass its column, y[:, 0]"
    column = repr(value.columns[0]) if len(value.columns) else "'name'"
    return f": pass a column of the frame, frame[{column}]"


def _cut(value: Any) -> tuple[Any, ...]:
    """Return the rows of each partition, None where they are not known."""
    if is_array(value):
        return tuple(None if np.isnan(rows) else int(rows) for rows in value.chunks[0])
    return (None,) * value.npartitions


def _check_cut(rows: tuple[Any, ...], name: str, cut: tuple[Any, ...]) -> None:
    """Refuse a collection that is seen to be cut elsewhere than X."""
    if len(cut) != len(rows):
        raise ValueError(
            f"X has {len(rows)} partitions and {name} has {len(cut)}: X, y and groups must be cut "
            f"at the same rows, for arrays by {name}.rechunk({{0: X.chunks[0]}})."
        )
    for place, (own, other) in enumerate(zip(rows, cut, strict=True)):
        if own is not None and other is not None and own != other:
            raise ValueError(
                f"Partition {place} of X has {own} rows, and that of {name} has {other}: X, y and "
                f"groups must be cut at the same rows, for arrays by {name}.rechunk({{0: "
                "X.chunks[0]})."
            )


def _parts(value: Any) -> list[Any]:
    """Return the partitions of a collection as delayed values."""
    if is_array(value):
        return list(whole_rows(value).to_delayed().ravel())
    # dask's own optimisation puts files together, as many as the columns that are read are few
    return list(value.simplify().to_delayed(optimize_graph=False))
