"""Group risks and their derivatives: all that solvers see of the records."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, methodcaller
from typing import Any, Protocol, Self

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.oracles import RecordOracle
from sklearn_dpwg.data.problem import Cells
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks.record_block import RecordBlock, Selection, Sums, times
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss

# Sums over more blocks might not be exact: docs/theory/sums.md.
MAX_BLOCKS = 2**20


class LocalEngine:
    """Calls functions on blocks of records, and adds up the results: here in this process.

    A handle stands for a block. Here it is the block; subclasses hold blocks on other machines. A
    function's result depends on the block and its arguments alone, so an engine may call it again
    when a machine is lost; functions can be pickled. An error of a block is raised by `collect` or
    `reduce` at the latest.
    """

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> Iterable[Any]:
        """Return the function's result on every block, in the order of the handles."""
        return map(function, handles)

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        """Return the sums over blocks of a function's arrays, in any order: they must be exact."""
        return _sum_of(self.collect(handles, function))

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Return handles of new blocks, the function's results, which outlive the old blocks."""
        own_arguments = [()] * len(handles) if arguments is None else arguments
        return [function(handle, *own) for handle, own in zip(handles, own_arguments, strict=True)]

    def release(self, handles: Sequence[Any]) -> None:
        """Free blocks that are not used again; here Python does."""


def _sum_of(block_sums: Iterable[Sums]) -> Sums:
    """Return the entry-wise sum of tuples of arrays, one tuple a block, in block order."""
    return reduce(lambda *pair: tuple(a + b for a, b in zip(*pair, strict=True)), block_sums)


class RiskFunctions(Protocol):
    """Group risks as functions of the weights: all that an optimiser needs.

    Weights are one flat array, output after output, the intercept last in each: (n_weights,).
    """

    @property
    def n_groups(self) -> int:
        """Number of groups."""

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""

    def risks(self, weights: FloatArray, *, loss_clip: float = math.inf) -> FloatArray:
        """Return each group's mean of min(loss, loss_clip): (n_groups,)."""

    def risks_and_gradients(
        self, weights: FloatArray, *, loss_clip: float = math.inf
    ) -> tuple[FloatArray, FloatArray]:
        """Return `risks`, and the gradients of risks without a clip: (n_groups, n_weights)."""

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of ``group_weights @ risks``: (n_weights, n_weights)."""


@dataclass(eq=False)
class Risks:
    """Group risks of records under a loss: all that a solver sees of the data.

    An engine holds the records in blocks. Blocks return sums, which are added up and divided here.
    Exact sums are added by the engine in any order. Other sums come back block by block and are
    added in block order, so that they do not depend on the engine either.
    """

    engine: LocalEngine  # holds the blocks
    handles: Sequence[Any]  # of 1 to 2²⁰ blocks, in the order of the records
    # loss of a record, and value of the constant column (0 for none), the same as in the blocks
    loss: Loss
    intercept_scaling: float
    group_sizes: tuple[int, ...]
    n_features: int
    hides_groups: bool = False  # whether the blocks hold places, as groups are hidden
    # rows are ``P (x - center)``, P the whitening, the same as in the blocks; None for no change
    center: FloatArray | None = None
    whitening: FloatArray | None = None
    normalisers: FloatArray | None = None  # of hidden groups, in place of their sizes
    loss_center: float = 0.0  # subtracted from losses before normalisers divide them
    cells: Cells | None = None  # where groups overlap: each is a union of groups of the blocks
    n_passes: int = 0  # how many times the rows were read in full; counted, not set

    def __post_init__(self) -> None:
        if not 1 <= len(self.handles) <= MAX_BLOCKS:
            raise InputError(
                f"handles must be those of 1 to {MAX_BLOCKS:,} blocks, got {len(self.handles):,}."
            )

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.group_sizes)

    @property
    def cell_sizes(self) -> tuple[int, ...]:
        """Sizes of the groups of the blocks: the cells, or the groups where none overlap."""
        return self.group_sizes if self.cells is None else self.cells.sizes

    @property
    def n_columns(self) -> int:
        """Number of columns of a row, the constant one included."""
        return self.n_features + (self.intercept_scaling > 0)

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""
        return self.loss.n_outputs * self.n_columns

    def risks(self, weights: FloatArray, *, loss_clip: float = math.inf) -> FloatArray:
        """Return each group's mean of min(loss, loss_clip), in one pass: (n_groups,)."""
        losses, _ = self._whole_sums(weights, loss_clip=loss_clip, gradients=False, is_fine=True)
        return self._means_of_losses(losses)

    def risks_and_gradients(
        self, weights: FloatArray, *, loss_clip: float = math.inf
    ) -> tuple[FloatArray, FloatArray]:
        """Return risks (n_groups,) and gradients (n_groups, n_weights), in one pass."""
        losses, slopes = self._whole_sums(weights, loss_clip=loss_clip, is_fine=True)
        return self._means_of_losses(losses), self._gradients(slopes) / self._divisors[:, None]

    def sums(
        self, weights: FloatArray, *, loss_clip: float, gradients: bool = True, center: float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's sums of (min(loss, loss_clip) - center) and of gradients, to release.

        Sums are exact: a record moves them by its own term alone (``docs/theory/sums.md``). Where
        groups overlap and cells are released (`Cells.are_quieter`), losses are by cell. Gradients
        are (n_groups, n_weights), the constant column included; without `gradients` there are no
        columns.
        """
        losses, slopes = self._whole_sums(weights, loss_clip=loss_clip, gradients=gradients)
        if self.cells is not None and not self.cells.are_quieter:
            losses = self._of_groups(losses)
        if center:
            losses = losses - center * np.asarray(self.group_sizes, dtype=float)
        return losses, self._gradients(slopes) if gradients else np.zeros((self.n_groups, 0))

    def _whole_sums(self, weights: FloatArray, **options: Any) -> Sums:
        """Return sums of losses, and of slopes times rows, by group of the blocks, in one pass."""
        losses, slopes = self._reduced("sums", *self.split_weights(weights), **options)
        return losses.sum(axis=0), slopes.sum(axis=0)

    def sampled_sums(
        self, weights: FloatArray, selection: Selection, *, loss_clip: float, center: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return `sums` over the selected records, for a release; lost blocks are read again."""
        split = self.split_weights(weights)
        call = methodcaller("sampled_sums", *split, selection, loss_clip=loss_clip)
        losses, slopes, counts = self.engine.reduce(self.handles, call)
        losses = losses.sum(axis=0) - center * counts
        return self._of_groups(losses), self._gradients(slopes.sum(axis=0))

    def hessian(
        self, weights: FloatArray, group_weights: FloatArray, *, rough: bool = False
    ) -> FloatArray:
        """Return the Hessian of ``group_weights @ risks``, if `rough` in single precision."""
        record_weights = self._record_weights(group_weights)
        split = self.split_weights(weights)
        (hessian,) = self._in_order("curvature", *split, record_weights, rough)
        if self.center is not None:
            # blocks return the Hessian for rows (x, constant); here rows are (P (x - c), constant)
            change = np.eye(self.n_columns)
            change[-1, :-1] = -self.center / self.intercept_scaling
            change[:, :-1] = times(change[:, :-1], self.whitening)
            hessian = np.asarray(np.einsum("ij,aibk,kl->ajbl", change, hessian, change))
        return hessian.reshape(self.n_weights, self.n_weights)

    def optimism(
        self, weights: FloatArray, group_weights: FloatArray, root: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return each group's risk, the sampling variance of the risk, and its optimism.

        The optimism is how much higher the risk of new records is than that of the records that
        `weights` were fitted to, under `group_weights` λ: about ``λ_i tr(H⁻¹ V_i)/n_i``, V_i the
        covariance of the gradients of group i (Takeuchi 1976), H the Hessian and `root` an A with
        ``A A' = H⁻¹``. Where groups overlap, the cells of a group add up.
        """
        split = self.split_weights(weights)
        losses, squares, gradient_squares, products = self._in_order(
            "gradient_spread", *split, root
        )
        record_weights = self._record_weights(group_weights)
        gradient_spread = self._spread((products**2).sum(axis=1), gradient_squares)
        return (
            self._of_groups(losses) / self._divisors,
            self._of_groups(self._spread(losses**2, squares)) / self._divisors**2,
            self._of_groups(record_weights * gradient_spread) / self._divisors,
        )

    def variances_of_change(self, weights: FloatArray, others: FloatArray) -> FloatArray:
        """Return the sampling variance of each group's risk at `others` minus that at `weights`."""
        sums, squares = self._in_order(
            "changes", self.split_weights(weights), self.split_weights(others)
        )
        return self._of_groups(self._spread(sums**2, squares)) / self._divisors**2

    def _spread(self, squared_sums: FloatArray, squares: FloatArray) -> FloatArray:
        """Return n · variance for each group of the blocks, from its (Σ v)² and Σ v².

        One degree of freedom is added at the pooled variance, as a single record has no variance.
        """
        sizes = np.asarray(self.cell_sizes, dtype=float)
        spread = np.maximum(squares - squared_sums / sizes, 0.0)
        return np.asarray(spread + spread.sum() / max(sizes.sum() - len(sizes), 1.0))

    def weight_of_a_record(self, group_weights: FloatArray) -> float:
        """Return the weighted mean of record weights: Σ λ_i²/n_i, if no groups overlap."""
        return float(self._record_weights(group_weights) ** 2 @ self.cell_sizes)

    def residual_moments(
        self, weights: FloatArray, *, clip: float, constant: float, length: float
    ) -> FloatArray:
        """Return each group's sum of ``v v'``, v = (x, constant, residual) of a record's m entries.

        The residual, target minus score, is clipped to ``[-clip, clip]`` and scaled to be at most
        `length` long. Without an intercept v has no constant. The shape is (n_groups, m, m).
        """
        split = self.split_weights(weights)
        (parts,) = self._reduced("moment_sums", *split, clip=clip, constant=constant, length=length)
        sums = self._of_groups(parts.sum(axis=0))  # exact sums come in parts
        d = self.n_features
        sums[:, d:, :d] = np.swapaxes(sums[:, :d, d:], 1, 2)  # blocks leave the lower left at 0
        return sums

    def row_sum(self) -> FloatArray:
        """Return the sum of all rows, for a release: (n_features,)."""
        return np.asarray(self._reduced("row_sum")[0].sum(axis=0)[0])

    def second_moments(self, *, columns_alone: bool) -> FloatArray:
        """Return Σ ``x x'`` over all rows, or only its diagonal, for a release; rounded once."""
        (parts,) = self._reduced("second_moments", columns_alone=columns_alone)
        return np.asarray(parts.sum(axis=0)[0])

    def spread(self, center: FloatArray, *, whitening: FloatArray | None = None) -> float:
        """Return Σ min(‖P (x - center)‖², 1) over all rows, an exact sum, for a release."""
        return float(self._reduced("spread", center, whitening)[0].sum())

    def centred(
        self,
        center: FloatArray,
        *,
        constant: float,
        clip: float,
        whitening: FloatArray | None = None,
    ) -> Self:
        """Return the risks of rows ``(P (x - center), constant)``; the records are not copied.

        P, the whitening, is a symmetric matrix in multiples of `WHITENING_STEP`, a factor for each
        column, or None for 1; it and the centre are released. Gradients of a record are at most
        `clip` long: beyond, its loss goes on as a line (several outputs: the gradient is scaled).
        """
        self.n_passes += 1
        derived = self._derived("centred", center, whitening, constant, clip)
        derived.intercept_scaling, derived.center = constant, center
        derived.whitening = whitening
        derived.normalisers, derived.loss_center, derived.n_passes = None, 0.0, 0
        return derived

    def as_oracle(self, rng: np.random.Generator) -> RecordOracle:
        """Return an oracle that draws the records without replacement, if they are in memory."""
        block = self.handles[0]
        if len(self.handles) > 1 or not isinstance(block, RecordBlock):
            raise InputError(
                f"records must be in memory, in one block, to be drawn one by one, got "
                f"{len(self.handles):,} block(s) of {type(self.engine).__name__}: choose a solver "
                "that makes passes."
            )
        return RecordOracle(block.records, rng)

    def with_loss(self, loss: Loss) -> Self:
        """Return the risks of the same records under another loss, with as many outputs."""
        derived = self._derived("with_loss", loss)
        derived.loss = loss
        return derived

    def part(self, selection: Selection) -> Self:
        """Return the risks of copies of the selected records; passes and ranks count from 0."""
        engine = self.engine
        derived = self._derived("part", selection)
        sizes = np.array([*engine.collect(derived.handles, attrgetter("group_sizes"))])
        if len(sizes) > 1:
            first_ranks = np.cumsum(sizes, axis=0) - sizes  # records in the blocks before
            arguments = [(tuple(ranks),) for ranks in first_ranks.tolist()]
            handles = engine.derive(derived.handles, RecordBlock.with_first_ranks, arguments)
            derived.handles = _DerivedHandles.of(handles, engine)
        derived.group_sizes = tuple(sizes.sum(axis=0).tolist())
        derived.normalisers, derived.loss_center, derived.n_passes = None, 0.0, 0
        return derived

    def over(self, normalisers: Sequence[float], *, loss_center: float) -> Self:
        """Return the risks of hidden groups: each sum is divided by a public number, not a size.

        A risk is ``loss_center + Σ (loss - loss_center) / normaliser``. Gradients and Hessians are
        divided alike; `sums` do not change.
        """
        other = copy(self)
        other.normalisers = np.asarray(normalisers, dtype=float)
        other.loss_center = loss_center
        return other

    def overlapping(self, cells: Cells) -> Self:
        """Return the risks of overlapping groups, each a union of cells: the blocks' groups."""
        other = copy(self)
        other.cells, other.group_sizes = cells, cells.group_sizes
        return other

    def _record_weights(self, group_weights: FloatArray) -> FloatArray:
        """Return the weight λ_i/n_i of one record, for each group of the blocks."""
        per_group = group_weights / self._divisors
        return per_group if self.cells is None else np.asarray(per_group @ self.cells.membership)

    def _of_groups(self, sums: FloatArray) -> FloatArray:
        """Add sums by cell (axis 0) up to sums by group; unchanged where groups do not overlap."""
        if self.cells is None:
            return sums
        flat = sums.reshape(len(sums), -1)
        return np.asarray(self.cells.membership @ flat).reshape(-1, *sums.shape[1:])

    def split_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (matrix, intercepts) with scores ``rows @ matrix.T + intercepts`` in blocks."""
        matrix = weights.reshape(self.loss.n_outputs, -1)
        if self.intercept_scaling == 0:
            return matrix, np.zeros(len(matrix))
        intercepts = self.intercept_scaling * matrix[:, -1]
        if self.center is None:
            return matrix[:, :-1], intercepts
        row_weights = times(matrix[:, :-1], self.whitening)
        return row_weights, intercepts - (row_weights * self.center).sum(axis=1)

    def _derived(self, method: str, *arguments: Any) -> Self:
        """Return a copy with new blocks: the results of a method of `RecordBlock` on these."""
        handles = self.engine.derive(self.handles, methodcaller(method, *arguments))
        other = copy(self)
        other.handles = _DerivedHandles.of(handles, self.engine)
        return other

    def _reduced(self, method: str, *arguments: Any, **options: Any) -> Sums:
        """Return the exact sums of a method of `RecordBlock`, added in any order, in one pass."""
        self.n_passes += 1
        return self.engine.reduce(self.handles, methodcaller(method, *arguments, **options))

    def _in_order(self, method: str, *arguments: Any) -> Sums:
        """Return the sums of a method of `RecordBlock`, added in block order, in one pass."""
        self.n_passes += 1
        return _sum_of(self.engine.collect(self.handles, methodcaller(method, *arguments)))

    def _gradients(self, slope_sums: FloatArray) -> FloatArray:
        """Return gradients (n_groups, n_weights) from blocks' Σ slope · x and, last, Σ slope."""
        if self.cells is not None:
            slope_sums = self._of_groups(slope_sums)
        # blocks have rows (x, 1); the last column becomes that of the constant
        if self.center is not None:
            slope_sums[:, :, :-1] -= slope_sums[:, :, -1:] * self.center
            if self.whitening is not None:
                slope_sums[:, :, :-1] = times(slope_sums[:, :, :-1], self.whitening)
        if self.intercept_scaling > 0:
            slope_sums[:, :, -1] *= self.intercept_scaling
        else:
            slope_sums = slope_sums[:, :, :-1]
        return slope_sums.reshape(len(slope_sums), -1)

    @property
    def _divisors(self) -> FloatArray:
        """What sums over groups are divided by: the normalisers, else the sizes: (n_groups,)."""
        if self.normalisers is not None:
            return self.normalisers
        return np.asarray(self.group_sizes, dtype=float)

    def _means_of_losses(self, totals: FloatArray) -> FloatArray:
        """Return the risks from the sum of losses of each group, or of each cell."""
        totals = self._of_groups(totals)
        if self.normalisers is None:
            return totals / self._divisors
        above_center = totals - self.loss_center * np.asarray(self.group_sizes, dtype=float)
        return np.asarray(self.loss_center + above_center / self.normalisers)


class GroupRisks(Risks):
    """Risks of records in memory, held as one block."""

    def __init__(self, records: GroupedRecords, loss: Loss, intercept_scaling: float = 1.0) -> None:
        super().__init__(
            LocalEngine(),
            [RecordBlock(records, loss, intercept_scaling)],
            loss=loss,
            intercept_scaling=intercept_scaling,
            group_sizes=records.group_sizes,
            n_features=int(records.rows.shape[1]),
            hides_groups=records.places is not None,
        )

    @property
    def records(self) -> GroupedRecords:
        """The records."""
        block: RecordBlock = self.handles[0]
        return block.records


class _DerivedHandles(list[Any]):
    """List of handles whose blocks are released when the last risks that hold it are gone."""

    @classmethod
    def of(cls, handles: Sequence[Any], engine: LocalEngine) -> Self:
        """Return the list; the engine releases the handles when it is garbage-collected."""
        derived = cls(handles)
        weakref.finalize(derived, engine.release, list(handles)).atexit = False
        return derived
