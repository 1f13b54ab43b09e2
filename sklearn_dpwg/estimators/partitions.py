"""A fit of partitions: a `Source`, or collections of dask, as one in memory would go.

What is known of each partition is gathered first, without its rows; plan and warnings follow from
it. Then each partition becomes a block, and all are proved sound before the first draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from sklearn_dpwg.data import frames
from sklearn_dpwg.data import groups as grouping
from sklearn_dpwg.data.frames import is_source
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.data.risks import RecordBlock, Risks
from sklearn_dpwg.data.risks.record_block import LocalEngine
from sklearn_dpwg.estimators import encode
from sklearn_dpwg.estimators.elsewhere import (
    Held,
    Lease,
    checked_targets,
    hold,
    targets_of,
)
from sklearn_dpwg.estimators.encode import Targets, numeric_targets
from sklearn_dpwg.estimators.learn import Facts, Fitting
from sklearn_dpwg.exceptions import ChangedDataError, InputError
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.solvers import FreshSolver, make_solver

# Labels or classes of one partition that are gathered; more are no groups, and would fill memory.
MOST_LABELS = 2**17
_CHANGED = (
    "partition {place} of the records must be the same whenever it is read, and it is not what it "
    "was: a file was written to, or a step of its computation draws anew."
)


# What a plan needs to know of a partition.


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
    group_form: Any  # no groups, with the columns and categories that groups have
    counts: NDArray[np.intp]  # how many records have each label; of all where there are no groups
    fingerprint: bytes  # of names, types, targets and groups

    def __repr__(self) -> str:
        return "Survey()"

    @property
    def columns(self) -> list[Any] | None:
        """Names of the columns, where they have any."""
        return list(self.form.columns) if hasattr(self.form, "columns") else None


def survey_partition(
    partition: Any, *, group_by: Any, is_classifier: bool, takes_others: bool
) -> Survey:
    """Return what is known of a partition."""
    # groups that are made of the rows ask for all columns
    table = partition.read_labels() if group_by is None else partition.read()
    y, groups = targets_of(table), grouping.find_groups(table.X, table.groups, group_by)
    n_records = len(y)
    found = checked_targets(y, is_classifier=is_classifier)
    if is_classifier:
        found = _few(first_of_each(found), "y must hold classes", n_records)
    elif n_records:
        numbers = numeric_targets(found)
        found = np.array([numbers.min(), numbers.max()])
    labels, counts = None, np.array([n_records])
    if groups is not None:
        labels, counts = grouping.count_labels(groups, n_records, is_stated=takes_others)
        _few(labels, "groups must be labels that records share", n_records)
    fingerprint = fingerprint_of(table, groups)
    is_column = np.ndim(y) == 2
    form = frames.as_pandas(grouping.without_groups(table.X[:0], group_by))
    of_groups = None if groups is None else groups[:0]
    return Survey(form, n_records, found, is_column, labels, of_groups, counts, fingerprint)


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


# Facts of all records, of what is known of each partition, as they are found in memory.


def common_form(surveys: Sequence[Survey]) -> Any:
    """Return the columns that all partitions have."""
    first = surveys[0]
    for each in surveys:
        if each.columns != first.columns or each.form.shape[1:] != first.form.shape[1:]:
            got = [one.columns or one.form.shape[1] for one in (first, each)]
            raise InputError(
                f"X must have the same columns in every partition, in one order, got {got[0]!r} "
                f"and {got[1]!r}."
            )
    return first.form


def common_precision(surveys: Sequence[Survey]) -> np.dtype[Any]:
    """Return single precision if the rows of all partitions have it."""
    types = {
        check_array(
            each.form, dtype=encode.PRECISIONS, accept_sparse="csr", ensure_min_samples=0
        ).dtype
        for each in surveys
    }
    return np.dtype(types.pop() if len(types) == 1 else np.float64)


def all_targets(surveys: Sequence[Survey], n_records: int, *, is_classifier: bool) -> NDArray[Any]:
    """Return targets that stand for all: the same classes, or the same range, and no more."""
    parts = [each.targets for each in surveys if each.n_records]
    if len({part.dtype.kind in "OUS" for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    y = np.concatenate(parts)
    encode.check_targets(y, is_classifier=is_classifier)
    if any(each.is_column for each in surveys):
        column_or_1d(y[:1, None], warn=True)
    if not is_classifier:
        return np.array([y.min(), y.max()])
    y = first_of_each(y)
    # as many as there are, up to where more make no difference to what can be classes
    return np.resize(y, min(n_records, 3 * len(y)))


# Partitions as blocks of encoded records, proved sound and known again by their bytes.


@dataclass(frozen=True)
class Expected:
    """What is known of a partition before its rows are read: its place and what it will hold."""

    place: int
    fingerprint: bytes = field(repr=False)
    sizes: tuple[int, ...]
    first_ranks: tuple[int, ...]  # how many records of each group the partitions before it have


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """What makes records of a partition, by facts of all records; goes to wherever rows are."""

    dtype: np.dtype[Any]  # precision of rows
    group_by: Any  # what finds the groups in X
    labels: list[Any] | None  # labels of the groups; None where all records are one
    hides_groups: bool  # whether the group of a record is protected
    targets: Targets  # what encodes y
    is_classifier: bool  # whether y holds classes
    row_norm: float  # bound on the norm of a row
    owner: str  # name of the estimator, for errors

    def records(self, partition: Any, expected: Expected) -> GroupedRecords:
        """Read a partition once, and return its records as solvers take them."""
        table = partition.read()
        groups = grouping.find_groups(table.X, table.groups, self.group_by)
        # before anything else: what was planned for is what is read
        if fingerprint_of(table, groups) != expected.fingerprint:
            raise ChangedDataError(_CHANGED.format(place=expected.place))
        rows = self._rows(frames.as_pandas(grouping.without_groups(table.X, self.group_by)))
        y = checked_targets(table.y, is_classifier=self.is_classifier)
        encoded = self.targets.encode(y)
        codes: NDArray[np.intp] = np.zeros(len(y), dtype=np.intp)
        if self.labels is not None:
            codes, _ = grouping.encode_groups(groups, len(y), self.labels, may_be_empty=True)
        n_groups = len(expected.sizes)
        counts = np.bincount(codes, minlength=n_groups)
        if counts.tolist() != list(expected.sizes):
            raise ChangedDataError(_CHANGED.format(place=expected.place))
        if rows.shape[0] != len(y):
            raise InputError(
                f"X must have one row a target in every partition, got {rows.shape[0]:,} for "
                f"{len(y):,}."
            )
        in_front = sum(expected.first_ranks)
        encoder = RecordEncoder(n_groups, self.row_norm, self.hides_groups, first_place=in_front)
        return encoder.encode(rows, encoded, codes)

    def _rows(self, X: Any) -> Any:
        encode.check_columns(X)
        with encode.advice_on_missing_values(X):
            return check_array(
                X,
                dtype=self.dtype,
                accept_sparse="csr",
                ensure_min_samples=0,
                estimator=self.owner,
                input_name="X",
            )


def encode_partition(
    partition: Any,
    expected: Expected,
    *,
    encoder: Encoder,
    loss: Loss,
    intercept_scaling: float,
    spool: Any = None,
) -> RecordBlock:
    """Return the block of a partition."""
    records = encoder.records(partition, expected)
    if spool is not None:
        records = spool.write(records)
    return RecordBlock(records, loss, intercept_scaling, first_ranks=expected.first_ranks)


def seal_of(block: RecordBlock) -> bytes:
    """Return a digest that a block is known again by."""
    records, digest = block.records, hashlib.sha256(usedforsecurity=False)
    rows: Any = records.rows
    parts: list[Any] = [records.targets, records.starts]
    parts += [] if records.places is None else [records.places]
    is_sparse = isinstance(rows, csr_array)
    parts += [rows.data, rows.indices, rows.indptr] if is_sparse else [rows]
    for part in parts:
        digest.update(repr((part.dtype.str, part.shape)).encode())
        digest.update(np.ascontiguousarray(part).data)
    return digest.digest()


def same_block(block: RecordBlock, place: int, seal: bytes) -> RecordBlock:
    """Return a block that is what it was when it was proved sound, however often it is made."""
    if seal_of(block) != seal:
        raise ChangedDataError(_CHANGED.format(place=place))
    return block


@dataclass(frozen=True, eq=False)
class InPartitions:
    """Records of partitions, which are blocks for as long as a solver learns from them."""

    held: Held
    expected: list[Expected]
    encoder: Encoder

    @contextmanager
    def __call__(self, problem: Problem) -> Iterator[Risks]:
        """Make blocks of all partitions, prove them sound, and forget them in the end."""
        engine = Lease(self.held.engine, self.held.check)
        with ExitStack() as stack:
            stack.callback(engine.end)
            spool = None
            if self.held.spool is not None:
                from sklearn_dpwg.data.sources.spool import Spool

                spool = stack.enter_context(Spool(self.held.spool))
                # the traceback of a failed fit may hold blocks for as long as the caller likes
                stack.callback(spool.drop)
                row_size = problem.n_features * 4 + 8
                spool.reserve(problem.n_records * row_size)
            encode_one = partial(
                encode_partition,
                encoder=self.encoder,
                loss=problem.loss,
                intercept_scaling=problem.intercept_scaling,
                spool=spool,
            )
            filled = [each for each in self.expected if sum(each.sizes)]
            handles = [self.held.handles[each.place] for each in filled]
            blocks = engine.derive(handles, encode_one, [(each,) for each in filled])
            if not isinstance(self.held.engine, LocalEngine):
                # a worker that is lost takes its blocks along, and they are made once more
                seals = engine.collect(blocks, seal_of)
                places = [(each.place, seal) for each, seal in zip(filled, seals, strict=True)]
                unsealed, blocks = blocks, engine.derive(blocks, same_block, places)
                engine.release(unsealed)
            yield Risks(
                engine,
                blocks,
                loss=problem.loss,
                intercept_scaling=problem.intercept_scaling,
                group_sizes=tuple(np.sum([each.sizes for each in self.expected], axis=0).tolist()),
                n_features=problem.n_features,
                hides_groups=self.encoder.hides_groups,
            )


class Partitioned(Fitting):
    """How an estimator fits records in partitions."""

    def _fit_partitions(self, X: Any, y: Any, groups: Any) -> None:
        """Learn from a source, or from collections of dask: labels are read once, rows once."""
        names_groups = is_source(X) and getattr(X, "groups", None) is not None
        if self.group_by is not None and names_groups:
            raise InputError(
                "the source names groups and group_by is set: use one of them, not both."
            )
        budget = self._check_parameters()
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        if isinstance(solver, FreshSolver) and not solver.reads_again:
            raise InputError(
                f"solver must be one that reads all records at once, such as 'auto', with records "
                f"that are not in memory, got {self.solver!r}: fit_oracle learns from fresh "
                f"records."
            )
        with hold(X, y, groups) as held:
            self._learn(budget, *self._surveyed(held))

    def _surveyed(self, held: Held) -> tuple[Facts, InPartitions]:
        """Return facts and records of partitions, refused and warned of as they are in memory."""
        ask = partial(
            survey_partition,
            group_by=self.group_by,
            is_classifier=is_classifier(self),
            takes_others=self.group_labels is not None and grouping.OTHER in self.group_labels,
        )
        surveys: list[Survey] = held.of_each(ask)
        if not surveys:
            raise InputError("X must have at least one partition, got none.")
        n_records = sum(each.n_records for each in surveys)
        form = common_form(surveys)
        encode.check_columns(form)
        validate_data(
            self,
            form,
            dtype=encode.PRECISIONS,
            accept_sparse="csr",
            ensure_min_samples=0 if n_records else 1,
        )
        y = all_targets(surveys, n_records, is_classifier=is_classifier(self))
        targets = self._targets(y)
        targets.encode(y)
        by_partition, labels = self._sizes_by_partition(surveys, n_records)
        self._name_groups(held.y, held.groups)
        encoder = Encoder(
            dtype=common_precision(surveys),
            group_by=self.group_by,
            labels=None if surveys[0].labels is None else labels.tolist(),
            hides_groups=self._hides_groups,
            targets=targets,
            is_classifier=is_classifier(self),
            row_norm=float(self._row_norm),
            owner=type(self).__name__,
        )
        ranks = np.cumsum(by_partition, axis=0) - by_partition
        known = zip(surveys, by_partition.tolist(), ranks.tolist(), strict=True)
        expected = [
            Expected(place, survey.fingerprint, tuple(sizes), tuple(first))
            for place, (survey, sizes, first) in enumerate(known)
        ]
        sizes = self._public_sizes(by_partition.sum(axis=0))
        facts = Facts(targets, sizes, n_records, self.n_features_in_, labels)
        groups = surveys[0].group_form
        if self.overlap != "cells" and groups is not None:
            facts = self._overlapping(facts, grouping.columns_of(groups, self.group_by), groups)
        return facts, InPartitions(held, expected, encoder)

    def _sizes_by_partition(
        self, surveys: Sequence[Survey], n_records: int
    ) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        """Return how many records of each group each partition has, and the groups' labels."""
        if any((each.labels is None) != (surveys[0].labels is None) for each in surveys):
            raise InputError("groups must be given for every partition or for none, got some.")
        if surveys[0].labels is None:
            self._warn_of_no_groups()
            return np.array([each.counts for each in surveys]), np.array([0], dtype=object)
        found: list[Hashable] = [label for each in surveys for label in each.labels or ()]
        counts = np.concatenate([each.counts for each in surveys])
        column = frames.label_column(found)
        form = surveys[0].group_form
        codes, labels = self._encode_labels(column, len(found), n_records, form)
        sizes = np.zeros((len(surveys), len(labels)), dtype=np.intp)
        partition = np.repeat(np.arange(len(surveys)), [len(each.counts) for each in surveys])
        np.add.at(sizes, (partition, codes), counts)
        return sizes, labels
