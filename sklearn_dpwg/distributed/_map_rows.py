"""Predictions for rows on a cluster, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sklearn_dpwg.distributed._collections import is_array, is_frame, refuse_sparse, whole_rows
from sklearn_dpwg.distributed._tasks import without_values


def map_rows(
    X: Any,
    function: Callable[[Any], ArrayLike],
    *,
    dtype: DTypeLike = np.float64,
    columns: Sequence[Any] | None = None,
) -> Any:
    """Return what a function gives for rows on a cluster, as a collection like them.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows.
    function : callable
        Function of a block of rows, an array or a frame with at least one row; it returns a value,
        or one for each of `columns`, a row. It can be pickled.
    dtype : data-type, default=float64
        Type of the values.
    columns : sequence, optional
        Names of the columns of what it returns; None for one value a row.

    Returns
    -------
    dask.array.Array, dask.dataframe.Series or dask.dataframe.DataFrame
        The values, not computed yet; those of a frame have its index.

    Raises
    ------
    TypeError
        If `X` is neither.
    ValueError
        If `X` has not two dimensions, or sparse blocks.
    """
    mapped = _Map(function, np.dtype(dtype), None if columns is None else list(columns))
    if is_frame(X) and X.ndim == 2:
        return X.map_partitions(mapped, meta=mapped(X._meta.iloc[:0]))
    if not is_array(X):
        raise TypeError(f"X must be a dask array or DataFrame, got {type(X).__name__}.")
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, got {X.ndim}.")
    refuse_sparse(X)
    shape: dict[str, Any] = {"drop_axis": 1} if columns is None else {"chunks": (len(columns),)}
    if columns is not None:
        shape = {"chunks": (X.chunks[0], (len(columns),))}
    return whole_rows(X).map_blocks(
        mapped,
        dtype=mapped.dtype,
        meta=mapped(np.empty((0, 0))),
        name=f"rows-{uuid4().hex}",
        **shape,
    )


class _Map:
    """A function of rows that takes none as well, and whose errors show none."""

    def __init__(
        self, function: Callable[[Any], ArrayLike], dtype: np.dtype[Any], columns: list[Any] | None
    ) -> None:
        self._function = function
        self.dtype = dtype
        self._columns = columns
        self._token = uuid4().hex

    def __repr__(self) -> str:
        return "<map>"

    def __dask_tokenize__(self) -> str:
        return self._token

    def __call__(self, rows: Any) -> Any:
        values = self._values(rows)
        if not hasattr(rows, "iloc"):
            return values
        import pandas as pd

        if self._columns is None:
            return pd.Series(values, index=rows.index)
        return pd.DataFrame(values, index=rows.index, columns=self._columns)

    def _values(self, rows: Any) -> NDArray[Any]:
        if len(rows) == 0:
            shape = (0,) if self._columns is None else (0, len(self._columns))
            return np.empty(shape, dtype=self.dtype)
        try:
            return np.asarray(self._function(rows), dtype=self.dtype)
        except Exception as error:
            shown = without_values(error)
        raise shown
