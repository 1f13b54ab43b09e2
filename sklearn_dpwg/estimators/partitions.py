"""Records in partitions: one in memory, several of a source, or on the workers of dask.

Targets and groups of each partition are read first, for the plan. Then each becomes a block of
encoded rows, and all blocks are checked before the first draw of noise.
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
    """Handles of the partitions, the engine that calls functions on them, and column names."""

    engine: Any  # calls functions on partitions, and holds the blocks
    handles: list[Any]  # of objects with `read` and `read_labels`, in the order of the records
    # as passed to fit, or an empty frame or series with the names of their columns
    y: Any
    groups: Any
    spool: Any = None  # directory for encoded rows

    def of_each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return the results of a function of each partition, in their order."""
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
        empty_y, empty_groups = _named_collection(y), _named_collection(groups)
        # equal tokens mean equal collections: the same object, for warn_if_target_is_group
        if groups is not None and y.__dask_tokenize__() == groups.__dask_tokenize__():
            empty_groups = empty_y
        return Partitions(distributed.DaskEngine(), handles, empty_y, empty_groups)
    return Partitions(LocalEngine(), [_in_memory(X, y, groups)], y, groups)


def refuse_tables(**values: Any) -> None:
    """Refuse paths and lazy tables; the error names `ParquetSource`, which reads them."""
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
    if not hasattr(X, "shape"):  # dtype object, as one string would turn all numbers to strings
        X = np.asarray(X, dtype=None if hasattr(X, "__array__") else object)
    if not hasattr(y, "shape") and hasattr(y, "__array__"):
        y = np.asarray(y)
    if issparse(X):
        X = csr_array(X)  # type: ignore[call-overload]
    check_consistent_length(X, y)
    return Table(X, y, groups)


def _named(names: Any) -> Any:
    """Return an empty series or frame with these names of columns; an array as it is."""
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
    """Facts of one partition that a plan is made from: everything but its rows."""

    form: Any  # the rows cut to length 0, for their columns
    n_records: int
    # the different classes, in order of appearance; for a regressor the smallest and largest y
    targets: NDArray[Any]
    groups: list[Hashable] | None  # different labels of groups, in order of appearance
    group_form: Any  # the groups cut to length 0, for their columns and categories
    counts: NDArray[np.intp]  # records of each label in `groups`; of all where that is None


def read_labels(partition: Any, *, group_by: Any, is_classifier: bool, stated: Any) -> Labels:
    """Read targets and groups of a partition, and return their facts; `stated` are all labels."""
    # groups that group_by finds in the rows need all columns
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
    """Return the different values in order of appearance, of the same dtype."""
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
    """Return an X of length 0 with the columns of all partitions; refuse different columns."""
    forms = [part.form for part in labels]
    columns = [list(form.columns) if hasattr(form, "columns") else form.shape[1:] for form in forms]
    for other_columns in columns:
        if other_columns != columns[0]:
            raise InputError(
                f"X must have the same columns in every partition, in one order, got "
                f"{columns[0]!r} and {other_columns!r}."
            )
    return forms[0]


def all_targets(labels: Sequence[Labels], n_records: int, *, is_classifier: bool) -> NDArray[Any]:
    """Return a short y with the classes, or the range, of the y of all partitions."""
    parts = [each.targets for each in labels if each.n_records]
    if not is_classifier:
        return np.concatenate(parts)
    if len({part.dtype.kind in "OUS" for part in parts}) > 1:  # numbers are no strings of digits
        parts = [part.astype(object) for part in parts]
    y = first_of_each(np.concatenate(parts))
    # repeated up to thrice: the check of classes compares their number with half of len(y)
    return np.resize(y, min(n_records, 3 * len(y)))


# Partitions as blocks of encoded records, proved sound.


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """Encodes a partition as a block; pickled, and sent to the worker that has the rows."""

    group_by: Any  # finds the groups in X
    labels: list[Any] | None  # labels of the groups; None where all records are one group
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
        """Read partition number `place`, and return its encoded records.

        `sizes` are its numbers of records by group, as counted before, and `ranks` those of all
        earlier partitions together. With a `spool` the records are written to its directory.
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
            options = {"ensure_min_samples": 0, "estimator": self.owner, "input_name": "X"}
            rows = check_array(X, dtype=encode.PRECISIONS, accept_sparse="csr", **options)
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
    """Called with a problem: a context that yields the `Risks` of the encoded partitions."""

    partitions: Partitions
    sizes: NDArray[np.intp]  # records of each group in each partition; (n_partitions, n_groups)
    encoder: Encoder

    @contextmanager
    def __call__(self, problem: Problem) -> Iterator[Risks]:
        """Encode all partitions, yield their risks, and drop the blocks on exit."""
        engine, directory = self.partitions.engine, self.partitions.spool
        n_records, ranks = int(self.sizes.sum()), np.cumsum(self.sizes, axis=0) - self.sizes
        # arguments of Encoder.block for each partition that has records
        arguments = zip(range(len(ranks)), self.sizes.tolist(), ranks.tolist(), strict=True)
        filled = [(place, sizes, before) for place, sizes, before in arguments if sum(sizes)]
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
