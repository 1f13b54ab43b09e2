"""The door: frames, columns and rows of labels of any library, and what is not in memory."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_dpwg._checks import TRUTH, as_text
from sklearn_dpwg.exceptions import InputError, InputTypeError

# Data that is not in memory, told by its form, without an import of what it is made with.

FEW_TAKE = (
    "fit, predict and score of DPWorstGroupClassifier and DPWorstGroupRegressor take a source or "
    "collections of dask, all else takes arrays and frames"
)

# What is in memory and needs no other library to be read.
OWN = (np.ndarray, pd.DataFrame, pd.Series, pd.Index, str, bytes, list, tuple, dict, type(None))


class NoArray:
    """A source of records, of which NumPy, and so scikit-learn's own, can make no array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Refuse in one sentence what would end in words about sequences."""
        raise InputTypeError(f"X must be in memory here, got {type(self).__name__}: {FEW_TAKE}.")


def is_source(value: Any) -> bool:
    """Whether a value is a `Source`: partitions one can ask for, and where they are spooled."""
    return callable(getattr(type(value), "partitions", None)) and hasattr(value, "spool")


def is_dask(value: Any) -> bool:
    """Whether a value is a collection of dask."""
    return hasattr(type(value), "__dask_graph__")


def _is_own(value: Any) -> bool:
    """Whether no other library is asked what a value is."""
    return isinstance(value, OWN) or issparse(value) or is_dask(value)


def lazy_table(value: Any) -> str | None:
    """Return the name of a table that is not in memory, or None for anything else."""
    if _is_own(value):
        return None
    lazy = isinstance(nw.from_native(value, pass_through=True), nw.LazyFrame)
    dataset = named(value, {"pyarrow": ("Dataset",)})
    return f"{_package(type(value))} {type(value).__name__}" if lazy and not dataset else dataset


def is_elsewhere(*values: Any) -> bool:
    """Whether some of the values are not in memory."""
    is_path = isinstance(values[0], str | os.PathLike)  # rows, which have no other reading
    return is_path or any(is_dask(each) or is_source(each) or lazy_table(each) for each in values)


# The door: whatever library holds rows, targets or groups, they come in here.


def in_memory(**values: Any) -> list[Any]:
    """Return values as NumPy, pandas or SciPy hold them; refuse what would be read into memory."""
    held = []
    for name, value in values.items():
        if not isinstance(value, OWN):
            if is_dask(value) or is_source(value) or lazy_table(value):
                kind = lazy_table(value) or type(value).__name__
                raise InputTypeError(f"{name} must be in memory here, got {kind}: {FEW_TAKE}.")
            value = as_pandas(value)
        held.append(value)
    return held


def as_pandas(value: Any) -> Any:
    """Return a frame or column of another library as pandas has it, and anything else as it is."""
    if _is_own(value):
        return value
    if _package(type(value)) == "pyarrow" and hasattr(value, "to_pandas"):
        held = value.to_pandas(integer_object_nulls=True)
        return held.reset_index(drop=True) if isinstance(held, pd.DataFrame) else held
    held = nw.from_native(value, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(held, nw.DataFrame | nw.Series) and not held.implementation.is_polars():
        return as_pandas(held.to_native()) if value is held else held.to_pandas()
    if isinstance(held, nw.DataFrame):
        return pd.DataFrame({name: _column(held[name]) for name in held.columns})
    return _column(held).rename(held.name or None) if isinstance(held, nw.Series) else value


def _column(column: nw.Series[Any]) -> pd.Series[Any]:
    """Return a column of polars as one of pandas, without pyarrow."""
    kind = column.dtype
    if isinstance(kind, nw.Enum):
        return pd.Series(pd.Categorical(column.to_list(), categories=list(kind.categories)))
    if kind.is_decimal():
        return pd.Series(column.cast(nw.Float64).to_numpy())
    is_plain = kind.is_numeric() or (kind.is_temporal() and kind != nw.Time)
    if kind.is_integer() and column.null_count():  # floats of NumPy would round the others
        is_plain = False
    # pandas would guess a type from all cells of a list
    return pd.Series(column.to_numpy()) if is_plain else pd.Series(column.to_list(), dtype=object)


def plain_list(values: Any) -> list[Any]:
    """Return labels in a row of any library as a list of plain Python values."""
    values = as_pandas(values)
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    return [plain(value) for value in listed]


def plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, and parts of a label as a tuple of such."""
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    is_number = isinstance(value, np.generic) and value.dtype.kind not in "Mm"
    return value.item() if is_number else value


class PlainlyStored:
    """What is stored without other libraries' rows of labels: parameters have lists in their place.

    The object that was made keeps its parameters as they were given.
    """

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        own = {name: each for name, each in state.items() if name[0] != "_" and name[-1] != "_"}
        return state | {name: _stored(value) for name, value in own.items()}


def _stored(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_stored, value))
    if type(value) is dict:
        return {plain(key): _stored(each) for key, each in value.items()}
    held = as_pandas(value)
    rows = pd.Series | pd.Index | pd.api.extensions.ExtensionArray
    of_words = isinstance(held, np.ndarray) and held.dtype.kind not in "biufc"
    return plain_list(held) if of_words or isinstance(held, rows) else plain(value)


def same_rows(**values: Any) -> list[Any]:
    """Return values of the same records `in_memory`, or refuse those whose indexes differ.

    Rows are paired by their place, which an index that differs says is wrong. It is read, not
    shown.
    """
    held = in_memory(**values)
    indexed = {
        name: each.index
        for (name, value), each in zip(values.items(), held, strict=True)
        if isinstance(each, pd.Series | pd.DataFrame)
        if each is value or not isinstance(each.index, pd.RangeIndex)  # which has just been made
    }
    first = next(iter(indexed), "")
    for name, index in indexed.items():
        if len(index) == len(indexed[first]) and not index.equals(indexed[first]):
            raise InputError(
                f"{name} must have the index of {first}, as rows are paired by their place, got "
                f"another one: pass {name}.loc[{first}.index] where rows with one label are one "
                f"record, and {name}.to_numpy() where those in one place are."
            )
    return held


def named(value: Any, known: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the name of the class among those known that a value is of, if it is of one."""
    for kind in type(value).__mro__:
        if kind.__name__ in known.get(_package(kind), ()):
            return f"{_package(kind)} {kind.__name__}"
    return None


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def opened(rows: Any) -> Any:
    """Return a frame or column as narwhals has it, which knows no lone batch of Arrow."""
    rows = nw.from_arrow(rows, backend="pyarrow") if type(rows).__name__ == "RecordBatch" else rows
    return nw.from_native(rows, eager_only=True, allow_series=True, pass_through=True)


# Labels, which are compared as text whatever holds them.


def label_column(labels: Iterable[Hashable]) -> NDArray[np.object_]:
    """Return an array of labels, each one entry even if all are tuples."""
    listed = list(labels)
    column = np.empty(len(listed), dtype=object)
    for place, label in enumerate(listed):
        column[place] = label
    return column


def label_key(label: Any) -> Hashable:
    """Return what labels are compared by: the text of each part, None of one that is missing."""
    if isinstance(label, tuple):
        return tuple(map(label_key, label))
    if pd.api.types.is_scalar(label) and pd.isna(label):
        return None
    text = as_text(label)
    return TRUTH.get(text, text)


def same_text(labels: Iterable[Any]) -> str | None:
    """Say which labels are one text, None where all differ."""
    first: dict[Hashable, Any] = {}
    for label in labels:
        if (key := label_key(label)) in first:
            shown = repr(first[key]), repr(label)
            twice = f"{shown[0]} twice" if len(set(shown)) == 1 else ""
            return twice or f"{shown[0]} and {shown[1]}, which are one text"
        first[key] = label
    return None


def places(values: Any, labels: Iterable[Any]) -> NDArray[np.intp]:
    """Return the place of each value among labels by its text, -1 where it has none."""
    codes, distinct = pd.factorize(values if isinstance(values, np.ndarray) else np.asarray(values))
    labels = list(labels)
    # each text is made once: what is equal is the same text
    keys = {label: label_key(label) for label in dict.fromkeys([*labels, *distinct])}
    known = {keys[label]: place for place, label in enumerate(labels)}
    at = [known.get(keys[each], -1) for each in distinct]
    return np.array([*at, -1], dtype=np.intp)[codes]


def spelled(values: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return values as the labels that are the same text are written; others stay as they are."""
    at = places(values, labels)
    if (at < 0).all():
        return values
    return np.where(at < 0, values, labels[at]) if (at < 0).any() else labels[at]


def checked_labels(group_labels: Any) -> list[Hashable]:
    """Return stated labels as a list of plain values, or refuse what is no sequence of labels."""
    try:
        labels = [] if isinstance(group_labels, str) else plain_list(group_labels)
        twice = same_text(labels)
        hash(tuple(labels))
    except TypeError:  # no sequence, or a label that is a mapping
        labels = []
    if not labels:
        raise InputError(
            f"group_labels must be a sequence of labels (tuples for several columns), got "
            f"{group_labels!r}."
        )
    if twice:
        raise InputError(f"group_labels must name each group once, got {twice}.")
    return labels
