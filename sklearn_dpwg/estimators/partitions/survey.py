"""What a plan needs to know of a partition: how many records of which group, classes, columns."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_X_y

from sklearn_dpwg.data.groups import count_labels, find_groups
from sklearn_dpwg.data.lazy import is_dask, is_source, lazy_table
from sklearn_dpwg.data.risks import Engine, LocalEngine
from sklearn_dpwg.data.risks.engine import Sums
from sklearn_dpwg.estimators.encode import advice_on_missing_values, check_targets
from sklearn_dpwg.estimators.targets import numeric_targets
from sklearn_dpwg.exceptions import DPWGError, InputError

# What is wrong with a partition, returned and not raised: a worker's log is no place for it.

Arguments = ParamSpec("Arguments")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Refusal:
    """An error about the records of a partition: its class, and its one sentence."""

    kind: type[DPWGError]
    sentence: str

    def __repr__(self) -> str:
        return "Refusal()"


def told(function: Callable[Arguments, Outcome]) -> Callable[Arguments, Outcome | Refusal]:
    """Return a function that returns its errors about the records, in words without their values.

    Words of others may quote a value: those are raised, for the engine to keep where they are.
    """

    @wraps(function)
    def telling(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Outcome | Refusal:
        try:
            return function(*args, **kwargs)
        except DPWGError as error:
            return Refusal(type(error), str(error))

    return telling


def raise_first(outcomes: Iterable[Any]) -> None:
    """Raise the error of the first partition that has one."""
    for outcome in outcomes:
        if isinstance(outcome, Refusal):
            raise outcome.kind(outcome.sentence)


# Labels or classes of one partition that are gathered; more are no groups, and would fill memory.
MOST_LABELS = 2**17
NO_TARGETS = (
    "target must be the column of y in a source that is passed to fit or score, got None: of "
    "records without targets a fitted model makes predictions alone."
)


@dataclass(frozen=True, eq=False)
class Survey:
    """What is known of one partition."""

    form: Any  # no rows, with the columns that rows have
    n_records: int  # how many rows there are
    # the classes found, in the order in which they come; of numbers the least and the largest
    targets: NDArray[Any]
    is_column: bool  # whether targets came as a table of one column
    # labels of groups found, in the order in which they come; None without groups
    labels: list[Hashable] | None
    counts: NDArray[np.intp]  # how many records have each label; of all where there are no groups
    fingerprint: bytes  # of names, types, targets and groups

    def __repr__(self) -> str:
        return "Survey()"


def survey_partition(partition: Any, *, group_by: Any, is_classifier: bool) -> Survey | Any:
    """Return what is known of a partition, or what is wrong with its targets and groups."""
    return _survey(partition, group_by, is_classifier)


@told
def _survey(partition: Any, group_by: Any, is_classifier: bool) -> Survey:
    # groups that are made of the rows ask for all columns
    table = partition.read_labels() if group_by is None else partition.read()
    y, groups = targets_of(table), find_groups(table.X, table.groups, group_by)
    n_records = len(y)
    is_column = np.ndim(y) == 2
    found = checked_targets(y, is_classifier=is_classifier)
    if is_classifier:
        found = _few(first_of_each(found), "y must hold classes", n_records)
    elif n_records:
        numbers = numeric_targets(found)
        found = np.array([numbers.min(), numbers.max()])
    labels, counts = None, np.array([n_records])
    if groups is not None:
        labels, counts = count_labels(groups, n_records)
        _few(labels, "groups must be labels that records share", n_records)
    return Survey(
        form=table.X[:0],
        n_records=n_records,
        targets=found,
        is_column=is_column,
        labels=labels,
        counts=counts,
        fingerprint=fingerprint_of(table, groups),
    )


def targets_of(table: Any) -> Any:
    """Return the targets of a partition, or refuse one of a source that has none."""
    if table.y is None:
        raise InputError(NO_TARGETS)
    return table.y


def checked_targets(y: Any, *, is_classifier: bool) -> NDArray[Any]:
    """Return targets as a vector, checked as they are in memory."""
    check_targets(y, is_classifier=is_classifier)
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not len(values):
        return values.ravel()
    with advice_on_missing_values(None):
        _, checked = check_X_y(np.zeros((len(values), 1)), values, y_numeric=not is_classifier)
    return np.asarray(checked)


def first_of_each(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values without repetitions, in the order in which they come, of the same type."""
    codes, _ = pd.factorize(values)
    _, places = np.unique(codes, return_index=True)
    return values[places]


def fingerprint_of(table: Any, groups: Any) -> bytes:
    """Return what names, types, targets and groups of a partition are known again by."""
    from sklearn_dpwg.data.sources.table import Table, fingerprint

    return fingerprint(Table(table.X[:0], table.y, groups))


def _few(found: Any, rule: str, n_records: int) -> Any:
    if len(found) > MOST_LABELS:
        raise InputError(
            f"{rule}, got {len(found):,} different ones in {n_records:,} records of one partition, "
            f"as in a column of identifiers; at most {MOST_LABELS:,} are read."
        )
    return found


# Records that are not in memory, as partitions that an engine holds.


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
    from sklearn_dpwg.data import distributed

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
    distributed = sys.modules.get("sklearn_dpwg.data.distributed")
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


# An engine of which nothing is left when a fit is over, also by those who cannot clean up.


class Lease:
    """An engine that knows what was derived by it, and releases all of that in the end.

    The traceback of a failed fit may live on, and with it the risks that would release their blocks
    when they are forgotten. `check` refuses records that are not what they were, behind every pass,
    before what the pass gave can be released: factors and sensitivities are of the rows as they
    were.
    """

    def __init__(self, engine: Engine, check: Callable[[], None]) -> None:
        self._engine = engine
        self._check = check
        self._derived: list[weakref.ref[Any]] = []

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every object."""
        collected = self._engine.collect(handles, function)
        self._check()
        return collected

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        """Add up arrays of every object."""
        sums = self._engine.reduce(handles, function)
        self._check()
        return sums

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Make objects from objects."""
        derived = self._engine.derive(handles, function, arguments)
        self._derived = [each for each in self._derived if each() is not None]
        self._derived += map(weakref.ref, derived)
        return derived

    def release(self, handles: Sequence[Any]) -> None:
        """Forget objects."""
        self._engine.release(handles)

    def end(self) -> None:
        """Forget everything that was derived."""
        left = [each for each in (reference() for reference in self._derived) if each is not None]
        self._derived.clear()
        self._engine.release(left)
