"""Columns of Arrow: what they may be, and their values as arrays.

Which types pass is what an estimator says of the columns of a frame; the sentences are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg.exceptions import InputError

_ADVICE = {
    "strings": (
        "encode them with public categories, as PublicSchema or OneHotEncoder(categories=[...]) "
        "does, or pass them as groups"
    ),
    "dates or times": (
        "make numbers of them by a public range and unit, as PublicSchema does with its Date, or "
        "days since 2020-01-01 that BoundedScaler scales by public bounds"
    ),
    "lists or structs": "make a column of its own of each number in them",
    "missing values alone": "leave the column out",
}


def check_feature(name: str, kind: Any) -> None:
    """Refuse a column of rows whose type holds no real numbers."""
    found = kind_of(kind)
    if found is not None:
        advice = _ADVICE.get(found, "cast them to a type of numbers")
        raise InputError(f"X must hold numbers, got {found} in column {name!r}: {advice}.")


def check_label(name: str, kind: Any, *, of: str) -> None:
    """Refuse a column of targets or groups whose entries are no labels and no numbers."""
    found = kind_of(kind)
    if found not in (None, "strings", "dates or times"):
        wanted = "classes or numbers" if of == "y" else "labels"
        raise InputError(f"{of} must hold {wanted}, got {found} in column {name!r}.")


def kind_of(kind: Any) -> str | None:
    """Say what a type holds that is no real number; None for numbers."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if any(is_number(kind) for is_number in _numbers(types)):
        return None
    if any(is_text(kind) for is_text in _texts(types)):
        return "strings"
    if types.is_temporal(kind):
        return "dates or times"
    if types.is_nested(kind):
        return "lists or structs"
    return "missing values alone" if types.is_null(kind) else f"values of type {kind}"


def _numbers(types: Any) -> list[Any]:
    return [types.is_boolean, types.is_integer, types.is_floating, types.is_decimal]


def _texts(types: Any) -> list[Any]:
    texts = [types.is_string, types.is_large_string, types.is_binary, types.is_large_binary]
    newer = [getattr(types, name, None) for name in ("is_string_view", "is_binary_view")]
    return [*texts, types.is_fixed_size_binary, *(one for one in newer if one is not None)]


def as_codes(kind: Any) -> Any:
    """Return the type that labels are read in: text as a dictionary, which is read faster."""
    import pyarrow as pa

    if kind_of(kind) != "strings":
        return kind
    # the numbers of several files together may be more than a narrow type has
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.dictionary(pa.int32(), value_type)


def float_type(kinds: list[Any]) -> np.dtype[Any]:
    """Return the type that rows of these columns are read in."""
    from pyarrow import types

    is_single = all(types.is_float32(kind) for kind in kinds)
    return np.dtype(np.float32 if is_single else np.float64)


def fill_numbers(out: NDArray[Any], column: Any, name: str) -> None:
    """Write an array of Arrow to one of NumPy; a missing value is an error."""
    from pyarrow import float64, types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        column = column.cast(float64())
    if column.null_count:
        raise InputError(
            f"Input X contains NaN in column {name!r}: PublicSchema takes a fill that is said "
            f"beforehand, while an imputer would learn from the records what no guarantee covers."
        )
    out[:] = column.to_numpy(zero_copy_only=False)


def as_targets(column: Any, name: str) -> NDArray[Any]:
    """Return a chunked column of targets as numbers or Python objects; no value is missing."""
    from pyarrow import float64, types

    if types.is_decimal(column.type):
        column = column.cast(float64())
    values = as_labels(column)
    # entries of a dictionary may be missing too
    if column.null_count or (values.dtype == object and any(value is None for value in values)):
        raise InputError(f"y must hold no missing values, got some in column {name!r}.")
    return values


def as_labels(column: Any) -> NDArray[Any]:
    """Return a chunked column as numbers or Python objects, None where a value is missing."""
    from pyarrow import types

    if types.is_dictionary(column.type) and _is_plain(types, column.type.value_type):
        column = column.cast(column.type.value_type)
    if _is_plain(types, column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    return _objects(column if types.is_dictionary(column.type) else column.dictionary_encode())


def as_group_column(column: Any) -> pd.Series[Any]:
    """Return a chunked column of groups; text as categories, which take a byte a record."""
    from pyarrow import types

    if types.is_dictionary(column.type) and kind_of(column.type) == "strings" and len(column):
        whole = column.unify_dictionaries().combine_chunks()
        distinct = pd.Index(whole.dictionary.to_pylist(), dtype=object)
        # a writer may have put a missing value, or one value twice, among those that it numbers
        if distinct.is_unique and not distinct.hasnans:
            codes = _codes(whole, -1)
            return pd.Series(pd.Categorical.from_codes(codes, distinct), copy=False)
    labels = as_labels(column)
    return pd.Series(labels, dtype=labels.dtype)


def _is_plain(types: Any, kind: Any) -> bool:
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _objects(column: Any) -> NDArray[Any]:
    """Return Python objects of a dictionary column; equal ones are one object."""
    found = np.empty(len(column), dtype=object)
    start = 0
    for chunk in column.chunks:
        distinct = chunk.dictionary.to_pylist()
        table = np.empty(len(distinct) + 1, dtype=object)
        for place, value in enumerate(distinct):
            table[place] = value
        found[start : start + len(chunk)] = table[_codes(chunk, len(distinct))]
        start += len(chunk)
    return found


def _codes(column: Any, missing: int) -> NDArray[Any]:
    """Return the numbers that stand for the values of a dictionary array."""
    from pyarrow import int64

    codes = column.indices.cast(int64())
    return np.asarray(codes.fill_null(missing) if codes.null_count else codes)
