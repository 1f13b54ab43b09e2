"""A block of records in memory, or on mapped files: the only reader of rows in bulk.

A `Selection` says by a key and ranks which of the records take part, wherever they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.rows import BLOCK_BYTES, row_block, row_norms, scale_rows
from sklearn_dpwg.data.threads import (
    IndexArray,
    Segment,
    even_tasks,
    one_blas_thread,
    run_on_threads,
)
from sklearn_dpwg.data.whole_numbers import add_split, cut, exact_scores, whole_sums
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss

Sums = tuple[FloatArray, ...]

# Rows in compressed form go into one product with each other at a time.
SPARSE_BLOCK_ROWS = 2**14
# Rows whose products with each other are added before their sums are split.
MOMENT_ROWS = 2**13
# Residuals beside rows are whole multiples of it: sums of products are below 2^53 units, and held
# in multiples of the second number of units and what is left of these.
RESIDUAL_STEP, MOMENT_SPLIT = 2.0**-18, 2.0**-10
# Squared distances, of up to 2^29 rows a block, are cut to multiples of it, and split alike.
SQUARE_STEP, SQUARE_SPLIT = 2.0**-24, 4.0
# A Hessian of fewer entries takes less time than waking a thread.
ENTRIES_PER_TASK = 2**16
# Ranks that are shuffled at a time, and the most of a group that NumPy deals out.
RANKS_AT_A_TIME, MAX_RANKS = 2**14, 10**9 - 1


class Selection(Protocol):
    """Which records of each group take part, as a function of public facts and a key alone.

    It is asked wherever the records are, a range of ranks at a time, so that no array of all ranks
    exists anywhere. A pickle holds its key, ``repr`` does not. `PoissonSample` is one, too.
    """

    @property
    def by_place(self) -> bool:
        """Whether ranks are places among all records, which do not know groups."""

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        """Return the chosen ranks ``first:stop`` of a group, 0 for places, increasing.

        They are the same however ranks are cut into calls.
        """


class RecordBlock:
    """Some of the records of every group, which answers with sums, never with means.

    All answers are functions of the records here and of what is asked alone; a group may have none
    here. Whole sums may be added in any order, as what a record adds to them depends on no other
    record, nor on where it is; the others are added in the order of the blocks. Weights are those
    of the features and what is added to all scores, one of each a score.
    """

    def __init__(
        self,
        records: GroupedRecords,
        loss: Loss,
        intercept_scaling: float = 1.0,
        *,
        first_ranks: Sequence[int] | None = None,
    ) -> None:
        self.records = records
        self.loss = loss
        self.intercept_scaling = intercept_scaling
        self.group_sizes = records.group_sizes
        self.n_features = int(records.rows.shape[1])
        # records of each group in front of the block
        self.first_ranks = (0,) * len(self.group_sizes) if first_ranks is None else first_ranks

    sums = whole_sums

    def sampled_sums(
        self, weights: FloatArray, intercepts: FloatArray, selection: Selection, *, loss_clip: float
    ) -> Sums:
        """Return the sums over a copy of the records that joined, and how many did."""
        joined = self.part(selection)
        losses, slopes = joined.sums(weights, intercepts, loss_clip=loss_clip)
        return losses, slopes, np.asarray(joined.group_sizes, dtype=float)

    def curvature(
        self, weights: FloatArray, intercepts: FloatArray, record_weights: FloatArray, rough: bool
    ) -> Sums:
        """Return the weighted sum of Hessians, for rows not centred; weight 0 is not read.

        A rough one multiplies rows in single precision, in half the time.
        """
        n_outputs, size = self.loss.n_outputs, self.n_features + (self.intercept_scaling > 0)
        shape = (n_outputs, size, n_outputs, size)

        def task(segments: Sequence[Segment]) -> FloatArray:
            hessian = np.zeros(shape)
            read = [segment for segment in segments if record_weights[segment[0]] != 0]
            for group, block, scores in self._scored(weights, intercepts, read):
                targets = self.records.targets[block]
                curvature = self.loss.curvature(scores, targets)
                if self.records.slope_limits is not None:
                    _, slopes = self.loss.value_and_derivative(scores, targets)
                    curvature = curvature * (np.abs(slopes) < self.records.slope_limits[block])
                self._add_curvature(hessian, block, record_weights[group] * curvature, rough)
            return hessian

        # each task adds up a Hessian of its own: together a quarter of dense rows at most
        return (self._total(task, shape, size, 4 * (n_outputs * size) ** 2),)

    def _add_curvature(
        self, hessian: FloatArray, block: slice, curvature: FloatArray, rough: bool
    ) -> None:
        """Add what the records of a block contribute, given their curvatures times weights."""
        kind = np.float32 if rough else np.float64
        rows = self._rows(block, kind)
        n_outputs, n_features, constant = len(hessian), self.n_features, self.intercept_scaling
        curvature = curvature.reshape(-1, n_outputs, n_outputs)
        for first in range(n_outputs):
            for second in range(first + 1):
                between = curvature[:, first, second]
                if np.all(between >= 0.0):
                    # a matrix times its own transpose costs half as much
                    left = right = scale_rows(rows, np.sqrt(between), kind)
                else:
                    left, right = rows, scale_rows(rows, between, kind)
                pieces = hessian[first, :, second, :]
                pieces[:n_features, :n_features] += _dense(left.T @ right)
                if constant > 0:
                    edge = constant * (rows.T @ between)
                    pieces[:n_features, -1] += edge
                    pieces[-1, :n_features] += edge
                    pieces[-1, -1] += constant**2 * between.sum()
                if first != second:
                    hessian[second, :, first, :] = pieces

    def gradient_spread(
        self, weights: FloatArray, intercepts: FloatArray, root: FloatArray
    ) -> Sums:
        """Return sums by group: losses, their squares, ``‖g A‖²`` and ``g A`` for gradients g.

        For rows not centred.
        """
        records, constant, n_outputs = self.records, self.intercept_scaling, self.loss.n_outputs
        of_outputs = root.reshape(n_outputs, len(root) // n_outputs, -1)
        shape = (len(self.group_sizes), 3 + of_outputs.shape[2])

        def task(segments: Sequence[Segment]) -> FloatArray:
            sums = np.zeros(shape)
            for group, block, scores in self._scored(weights, intercepts, segments):
                losses, slopes = self.loss.value_and_derivative(scores, records.targets[block])
                moved: Any = 0.0
                for slope, matrix in zip(np.atleast_2d(slopes.T), of_outputs, strict=True):
                    of_rows = self._rows(block) @ matrix[: self.n_features]
                    of_rows *= slope[:, None]
                    if constant > 0:
                        of_rows += np.outer(constant * slope, matrix[-1])
                    moved += of_rows
                sums[group, :3] += losses.sum(), losses @ losses, np.vdot(moved, moved)
                sums[group, 3:] += moved.sum(axis=0)
            return sums

        sums = self._total(task, shape, of_outputs.shape[1])
        return sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]

    def changes(
        self, weights: tuple[FloatArray, FloatArray], others: tuple[FloatArray, FloatArray]
    ) -> Sums:
        """Return sums by group of what losses change between weights, and of its squares."""
        shape = (2, len(self.group_sizes))

        def task(segments: Sequence[Segment]) -> FloatArray:
            sums = np.zeros(shape)
            both = (self._scored(*each, segments) for each in (weights, others))
            for (group, block, first), (_, _, second) in zip(*both, strict=True):
                targets = self.records.targets[block]
                change = self.loss.value(second, targets) - self.loss.value(first, targets)
                sums[:, group] += change.sum(), change @ change
            return sums

        sums, squares = self._total(task, shape, 0)
        return sums, squares

    def _scored(
        self, weights: FloatArray, intercepts: FloatArray, segments: Iterable[Segment]
    ) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield (group, rows, scores) for blocks of segments, which fit the cache."""
        for group, start, stop in segments:
            for block in self._blocks(start, stop):
                scores = self._rows(block) @ weights.T + intercepts
                yield group, block, scores[:, 0] if self.loss.n_outputs == 1 else scores

    def _blocks(self, start: int, stop: int) -> Iterator[slice]:
        """Yield the rows in blocks that fit the cache."""
        n_features = self.n_features
        n_rows = max(_rows_in_cache(n_features), n_features if n_features < 512 else 2048)
        if isinstance(self.records.rows, csr_array):
            n_rows = SPARSE_BLOCK_ROWS
        for first in range(start, stop, n_rows):
            yield slice(first, min(first + n_rows, stop))

    def moment_sums(
        self,
        weights: FloatArray,
        intercepts: FloatArray,
        *,
        clip: float,
        constant: float,
        length: float,
    ) -> Sums:
        """Return what `Risks.residual_moments` adds up, in two parts.

        The lower left is not filled.
        """
        n_features, tail = self.n_features, [constant] if self.intercept_scaling > 0 else []
        size = n_features + len(tail) + 1

        def block_sums(block: slice) -> FloatArray:
            # the sum of v vᵀ over a block, v = (x, constants, length · residual / clip)
            sums, rows = np.zeros((size, size)), self._rows(block)
            scores = exact_scores(rows, weights)[:, 0] + intercepts[0]
            residuals = np.clip(self.records.targets[block] - scores, -clip, clip)
            last = np.empty((len(scores), 1 + len(tail)))
            last[:, :-1] = tail
            last[:, -1] = cut(residuals * (length / clip), RESIDUAL_STEP) * RESIDUAL_STEP
            sums[:n_features, :n_features] += _dense(rows.T @ rows)
            sums[:n_features, n_features:] += rows.T @ last
            sums[n_features:, n_features:] += last.T @ last
            return sums

        return self._exact_sums(block_sums, (len(self.group_sizes), size, size))

    def row_sum(self) -> Sums:
        """Return the sum of all rows, in two parts."""
        return self._exact_sums(
            lambda block: np.asarray(self._rows(block).sum(axis=0)), (1, self.n_features)
        )

    def second_moments(self, *, columns_alone: bool) -> Sums:
        """Return what `Risks.second_moments` adds up, in two parts."""
        size = self.n_features

        def block_sums(block: slice) -> FloatArray:
            rows = self._rows(block)
            return np.asarray((rows * rows).sum(axis=0) if columns_alone else _dense(rows.T @ rows))

        return self._exact_sums(block_sums, (1, size) if columns_alone else (1, size, size))

    def _exact_sums(
        self, block_sums: Callable[[slice], FloatArray], shape: tuple[int, ...]
    ) -> Sums:
        """Add up whole numbers of blocks, by group or of all, in two parts."""
        is_sparse = isinstance(self.records.rows, csr_array)
        n_rows = MOMENT_ROWS if is_sparse else min(MOMENT_ROWS, 8 * _rows_in_cache(self.n_features))

        def task(segments: Sequence[Segment]) -> FloatArray:
            sums = np.zeros((2, *shape))
            for group, first, last in segments:
                at = group if shape[0] > 1 else 0
                for start in range(first, last, n_rows):
                    of_block = block_sums(slice(start, min(start + n_rows, last)))
                    add_split(sums[:, at], of_block, MOMENT_SPLIT)
            return sums

        return (self._total(task, (2, *shape), shape[-1], 4 * int(np.prod(shape))),)

    def _total(
        self,
        task: Callable[[Sequence[Segment]], FloatArray],
        shape: tuple[int, ...],
        n_columns: int,
        least: int = 0,
    ) -> FloatArray:
        """Add up what tasks make of their rows; each has so many entries at least."""
        n_entries = self.records.rows.shape[0] * n_columns
        tasks = even_tasks(self.records.starts, n_entries // max(ENTRIES_PER_TASK, least))
        with one_blas_thread():
            parts = run_on_threads([partial(task, segments) for segments in tasks])
        return reduce(np.add, parts) if parts else np.zeros(shape)

    def spread(self, center: FloatArray, whitening: FloatArray | None = None) -> Sums:
        """Return the sum of squared distances of rows from a centre, each cut, and at most 1."""
        squares = np.minimum(self._squared_distances(center, whitening), 1.0)
        sums = np.zeros((2, 1))
        add_split(sums, cut(squares, SQUARE_STEP).sum(keepdims=True) * SQUARE_STEP, SQUARE_SPLIT)
        return (sums,)

    def _squared_distances(self, center: FloatArray, whitening: FloatArray | None) -> FloatArray:
        """Return no less than the squared distance of each row from a centre, of both times a P."""
        of_center = times(center, whitening)
        squares = np.empty(self.records.rows.shape[0])
        for block in self._blocks(0, len(squares)):
            rows = self._rows(block)
            if whitening is not None and whitening.ndim == 2:
                # products of whole numbers: each row's are its own
                squares[block] = ((times(rows, whitening) - of_center) ** 2).sum(axis=1)
                continue
            along = times(of_center, whitening)[None]
            squares[block] = row_norms(times(rows, whitening)) ** 2
            squares[block] -= 2.0 * exact_scores(rows, along)[:, 0]
            squares[block] += (of_center**2).sum()
        longest = 1.0 if whitening is None else float(np.abs(whitening).max(initial=0.0))
        error = (self.n_features + 4) * longest**2 * 2.0**-46
        return np.asarray(np.maximum(squares, 0.0) + error)

    def centred(
        self, center: FloatArray, whitening: FloatArray | None, constant: float, clip: float
    ) -> RecordBlock:
        """Return the same rows with limits of slopes, no gradient of centred ones above a norm."""
        lengths = np.sqrt(self._squared_distances(center, whitening) + constant**2)
        other = copy(self)
        other.records = replace(self.records, slope_limits=clip / lengths)
        other.intercept_scaling = constant
        return other

    def with_loss(self, loss: Loss) -> RecordBlock:
        """Return the same rows under another loss."""
        other = copy(self)
        other.loss = loss
        return other

    def part(self, selection: Selection) -> RecordBlock:
        """Return a copy of the records that a selection chooses."""
        if selection.by_place:
            chosen = self.records.at_places(partial(selection.positions, 0))
        else:
            ranks = zip(self.first_ranks, self.group_sizes, strict=True)
            chosen = [
                selection.positions(group, first, first + size) - first
                for group, (first, size) in enumerate(ranks)
            ]
        return RecordBlock(self.records.take(chosen), self.loss, self.intercept_scaling)

    def placed(self, first_ranks: Sequence[int]) -> RecordBlock:
        """Return the same records, told what is in front of them."""
        other = copy(self)
        other.first_ranks = tuple(first_ranks)
        return other

    def _rows(self, block: slice, kind: type[np.floating] = np.float64) -> Any:
        """Return rows in double precision, where products of whole numbers are exact."""
        return row_block(self.records.rows, block.start, block.stop, kind)


def _rows_in_cache(n_features: int) -> int:
    return max(64, BLOCK_BYTES // (8 * max(n_features, 1)))


def times(rows: Any, whitening: FloatArray | None) -> Any:
    """Return rows times a matrix, or times a factor a column; the rows themselves for None."""
    if whitening is None:
        return rows
    if whitening.ndim == 2:
        return rows @ whitening
    if isinstance(rows, csr_array):
        entries = rows.data * whitening[rows.indices]
        return csr_array((entries, rows.indices, rows.indptr), shape=rows.shape)
    return rows * whitening


def _dense(product: Any) -> FloatArray:
    return product if isinstance(product, np.ndarray) else product.toarray()


# Parts of disjoint records, by a key.


@dataclass(frozen=True)
class KeyedPart:
    """So many records of each group, at random: one of disjoint parts that a key decides."""

    key: bytes = field(repr=False)  # decides all parts of all groups; nothing is hidden by it
    sizes: tuple[int, ...]  # records of each group
    sizes_of_parts: tuple[tuple[int, ...], ...]  # records of each group in each part
    part: int
    by_place: ClassVar[bool] = False

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        size = self.sizes[group]
        own = tuple(of_part[group] for of_part in self.sizes_of_parts)
        key = hashlib.blake2b(group.to_bytes(8, "little"), key=self.key[:64]).digest()
        ends = _ends_of_fractions(key, size, own)
        chosen = [np.zeros(0, dtype=np.intp)]
        for run in range(first // RANKS_AT_A_TIME, -(-min(stop, size) // RANKS_AT_A_TIME)):
            start = run * RANKS_AT_A_TIME
            order = _shuffled(key, run, min(RANKS_AT_A_TIME, size - start))
            before, end = ends[run, self.part : self.part + 2]
            ranks = start + np.sort(order[before:end])
            chosen.append(ranks[(ranks >= first) & (ranks < stop)])
        return np.concatenate(chosen)


@lru_cache(maxsize=64)
def _ends_of_fractions(key: bytes, size: int, part_sizes: tuple[int, ...]) -> IndexArray:
    """Return, for each block of ranks, where the ranks of each part end, behind a 0.

    How many ranks of a block a part has is what drawing without replacement gives; ranks of no part
    are the last.
    """
    rng = np.random.default_rng([*key, 0])
    left = np.array([*part_sizes, size - sum(part_sizes)])
    fractions = []
    for start in range(0, size, RANKS_AT_A_TIME):
        of_block = min(RANKS_AT_A_TIME, size - start)
        fractions.append(rng.multivariate_hypergeometric(left, of_block, method="marginals"))
        left = left - fractions[-1]
    ends = np.cumsum(np.array(fractions).reshape(-1, len(left)), axis=1)
    return np.concatenate([np.zeros((len(ends), 1), dtype=np.intp), ends[:, :-1]], axis=1)


@lru_cache(maxsize=64)
def _shuffled(key: bytes, run: int, size: int) -> IndexArray:
    """Return a run of ranks in random order, its first as 0."""
    seed = list(key) if run == 0 else [*key, run]
    order = np.argsort(np.random.default_rng(seed).permutation(size))
    order.flags.writeable = False
    return order


def keyed_parts(
    sizes: Sequence[int],
    sizes_of_parts: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> tuple[KeyedPart, ...]:
    """Return disjoint parts of exactly these sizes a group, by a key that may become known.

    Which record is in which part follows from ranks and random numbers alone, so a record that
    replaces another is in the same part, and given these numbers the parts are disjoint data sets.
    """
    key = rng.bytes(32)
    own = tuple(tuple(int(size) for size in of_part) for of_part in sizes_of_parts)
    whole = tuple(int(size) for size in sizes)
    if max(whole, default=0) > MAX_RANKS:
        raise InputError(
            f"a group must have at most {MAX_RANKS:,} records to be dealt out in disjoint parts, "
            f"got {max(whole):,}."
        )
    return tuple(KeyedPart(key, whole, own, part) for part in range(len(own)))
