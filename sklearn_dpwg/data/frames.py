"""Conversion of frames, columns and labels of any library, and refusal of data not in memory."""

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

# Data that is not in memory: recognised by attributes, without an import of its library.

FEW_TAKE = (
    "fit, predict and score of DPWorstGroupClassifier and DPWorstGroupRegressor take a source or "
    "collections of dask, all else takes arrays and frames"
)

# Types that are in memory and are read without a conversion.
NATIVE = (np.ndarray, pd.DataFrame, pd.Series, pd.Index, str, bytes, list, tuple, dict, type(None))


class NoArray:
    """Base class of sources of records, which neither NumPy nor scikit-learn may make arrays of."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Raise `InputTypeError`, which is clearer than the error of NumPy."""
        raise InputTypeError(f"X must be in memory here, got {type(self).__name__}: {FEW_TAKE}.")


def is_source(value: Any) -> bool:
    """Whether a value is a `Source`: it has a method ``partitions`` and an attribute ``spool``."""
    return callable(getattr(type(value), "partitions", None)) and hasattr(value, "spool")


def is_dask(value: Any) -> bool:
    """Whether a value is a collection of dask."""
    return hasattr(type(value), "__dask_graph__")


def _is_native(value: Any) -> bool:
    """Whether a value is of NumPy, pandas, SciPy, dask or plain Python: it is not converted."""
    return isinstance(value, NATIVE) or issparse(value) or is_dask(value)


def lazy_table(value: Any) -> str | None:
    """Return library and class of a lazy table, such as "polars LazyFrame", None for all else."""
    if _is_native(value):
        return None
    dataset = named_class(value, {"pyarrow": ("Dataset",)})
    if dataset is None and isinstance(nw.from_native(value, pass_through=True), nw.LazyFrame):
        return f"{_package(type(value))} {type(value).__name__}"
    return dataset


def is_elsewhere(*values: Any) -> bool:
    """Whether some of the values are not in memory; the first are the rows, others may be text."""
    is_path = isinstance(values[0], str | os.PathLike)
    return is_path or any(is_dask(each) or is_source(each) or lazy_table(each) for each in values)


# Conversion of rows, targets and groups in memory, which all enter the package here.


def in_memory(**values: Any) -> list[Any]:
    """Return values as objects of NumPy, pandas or SciPy; an error names lazy ones by keyword."""
    converted = []
    for name, value in values.items():
        if not isinstance(value, NATIVE):
            if is_dask(value) or is_source(value) or lazy_table(value):
                kind = lazy_table(value) or type(value).__name__
                raise InputTypeError(f"{name} must be in memory here, got {kind}: {FEW_TAKE}.")
            value = as_pandas(value)
        converted.append(value)
    return converted


def as_pandas(value: Any) -> Any:
    """Return a frame or column of another library as one of pandas, any other value unchanged."""
    if _is_native(value):
        return value
    # pyarrow before narwhals, which would round integers beside nulls to floats
    if _package(type(value)) == "pyarrow" and hasattr(value, "to_pandas"):
        table = value.to_pandas(integer_object_nulls=True)
        # a table may carry the index of the frame that it was made from
        return table.reset_index(drop=True) if isinstance(table, pd.DataFrame) else table
    frame = nw.from_native(value, eager_only=True, allow_series=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.Series):
        return value
    if value is frame:  # narwhals itself: what it wraps may be a table of pyarrow or of polars
        return as_pandas(frame.to_native())
    if not frame.implementation.is_polars():
        return frame.to_pandas()
    if isinstance(frame, nw.DataFrame):
        return pd.DataFrame({name: _polars_column(frame[name]) for name in frame.columns})
    return _polars_column(frame).rename(frame.name or None)


def _polars_column(column: nw.Series[Any]) -> pd.Series[Any]:
    """Return a column of polars as a Series of pandas, without pyarrow, which need not be there."""
    kind = column.dtype
    if isinstance(kind, nw.Enum):
        return pd.Series(pd.Categorical(column.to_list(), categories=list(kind.categories)))
    if kind.is_decimal():
        return pd.Series(column.cast(nw.Float64).to_numpy())
    is_plain = kind.is_numeric() or (kind.is_temporal() and kind != nw.Time)
    if kind.is_integer() and column.null_count():  # NumPy would make floats and round
        is_plain = False
    # dtype=object: pandas would guess another type from all cells of the list
    return pd.Series(column.to_numpy()) if is_plain else pd.Series(column.to_list(), dtype=object)


def plain_list(values: Any) -> list[Any]:
    """Return the labels in an array, column or list of any library as plain Python values."""
    values = as_pandas(values)
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    return [plain(value) for value in listed]


def plain(value: Any) -> Any:
    """Return a NumPy number as one of Python, a list as a tuple of such; NumPy dates stay."""
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    has_python_type = isinstance(value, np.generic) and value.dtype.kind not in "Mm"
    return value.item() if has_python_type else value


class PlainlyStored:
    """Mixin that pickles parameters with plain lists in place of columns of other libraries."""

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        public = {name: value for name, value in state.items() if name.strip("_") == name}
        return state | {name: _stored(value) for name, value in public.items()}


def _stored(value: Any) -> Any:
    """Return a parameter with its columns of labels as lists; arrays of numbers stay."""
    if type(value) in (list, tuple):
        return type(value)(map(_stored, value))
    if type(value) is dict:
        return {plain(key): _stored(each) for key, each in value.items()}
    converted = as_pandas(value)
    is_column = isinstance(converted, pd.Series | pd.Index | pd.api.extensions.ExtensionArray)
    has_words = isinstance(converted, np.ndarray) and converted.dtype.kind not in "biufc"
    return plain_list(converted) if has_words or is_column else plain(value)


def same_rows(**values: Any) -> list[Any]:
    """Convert as `in_memory`; refuse pandas values of one length whose indexes differ."""
    converted = in_memory(**values)
    indexed = {
        name: frame.index
        for (name, value), frame in zip(values.items(), converted, strict=True)
        if isinstance(frame, pd.Series | pd.DataFrame)
        # the conversion makes a RangeIndex for values without an index
        if frame is value or not isinstance(frame.index, pd.RangeIndex)
    }
    reference = next(iter(indexed), "")
    for name, index in indexed.items():
        if len(index) == len(indexed[reference]) and not index.equals(indexed[reference]):
            raise InputError(
                f"{name} must have the index of {reference}, as rows are paired by their place, "
                f"got another one: pass {name}.loc[{reference}.index] where rows with one label "
                f"are one record, and {name}.to_numpy() where those in one place are."
            )
    return converted


def named_class(value: Any, class_names: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return "package Class" of a value whose class is in {package: class names}, else None."""
    for kind in type(value).__mro__:
        if kind.__name__ in class_names.get(_package(kind), ()):
            return f"{_package(kind)} {kind.__name__}"
    return None


def _package(kind: type) -> str:
    """Return the top-level package that defines a class."""
    return kind.__module__.partition(".")[0]


def as_narwhals(rows: Any) -> Any:
    """Return a frame or column as an object of narwhals, any other value unchanged."""
    # narwhals does not know a record batch of Arrow, but makes a table of it
    rows = nw.from_arrow(rows, backend="pyarrow") if type(rows).__name__ == "RecordBatch" else rows
    return nw.from_native(rows, eager_only=True, allow_series=True, pass_through=True)


# Labels, which are compared by their text, whatever their type.


def label_column(labels: Iterable[Hashable]) -> NDArray[np.object_]:
    """Return a 1-d array of labels; np.array would make a table of tuples."""
    listed = list(labels)
    column = np.empty(len(listed), dtype=object)
    for position, label in enumerate(listed):
        column[position] = label
    return column


def label_key(label: Any) -> Hashable:
    """Return the text by which labels are compared: a tuple for a tuple, None where missing."""
    if isinstance(label, tuple):
        return tuple(map(label_key, label))
    if pd.api.types.is_scalar(label) and pd.isna(label):
        return None
    text = as_text(label)
    return TRUTH.get(text, text)


def same_text(labels: Iterable[Any]) -> str | None:
    """Return words for two labels with the same text, None where all texts differ."""
    label_by_key: dict[Hashable, Any] = {}
    for label in labels:
        if (key := label_key(label)) in label_by_key:
            earlier, later = repr(label_by_key[key]), repr(label)
            if earlier == later:
                return f"{earlier} twice"
            return f"{earlier} and {later}, which are one text"
        label_by_key[key] = label
    return None


def places(values: Any, labels: Iterable[Any]) -> NDArray[np.intp]:
    """Return for each value the index of the label with the same text, -1 where there is none."""
    codes, distinct = pd.factorize(values if isinstance(values, np.ndarray) else np.asarray(values))
    labels = list(labels)
    # equal values have the same text, so each text is made once
    keys = {label: label_key(label) for label in dict.fromkeys([*labels, *distinct])}
    position_of_key = {keys[label]: position for position, label in enumerate(labels)}
    positions = [position_of_key.get(keys[value], -1) for value in distinct]
    # a missing value has code -1, which picks the last entry
    return np.array([*positions, -1], dtype=np.intp)[codes]


def spelled(values: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return the values, each replaced by the label with the same text, if there is one."""
    positions = places(values, labels)
    is_unknown = positions < 0
    if is_unknown.all():
        return values
    if not is_unknown.any():  # keeps the type of the labels
        return labels[positions]
    return np.where(is_unknown, values, labels[positions])


def checked_labels(group_labels: Any) -> list[Hashable]:
    """Return `group_labels` as a list of plain values; an error unless all are distinct labels."""
    try:
        labels = [] if isinstance(group_labels, str) else plain_list(group_labels)
        twice = same_text(labels)
        hash(tuple(labels))  # raises TypeError for a label without a hash
    except TypeError:  # not a sequence, or a label that is a mapping
        labels = []
    if not labels:
        raise InputError(
            f"group_labels must be a sequence of labels (tuples for several columns), got "
            f"{group_labels!r}."
        )
    if twice:
        raise InputError(f"group_labels must name each group once, got {twice}.")
    return labels
