"""Public bounds of columns, in every form that a user may state them in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sklearn_dpwg._typing import FloatArray

Bounds = tuple[float, float] | Sequence[tuple[float, float]] | Mapping[Hashable, Any]


def column_bounds(
    bounds: Bounds, n_columns: int, names: Sequence[Hashable] | None
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper bound of each column, or refuse bounds of another form."""
    if isinstance(bounds, Mapping):
        if names is None:
            raise ValueError(
                "bounds must be a pair or a sequence of pairs, as X has no column names, "
                "got a mapping."
            )
        without = [name for name in names if name not in bounds]
        unknown = [name for name in bounds if name not in names]
        if without or unknown:
            raise ValueError(
                f"bounds must name the columns of X, {list(names)!r}: "
                + (f"{without[0]!r} has none." if without else f"it has no {unknown[0]!r}.")
            )
        bounds = [bounds[name] for name in names]
    try:
        pairs = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.zeros(0)
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (n_columns, 1))
    if pairs.shape != (n_columns, 2):
        raise ValueError(
            f"bounds must be a pair (low, high) or one pair for each of the {n_columns} columns, "
            f"got {bounds!r}."
        )
    low, high = pairs[:, 0], pairs[:, 1]
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    wrong = np.flatnonzero(~((width > 0) & np.isfinite(width)))
    if wrong.size:
        column = int(wrong[0])
        raise ValueError(
            f"bounds must be finite with low < high, got {tuple(map(float, pairs[column]))!r} for "
            f"column {names[column] if names is not None else column!r}."
        )
    return low, high


def to_unit_interval(X: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Clip columns to their bounds and map these to -1 and 1, also by rounding."""
    half = 0.5 * high - 0.5 * low
    scaled = (np.clip(X, low, high) - low) / half - 1.0
    return np.asarray(np.clip(scaled, -1.0, 1.0, out=scaled))
