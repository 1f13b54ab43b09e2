"""Records that are not in memory, as partitions that an engine holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from sklearn_dpwg._lazy_data import is_dask, is_source, lazy_table
from sklearn_dpwg.estimators.in_blocks.survey import NO_TARGETS
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.risks import Engine, LocalEngine


@dataclass(frozen=True, eq=False)
class Names:
    """Stand-ins for targets and groups: their names, and that one is the other, without a value."""

    targets: Any
    groups: Any


@dataclass(frozen=True, eq=False)
class Held:
    """Partitions that an engine holds."""

    engine: Engine  # where they are
    # handles of objects with `read` and `read_labels`, in the order of the records
    handles: list[Any]
    names: Names  # what targets and groups are called
    spool: Any = None  # directory for encoded rows
    # refuses files that rows are read from pass by pass and that are not what they were
    check: Callable[[], None] = lambda: None
    # removes what the source has written for its partitions
    close: Callable[[], None] = lambda: None

    def of_each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every partition."""
        return self.engine.collect(self.handles, function)


def is_elsewhere(*values: Any) -> bool:
    """Whether some of the values are not in memory."""
    is_path = isinstance(values[0], str | os.PathLike)  # rows, which have no other reading
    return is_path or any(is_dask(each) or is_source(each) or lazy_table(each) for each in values)


@contextmanager
def hold(X: Any, y: Any, groups: Any) -> Iterator[Held]:
    """Hold partitions while something is done with them, and refuse what is none."""
    held = _held(X, y, groups)
    try:
        yield held
    finally:
        try:
            held.engine.release(held.handles)
        finally:
            held.close()


def _held(X: Any, y: Any, groups: Any) -> Held:
    for name, value in (("X", X), ("y", y), ("groups", groups)):
        table = lazy_table(value)
        if name == "X" and isinstance(value, str | os.PathLike):
            table = f"path ({type(value).__name__})"
        if table is not None:
            raise TypeError(
                f"{name} must be arrays, frames, collections of dask or a source, got a {table}: "
                f"pass ParquetSource(..., features=[...], target=...) of it in place of X, y and "
                f"groups."
            )
    if is_source(X):
        return _held_source(X, y, groups)
    wrong = next(
        (
            (name, value)
            for name, value in (("X", X), ("y", y), ("groups", groups))
            if not is_dask(value) and not (name == "groups" and value is None)
        ),
        None,
    )
    if wrong is not None:
        raise TypeError(
            f"{wrong[0]} must be a collection of dask as the others are, got "
            f"{type(wrong[1]).__name__}: X, y and groups lie in partitions together, or all in "
            f"memory; a step in front, such as a scaler of a Pipeline, may have made it an array."
        )
    from sklearn_dpwg import distributed

    engine = distributed.engine()
    handles = distributed.hold_collections(engine, X, y, groups)
    return Held(engine, list(handles), _names_of_collections(y, groups))


def _held_source(source: Any, y: Any, groups: Any) -> Held:
    for name, value in (("y", y), ("groups", groups)):
        if value is not None:
            raise InputError(
                f"{name} must be None with a {type(source).__name__}, which says them itself, got "
                f"{type(value).__name__}."
            )
    if getattr(source, "target", "") is None:
        raise InputError(NO_TARGETS)
    targets, named = (_stand_in(getattr(source, part, None)) for part in ("target", "groups"))
    names = Names(targets, named)
    partitions = list(source.partitions())
    rest = {"check": source.check} if hasattr(source, "check") else {}
    if hasattr(source, "release"):
        rest["close"] = partial(source.release, partitions)
    distributed = sys.modules.get("sklearn_dpwg.distributed")
    if distributed is None or distributed.current_options().client is None:
        return Held(LocalEngine(), partitions, names, source.spool, **rest)
    if source.spool is not None:
        raise InputError(
            f"spool must be None inside distributed.options, where workers hold the blocks in "
            f"memory and spill by themselves, got {source.spool!r}."
        )
    engine = distributed.engine()
    return Held(engine, list(engine.hold(partitions)), names, **rest)


def _stand_in(named: Any) -> Any:
    """Return something empty with the names of columns; arrays stand for themselves."""
    if isinstance(named, str):
        return pd.Series([], name=named, dtype=object)
    if isinstance(named, list | tuple):
        return pd.DataFrame(columns=list(named), dtype=object)
    return named


def _names_of_collections(y: Any, groups: Any) -> Names:
    targets, named = (_named_collection(each) for each in (y, groups))
    if groups is not None and (y is groups or _token(y) == _token(groups)):
        named = targets
    return Names(targets, named)


def _named_collection(values: Any) -> Any:
    if values is None:
        return None
    if hasattr(values, "columns"):
        return pd.DataFrame(columns=list(values.columns), dtype=object)
    # an array of dask has a name too, which nobody gave it
    is_series = hasattr(values, "divisions")
    return pd.Series([], name=values.name if is_series else None, dtype=object)


def _token(collection: Any) -> Any:
    """Return what dask knows the contents of a collection by."""
    return collection.__dask_tokenize__()
