"""Data that is not in memory, told by its form, without an import of what it is made with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

FEW_TAKE = (
    "fit, predict and score of DPWorstGroupClassifier and DPWorstGroupRegressor take a source or "
    "collections of dask, all else takes arrays and frames"
)
BY_PARTITION = (
    "what it does to a row needs no other, so map it over partitions, as "
    "frame.map_partitions(scaler.transform), and fit it on any part of them"
)
BEFORE_SOURCE = (
    "what it does to a row needs no other, so transform each file, or in the query of a LazyFrame, "
    "write that, and name its columns in the source that fit and predict of the estimator itself "
    "take, as the steps of a Pipeline take arrays and frames"
)

# Names of classes, by the package that they are of: tables elsewhere, and some in memory.
_ELSEWHERE = {"polars": ("LazyFrame",), "pyarrow": ("Dataset",)}
_ARROW = {"pyarrow": ("Table", "RecordBatch")}


class NoArray:
    """A source of records, of which NumPy, and so scikit-learn's own, can make no array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Refuse in one sentence what would end in words about sequences."""
        raise TypeError(f"X must be in memory here, got {type(self).__name__}: {FEW_TAKE}.")


def is_source(value: Any) -> bool:
    """Whether a value is a `Source`: partitions one can ask for, and where they are spooled."""
    return callable(getattr(type(value), "partitions", None)) and hasattr(value, "spool")


def is_dask(value: Any) -> bool:
    """Whether a value is a collection of dask."""
    return hasattr(type(value), "__dask_graph__")


def lazy_table(value: Any) -> str | None:
    """Return the name of a table that no fit takes as it is, or None for anything else."""
    return named(value, _ELSEWHERE) or named(value, _ARROW)


def is_elsewhere(*values: Any) -> bool:
    """Whether some of the values are not in memory."""
    is_path = isinstance(values[0], str | os.PathLike)  # rows, which have no other reading
    return is_path or any(is_dask(each) or is_source(each) or lazy_table(each) for each in values)


def kind_of_lazy(value: Any) -> str | None:
    """Say what a value is that would have to be read into memory, or None for anything else."""
    if is_dask(value):
        return f"the dask collection {type(value).__name__}"
    if is_source(value):
        return type(value).__name__
    table = named(value, _ELSEWHERE)
    return None if table is None else f"a {table}"


def refuse_lazy(advice: str = FEW_TAKE, /, **values: Any) -> None:
    """Refuse values that are not in memory, which would be read into it without a word."""
    for name, value in values.items():
        kind = kind_of_lazy(value)
        if kind is not None:
            raise TypeError(f"{name} must be in memory here, got {kind}: {advice}.")


def refuse_lazy_rows(X: Any) -> None:
    """Refuse rows that are not in memory, and say how each of them is transformed all the same."""
    refuse_lazy(BY_PARTITION if is_dask(X) else BEFORE_SOURCE, X=X)


def named(value: Any, known: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the name of the class among those known that a value is of, if it is of one."""
    for kind in type(value).__mro__:
        package = kind.__module__.partition(".")[0]
        if kind.__name__ in known.get(package, ()):
            return f"{package} {kind.__name__}"
    return None
