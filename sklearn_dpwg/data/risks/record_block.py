"""A block of records in memory or on mapped files: the only code that reads rows in bulk.

A `Selection` chooses records by a key and their ranks in their groups, wherever a block is held.
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

# Sparse rows in one block.
SPARSE_BLOCK_ROWS = 2**14
# Rows whose products x xᵀ are added up in one sum before that is split in two parts.
MOMENT_ROWS = 2**13
# Residuals are whole multiples of RESIDUAL_STEP, so sums of products are below 2^53 units; they are
# held as a multiple of MOMENT_SPLIT and a remainder.
RESIDUAL_STEP, MOMENT_SPLIT = 2.0**-18, 2.0**-10
# Squared distances are cut to multiples of SQUARE_STEP, for up to 2^29 rows, and split alike.
SQUARE_STEP, SQUARE_SPLIT = 2.0**-24, 4.0
# A Hessian of fewer entries takes less time than waking a thread.
ENTRIES_PER_TASK = 2**16
# Ranks in one shuffled run; the most records of a group that NumPy can deal to parts.
RANKS_AT_A_TIME, MAX_RANKS = 2**14, 10**9 - 1


class Selection(Protocol):
    """Which records of each group take part: a function of public facts and a key alone.

    The rank of a record counts the records of its group before it. Positions are computed where the
    records are, for a range of ranks, so that no array of all ranks exists. ``repr`` hides the key.
    """

    @property
    def by_place(self) -> bool:
        """Whether ranks are places among all records, as where groups are hidden."""

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        """Return the chosen ranks in ``first:stop``, increasing; group 0 for places."""


class RecordBlock:
    """Some records of every group, perhaps none; its methods return sums over them, never means.

    A result depends on these records and the arguments alone. Sums in two parts are of whole
    numbers and exact, so blocks may be added in any order; other sums are added in block order.
    Scores are ``rows @ weights.T + intercepts``: weights (n_outputs, n_features), intercepts
    (n_outputs,).
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
        # number of records of each group in the blocks before this one
        self.first_ranks = (0,) * len(self.group_sizes) if first_ranks is None else first_ranks

    sums = whole_sums

    def sampled_sums(
        self, weights: FloatArray, intercepts: FloatArray, selection: Selection, *, loss_clip: float
    ) -> Sums:
        """Return losses and slopes summed over the selected records, and their number, by group."""
        selected = self.part(selection)
        losses, slopes = selected.sums(weights, intercepts, loss_clip=loss_clip)
        return losses, slopes, np.asarray(selected.group_sizes, dtype=float)

    def curvature(
        self, weights: FloatArray, intercepts: FloatArray, record_weights: FloatArray, rough: bool
    ) -> Sums:
        """Return Σ record_weights[group] · Hessian of a record's loss, as one array of 4 axes.

        Axes are output, column, output, column; rows are not centred. Groups of weight 0 are not
        read. With `rough`, rows are multiplied in single precision, in half the time.
        """
        n_outputs, size = self.loss.n_outputs, self.n_features + (self.intercept_scaling > 0)
        shape = (n_outputs, size, n_outputs, size)

        def task(segments: Sequence[Segment]) -> FloatArray:
            hessian = np.zeros(shape)
            weighted = [segment for segment in segments if record_weights[segment[0]] != 0]
            for group, block, scores in self._scored(weights, intercepts, weighted):
                targets = self.records.targets[block]
                curvature = self.loss.curvature(scores, targets)
                if self.records.slope_limits is not None:
                    _, slopes = self.loss.value_and_derivative(scores, targets)
                    curvature = curvature * (np.abs(slopes) < self.records.slope_limits[block])
                self._add_curvature(hessian, block, record_weights[group] * curvature, rough)
            return hessian

        # each task has its own Hessian; 4 entries of rows to one of it bound their memory
        min_entries = 4 * (n_outputs * size) ** 2
        return (self._total(task, shape, n_columns=size, min_entries=min_entries),)

    def _add_curvature(
        self, hessian: FloatArray, block: slice, curvature: FloatArray, rough: bool
    ) -> None:
        """Add Σ curvature · x xᵀ over the rows of a block to the Hessian, for each output pair."""
        kind = np.float32 if rough else np.float64
        rows = self._rows(block, kind)
        n_outputs, n_features, constant = len(hessian), self.n_features, self.intercept_scaling
        curvature = curvature.reshape(-1, n_outputs, n_outputs)
        for output in range(n_outputs):
            for other in range(output + 1):
                factors = curvature[:, output, other]
                if np.all(factors >= 0.0):
                    # a matrix times its own transpose costs half as much
                    left = right = scale_rows(rows, np.sqrt(factors), kind)
                else:
                    left, right = rows, scale_rows(rows, factors, kind)
                piece = hessian[output, :, other, :]  # a view
                piece[:n_features, :n_features] += _dense(left.T @ right)
                if constant > 0:
                    edge = constant * (rows.T @ factors)
                    piece[:n_features, -1] += edge
                    piece[-1, :n_features] += edge
                    piece[-1, -1] += constant**2 * factors.sum()
                if output != other:
                    hessian[other, :, output, :] = piece

    def gradient_spread(
        self, weights: FloatArray, intercepts: FloatArray, root: FloatArray
    ) -> Sums:
        """Return sums by group: losses, their squares, ``‖g A‖²`` and ``g A``, in this order.

        g is the gradient of a record's loss in all weights, A is `root`; rows are not centred.
        """
        records, constant, n_outputs = self.records, self.intercept_scaling, self.loss.n_outputs
        root_by_output = root.reshape(n_outputs, len(root) // n_outputs, -1)
        shape = (len(self.group_sizes), 3 + root_by_output.shape[2])

        def task(segments: Sequence[Segment]) -> FloatArray:
            sums = np.zeros(shape)
            for group, block, scores in self._scored(weights, intercepts, segments):
                losses, slopes = self.loss.value_and_derivative(scores, records.targets[block])
                products: Any = 0.0  # g A, one row a record
                for slope, matrix in zip(np.atleast_2d(slopes.T), root_by_output, strict=True):
                    of_output = self._rows(block) @ matrix[: self.n_features]
                    of_output *= slope[:, None]
                    if constant > 0:
                        of_output += np.outer(constant * slope, matrix[-1])
                    products += of_output
                sums[group, :3] += losses.sum(), losses @ losses, np.vdot(products, products)
                sums[group, 3:] += products.sum(axis=0)
            return sums

        sums = self._total(task, shape, n_columns=root_by_output.shape[1])
        return sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]

    def changes(
        self, weights: tuple[FloatArray, FloatArray], others: tuple[FloatArray, FloatArray]
    ) -> Sums:
        """Return sums by group of losses at `others` minus at `weights`, and of the squares."""
        shape = (2, len(self.group_sizes))

        def task(segments: Sequence[Segment]) -> FloatArray:
            sums = np.zeros(shape)
            blocks = self._scored(*weights, segments)
            other_blocks = self._scored(*others, segments)
            for (group, block, scores), (_, _, new) in zip(blocks, other_blocks, strict=True):
                targets = self.records.targets[block]
                change = self.loss.value(new, targets) - self.loss.value(scores, targets)
                sums[:, group] += change.sum(), change @ change
            return sums

        sums, squares = self._total(task, shape, n_columns=0)  # 0: one task
        return sums, squares

    def _scored(
        self, weights: FloatArray, intercepts: FloatArray, segments: Iterable[Segment]
    ) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield (group, slice of rows, scores) by block; scores of one output are (n_rows,)."""
        for group, start, stop in segments:
            for block in self._blocks(start, stop):
                scores = self._rows(block) @ weights.T + intercepts
                yield group, block, scores[:, 0] if self.loss.n_outputs == 1 else scores

    def _blocks(self, start: int, stop: int) -> Iterator[slice]:
        """Yield slices that cut the rows ``start:stop`` into blocks, of the cache's size or so."""
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
        """Return the sums of `Risks.residual_moments` in two parts; the lower left is 0."""
        n_features, tail = self.n_features, [constant] if self.intercept_scaling > 0 else []
        size = n_features + len(tail) + 1

        def block_sums(block: slice) -> FloatArray:
            # the sum of v vᵀ over a block, v = (x, constants, length · residual / clip)
            sums, rows = np.zeros((size, size)), self._rows(block)
            scores = exact_scores(rows, weights)[:, 0] + intercepts[0]
            residuals = np.clip(self.records.targets[block] - scores, -clip, clip)
            extra = np.empty((len(scores), 1 + len(tail)))  # the columns behind the features
            extra[:, :-1] = tail
            extra[:, -1] = cut(residuals * (length / clip), RESIDUAL_STEP) * RESIDUAL_STEP
            sums[:n_features, :n_features] += _dense(rows.T @ rows)
            sums[:n_features, n_features:] += rows.T @ extra
            sums[n_features:, n_features:] += extra.T @ extra
            return sums

        return self._exact_sums(block_sums, (len(self.group_sizes), size, size))

    def row_sum(self) -> Sums:
        """Return the sum of the rows of all groups, in two parts of shape (1, n_features)."""
        return self._exact_sums(
            lambda block: np.asarray(self._rows(block).sum(axis=0)), (1, self.n_features)
        )

    def second_moments(self, *, columns_alone: bool) -> Sums:
        """Return Σ x xᵀ over all rows, or only its diagonal, in two parts that add up to it."""
        size = self.n_features

        def block_sums(block: slice) -> FloatArray:
            rows = self._rows(block)
            return np.asarray((rows * rows).sum(axis=0) if columns_alone else _dense(rows.T @ rows))

        return self._exact_sums(block_sums, (1, size) if columns_alone else (1, size, size))

    def _exact_sums(
        self, block_sums: Callable[[slice], FloatArray], shape: tuple[int, ...]
    ) -> Sums:
        """Return sums of `block_sums`, by group or over all (shape[0] of 1), in two parts."""
        is_sparse = isinstance(self.records.rows, csr_array)
        n_rows = MOMENT_ROWS if is_sparse else min(MOMENT_ROWS, 8 * _rows_in_cache(self.n_features))

        def task(segments: Sequence[Segment]) -> FloatArray:
            sums = np.zeros((2, *shape))
            for group, first, stop in segments:
                total = sums[:, group if shape[0] > 1 else 0]  # a view
                for start in range(first, stop, n_rows):
                    block = slice(start, min(start + n_rows, stop))
                    add_split(total, block_sums(block), MOMENT_SPLIT)
            return sums

        # as in `curvature`, 4 entries of rows to one of a task's sums
        min_entries = 4 * int(np.prod(shape))
        return (self._total(task, (2, *shape), n_columns=shape[-1], min_entries=min_entries),)

    def _total(
        self,
        task: Callable[[Sequence[Segment]], FloatArray],
        shape: tuple[int, ...],
        n_columns: int,
        min_entries: int = 0,
    ) -> FloatArray:
        """Return the sum of a task's results on even cuts of the rows, of `min_entries` or more."""
        n_entries = self.records.rows.shape[0] * n_columns
        tasks = even_tasks(self.records.starts, n_entries // max(ENTRIES_PER_TASK, min_entries))
        with one_blas_thread():
            parts = run_on_threads([partial(task, segments) for segments in tasks])
        return reduce(np.add, parts) if parts else np.zeros(shape)

    def spread(self, center: FloatArray, whitening: FloatArray | None = None) -> Sums:
        """Return Σ min(‖P (x - center)‖², 1), each term cut to `SQUARE_STEP`, in two parts."""
        squares = np.minimum(self._squared_distances(center, whitening), 1.0)
        sums = np.zeros((2, 1))
        add_split(sums, cut(squares, SQUARE_STEP).sum(keepdims=True) * SQUARE_STEP, SQUARE_SPLIT)
        return (sums,)

    def _squared_distances(self, center: FloatArray, whitening: FloatArray | None) -> FloatArray:
        """Return upper bounds of ``‖P (x - center)‖²`` for each row x, P being the whitening."""
        moved_center = times(center, whitening)
        squares = np.empty(self.records.rows.shape[0])
        for block in self._blocks(0, len(squares)):
            rows = self._rows(block)
            if whitening is not None and whitening.ndim == 2:
                # products of whole numbers are exact, so other rows change no bit of a row's
                squares[block] = ((times(rows, whitening) - moved_center) ** 2).sum(axis=1)
                continue
            # ‖P x‖² - 2 x·(P P center) + ‖P center‖², which keeps sparse rows sparse
            direction = times(moved_center, whitening)[None]
            squares[block] = row_norms(times(rows, whitening)) ** 2
            squares[block] -= 2.0 * exact_scores(rows, direction)[:, 0]
            squares[block] += (moved_center**2).sum()
        # an upper bound on the rounding of the three terms
        longest = 1.0 if whitening is None else float(np.abs(whitening).max(initial=0.0))
        error = (self.n_features + 4) * longest**2 * 2.0**-46
        return np.asarray(np.maximum(squares, 0.0) + error)

    def centred(
        self, center: FloatArray, whitening: FloatArray | None, constant: float, clip: float
    ) -> RecordBlock:
        """Return the same rows, slopes limited so that gradients of centred rows are <= clip."""
        lengths = np.sqrt(self._squared_distances(center, whitening) + constant**2)
        other = copy(self)
        other.records = replace(self.records, slope_limits=clip / lengths)
        other.intercept_scaling = constant
        return other

    def with_loss(self, loss: Loss) -> RecordBlock:
        """Return a block of the same records, not copied, under another loss."""
        other = copy(self)
        other.loss = loss
        return other

    def part(self, selection: Selection) -> RecordBlock:
        """Return a block with copies of the selected records; its ranks count from 0."""
        if selection.by_place:
            positions = self.records.at_places(partial(selection.positions, 0))
        else:
            ranks = zip(self.first_ranks, self.group_sizes, strict=True)
            positions = [
                selection.positions(group, first, first + size) - first
                for group, (first, size) in enumerate(ranks)
            ]
        return RecordBlock(self.records.take(positions), self.loss, self.intercept_scaling)

    def with_first_ranks(self, first_ranks: Sequence[int]) -> RecordBlock:
        """Return a block of the same records, behind so many records of each group."""
        other = copy(self)
        other.first_ranks = tuple(first_ranks)
        return other

    def _rows(self, block: slice, kind: type[np.floating] = np.float64) -> Any:
        """Return the rows of a block; in double precision, products of whole numbers are exact."""
        return row_block(self.records.rows, block.start, block.stop, kind)


def _rows_in_cache(n_features: int) -> int:
    """Return how many dense rows in double precision fit the cache, but at least 64."""
    return max(64, BLOCK_BYTES // (8 * max(n_features, 1)))


def times(rows: Any, whitening: FloatArray | None) -> Any:
    """Return ``rows @ whitening`` for a matrix, scaled columns for a vector, rows for None."""
    if whitening is None:
        return rows
    if whitening.ndim == 2:
        return rows @ whitening
    if isinstance(rows, csr_array):
        entries = rows.data * whitening[rows.indices]
        return csr_array((entries, rows.indices, rows.indptr), shape=rows.shape)
    return rows * whitening


def _dense(product: Any) -> FloatArray:
    """Return a dense or sparse product of rows as an ndarray."""
    return product if isinstance(product, np.ndarray) else product.toarray()


# Disjoint random parts of the records, decided by a key.


@dataclass(frozen=True)
class KeyedPart:
    """`Selection` of one part: the key deals each group at random into disjoint parts."""

    key: bytes = field(repr=False)  # the same for all parts; it need not be secret
    sizes: tuple[int, ...]  # records of each group
    sizes_of_parts: tuple[tuple[int, ...], ...]  # records of each group in each part
    part: int  # index of this part
    by_place: ClassVar[bool] = False

    def positions(self, group: int, first: int, stop: int) -> IndexArray:
        size = self.sizes[group]
        part_sizes = tuple(group_sizes[group] for group_sizes in self.sizes_of_parts)
        key = hashlib.blake2b(group.to_bytes(8, "little"), key=self.key[:64]).digest()
        ends = _part_ends_by_run(key, size, part_sizes)
        chosen = [np.zeros(0, dtype=np.intp)]
        for run in range(first // RANKS_AT_A_TIME, -(-min(stop, size) // RANKS_AT_A_TIME)):
            start = run * RANKS_AT_A_TIME
            order = _random_order(key, run, min(RANKS_AT_A_TIME, size - start))
            begin, end = ends[run, self.part : self.part + 2]  # this part's share of the order
            ranks = start + np.sort(order[begin:end])
            chosen.append(ranks[(ranks >= first) & (ranks < stop)])
        return np.concatenate(chosen)


@lru_cache(maxsize=64)
def _part_ends_by_run(key: bytes, size: int, part_sizes: tuple[int, ...]) -> IndexArray:
    """Return an array (n_runs, 1 + n_parts) that cuts the shuffled ranks of each run into parts.

    Part i of a run has its positions ``ends[run, i]:ends[run, i + 1]``; later ones are in no part.
    Counts in a run are hypergeometric, as if the whole group were dealt at once.
    """
    rng = np.random.default_rng([*key, 0])
    left = np.array([*part_sizes, size - sum(part_sizes)])  # the last: ranks of no part
    counts = []
    for start in range(0, size, RANKS_AT_A_TIME):
        run_size = min(RANKS_AT_A_TIME, size - start)
        counts.append(rng.multivariate_hypergeometric(left, run_size, method="marginals"))
        left = left - counts[-1]
    ends = np.cumsum(np.array(counts).reshape(-1, len(left)), axis=1)
    return np.concatenate([np.zeros((len(ends), 1), dtype=np.intp), ends[:, :-1]], axis=1)


@lru_cache(maxsize=64)
def _random_order(key: bytes, run: int, size: int) -> IndexArray:
    """Return 0, ..., size - 1 in random order: the ranks of a run, relative to its start."""
    seed = list(key) if run == 0 else [*key, run]
    # argsort inverts a permutation; the inverse is as random, and stored results depend on it
    order = np.argsort(np.random.default_rng(seed).permutation(size))
    order.flags.writeable = False
    return order


def keyed_parts(
    sizes: Sequence[int],
    sizes_of_parts: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> tuple[KeyedPart, ...]:
    """Return one `KeyedPart` for each entry of `sizes_of_parts`, its records of each group.

    `sizes` are the group sizes. Ranks and the key alone decide the part of a record, so a record
    that replaces another is in the same part; privacy holds even if the key becomes known.
    """
    key = rng.bytes(32)
    part_sizes = tuple(tuple(int(size) for size in of_part) for of_part in sizes_of_parts)
    group_sizes = tuple(int(size) for size in sizes)
    if max(group_sizes, default=0) > MAX_RANKS:
        raise InputError(
            f"a group must have at most {MAX_RANKS:,} records to be dealt out in disjoint parts, "
            f"got {max(group_sizes):,}."
        )
    return tuple(KeyedPart(key, group_sizes, part_sizes, part) for part in range(len(part_sizes)))
