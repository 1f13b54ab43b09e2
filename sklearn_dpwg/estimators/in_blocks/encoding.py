"""Partitions as blocks of encoded records, proved sound and known again by their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import check_array

from sklearn_dpwg.estimators.in_blocks.refusal import Refusal, told
from sklearn_dpwg.estimators.in_blocks.survey import checked_targets, fingerprint_of
from sklearn_dpwg.estimators.inputs import advice_on_missing_values, check_columns
from sklearn_dpwg.estimators.targets import Targets
from sklearn_dpwg.exceptions import ChangedDataError, InputError
from sklearn_dpwg.groups import codes_of_labels, find_groups
from sklearn_dpwg.kernels import rounding_kind
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.risks import RecordBlock

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
        records = spool.write(expected.place, records)
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
