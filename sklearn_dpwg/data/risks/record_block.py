"""A block of records in memory, or on mapped files: the only reader of rows in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks.selection import Selection
from sklearn_dpwg.data.rows import row_block, row_norms, scale_rows
from sklearn_dpwg.data.threads import Partition, one_blas_thread, run_on_threads
from sklearn_dpwg.data.whole_numbers import add_split, cut, exact_scores, whole_sums
from sklearn_dpwg.losses import Loss

# Where blocks of records live, and how their sums get together.

Sums = tuple[FloatArray, ...]


class Engine(Protocol):
    """Applies functions to objects that may be on other machines, and adds up what comes back.

    Handles stand for the objects. What a function returns depends on the object and on what the
    function was given alone, so an engine may call it again when a machine is lost; functions can
    be pickled. An error of any object is raised by `collect` or `reduce` at the latest.
    """

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every object."""

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        """Add up arrays of every object, in any order.

        Only for sums that no order rounds: multiples of a step, or whole numbers.
        """

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Make objects from objects and own arguments, each where the one it is made from is.

        They stay valid when those they come from are released.
        """

    def release(self, handles: Sequence[Any]) -> None:
        """Forget objects that nobody asks for again."""


class LocalEngine:
    """Objects in this process, one after another; handles are the objects themselves."""

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        return [function(handle) for handle in handles]

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        totals = function(handles[0])
        for handle in handles[1:]:
            totals = tuple(a + b for a, b in zip(totals, function(handle), strict=True))
        return totals

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        if arguments is None:
            return [function(handle) for handle in handles]
        return [function(handle, *own) for handle, own in zip(handles, arguments, strict=True)]

    def release(self, handles: Sequence[Any]) -> None:
        """Leave the objects to whoever else holds them."""


# A block of rows stays in the second-level cache between its two products; blocks of 128 KiB
# to 1 MiB are within a tenth of each other on the machines tried.
BLOCK_BYTES = 2**18
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


class RecordBlock:
    """Some of the records of every group, which answers with sums, never with means.

    All answers are functions of the records here and of what is asked alone; a group may have none
    here. Whole sums may be added in any order, as what a record adds to them depends on no other
    record, nor on where it is; the others are added in the order of the blocks.
    """

    def __init__(
        self,
        records: GroupedRecords,
        loss: Loss,
        intercept_scaling: float = 1.0,
        *,
        first_ranks: Sequence[int] | None = None,
        center: FloatArray | None = None,
        whitening: FloatArray | None = None,
    ) -> None:
        self.records = records
        self.loss = loss
        self.intercept_scaling = intercept_scaling
        self.center = center  # what rows are taken relative to; (n_features,)
        # symmetric matrix, or one factor a column, that centred rows are multiplied by
        self.whitening = whitening
        self.group_sizes = records.group_sizes
        self.n_features = int(records.rows.shape[1])
        # records of each group in front of the block
        self.first_ranks = (0,) * len(self.group_sizes) if first_ranks is None else first_ranks

    def __repr__(self) -> str:
        """Return the class alone: a log must hold no record."""
        return f"{type(self).__name__}()"

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.group_sizes)

    @property
    def n_columns(self) -> int:
        """Columns of a row with the intercept's."""
        return self.n_features + (self.intercept_scaling > 0)

    def sums(
        self,
        weights: FloatArray,
        *,
        ceiling: float | None = None,
        gradients: bool = True,
        is_fine: bool = False,
    ) -> Sums:
        """Return each group's sum of losses and that of slopes times rows, in one pass, in parts.

        Of shape (n_parts, n_groups, n_outputs, n_features + 1), the slopes themselves last, or no
        columns.
        """
        records = self.records
        return whole_sums(
            self.loss,
            records.rows,
            records.targets,
            records.starts,
            *self._split(weights),
            ceiling=np.inf if ceiling is None else ceiling,
            slope_limits=records.slope_limits,
            gradients=gradients,
            is_fine=is_fine,
        )

    def sampled_sums(self, weights: FloatArray, selection: Selection, *, ceiling: float) -> Sums:
        """Return the sums over a copy of the records that joined, and how many did."""
        joined = self.part(selection)
        losses, slopes = joined.sums(weights, ceiling=ceiling)
        return losses, slopes, np.asarray(joined.group_sizes, dtype=float)

    def curvature(
        self, weights: FloatArray, record_weights: FloatArray, *, rough: bool = False
    ) -> FloatArray:
        """Return the weighted sum of Hessians, for rows not centred; weight 0 is not read.

        A rough one multiplies rows in single precision, in half the time.
        """
        n_records, n_columns = self.records.rows.shape[0], self.n_columns
        n_outputs = self.loss.n_outputs
        # each task adds up a Hessian of its own: together a quarter of dense rows at most
        n_tasks = n_records * n_columns // max(ENTRIES_PER_TASK, 4 * (n_outputs * n_columns) ** 2)
        partition = Partition.of(self.records.starts, n_tasks)

        def task(part: slice) -> FloatArray:
            hessian = np.zeros((n_outputs, n_columns, n_outputs, n_columns))
            wanted = [piece for piece in partition.segments(part) if record_weights[piece[0]] != 0]
            for group, block, scores in self._scored_blocks(weights, wanted, square=True):
                curvature = self.loss.curvature(scores, self.records.targets[block])
                curvature = curvature * self._is_curved(scores, block)
                curvature = record_weights[group] * curvature
                self._add_curvature(hessian, block, curvature, rough)
            return hessian

        with one_blas_thread():
            parts = run_on_threads([partial(task, part) for part in partition.tasks])
        return _total(parts, (n_outputs, n_columns, n_outputs, n_columns))

    def gradient_spread(self, weights: FloatArray, root: FloatArray) -> Sums:
        """Return sums by group: losses, their squares, ``‖g A‖²`` and ``g A`` for gradients g.

        For rows not centred.
        """
        records, constant = self.records, self.intercept_scaling
        of_outputs = root.reshape(self.loss.n_outputs, self.n_columns, -1)
        n_tasks = records.rows.shape[0] * self.n_columns // ENTRIES_PER_TASK
        partition = Partition.of(records.starts, n_tasks)

        def task(part: slice) -> FloatArray:
            sums = np.zeros((self.n_groups, 3 + of_outputs.shape[2]))
            blocks = self._scored_blocks(weights, partition.segments(part), square=True)
            for group, block, scores in blocks:
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

        with one_blas_thread():
            parts = run_on_threads([partial(task, part) for part in partition.tasks])
        sums = _total(parts, (self.n_groups, 3 + of_outputs.shape[2]))
        return sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]

    def changes(self, weights: FloatArray, others: FloatArray) -> Sums:
        """Return sums by group of what losses change between weights, and of its squares."""
        sums = np.zeros((2, self.n_groups))
        both = (self._scored_blocks(each, square=True) for each in (weights, others))
        for (group, block, first), (_, _, second) in zip(*both, strict=True):
            targets = self.records.targets[block]
            change = self.loss.value(second, targets) - self.loss.value(first, targets)
            sums[:, group] += change.sum(), change @ change
        return sums[0], sums[1]

    def moment_sums(
        self, weights: FloatArray, *, clip: float, constant: float, length: float
    ) -> Sums:
        """Return what `Risks.residual_moments` adds up, in two parts.

        The lower left is not filled.
        """
        n_features, size = self.n_features, self.n_columns + 1
        tail = [constant] if self.intercept_scaling > 0 else []
        matrix, intercepts = self._split(weights)

        def block_sums(run: slice) -> FloatArray:
            sums, rows = np.zeros((size, size)), self._rows(run)
            scores = exact_scores(rows, matrix)[:, 0] + intercepts[0]
            residuals = np.clip(self.records.targets[run] - scores, -clip, clip)
            last = np.empty((len(scores), 1 + len(tail)))
            last[:, :-1] = tail
            last[:, -1] = cut(residuals * (length / clip), RESIDUAL_STEP) * RESIDUAL_STEP
            sums[:n_features, :n_features] += _dense(rows.T @ rows)
            sums[:n_features, n_features:] += rows.T @ last
            sums[n_features:, n_features:] += last.T @ last
            return sums

        return self._exact_sums(block_sums, (self.n_groups, size, size))

    def _exact_sums(
        self, block_sums: Callable[[slice], FloatArray], shape: tuple[int, ...]
    ) -> Sums:
        """Add up whole numbers of blocks, by group or of all, in two parts."""
        n_tasks = (
            self.records.rows.shape[0] * shape[-1] // max(ENTRIES_PER_TASK, 4 * int(np.prod(shape)))
        )
        partition = Partition.of(self.records.starts, n_tasks)
        n_rows = min(MOMENT_ROWS, 8 * _rows_in_cache(self.n_features))

        def task(part: slice) -> FloatArray:
            sums = np.zeros((2, *shape))
            for group, first, last in partition.segments(part):
                at = group if shape[0] > 1 else 0
                for start in range(first, last, n_rows):
                    of_block = block_sums(slice(start, min(start + n_rows, last)))
                    add_split(sums[:, at], of_block, MOMENT_SPLIT)
            return sums

        with one_blas_thread():
            parts = run_on_threads([partial(task, part) for part in partition.tasks])
        return (_total(parts, (2, *shape)),)

    def row_sum(self) -> Sums:
        """Return the sum of all rows."""
        n_records, sums = self.records.rows.shape[0], np.zeros((2, self.n_features))
        n_rows = min(MOMENT_ROWS, 8 * _rows_in_cache(self.n_features))
        for first in range(0, n_records, n_rows):
            rows = self._rows(slice(first, min(first + n_rows, n_records)))
            add_split(sums, np.asarray(rows.sum(axis=0)), MOMENT_SPLIT)
        return (sums,)

    def spread(self, center: FloatArray, whitening: FloatArray | None = None) -> Sums:
        """Return the sum of squared distances of rows from a centre, each cut, and at most 1."""
        squares = np.minimum(self._squared_distances(center, whitening), 1.0)
        sums = np.zeros((2, 1))
        add_split(sums, cut(squares, SQUARE_STEP).sum(keepdims=True) * SQUARE_STEP, SQUARE_SPLIT)
        return (sums,)

    def second_moments(self, *, columns_alone: bool) -> Sums:
        """Return what `Risks.second_moments` adds up, in two parts."""
        size = self.n_features

        def block_sums(run: slice) -> FloatArray:
            rows = self._rows(run)
            return np.asarray((rows * rows).sum(axis=0) if columns_alone else _dense(rows.T @ rows))

        return self._exact_sums(block_sums, (1, size) if columns_alone else (1, size, size))

    def with_loss(self, loss: Loss) -> RecordBlock:
        """Return the same rows under another loss."""
        other = copy(self)
        other.loss = loss
        return other

    def centred(
        self,
        center: FloatArray,
        *,
        constant: float,
        clip: float,
        whitening: FloatArray | None = None,
    ) -> RecordBlock:
        """Return the same rows relative to a centre, no gradient of a record above a norm."""
        lengths = np.sqrt(self._squared_distances(center, whitening) + constant**2)
        other = copy(self)
        other.records = replace(self.records, slope_limits=clip / lengths)
        other.intercept_scaling, other.center, other.whitening = constant, center, whitening
        return other

    def part(self, selection: Selection) -> RecordBlock:
        """Return a copy of the records that a selection chooses."""
        return RecordBlock(
            self.records.take(self._chosen(selection)),
            self.loss,
            self.intercept_scaling,
            center=self.center,
            whitening=self.whitening,
        )

    def placed(self, first_ranks: Sequence[int]) -> RecordBlock:
        """Return the same records, told what is in front of them."""
        other = copy(self)
        other.first_ranks = tuple(first_ranks)
        return other

    def _chosen(self, selection: Selection) -> Sequence[NDArray[np.intp]]:
        """Return the positions in each group here of the records that a selection chooses."""
        records = self.records
        if selection.by_place:
            return records.at_places(partial(selection.positions, 0))
        return [
            selection.positions(group, first, first + size) - first
            for group, (first, size) in enumerate(
                zip(self.first_ranks, self.group_sizes, strict=True)
            )
        ]

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

    def _squared_distances(
        self, center: FloatArray, whitening: FloatArray | None = None
    ) -> FloatArray:
        """Return no less than the squared distance of each row from a centre, of both times a P."""
        of_center = times(center, whitening)
        squares, n_rows = np.empty(self.records.rows.shape[0]), _rows_in_cache(self.n_features)
        for first in range(0, len(squares), n_rows):
            block = slice(first, min(first + n_rows, len(squares)))
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

    def _rows(self, block: slice, kind: type[np.floating] = np.float64) -> Any:
        """Return rows in double precision, where products of whole numbers are exact."""
        return row_block(self.records.rows, block.start, block.stop).astype(kind, copy=False)

    def _is_curved(self, scores: FloatArray, block: slice) -> Any:
        """Return which records of a block have a slope below their limit."""
        limits = self.records.slope_limits
        if limits is None:
            return 1.0
        _, slopes = self.loss.value_and_derivative(scores, self.records.targets[block])
        return np.abs(slopes) < limits[block]

    def _split(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the features, and what the constant column adds to the scores."""
        matrix = weights.reshape(self.loss.n_outputs, self.n_columns)
        if self.center is not None:
            of_rows = times(matrix[:, :-1], self.whitening)
            of_center = (of_rows * self.center).sum(axis=1)
            return of_rows, self.intercept_scaling * matrix[:, -1] - of_center
        if self.intercept_scaling > 0:
            return matrix[:, :-1], self.intercept_scaling * matrix[:, -1]
        return matrix, np.zeros(self.loss.n_outputs)

    def _scored_blocks(
        self,
        weights: FloatArray,
        segments: Iterable[tuple[int, int, int]] | None = None,
        *,
        square: bool = False,
    ) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield (group, rows, scores) for blocks, which fit the cache, of segments or all rows."""
        records, n_features = self.records, self.n_features
        feature_weights, intercepts = self._split(weights)
        block_rows = _rows_in_cache(n_features)
        if isinstance(records.rows, csr_array):
            block_rows = SPARSE_BLOCK_ROWS
        elif square:
            block_rows = max(block_rows, n_features if n_features < 512 else 2048)
        if segments is None:
            segments = Partition.of(records.starts, 1).segments(slice(None))
        for group, start, stop in segments:
            for first in range(start, stop, block_rows):
                block = slice(first, min(first + block_rows, stop))
                scores = self._rows(block) @ feature_weights.T + intercepts
                yield group, block, scores[:, 0] if self.loss.n_outputs == 1 else scores


def _total(parts: Sequence[FloatArray], shape: tuple[int, ...]) -> FloatArray:
    """Return the sum of what tasks found; a block without records has none."""
    return reduce(np.add, parts) if parts else np.zeros(shape)


def _rows_in_cache(n_features: int) -> int:
    return max(64, BLOCK_BYTES // (8 * max(n_features, 1)))


def exact_sum(first: Any, second: Any) -> tuple[Any, Any]:
    """Return a sum as it is rounded and what rounding took from it, which is a float as well."""
    total = first + second
    part = total - first
    return total, (first - (total - part)) + (second - part)


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
