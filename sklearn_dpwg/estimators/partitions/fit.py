"""A fit of records in partitions, with the plan, the warnings and the answer of one in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from sklearn_dpwg.data.groups import (
    codes_of_labels,
    encode_groups,
    find_groups,
    grouping_names,
    label_column,
)
from sklearn_dpwg.data.kernels import rounding_kind
from sklearn_dpwg.data.lazy import is_source
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.data.risks import LocalEngine, RecordBlock, Risks
from sklearn_dpwg.estimators.encode import (
    advice_on_missing_values,
    check_columns,
    check_found_groups,
    check_targets,
    warn_if_target_is_group,
)
from sklearn_dpwg.estimators.learn import Fitting, precisions
from sklearn_dpwg.estimators.partitions.survey import (
    Held,
    Lease,
    Names,
    Refusal,
    Survey,
    checked_targets,
    fingerprint_of,
    first_of_each,
    hold,
    raise_first,
    survey_partition,
    told,
)
from sklearn_dpwg.estimators.spending import check_solution, spending
from sklearn_dpwg.estimators.targets import Targets
from sklearn_dpwg.exceptions import ChangedDataError, InputError
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import FreshSolver

# Facts of all records, of what is known of each partition, as they are found in memory.


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of all records before one of their rows is read."""

    targets: Targets  # what encodes y
    labels: NDArray[np.object_]  # labels of the groups
    has_groups: bool  # whether groups were given; else all records are one
    # how many records of each group each partition has; (n_partitions, n_groups)
    sizes: NDArray[np.intp]
    n_features: int
    dtype: np.dtype[Any]  # what rows are taken in as

    @property
    def first_ranks(self) -> NDArray[np.intp]:
        """How many records of each group the partitions before each one have."""
        return np.cumsum(self.sizes, axis=0) - self.sizes


def merge(estimator: Fitting, surveys: Sequence[Survey], names: Names) -> Facts:
    """Return the facts of all partitions, refused and warned of as they are in memory."""
    if not surveys:
        raise InputError("X must have at least one partition, got none.")
    n_records = sum(each.n_records for each in surveys)
    form = _common_form(surveys)
    check_columns(form)
    validate_data(
        estimator,
        form,
        dtype=precisions(form),
        accept_sparse="csr",
        ensure_min_samples=0 if n_records else 1,
    )
    y = _all_targets(surveys, n_records, is_classifier=not is_regressor(estimator))
    targets = estimator._targets(y)
    estimator._groupings = grouping_names(names.groups, estimator.group_by)
    targets.encode(y)
    sizes, labels = _group_sizes(estimator, surveys, n_records)
    found = targets.attributes.get("classes_", ())
    warn_if_target_is_group(names.targets, names.groups, estimator.group_by, labels, found)
    return Facts(
        targets=targets,
        labels=labels,
        has_groups=surveys[0].labels is not None,
        sizes=sizes,
        n_features=estimator.n_features_in_,
        dtype=_common_precision(surveys),
    )


def _columns(form: Any) -> list[Any] | None:
    return list(form.columns) if hasattr(form, "columns") else None


def _common_form(surveys: Sequence[Survey]) -> Any:
    """Return the columns that all partitions have."""
    first = surveys[0].form
    for each in surveys:
        same = _columns(each.form) == _columns(first) and each.form.shape[1:] == first.shape[1:]
        if not same:
            got = [_columns(form) or form.shape[1] for form in (first, each.form)]
            raise InputError(
                f"X must have the same columns in every partition, in one order, got {got[0]!r} "
                f"and {got[1]!r}."
            )
    return first


def _common_precision(surveys: Sequence[Survey]) -> np.dtype[Any]:
    """Return single precision if the rows of all partitions have it."""
    types = {
        check_array(
            each.form, dtype=precisions(each.form), accept_sparse="csr", ensure_min_samples=0
        ).dtype
        for each in surveys
    }
    return np.dtype(types.pop() if len(types) == 1 else np.float64)


def _all_targets(surveys: Sequence[Survey], n_records: int, *, is_classifier: bool) -> NDArray[Any]:
    """Return targets that stand for all: the same classes, or the same range, and no more."""
    parts = [each.targets for each in surveys if each.n_records]
    if len({part.dtype.kind in "OUS" for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    y = np.concatenate(parts)
    check_targets(y, is_classifier=is_classifier)
    if any(each.is_column for each in surveys):
        column_or_1d(y[:1, None], warn=True)
    if not is_classifier:
        return np.array([y.min(), y.max()])
    y = first_of_each(y)
    # as many as there are, up to where more make no difference to what can be classes
    return np.resize(y, min(n_records, 3 * len(y)))


def _group_sizes(
    estimator: Fitting, surveys: Sequence[Survey], n_records: int
) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """Return how many records of each group each partition has, and the labels of the groups."""
    if any((each.labels is None) != (surveys[0].labels is None) for each in surveys):
        raise InputError("groups must be given for every partition or for none, got some.")
    if surveys[0].labels is None:
        estimator._warn_of_no_groups()
        return np.array([each.counts for each in surveys]), np.array([0], dtype=object)
    found: list[Hashable] = [label for each in surveys for label in each.labels or ()]
    counts = np.concatenate([each.counts for each in surveys])
    codes, labels = encode_groups(label_column(found), len(found), estimator.group_labels)
    if estimator.group_labels is None:
        check_found_groups(labels, n_records)
    sizes = np.zeros((len(surveys), len(labels)), dtype=np.intp)
    partition = np.repeat(np.arange(len(surveys)), [len(each.counts) for each in surveys])
    np.add.at(sizes, (partition, codes), counts)
    return sizes, labels


# Partitions as blocks of encoded records, proved sound and known again by their bytes.

_MIXED = (
    "workers must have processors of one kind and the same numba and NumPy, as others round "
    "otherwise, got {kinds}: set the environment variable NUMBA_CPU_NAME=generic on all of them, "
    "before they start."
)
_CHANGED = (
    "partition {place} of the records must be the same whenever it is read, and it is not what it "
    "was: a file was written to, or a step of its computation draws anew."
)


@dataclass(frozen=True)
class Expected:
    """What is known of a partition before its rows are read: its place and what it will hold."""

    place: int
    fingerprint: bytes = field(repr=False)
    sizes: tuple[int, ...]
    first_ranks: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """What turns a partition into a block, by facts of all records; goes to wherever rows are."""

    dtype: np.dtype[Any]  # precision of rows
    group_by: Any  # what finds the groups in X
    labels: list[Any] | None  # labels of the groups; None where all records are one
    targets: Targets  # what encodes y
    is_classifier: bool  # whether y holds classes
    row_norm: float  # bound on the norm of a row
    loss: Loss
    intercept_scaling: float  # value of the constant column
    owner: str  # name of the estimator, for errors

    def records(self, partition: Any, expected: Expected) -> GroupedRecords:
        """Read a partition once, and return its records as solvers take them."""
        table = partition.read()
        groups = find_groups(table.X, table.groups, self.group_by)
        # before anything else: what was planned for is what is read
        if fingerprint_of(table, groups) != expected.fingerprint:
            raise ChangedDataError(_CHANGED.format(place=expected.place))
        rows = self._rows(table.X)
        y = checked_targets(table.y, is_classifier=self.is_classifier)
        encoded = self.targets.encode(y)
        codes: NDArray[np.intp] = np.zeros(len(y), dtype=np.intp)
        if self.labels is not None:
            codes = codes_of_labels(groups, len(y), self.labels)
        n_groups = len(expected.sizes)
        counts = np.bincount(codes[codes >= 0], minlength=n_groups)
        if counts.tolist() != list(expected.sizes):
            raise ChangedDataError(_CHANGED.format(place=expected.place))
        if rows.shape[0] != len(y):
            raise InputError(
                f"X must have one row a target in every partition, got {rows.shape[0]:,} for "
                f"{len(y):,}."
            )
        return RecordEncoder(n_groups, self.row_norm).encode(rows, encoded, codes)

    def _rows(self, X: Any) -> Any:
        check_columns(X)
        with advice_on_missing_values(X):
            return check_array(
                X,
                dtype=self.dtype,
                order="C",  # a score by columns is rounded otherwise, and borders may move
                accept_sparse="csr",
                ensure_min_samples=0,
                estimator=self.owner,
                input_name="X",
            )


def encode_partition(
    partition: Any, expected: Expected, *, encoder: Encoder, spool: Any = None
) -> RecordBlock | Refusal:
    """Return the block of a partition, or what is wrong with its records."""
    return _encode(partition, expected, encoder, spool)


@told
def _encode(partition: Any, expected: Expected, encoder: Encoder, spool: Any) -> RecordBlock:
    records = encoder.records(partition, expected)
    if spool is not None:
        records = spool.write(records)
    return RecordBlock(
        records, encoder.loss, encoder.intercept_scaling, first_ranks=expected.first_ranks
    )


@dataclass(frozen=True)
class Seal:
    """What a block is known again by: a digest of its bytes, and how the worker rounds."""

    digest: bytes = field(repr=False)
    kind: str


def check_kinds(seals: Sequence[Seal]) -> None:
    """Refuse workers that round the same numbers otherwise (docs/theory/sums.md, section 10)."""
    kinds = sorted({seal.kind for seal in seals})
    if len(kinds) > 1:
        raise InputError(_MIXED.format(kinds=" and ".join(kinds)))


def seal_of(outcome: RecordBlock | Refusal) -> Seal | Refusal:
    """Return what a block is known again by, or what is wrong with its records."""
    if isinstance(outcome, Refusal):
        return outcome
    records, digest = outcome.records, hashlib.sha256(usedforsecurity=False)
    rows: Any = records.rows
    parts: list[Any] = [records.targets, records.starts]
    is_sparse = isinstance(rows, csr_array)
    parts += [rows.data, rows.indices, rows.indptr] if is_sparse else [rows]
    for part in parts:
        in_order: Any = part.T if part.flags.f_contiguous else np.ascontiguousarray(part)
        digest.update(repr((part.dtype.str, part.shape, part.flags.f_contiguous)).encode())
        digest.update(in_order)
    return Seal(digest.digest(), rounding_kind())


def same_block(outcome: RecordBlock | Refusal, place: int, seal: Seal) -> RecordBlock:
    """Return a block that is what it was when it was proved sound, however often it is made."""
    if isinstance(outcome, Refusal):
        raise ChangedDataError(_CHANGED.format(place=place))
    found = seal_of(outcome)
    assert isinstance(found, Seal)
    if found.digest != seal.digest:
        raise ChangedDataError(_CHANGED.format(place=place))
    if found.kind != seal.kind:
        raise ChangedDataError(_MIXED.format(kinds=f"{seal.kind} and {found.kind}"))
    return outcome


def refusal_of(outcome: RecordBlock | Refusal) -> Refusal | None:
    """Return what is wrong with the records of a partition, if anything is."""
    return outcome if isinstance(outcome, Refusal) else None


def fit_in_blocks(estimator: Fitting, X: Any, y: Any, groups: Any) -> None:
    """Fit an estimator to a source, or to collections of dask.

    Labels are read once, rows once. Every block is proved sound before the first draw, and none is
    left behind, whatever happens.
    """
    if estimator._hides_groups:
        raise ValueError(
            "neighbours must be 'replace-in-group' with records that are not in memory, got "
            "'replace-any', which is for arrays and frames."
        )
    if estimator.group_by is not None and is_source(X) and getattr(X, "groups", None) is not None:
        raise ValueError("the source names groups and group_by is set: use one of them, not both.")
    budget = estimator._check_parameters()
    solver = estimator._make_solver(budget)
    if isinstance(solver, FreshSolver):
        raise ValueError(
            f"solver must be one that reads all records at once, such as 'auto', with records that "
            f"are not in memory, got {estimator.solver!r}: fit_oracle learns from fresh records."
        )
    with hold(X, y, groups) as held:
        surveys = _survey(estimator, held)
        facts = merge(estimator, surveys, held.names)
        sizes = facts.sizes.sum(axis=0)
        problem = estimator._problem(facts.targets.loss, sizes.tolist(), facts.n_features)
        first = estimator._first_weights(facts.targets, problem)
        plan = estimator._plan_for(solver, problem, facts.labels, budget, first)
        # without releases nothing is drawn, so random_state does not matter
        noise = NoiseSource(estimator.random_state if plan.releases else None, plan.releases)
        with (
            spending(noise, budget, plan, estimator, estimator._fit_key) as guarantee,
            _risks_of_blocks(estimator, held, surveys, facts, problem) as data,
        ):
            of_solver = replace(plan)  # what it does to its own does not reach `plan_`
            solution = estimator._with_progress(
                plan, noise, lambda: solver.run(of_solver, data, noise, start=first)
            )
            check_solution(plan, solution, estimator.solver)
    estimator._keep_outcome(plan, guarantee, facts.targets, facts.labels, sizes, solution)


def _survey(estimator: Fitting, held: Held) -> list[Survey]:
    """Return what is known of every partition, of its labels alone unless groups are in X."""
    ask = partial(
        survey_partition, group_by=estimator.group_by, is_classifier=is_classifier(estimator)
    )
    surveys = held.of_each(ask)
    raise_first(surveys)
    return surveys


@contextmanager
def _risks_of_blocks(
    estimator: Fitting, held: Held, surveys: list[Survey], facts: Facts, problem: Problem
) -> Iterator[Risks]:
    """Make blocks of all partitions, prove them sound, and forget them in the end."""
    engine = Lease(held.engine, held.check)
    with ExitStack() as stack:
        stack.callback(engine.end)
        spool = None
        if held.spool is not None:
            from sklearn_dpwg.data.sources.spool import Spool

            spool = stack.enter_context(Spool(held.spool))
            # the traceback of a failed fit may hold blocks for as long as the caller likes
            stack.callback(spool.drop)
            n_records = sum(problem.group_sizes)
            spool.reserve(n_records * (problem.n_features * facts.dtype.itemsize + 16))
        expected = [
            Expected(place, each.fingerprint, tuple(sizes), tuple(ranks))
            for place, (each, sizes, ranks) in enumerate(
                zip(surveys, facts.sizes.tolist(), facts.first_ranks.tolist(), strict=True)
            )
        ]
        filled = [each for each in expected if sum(each.sizes)]
        encode = partial(encode_partition, encoder=_encoder(estimator, facts, problem), spool=spool)
        handles = [held.handles[each.place] for each in filled]
        blocks = engine.derive(handles, encode, [(each,) for each in filled])
        if isinstance(held.engine, LocalEngine):
            raise_first(engine.collect(blocks, refusal_of))
        else:  # a worker that is lost takes its blocks along, and they are made once more
            seals = engine.collect(blocks, seal_of)
            raise_first(seals)
            check_kinds(seals)
            places = [(each.place, seal) for each, seal in zip(filled, seals, strict=True)]
            unsealed, blocks = blocks, engine.derive(blocks, same_block, places)
            engine.release(unsealed)
        yield Risks(
            engine,
            blocks,
            loss=problem.loss,
            intercept_scaling=problem.intercept_scaling,
            group_sizes=problem.group_sizes,
            n_features=problem.n_features,
        )


def _encoder(estimator: Fitting, facts: Facts, problem: Problem) -> Encoder:
    return Encoder(
        dtype=facts.dtype,
        group_by=estimator.group_by,
        labels=facts.labels.tolist() if facts.has_groups else None,
        targets=facts.targets,
        is_classifier=is_classifier(estimator),
        row_norm=float(estimator._row_norm),
        loss=problem.loss,
        intercept_scaling=problem.intercept_scaling,
        owner=type(estimator).__name__,
    )
