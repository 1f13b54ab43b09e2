"""From raw columns to numbers: each row on its own, from the constants of an entry."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.datasets.entry import DatasetEntry


def encode_features(frame: pd.DataFrame, entry: DatasetEntry) -> FloatArray:
    """Return the features of raw rows, in [-1, 1] and the order of ``entry.feature_names``."""
    encoded = np.zeros((len(frame), len(entry.feature_names)))
    for position, (column, (low, high)) in enumerate(entry.numeric.items()):
        values = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64)
        values = np.clip(values, low, high)
        if column in entry.log_scaled:
            values, low, high = np.log1p(values), np.log1p(low), np.log1p(high)
        scaled = 2.0 * (values - low) / (high - low) - 1.0
        encoded[:, position] = np.nan_to_num(scaled, nan=0.0)
    first = len(entry.numeric)
    for column, schema in entry.categories.items():
        codes = _codes(frame[column], schema)
        rows = np.flatnonzero(codes >= 0)
        encoded[rows, first + codes[rows]] = 1.0
        first += len(schema)
    return encoded


def encode_groups(frame: pd.DataFrame, entry: DatasetEntry) -> npt.NDArray[np.intp]:
    """Return the index of each row's label in ``entry.group_labels``, -1 where a value has none."""
    known = np.ones(len(frame), dtype=bool)
    parts: list[npt.NDArray[np.object_]] = []
    for column, labels in entry.groups.items():
        codes = _codes(frame[column], tuple(labels))
        known &= codes >= 0
        parts.append(np.array(list(labels.values()), dtype=object)[codes])
    cells = parts[0]
    for part in parts[1:]:
        cells = cells + ", " + part
    found = pd.Index(entry.group_labels).get_indexer(pd.Index(cells))
    return np.where(known, found, -1).astype(np.intp)


def encode_target(frame: pd.DataFrame, entry: DatasetEntry) -> FloatArray:
    """Return class 0 or 1, or the target clipped to its bounds; NaN where a row has neither."""
    if entry.target_bounds is None:
        codes = _codes(frame[entry.target], tuple(entry.target_values))
        classes: FloatArray = np.array([*entry.target_values.values(), np.nan])
        return classes[codes]
    low, high = entry.target_bounds
    values = pd.to_numeric(frame[entry.target], errors="coerce").to_numpy(dtype=np.float64)
    return np.clip(values, low, high)


def _codes(values: pd.Series, schema: tuple[str, ...]) -> npt.NDArray[np.intp]:
    """Position of each value in the schema, -1 for a missing or an unknown one."""
    categorical = values.astype("category").cat.set_categories(list(schema))
    return np.asarray(categorical.cat.codes, dtype=np.intp)
