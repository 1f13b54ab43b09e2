"""Records in partitions: those in memory are one, a source has several, dask has them on workers.

Of each partition what a plan needs is read first, without its rows. Then each becomes a block, and
all are proved sound before the first draw.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_array, check_X_y

from sklearn_dpwg.data import frames
from sklearn_dpwg.data import groups as grouping
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder, Table
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.data.risks.risks import LocalEngine
from sklearn_dpwg.estimators import encode
from sklearn_dpwg.exceptions import ChangedDataError, InputError, InputTypeError


@dataclass(frozen=True, eq=False)
class Partitions:
    """Where partitions are, and what their targets and groups are called."""

    engine: Any  # calls functions on them, and holds the blocks
    handles: list[Any]  # stand for what has `read` and `read_labels`, in the order of the records
    # what was passed, or something empty with the names of columns
    y: Any
    groups: Any
    spool: Any = None  # directory for encoded rows

    def of_each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every partition, or raise what is wrong with one."""
        return list(self.engine.collect(self.handles, function))


def partitions_of(X: Any, y: Any, groups: Any) -> Partitions:
    """Return the partitions of what was passed to ``fit``, wherever it is."""
    refuse_tables(X=X, y=y, groups=groups)
    if frames.is_source(X):
        for name, value in (("y", y), ("groups", groups)):
            if value is not None:
                raise InputError(
                    f"{name} must be None with a {type(X).__name__}, which says them itself, got "
                    f"{type(value).__name__}."
                )
        names = [_named(getattr(X, part, None)) for part in ("target", "groups")]
        return Partitions(LocalEngine(), list(X.partitions()), names[0], names[1], X.spool)
    if any(map(frames.is_dask, (X, y, groups))):
        from sklearn_dpwg.data import distributed

        handles = distributed.partitions_of(X, y, groups)
        named = [_named_collection(each) for each in (y, groups)]
        # by their tokens dask knows the contents of collections
        if groups is not None and y.__dask_tokenize__() == groups.__dask_tokenize__():
            named[1] = named[0]
        return Partitions(distributed.DaskEngine(), handles, named[0], named[1])
    return Partitions(LocalEngine(), [_in_memory(X, y, groups)], y, groups)


def refuse_tables(**values: Any) -> None:
    """Refuse paths and tables that are read when asked for, and say how a source reads them."""
    for name, value in values.items():
        is_path = name == "X" and (isinstance(value, str) or hasattr(value, "__fspath__"))
        if isinstance(value, frames.NATIVE) and not is_path:
            continue
        kind = "path" if is_path else frames.lazy_table(value)
        if kind is not None:
            raise InputTypeError(
                f"{name} must be arrays, frames, collections of dask or a source, got a {kind}: "
                "pass ParquetSource(path, features=[...], target=...) in place of X, y and groups; "
                "query.sink_parquet(path) writes a lazy query of polars."
            )


def _in_memory(X: Any, y: Any, groups: Any) -> Table:
    frames.same_rows(X=X, y=y, groups=groups)
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None.")
    if not hasattr(X, "shape"):  # of a list a single string would make strings of all numbers
        X = np.asarray(X, dtype=None if hasattr(X, "__array__") else object)
    if not hasattr(y, "shape") and hasattr(y, "__array__"):
        y = np.asarray(y)
    if issparse(X):
        X = csr_array(X)  # type: ignore[call-overload]
    check_consistent_length(X, y)
    return Table(X, y, groups)


def _named(names: Any) -> Any:
    """Return something empty with the names of columns; arrays stand for themselves."""
    if isinstance(names, str):
        return pd.Series([], name=names, dtype=object)
    return pd.DataFrame(columns=names, dtype=object) if isinstance(names, list | tuple) else names


def _named_collection(values: Any) -> Any:
    if values is None or hasattr(values, "columns"):
        return None if values is None else _named(list(values.columns))
    # an array of dask has a name too, which nobody gave it
    is_series = hasattr(values, "divisions")
    return pd.Series([], name=values.name if is_series else None, dtype=object)


# What a plan needs to know of a partition.


@dataclass(frozen=True, eq=False, repr=False)
class Labels:
    """What is read of one partition first: everything but its rows."""

    form: Any  # no rows, with the columns that rows have
    n_records: int  # how many rows there are
    # the classes found, in the order in which they come; of numbers the least and the largest
    targets: NDArray[Any]
    groups: list[Hashable] | None  # labels of groups, in the order in which they come, if any
    group_form: Any  # no groups, with the columns and categories that groups have
    counts: NDArray[np.intp]  # how many records have each label; of all where there are no groups


def read_labels(partition: Any, *, group_by: Any, is_classifier: bool, stated: Any) -> Labels:
    """Return what is known of a partition without its rows."""
    # groups that are made of the rows ask for all columns
    table = partition.read_labels() if group_by is None else partition.read()
    groups = grouping.find_groups(table.X, table.groups, group_by)
    targets = checked_targets(table.y, is_classifier=is_classifier, warns=True)
    n_records = len(targets)
    if is_classifier:
        targets = first_of_each(targets)
    elif n_records:
        targets = np.array([targets.min(), targets.max()])
    labels, counts = None, np.array([n_records])
    if groups is not None:
        takes_missing = stated is not None and grouping.OTHER in stated
        labels, counts = grouping.count_labels(
            groups, n_records, is_stated=stated is not None, takes_missing=takes_missing
        )
    form = frames.as_pandas(grouping.without_groups(table.X[:0], group_by))
    group_form = groups[:0] if hasattr(groups, "shape") else groups
    return Labels(form, n_records, targets, labels, group_form, counts)


def first_of_each(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values without repetitions, in the order in which they come, of the same type."""
    codes, _ = pd.factorize(values)
    _, places = np.unique(codes, return_index=True)
    return values[places]


def checked_targets(y: Any, *, is_classifier: bool, warns: bool = False) -> NDArray[Any]:
    """Return the targets of a partition as a vector of numbers, or of classes."""
    if y is None:
        raise InputError(
            "target must be the column of y in a source that is passed to fit or score, got None: "
            "of records without targets a fitted model makes predictions alone."
        )
    values = column_or_1d(encode.check_targets(y, is_classifier=is_classifier), warn=warns)
    if not len(values):
        return values
    _, checked = check_X_y(np.zeros((len(values), 1)), values, y_numeric=not is_classifier)
    if not is_classifier:
        return encode.numeric_targets(checked)
    if (missing := pd.isna(checked)).any():
        row = int(np.argmax(missing))
        raise InputError(f"y must hold a class for every record, got NaN or None in row {row}.")
    return np.asarray(checked)


def common_form(labels: Sequence[Labels]) -> Any:
    """Return the columns that all partitions have."""
    forms = [each.form for each in labels]
    columns = [list(each.columns) if hasattr(each, "columns") else each.shape[1:] for each in forms]
    for each in columns:
        if each != columns[0]:
            raise InputError(
                f"X must have the same columns in every partition, in one order, got "
                f"{columns[0]!r} and {each!r}."
            )
    return forms[0]


def all_targets(labels: Sequence[Labels], n_records: int, *, is_classifier: bool) -> NDArray[Any]:
    """Return targets that stand for all: the same classes, or the same range, and no more."""
    parts = [each.targets for each in labels if each.n_records]
    if not is_classifier:
        return np.concatenate(parts)
    if len({part.dtype.kind in "OUS" for part in parts}) > 1:  # numbers are no strings of digits
        parts = [part.astype(object) for part in parts]
    y = first_of_each(np.concatenate(parts))
    # as many as there are, up to where more make no difference to what can be classes
    return np.resize(y, min(n_records, 3 * len(y)))


# Partitions as blocks of encoded records, proved sound.


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """What makes a block of a partition, by facts of all records; goes to wherever rows are."""

    group_by: Any  # what finds the groups in X
    labels: list[Any] | None  # labels of the groups; None where all records are one
    targets: encode.Targets  # what encodes y
    row_norm: float  # bound on the norm of a row
    owner: str  # name of the estimator, for errors

    def block(
        self,
        partition: Any,
        place: int,
        sizes: Sequence[int],
        ranks: Sequence[int],
        *,
        problem: Problem,
        spool: Any = None,
    ) -> RecordBlock:
        """Read a partition once, and return its records as solvers take them.

        `sizes` are those of its groups, as they were counted, and `ranks` the numbers of records
        in front of it.
        """
        table = partition.read()
        y = checked_targets(table.y, is_classifier=self.targets.classes is not None)
        codes: NDArray[np.intp] = np.zeros(len(y), dtype=np.intp)
        if self.labels is not None:
            groups = grouping.find_groups(table.X, table.groups, self.group_by)
            codes, _ = grouping.encode_groups(groups, len(y), self.labels, may_be_empty=True)
        if np.bincount(codes, minlength=len(sizes)).tolist() != list(sizes):
            raise ChangedDataError(
                f"partition {place} of the records must be the same whenever it is read, and its "
                f"groups are not what they were."
            )
        X = frames.as_pandas(grouping.without_groups(table.X, self.group_by))
        with encode.errors_by_column(X):
            known = {"ensure_min_samples": 0, "estimator": self.owner, "input_name": "X"}
            rows = check_array(X, dtype=encode.PRECISIONS, accept_sparse="csr", **known)
        if rows.shape[0] != len(y):
            raise InputError(
                f"X must have one row a target in every partition, got {rows.shape[0]:,} for "
                f"{len(y):,}."
            )
        is_hidden = problem.hidden is not None
        encoder = RecordEncoder(len(sizes), self.row_norm, is_hidden, sum(ranks))
        records = encoder.encode(rows, self.targets.encode(y), codes)
        if spool is not None:
            records = spool.write(records)
        return RecordBlock(
            records, problem.loss, problem.intercept_scaling, first_ranks=tuple(ranks)
        )


@dataclass(frozen=True, eq=False)
class Blocks:
    """Makes partitions blocks for as long as a solver learns from them."""

    partitions: Partitions
    sizes: NDArray[np.intp]  # records of each group in each partition; (n_partitions, n_groups)
    encoder: Encoder

    @contextmanager
    def __call__(self, problem: Problem) -> Iterator[Risks]:
        """Yield the risks of all blocks, and forget them in the end."""
        engine, directory = self.partitions.engine, self.partitions.spool
        n_records, ranks = int(self.sizes.sum()), np.cumsum(self.sizes, axis=0) - self.sizes
        known = zip(range(len(ranks)), self.sizes.tolist(), ranks.tolist(), strict=True)
        filled = [each for each in known if sum(each[1])]
        with ExitStack() as stack:
            if hasattr(engine, "close"):
                stack.callback(engine.close)
            spool = None
            if directory is not None:
                from sklearn_dpwg.data.sources.source import spooled

                spool = stack.enter_context(spooled(directory, n_records, problem.n_features))
            handles = [self.partitions.handles[place] for place, _, _ in filled]
            make = partial(self.encoder.block, problem=problem, spool=spool)
            yield Risks(
                engine,
                engine.derive(handles, make, filled),
                loss=problem.loss,
                intercept_scaling=problem.intercept_scaling,
                group_sizes=tuple(self.sizes.sum(axis=0).tolist()),
                n_features=problem.n_features,
                hides_groups=problem.hidden is not None,
            )
