"""Group risks of records in memory: the only reader of rows in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.kernels import (
    Blocks,
    Partition,
    fused_pass,
    has_kernel,
    one_blas_thread,
    row_block,
    run_on_threads,
    scale_rows,
)
from sklearn_dpwg.losses import AbsoluteError, Loss
from sklearn_dpwg.oracles.records import RecordOracle
from sklearn_dpwg.privacy.sensitivity import SumGrid
from sklearn_dpwg.records import GroupedRecords
from sklearn_dpwg.risks._by_row import dense, exact_sum, on_grid, scores_by_row, squared_distances
from sklearn_dpwg.risks._curvature import add_curvature, centred_hessian

# A block of rows stays in the second-level cache between its two products; blocks of 128 KiB
# to 1 MiB are within a tenth of each other on the machines tried.
BLOCK_BYTES = 2**18
# Rows in compressed form go into one product with each other at a time.
SPARSE_BLOCK_ROWS = 2**14
# Rows whose sums are added before the next ones, where no plan says how many.
BLOCK_ROWS = 2**11
# Sums that are not rounded.
FINEST = SumGrid(loss_step=0.0, gradient_step=0.0, block_size=BLOCK_ROWS)
# A Hessian of fewer entries takes less time than waking a thread.
ENTRIES_PER_TASK = 2**16


@dataclass(eq=False)
class GroupRisks:
    """`Risks` of records in memory.

    Parameters
    ----------
    records : GroupedRecords
        Rows sorted by group.
    loss : Loss
        Loss of one record.
    intercept_scaling : float
        Value of the constant column behind the features; 0 for none.
    n_passes : int, default=0
        How many times the rows have been read in full; counted, not set.
    center : ndarray of shape (n_features,), optional
        What rows are taken relative to.
    normalisers : ndarray of shape (n_groups,), optional
        What sums over groups are divided by where their sizes are hidden; by default the sizes.
    loss_center : float, default=0.0
        What losses are taken relative to before they are divided by normalisers.
    """

    records: GroupedRecords
    loss: Loss
    intercept_scaling: float = 1.0
    n_passes: int = 0
    center: FloatArray | None = None
    normalisers: FloatArray | None = None
    loss_center: float = 0.0

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of records in each group."""
        return self.records.group_sizes

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.records.starts) - 1

    @property
    def hides_groups(self) -> bool:
        """Whether sums are such that no record's group decides how others are rounded."""
        return self.records.places is not None

    @property
    def n_columns(self) -> int:
        """Columns of a row with the intercept's."""
        return self.records.rows.shape[1] + (self.intercept_scaling > 0)

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""
        return self.loss.n_outputs * self.n_columns

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the mean loss of each group, in one pass."""
        self.n_passes += 1
        totals, _ = self._sums(weights, ceiling, self._blocks(), gradients=False)
        return self._means_of_losses(totals)

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return risks and gradients in one pass; rows are sorted, so groups cost nothing extra."""
        self.n_passes += 1
        totals, gradients = self._sums(weights, ceiling, self._blocks())
        return self._means_of_losses(totals), gradients / self._divisors[:, None]

    def sums(
        self,
        weights: FloatArray,
        *,
        ceiling: float,
        grid: SumGrid,
        gradients: bool = True,
        center: float = 0.0,
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums of losses and gradients, rounded to a grid block by block, in one pass."""
        self.n_passes += 1
        blocks = self._public_blocks(grid.block_size)
        losses, slopes = self._sums(weights, ceiling, blocks, grid, gradients=gradients)
        if center:
            # exact: multiples of the step, and the centre is one
            losses -= center * np.asarray(self.group_sizes, dtype=float)
        return losses, slopes

    def sampled_sums(
        self,
        weights: FloatArray,
        batch: Sequence[NDArray[np.intp]],
        *,
        ceiling: float,
        center: float,
        grid: SumGrid,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sums over a copy of the records that joined, in blocks of ranks or places."""
        joined = self.part(batch)
        ranks = batch if joined.records.places is None else joined.records.places_by_group
        blocks = Blocks.of_ranks(ranks, grid.block_size)
        losses, gradients = joined._sums(weights, ceiling, blocks, grid)
        # exact: multiples of the step, and the centre is one
        losses -= center * np.asarray(joined.group_sizes, dtype=float)
        return losses, gradients

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of the weighted sum of the risks, in one pass."""
        self.n_passes += 1
        n_records, n_columns = self.records.rows.shape[0], self.n_columns
        # each task adds up a Hessian of its own: together a quarter of dense rows at most
        n_tasks = n_records * n_columns // max(ENTRIES_PER_TASK, 4 * self.n_weights**2)
        partition = Partition.of(self.records.starts, n_tasks)
        record_weights = group_weights / self._divisors

        def task(part: slice) -> FloatArray:
            n_outputs = self.loss.n_outputs
            hessian = np.zeros((n_outputs, n_columns, n_outputs, n_columns))
            wanted = [piece for piece in partition.segments(part) if group_weights[piece[0]] != 0]
            for group, block, scores in self._scored_blocks(weights, wanted, square=True):
                curvature = self.loss.curvature(scores, self.records.targets[block])
                curvature = curvature * self._is_curved(scores, block)
                curvature = record_weights[group] * curvature
                add_curvature(hessian, self.records, block, curvature, self.intercept_scaling)
            return hessian

        with one_blas_thread():
            hessian, *others = run_on_threads([partial(task, part) for part in partition.tasks])
        for other in others:
            hessian += other
        hessian = centred_hessian(hessian, self.center, self.intercept_scaling)
        return hessian.reshape(self.n_weights, self.n_weights)

    def residual_moments(
        self,
        weights: FloatArray,
        *,
        clip: float,
        constant: float,
        length: float,
        step: float,
        sum_step: float,
        block_size: int,
    ) -> FloatArray:
        """Return each group's sum of ``v v'``, exact within blocks and rounded across them."""
        self.n_passes += 1
        n_records, size = self.records.rows.shape[0], self.n_columns + 1
        n_tasks = n_records * size // max(ENTRIES_PER_TASK, 4 * self.n_groups * size**2)
        blocks = self._public_blocks(block_size)
        partition = Partition.of(blocks.starts, n_tasks)
        # others behind a record that changes its group are elsewhere in a block
        by_row = self.hides_groups
        n_features = self.records.rows.shape[1]
        tail = [np.rint(constant / step)] if self.intercept_scaling > 0 else []

        def block_sums(group: int, start: int, stop: int) -> FloatArray:
            sums = np.zeros((size, size))
            for _, run, scores in self._scored_blocks(
                weights, [(group, start, stop)], square=True, by_row=by_row
            ):
                rows = row_block(self.records.rows, run.start, run.stop)
                residuals = np.clip(self.records.targets[run] - scores, -clip, clip)
                last = np.empty((len(scores), 1 + len(tail)))
                last[:, :-1] = tail
                last[:, -1] = np.rint(residuals * (length / clip / step))
                left = scale_rows(rows, self.records.row_scale[run] / step)
                entries = left.data if isinstance(left, csr_array) else left
                np.rint(entries, out=entries)
                sums[:n_features, :n_features] += dense(left.T @ left)
                sums[:n_features, n_features:] += left.T @ last
                sums[n_features:, n_features:] += last.T @ last
            return np.asarray(on_grid(sums, sum_step / step**2))

        def task(part: slice) -> FloatArray:
            sums = np.zeros((self.n_groups, size, size))
            for group, first, last in partition.segments(part):
                for start, stop in pairwise(blocks.edges[first : last + 1].tolist()):
                    sums[group] += block_sums(group, start, stop)
            return sums

        with one_blas_thread():
            sums, *others = run_on_threads([partial(task, part) for part in partition.tasks])
        for other in others:
            sums += other
        sums[:, n_features:, :n_features] = np.swapaxes(sums[:, :n_features, n_features:], 1, 2)
        return sums * step**2

    def row_sum(self, *, grid: SumGrid) -> FloatArray:
        """Return the sum of all rows, rounded to a grid block by block, in one pass."""
        self.n_passes += 1
        records, n_features = self.records, self.records.rows.shape[1]
        # the slope of |0 - (-1)| is 1: the gradients are the rows
        _, sums = fused_pass(
            AbsoluteError(),
            records.rows,
            records.row_scale,
            np.full(len(records.targets), -1.0),
            self._public_blocks(grid.block_size),
            np.zeros((1, n_features)),
            np.zeros(1),
            gradient_step=grid.gradient_step,
        )
        return np.asarray(sums[:, 0, :n_features].sum(axis=0))

    def spread(self, center: FloatArray, *, step: float) -> float:
        """Return the sum of squared distances of rows from a centre, each at most 1, on a grid."""
        self.n_passes += 1
        squares = np.minimum(squared_distances(self.records, center), 1.0)
        return float(np.rint(squares / step).sum() * step)

    def centred(self, center: FloatArray, *, constant: float, clip: float) -> GroupRisks:
        """Return the risks of rows relative to a centre, no gradient of a record above a norm."""
        self.n_passes += 1
        lengths = np.sqrt(squared_distances(self.records, center) + constant**2)
        records = replace(self.records, slope_limits=clip / lengths)
        return GroupRisks(records, self.loss, constant, center=center)

    def as_oracle(self, rng: np.random.Generator) -> RecordOracle:
        """Return an oracle that draws these records without replacement."""
        return RecordOracle(self.records, rng)

    def with_loss(self, loss: Loss) -> GroupRisks:
        """Return the risks of the same rows under another loss."""
        return replace(self, loss=loss)

    def part(self, positions: Sequence[NDArray[np.intp]]) -> GroupRisks:
        """Return the risks of a copy of some of the records of each group."""
        records = self.records.take(positions)
        return GroupRisks(records, self.loss, self.intercept_scaling, center=self.center)

    def at_places(self, places: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
        """Return the positions in their groups of the records at some places among all."""
        return self.records.at_places(places)

    def over(self, normalisers: Sequence[float], *, loss_center: float) -> GroupRisks:
        """Return risks that are sums over public numbers, which hidden sizes are in place of."""
        divisors = np.asarray(normalisers, dtype=float)
        return replace(self, normalisers=divisors, loss_center=loss_center)

    def _is_curved(self, scores: FloatArray, block: slice) -> Any:
        """Return which records of a block have a slope below their limit."""
        limits = self.records.slope_limits
        if limits is None:
            return 1.0
        _, slopes = self.loss.value_and_derivative(scores, self.records.targets[block])
        return np.abs(slopes) < limits[block]

    @property
    def _divisors(self) -> FloatArray:
        """What sums over groups are divided by."""
        if self.normalisers is not None:
            return self.normalisers
        return np.asarray(self.group_sizes, dtype=float)

    def _means_of_losses(self, totals: FloatArray) -> FloatArray:
        """Return the risks of groups whose losses add up to these."""
        if self.normalisers is None:
            return totals / self._divisors
        off = totals - self.loss_center * np.asarray(self.group_sizes, dtype=float)
        return np.asarray(self.loss_center + off / self.normalisers)

    def _blocks(self) -> Blocks:
        """Return the blocks of sums that no privacy rests on."""
        return Blocks.of(self.records.starts, BLOCK_ROWS)

    def _public_blocks(self, block_size: int) -> Blocks:
        """Return blocks that no record decides: of ranks in a group, or of places among all."""
        if self.records.places is None:
            return Blocks.of(self.records.starts, block_size)
        return Blocks.of_ranks(self.records.places_by_group, block_size)

    def _sums(
        self,
        weights: FloatArray,
        ceiling: float | None,
        blocks: Blocks,
        grid: SumGrid = FINEST,
        *,
        gradients: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's sum of losses and, if wanted, that of their gradients."""
        highest = np.inf if ceiling is None else ceiling
        add_up = self._compiled_sums if has_kernel(self.loss) else self._numpy_sums
        totals, slope_sums = add_up(weights, highest, blocks, grid, gradients=gradients)
        if not gradients:
            return totals, np.zeros((self.n_groups, 0))
        # for the constant column, which is the last, the sums are those of a column of ones
        if self.center is not None:
            slope_sums[:, :, :-1] -= slope_sums[:, :, -1:] * self.center
        if self.intercept_scaling > 0:
            slope_sums[:, :, -1] *= self.intercept_scaling
        else:
            slope_sums = slope_sums[:, :, :-1]
        return totals, slope_sums.reshape(self.n_groups, self.n_weights)

    def _compiled_sums(
        self,
        weights: FloatArray,
        ceiling: float,
        blocks: Blocks,
        grid: SumGrid,
        *,
        gradients: bool,
    ) -> tuple[FloatArray, FloatArray]:
        return fused_pass(
            self.loss,
            self.records.rows,
            self.records.row_scale,
            self.records.targets,
            blocks,
            *self._split(weights),
            ceiling=ceiling,
            gradients=gradients,
            loss_step=grid.loss_step,
            gradient_step=grid.gradient_step,
            slope_limits=self.records.slope_limits,
        )

    def _numpy_sums(
        self,
        weights: FloatArray,
        ceiling: float,
        blocks: Blocks,
        grid: SumGrid,
        *,
        gradients: bool,
    ) -> tuple[FloatArray, FloatArray]:
        """Do as the compiled pass for a loss without a kernel."""
        if self.records.slope_limits is not None:
            raise TypeError(f"slopes of {self.loss!r} have no kernel that limits them: a bug.")
        records, n_features = self.records, self.records.rows.shape[1]
        n_columns = n_features + 1 if gradients else 0
        totals = np.zeros(self.n_groups)
        slope_sums = np.zeros((self.n_groups, self.loss.n_outputs, n_columns))
        lost, lost_slopes = np.zeros_like(totals), np.zeros_like(slope_sums)
        partition = Partition.of(blocks.starts, 1)
        for group, first, last in partition.segments(slice(None)):
            for start, stop in pairwise(blocks.edges[first : last + 1].tolist()):
                total, of_block = 0.0, np.zeros(slope_sums.shape[1:])
                for _, run, scores in self._scored_blocks(weights, [(group, start, stop)]):
                    values, slopes = self.loss.value_and_derivative(scores, records.targets[run])
                    total += float(np.minimum(values, ceiling).sum())
                    if gradients:
                        slopes = slopes.reshape(len(values), -1)
                        of_block[:, -1] += slopes.sum(axis=0)
                        slopes = slopes * records.row_scale[run, None]
                        rows = row_block(records.rows, run.start, run.stop)
                        of_block[:, :-1] += (rows.T @ slopes).T
                totals[group], error = exact_sum(totals[group], on_grid(total, grid.loss_step))
                lost[group] += error
                rounded = on_grid(of_block, grid.gradient_step)
                slope_sums[group], error = exact_sum(slope_sums[group], rounded)
                lost_slopes[group] += error
        return totals + lost, slope_sums + lost_slopes

    def _split(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the features, and what the constant column adds to the scores."""
        matrix = weights.reshape(self.loss.n_outputs, self.n_columns)
        if self.center is not None:
            return matrix[:, :-1], (
                self.intercept_scaling * matrix[:, -1] - matrix[:, :-1] @ self.center
            )
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
        """Yield (group, rows, scores) for blocks of the rows of all groups, or of some segments.

        Blocks fit the cache; those for products of rows with rows are as long as rows are wide.
        """
        records, n_features = self.records, self.records.rows.shape[1]
        feature_weights, intercepts = self._split(weights)
        block_rows = max(64, BLOCK_BYTES // (8 * max(n_features, 1)))
        if isinstance(records.rows, csr_array):
            block_rows = SPARSE_BLOCK_ROWS
        elif square:
            block_rows = max(block_rows, min(n_features, 512))
        if segments is None:
            segments = Partition.of(records.starts, 1).segments(slice(None))
        for group, start, stop in segments:
            for first in range(start, stop, block_rows):
                block = slice(first, min(first + block_rows, stop))
                rows = row_block(records.rows, block.start, block.stop)
                if isinstance(rows, csr_array) or (square and not by_row):
                    scores = rows @ feature_weights.T
                else:
                    scores = scores_by_row(rows, feature_weights)
                scores = scores * records.row_scale[block, None] + intercepts
                yield group, block, scores[:, 0] if self.loss.n_outputs == 1 else scores
