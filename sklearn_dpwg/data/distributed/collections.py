"""Dask arrays and frames as partitions that a fit can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import issparse

from sklearn_dpwg.data.distributed.cluster import Held, Unshown, lazy_task
from sklearn_dpwg.data.frames import is_dask, named
from sklearn_dpwg.exceptions import InputError, InputTypeError

NO_SPARSE = (
    "X has sparse blocks, which are not taken from a cluster: pass dense blocks, "
    "X.map_blocks(lambda rows: rows.toarray()), or sparse rows in memory."
)


class TablePartition:
    """Records of one partition on a worker, before any is looked at; the ``repr`` shows none."""

    def __init__(self, X: Any, y: NDArray[Any], groups: Any = None) -> None:
        self.X = X  # an array, or a frame
        self.y = y
        self.groups = groups  # an array, a column or a frame; None for none

    def __repr__(self) -> str:
        return "TablePartition()"

    def read(self) -> TablePartition:
        return self

    def read_labels(self) -> TablePartition:
        return TablePartition(self.X[:0], self.y, self.groups)


class MakeTable(Unshown):
    """Task that makes a `TablePartition` of the parts of each collection that belong together."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __call__(self, X: Any, y: Any, groups: Any) -> Held:
        if issparse(X):
            raise InputError(NO_SPARSE)
        y = np.asarray(y)
        for name, part in (("y", y), ("groups", groups)):
            if part is not None and len(part) != len(X):
                raise InputError(
                    f"Partition {self._place} of X has {len(X)} rows, and that of {name} has "
                    f"{len(part)}: X, y and groups must be cut at the same rows."
                )
        return Held(TablePartition(X, y, groups))


def hold_collections(X: Any, y: Any, groups: Any = None) -> list[Any]:
    """Return handles of the partitions of collections cut at the same rows; nothing is computed."""
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
        lazy_task(MakeTable(place), *part) for place, part in enumerate(zip(*parts, strict=True))
    ]


def _whole_rows(X: Any) -> Any:
    """Return a dask array of rows whose blocks have all columns."""
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def is_array(value: Any) -> bool:
    """Tell whether a collection is a dask array."""
    from dask.array import Array

    return isinstance(value, Array)


def is_frame(value: Any) -> bool:
    """Tell whether a collection is a dask DataFrame or Series, without importing them."""
    return named(value, {"dask": ("DataFrame", "Series")}) is not None


def refuse_sparse(X: Any) -> None:
    """Refuse a dask array whose blocks are sparse."""
    kind = type(X._meta).__module__.partition(".")[0]
    if issparse(X._meta) or kind == "sparse":
        raise InputError(NO_SPARSE)


def _check_kind(name: str, value: Any) -> None:
    """Refuse what is no array or frame of dask of the right dimensions."""
    allowed = {"X": (2,), "y": (1,), "groups": (1, 2)}[name]
    if not (is_dask(value) and (is_array(value) or is_frame(value))):
        where = "" if name == "X" else " where X is one, cut at the same rows"
        maker = "dask.array.from_array"
        if hasattr(type(value), "to_dataframe"):  # a bag
            maker = "its to_dataframe()"
        raise InputTypeError(
            f"{name} must be a dask array or frame{where}, got {type(value).__name__}: make one "
            f"of it, for instance by {maker}."
        )
    if value.ndim not in allowed:
        words = " or ".join(map(str, allowed)) + " dimension" + "s" * (allowed != (1,))
        raise InputError(f"{name} must have {words}, got {value.ndim}{_column_of(name, value)}.")
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
    advice = (
        f"X, y and groups must be cut at the same rows, for arrays by {name}.rechunk({{0: "
        "X.chunks[0]})."
    )
    if len(cut) != len(rows):
        raise InputError(f"X has {len(rows)} partitions and {name} has {len(cut)}: {advice}")
    for place, (own, other) in enumerate(zip(rows, cut, strict=True)):
        if own is not None and other is not None and own != other:
            raise InputError(
                f"Partition {place} of X has {own} rows, and that of {name} has {other}: {advice}"
            )


def _parts(value: Any) -> list[Any]:
    """Return the partitions of a collection as delayed values."""
    if is_array(value):
        return list(_whole_rows(value).to_delayed().ravel())
    # dask's own optimisation puts files together, as many as the columns that are read are few
    return list(value.simplify().to_delayed(optimize_graph=False))


def map_rows(
    X: Any,
    function: Callable[[Any], ArrayLike],
    *,
    dtype: DTypeLike = np.float64,
    columns: Sequence[Any] | None = None,
) -> Any:
    """Return what a function gives for blocks of rows, as a collection like them, not computed yet.

    It is given at least one row, and returns a value a row, or one for each of `columns`.
    """
    mapped = Map(function, np.dtype(dtype), None if columns is None else list(columns))
    if is_frame(X) and X.ndim == 2:
        return X.map_partitions(mapped, meta=mapped(X._meta.iloc[:0]))
    if not is_array(X):
        raise InputTypeError(f"X must be a dask array or DataFrame, got {type(X).__name__}.")
    if X.ndim != 2:
        raise InputError(f"X must have 2 dimensions, got {X.ndim}.")
    refuse_sparse(X)
    shape: dict[str, Any] = {"drop_axis": 1}
    if columns is not None:
        shape = {"chunks": (X.chunks[0], (len(columns),))}
    return _whole_rows(X).map_blocks(
        mapped,
        dtype=mapped.dtype,
        meta=mapped(np.empty((0, 0))),
        name=f"rows-{uuid4().hex}",
        **shape,
    )


class Map(Unshown):
    """A function of rows that takes none as well."""

    def __init__(
        self, function: Callable[[Any], ArrayLike], dtype: np.dtype[Any], columns: list[Any] | None
    ) -> None:
        self._function = function
        self.dtype = dtype
        self._columns = columns
        self._token = uuid4().hex

    def __dask_tokenize__(self) -> str:
        return self._token

    def __call__(self, rows: Any) -> Any:
        values = self._values(rows)
        if not hasattr(rows, "iloc"):
            return values
        if self._columns is None:
            return pd.Series(values, index=rows.index)
        return pd.DataFrame(values, index=rows.index, columns=self._columns)

    def _values(self, rows: Any) -> NDArray[Any]:
        if len(rows) == 0:
            shape = (0,) if self._columns is None else (0, len(self._columns))
            return np.empty(shape, dtype=self.dtype)
        return np.asarray(self._function(rows), dtype=self.dtype)
