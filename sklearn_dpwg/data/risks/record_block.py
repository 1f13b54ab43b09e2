"""A block of records in memory, or on mapped files: the only reader of rows in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.kernels.passes import (
    Blocks,
    Partition,
    fused_pass,
    has_kernel,
    one_blas_thread,
    row_block,
    row_norms,
    run_on_threads,
    scale_rows,
    slope_bounds,
)
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks.selection import Selection
from sklearn_dpwg.exceptions import InputTypeError
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy.sensitivity.sums import SumGrid

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
# Rows whose sums are added before the next ones.
BLOCK_ROWS = 2**11
# What a record adds is not rounded.
FINEST = SumGrid(loss_step=0.0, gradient_step=0.0)
# Entries of rows, of norm at most 1, are rounded to it where they meet a matrix of norm at most 4
# whose entries are multiples of it: products of whole numbers, whose sums are below 2⁵³.
ROW_STEP = 2.0**-24
# A Hessian of fewer entries takes less time than waking a thread.
ENTRIES_PER_TASK = 2**16


class RecordBlock:
    """Some of the records of every group, which answers with sums, never with means.

    All answers are functions of the records here and of what is asked alone; a group may have none
    here. Sums on a grid may be added in any order, as what a record adds to them depends on no
    other record, nor on where it is; the others are added in the order of the blocks.
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
        self._blocks = Blocks.of(records.starts, BLOCK_ROWS)
        self.is_alone = False  # whether no others are beside it, whose memory would add up
        self._kept_bounds: tuple[Any, Any] = (None, None)

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
        grid: SumGrid | None = None,
        gradients: bool = True,
    ) -> Sums:
        """Return each group's sum of losses and that of slopes times rows, in one pass.

        Of shape (n_groups, n_outputs, n_features + 1), the slopes themselves last, or no columns.
        """
        highest = np.inf if ceiling is None else ceiling
        add_up = self._compiled_sums if has_kernel(self.loss) else self._numpy_sums
        return add_up(weights, highest, grid or FINEST, gradients=gradients)

    def sampled_sums(
        self, weights: FloatArray, selection: Selection, *, ceiling: float, grid: SumGrid
    ) -> Sums:
        """Return the sums over a copy of the records that joined, and how many did."""
        joined = self.part(selection)
        losses, slopes = joined.sums(weights, ceiling=ceiling, grid=grid)
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
                    of_rows *= (slope * records.row_scale[block])[:, None]
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
        self,
        weights: FloatArray,
        *,
        clip: float,
        constant: float,
        length: float,
        step: float,
        sum_step: float,
        block_size: int,
    ) -> Sums:
        """Return what `Risks.residual_moments` adds up, over the squared step, in two parts.

        Both are whole numbers that no order rounds; the lower left is not filled.
        """
        n_features, size = self.n_features, self.n_columns + 1
        tail = [np.rint(constant / step)] if self.intercept_scaling > 0 else []

        def block_sums(group: int, start: int, stop: int) -> FloatArray:
            sums = np.zeros((size, size))
            segment = [(group, start, stop)]
            for _, run, scores in self._scored_blocks(weights, segment, square=True, by_row=True):
                residuals = np.clip(self.records.targets[run] - scores, -clip, clip)
                last = np.empty((len(scores), 1 + len(tail)))
                last[:, :-1] = tail
                last[:, -1] = np.rint(residuals * (length / clip / step))
                left = _rounded(self._rows(run), self.records.row_scale[run] / step)
                sums[:n_features, :n_features] += _dense(left.T @ left)
                sums[:n_features, n_features:] += left.T @ last
                sums[n_features:, n_features:] += last.T @ last
            return sums

        shape = (self.n_groups, size, size)
        return self._exact_sums(block_sums, shape, sum_step / step**2, block_size)

    def _exact_sums(
        self,
        block_sums: Callable[[int, int, int], FloatArray],
        shape: tuple[int, ...],
        unit: float,
        block_size: int,
    ) -> Sums:
        """Add up whole numbers of blocks, by group or of all: multiples of a unit and the rest."""
        n_tasks = (
            self.records.rows.shape[0] * shape[-1] // max(ENTRIES_PER_TASK, 4 * int(np.prod(shape)))
        )
        blocks = Blocks.of(self.records.starts, block_size)
        partition = Partition.of(blocks.starts, n_tasks)

        def task(part: slice) -> FloatArray:
            sums = np.zeros((2, *shape))
            for group, first, last in partition.segments(part):
                at = group if len(sums[0]) > 1 else 0
                for start, stop in pairwise(blocks.edges[first : last + 1].tolist()):
                    # whole numbers: multiples of a large one and what is left are added exactly
                    of_block = block_sums(group, start, stop)
                    multiples = on_grid(of_block, unit)
                    sums[0, at] += multiples
                    sums[1, at] += of_block - multiples
            return sums

        with one_blas_thread():
            parts = run_on_threads([partial(task, part) for part in partition.tasks])
        multiples, left = _total(parts, (2, *shape))
        return multiples, left

    def row_sum(self, *, grid: SumGrid) -> Sums:
        """Return the sum of all rows, each rounded to a grid, in one pass."""
        row_scale, sums = self.records.row_scale, np.zeros(self.n_features)
        n_rows = _rows_in_cache(self.n_features)
        for first in range(0, len(row_scale), n_rows):
            block = slice(first, min(first + n_rows, len(row_scale)))
            factors = row_scale[block, None]
            sums += weighted_row_sums(self._rows(block), factors, grid.gradient_step)[0]
        return (sums,)

    def spread(
        self, center: FloatArray, *, step: float, whitening: FloatArray | None = None
    ) -> Sums:
        """Return the sum of squared distances of rows from a centre, each at most 1, on a grid."""
        squares = np.minimum(self._squared_distances(center, whitening), 1.0)
        return (np.array([np.rint(squares / step).sum() * step]),)

    def second_moments(
        self, *, columns_alone: bool, step: float, sum_step: float, block_size: int
    ) -> Sums:
        """Return what `Risks.second_moments` adds up, over the squared step, in two parts."""
        size = self.n_features

        def block_sums(group: int, start: int, stop: int) -> FloatArray:
            run = slice(start, stop)
            left = _rounded(self._rows(run), self.records.row_scale[run] / step)
            return np.asarray((left * left).sum(axis=0) if columns_alone else _dense(left.T @ left))

        shape = (1, size) if columns_alone else (1, size, size)
        return self._exact_sums(block_sums, shape, sum_step / step**2, block_size)

    def with_loss(self, loss: Loss) -> RecordBlock:
        """Return the same rows under another loss."""
        other = copy(self)
        other.loss, other._kept_bounds = loss, (None, None)
        return other

    def centred(
        self,
        center: FloatArray,
        *,
        constant: float,
        clip: float,
        whitening: FloatArray | None = None,
        is_alone: bool = False,
    ) -> RecordBlock:
        """Return the same rows relative to a centre, no gradient of a record above a norm."""
        lengths = np.sqrt(self._squared_distances(center, whitening) + constant**2)
        other = copy(self)
        other.records = replace(self.records, slope_limits=clip / lengths)
        other.intercept_scaling, other.center, other.whitening = constant, center, whitening
        other.is_alone = is_alone
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
        rows, row_scale = self._rows(block), self.records.row_scale[block]
        n_outputs, n_features, constant = len(hessian), self.n_features, self.intercept_scaling
        curvature = curvature.reshape(len(row_scale), n_outputs, n_outputs)
        for first in range(n_outputs):
            for second in range(first + 1):
                between = curvature[:, first, second]
                if np.all(between >= 0.0):
                    # a matrix times its own transpose costs half as much
                    left = right = scale_rows(rows, np.sqrt(between) * row_scale, kind)
                else:
                    left = scale_rows(rows, row_scale, kind)
                    right = scale_rows(rows, between * row_scale, kind)
                pieces = hessian[first, :, second, :]
                pieces[:n_features, :n_features] += _dense(left.T @ right)
                if constant > 0:
                    edge = constant * (rows.T @ (between * row_scale))
                    pieces[:n_features, -1] += edge
                    pieces[-1, :n_features] += edge
                    pieces[-1, -1] += constant**2 * between.sum()
                if first != second:
                    hessian[second, :, first, :] = pieces

    def _squared_distances(
        self, center: FloatArray, whitening: FloatArray | None = None
    ) -> FloatArray:
        """Return the squared distance of each row from a centre, of both times a whitening.

        Rows that meet a matrix are rounded, so that products are exact and each row's its own. What
        is returned is no less than the distance.
        """
        row_scale, of_center = self.records.row_scale, times(center, whitening)
        size = 1.0 if whitening is None else float(np.linalg.norm(whitening))
        rounded = 0.5 * ROW_STEP * size * np.sqrt(self.n_features)
        is_matrix = whitening is not None and whitening.ndim == 2
        squares, n_rows = np.empty(len(row_scale)), _rows_in_cache(self.n_features)
        for first in range(0, len(squares), n_rows):
            block = slice(first, min(first + n_rows, len(squares)))
            rows = self._rows(block)
            if is_matrix:
                moved = times(_rounded(rows, row_scale[block] / ROW_STEP), whitening) * ROW_STEP
                lengths = np.sqrt(((moved - of_center) ** 2).sum(axis=1))
                squares[block] = (lengths + rounded) ** 2
                continue
            is_sparse, along = isinstance(rows, csr_array), times(of_center, whitening)
            products = rows @ along if is_sparse else scores_by_row(rows, along[None])[:, 0]
            squares[block] = (row_norms(times(rows, whitening)) * row_scale[block]) ** 2
            squares[block] -= 2.0 * products * row_scale[block]
        if is_matrix:
            return squares
        longest = 1.0 if whitening is None else float(np.abs(whitening).max(initial=0.0))
        error = (self.n_features + 4) * longest**2 * 2.0**-46
        return np.asarray(np.maximum(squares + (of_center**2).sum(), 0.0) + error)

    def _rows(self, block: slice) -> Any:
        return row_block(self.records.rows, block.start, block.stop)

    def _is_curved(self, scores: FloatArray, block: slice) -> Any:
        """Return which records of a block have a slope below their limit."""
        limits = self.records.slope_limits
        if limits is None:
            return 1.0
        _, slopes = self.loss.value_and_derivative(scores, self.records.targets[block])
        return np.abs(slopes) < limits[block]

    def _compiled_sums(
        self, weights: FloatArray, ceiling: float, grid: SumGrid, *, gradients: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's sum of losses and, if wanted, that of slopes times rows."""
        return fused_pass(
            self.loss,
            self.records.rows,
            self.records.row_scale,
            self.records.targets,
            self._blocks,
            *self._split(weights),
            ceiling=ceiling,
            gradients=gradients,
            loss_step=grid.loss_step,
            gradient_step=grid.gradient_step,
            slope_bounds=self._slope_bounds(),
        )

    def _slope_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """Return what bounds slopes, which a block that is alone keeps from pass to pass."""
        limits = self.records.slope_limits
        if limits is None:
            return None
        kept_limits, bounds = self._kept_bounds
        if kept_limits is not limits or bounds is None:
            bounds = slope_bounds(self.loss, limits)
            if self.is_alone:
                self._kept_bounds = limits, bounds
        return bounds

    def _numpy_sums(
        self, weights: FloatArray, ceiling: float, grid: SumGrid, *, gradients: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Do as the compiled pass for a loss without a kernel."""
        if self.records.slope_limits is not None:
            raise InputTypeError(f"slopes of {self.loss!r} have no kernel that limits them: a bug.")
        records, n_columns = self.records, self.n_features + 1 if gradients else 0
        totals = np.zeros(self.n_groups)
        slope_sums = np.zeros((self.n_groups, self.loss.n_outputs, n_columns))
        lost, lost_slopes = np.zeros_like(totals), np.zeros_like(slope_sums)
        for group, run, scores in self._scored_blocks(weights, self._segments()):
            values, slopes = self.loss.value_and_derivative(scores, records.targets[run])
            total = float(on_grid(np.minimum(values, ceiling), grid.loss_step).sum())
            totals[group], error = exact_sum(totals[group], total)
            lost[group] += error
            if not gradients:
                continue
            slopes = slopes.reshape(len(values), -1)
            of_block = np.empty(slope_sums.shape[1:])
            of_block[:, -1] = on_grid(slopes, grid.gradient_step).sum(axis=0)
            slopes = slopes * records.row_scale[run, None]
            of_block[:, :-1] = weighted_row_sums(self._rows(run), slopes, grid.gradient_step)
            slope_sums[group], error = exact_sum(slope_sums[group], of_block)
            lost_slopes[group] += error
        return totals + lost, slope_sums + lost_slopes

    def _segments(self) -> Iterator[tuple[int, int, int]]:
        """Yield the group and the rows of every block."""
        for group, first, last in Partition.of(self._blocks.starts, 1).segments(slice(None)):
            for start, stop in pairwise(self._blocks.edges[first : last + 1].tolist()):
                yield group, start, stop

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
        by_row: bool = False,
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
                rows = self._rows(block)
                if isinstance(rows, csr_array) or (square and not by_row):
                    scores = rows @ feature_weights.T
                else:
                    scores = scores_by_row(rows, feature_weights)
                scores = scores * records.row_scale[block, None] + intercepts
                yield group, block, scores[:, 0] if self.loss.n_outputs == 1 else scores


def _total(parts: Sequence[FloatArray], shape: tuple[int, ...]) -> FloatArray:
    """Return the sum of what tasks found; a block without records has none."""
    return reduce(np.add, parts) if parts else np.zeros(shape)


def _rows_in_cache(n_features: int) -> int:
    return max(64, BLOCK_BYTES // (8 * max(n_features, 1)))


def scores_by_row(rows: Any, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T``, each row's numbers added up by themselves.

    A product of matrices rounds a row by how many others there are, which is secret in a batch.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    return np.stack([(rows * of_output).sum(axis=1) for of_output in weights], axis=1)


def weighted_row_sums(rows: Any, factors: FloatArray, step: float) -> FloatArray:
    """Return ``factors.T @ rows``, each product rounded to a multiple of the step unless it is 0.

    Added up in floating point, multiples are exact in any order.
    """
    if step == 0.0:
        return np.asarray((rows.T @ factors).T)
    sums = np.empty((factors.shape[1], rows.shape[1]))
    for output, of_output in enumerate(factors.T):
        sums[output] = _rounded(rows, of_output / step).sum(axis=0)
    return sums * step


def on_grid(value: Any, step: float) -> Any:
    """Return the nearest multiples of a power of two, or the values themselves for a step of 0."""
    return np.rint(value / step) * step if step > 0.0 else value


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


def _rounded(rows: Any, factors: FloatArray) -> Any:
    """Return rows, each times a factor, in whole numbers."""
    products = scale_rows(rows, factors)
    entries = products.data if isinstance(products, csr_array) else products
    np.rint(entries, out=entries)
    return products


def _dense(product: Any) -> FloatArray:
    return product if isinstance(product, np.ndarray) else product.toarray()
