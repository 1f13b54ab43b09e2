"""Group risks and their derivatives: what solvers see of the records, wherever they are."""

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

# Pieces that sums stay exact in: docs/theory/sums.md.
MAX_BLOCKS = 2**20


class LocalEngine:
    """Applies functions to objects, and adds up what comes back: here to objects in this process.

    Handles stand for the objects, which heirs hold on other machines; here they are the objects.
    What a function returns depends on the object and on what the function was given alone, so an
    engine may call it again when a machine is lost; functions can be pickled. An error of any
    object is raised by `collect` or `reduce` at the latest.
    """

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> Iterable[Any]:
        """Return what a function makes of every object."""
        return map(function, handles)

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        """Add up arrays of every object in any order, which must round none of the sums."""
        return _added(self.collect(handles, function))

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Make objects from objects and own arguments, each where the one it is made from is.

        They stay valid when those they come from are released.
        """
        own = [()] * len(handles) if arguments is None else arguments
        return [function(handle, *each) for handle, each in zip(handles, own, strict=True)]

    def release(self, handles: Sequence[Any]) -> None:
        """Forget objects that nobody asks for again; here whoever else holds them may."""


def _added(of_blocks: Iterable[Sums]) -> Sums:
    """Return the sums of all blocks, added in their order."""
    return reduce(lambda *both: tuple(a + b for a, b in zip(*both, strict=True)), of_blocks)


class RiskFunctions(Protocol):
    """Group risks as functions of the weights, which is all that an optimum needs.

    Weights come one output after the other, the intercept last in each.
    """

    @property
    def n_groups(self) -> int:
        """Number of groups."""

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""

    def risks(self, weights: FloatArray, *, loss_clip: float = math.inf) -> FloatArray:
        """Return the mean loss of each group, a record's at most the clip: (n_groups,)."""

    def risks_and_gradients(
        self, weights: FloatArray, *, loss_clip: float = math.inf
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same, and gradients, of no clip: (n_groups, n_weights)."""

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of the weighted sum of mean losses."""


@dataclass(eq=False)
class Risks:
    """Group risks of records under a loss, all that a solver sees of the data.

    A block, wherever an engine holds it, returns sums, and the risks divide what was added up.
    Whole sums are reduced by the engine in any order. Others come back block by block and are added
    in the order of the blocks, so that no engine decides a bit of them either.
    """

    engine: LocalEngine  # holds the blocks
    handles: Sequence[Any]  # of 1 to 2²⁰ blocks, in the order of the records
    # loss of a record and constant column, 0 for none, both as the blocks have them
    loss: Loss
    intercept_scaling: float
    group_sizes: tuple[int, ...]
    n_features: int
    hides_groups: bool = False  # whether the blocks hold places, as groups are hidden
    # what rows are taken relative to and multiplied by, as the blocks have it
    center: FloatArray | None = None
    whitening: FloatArray | None = None
    normalisers: FloatArray | None = None  # of hidden groups, in place of their sizes
    loss_center: float = 0.0  # what losses are taken relative to before normalisers divide them
    cells: Cells | None = None  # where groups overlap, what of the blocks' groups they are made of
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
        """Sizes of the groups of the blocks, which are the groups where none overlap."""
        return self.group_sizes if self.cells is None else self.cells.sizes

    @property
    def n_columns(self) -> int:
        """Columns of a row with the intercept's."""
        return self.n_features + (self.intercept_scaling > 0)

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""
        return self.loss.n_outputs * self.n_columns

    def risks(self, weights: FloatArray, *, loss_clip: float = math.inf) -> FloatArray:
        """Return the mean loss of each group, in one pass."""
        losses, _ = self._whole_sums(weights, loss_clip=loss_clip, gradients=False, is_fine=True)
        return self._means_of_losses(losses)

    def risks_and_gradients(
        self, weights: FloatArray, *, loss_clip: float = math.inf
    ) -> tuple[FloatArray, FloatArray]:
        """Return risks and gradients in one pass; rows are sorted, so groups cost nothing extra."""
        losses, slopes = self._whole_sums(weights, loss_clip=loss_clip, is_fine=True)
        return self._means_of_losses(losses), self._gradients(slopes) / self._divisors[:, None]

    def sums(
        self, weights: FloatArray, *, loss_clip: float, gradients: bool = True, center: float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's sum of losses and that of their gradients, for a release.

        Where groups overlap, losses are those of each cell if these are what is released.

        All is added in whole numbers, exactly: one record moves the sums by what itself adds,
        wherever it is (``docs/theory/sums.md``). Losses count for at most the clip, relative to
        a centre. Gradients are for intercepts times their scaling, and have no columns if not
        wanted.
        """
        losses, slopes = self._whole_sums(weights, loss_clip=loss_clip, gradients=gradients)
        if self.cells is not None and not self.cells.are_quieter:
            losses = self._of_groups(losses)
        if center:
            losses = losses - center * np.asarray(self.group_sizes, dtype=float)
        return losses, self._gradients(slopes) if gradients else np.zeros((self.n_groups, 0))

    def _whole_sums(self, weights: FloatArray, **options: Any) -> Sums:
        """Return sums of losses and slopes over the groups of the blocks, in one pass."""
        losses, slopes = self._reduced("sums", *self.split_weights(weights), **options)
        return losses.sum(axis=0), slopes.sum(axis=0)

    def sampled_sums(
        self, weights: FloatArray, selection: Selection, *, loss_clip: float, center: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sums over the records that a selection chooses, for a release; 0 for nobody.

        A selection asked again chooses the same records: what is lost on the way is read again.
        """
        split = self.split_weights(weights)
        asked = methodcaller("sampled_sums", *split, selection, loss_clip=loss_clip)
        losses, slopes, counts = self.engine.reduce(self.handles, asked)
        losses = losses.sum(axis=0) - center * counts
        return self._of_groups(losses), self._gradients(slopes.sum(axis=0))

    def hessian(
        self, weights: FloatArray, group_weights: FloatArray, *, rough: bool = False
    ) -> FloatArray:
        """Return the Hessian of the weighted sum of the risks, in one pass.

        A rough one is off by what single precision loses of it, and takes half the time.
        """
        of_records = self._record_weights(group_weights)
        (hessian,) = self._in_order("curvature", *self.split_weights(weights), of_records, rough)
        if self.center is not None:  # it is that of rows with the same constant
            change = np.eye(self.n_columns)
            change[-1, :-1] = -self.center / self.intercept_scaling
            change[:, :-1] = times(change[:, :-1], self.whitening)
            hessian = np.asarray(np.einsum("ij,aibk,kl->ajbl", change, hessian, change))
        return hessian.reshape(self.n_weights, self.n_weights)

    def optimism(
        self, weights: FloatArray, group_weights: FloatArray, root: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return each group's risk, its variance by sampling, and how much too low it is.

        At weights that were fitted to group weights, with ``A A'`` the inverse H⁻¹ of the Hessian
        for a root A, the risk of new people of a group is higher than that of its records by about
        ``λ_i tr(H⁻¹ V_i)/n_i``, V_i the covariance of its gradients (Takeuchi 1976, by group);
        where groups overlap, each cell of a group adds what its own records weigh.
        """
        *sums, moved = self._in_order("gradient_spread", *self.split_weights(weights), root)
        fractions = self._record_weights(group_weights)
        of_gradients = self._spread((moved**2).sum(axis=1), sums[2])
        return (
            self._of_groups(sums[0]) / self._divisors,
            self._of_groups(self._spread(sums[0] ** 2, sums[1])) / self._divisors**2,
            self._of_groups(fractions * of_gradients) / self._divisors,
        )

    def variances_of_change(self, weights: FloatArray, others: FloatArray) -> FloatArray:
        """Return the variance by sampling of what each group's risk changes between weights."""
        sums, squares = self._in_order(
            "changes", self.split_weights(weights), self.split_weights(others)
        )
        return self._of_groups(self._spread(sums**2, squares)) / self._divisors**2

    def _spread(self, squared_sums: FloatArray, squares: FloatArray) -> FloatArray:
        """Return variances times numbers of records, of each group of the blocks.

        Each has one more degree of freedom, at the variance of all: a single record has none.
        """
        sizes = np.asarray(self.cell_sizes, dtype=float)
        spread = np.maximum(squares - squared_sums / sizes, 0.0)
        return np.asarray(spread + spread.sum() / max(sizes.sum() - len(sizes), 1.0))

    def weight_of_a_record(self, group_weights: FloatArray) -> float:
        """Return the mean weight of records, as they weigh: Σ λ_i²/n_i, where none overlap."""
        return float(self._record_weights(group_weights) ** 2 @ self.cell_sizes)

    def residual_moments(
        self, weights: FloatArray, *, clip: float, constant: float, length: float
    ) -> FloatArray:
        """Return each group's sum of ``v v'``, v a row with a constant and its clipped residual.

        With r the target minus the score of a record, clipped to ``[-clip, clip]``, v is
        ``(x, constant, length r / clip)``, without the constant where there is no intercept. All
        are whole numbers, which are added exactly; only the whole sum is rounded, once.
        """
        facts = {"clip": clip, "constant": constant, "length": length}
        (parts,) = self._reduced("moment_sums", *self.split_weights(weights), **facts)
        sums = self._of_groups(parts.sum(axis=0))
        n = self.n_features
        sums[:, n:, :n] = np.swapaxes(sums[:, :n, n:], 1, 2)
        return sums

    def row_sum(self) -> FloatArray:
        """Return the sum of the rows of all groups, without constants, for a release."""
        return np.asarray(self._reduced("row_sum")[0].sum(axis=0)[0])

    def second_moments(self, *, columns_alone: bool) -> FloatArray:
        """Return the sum of ``x x'`` over all rows, or of squares by column, for a release.

        The whole sum is rounded, once.
        """
        (parts,) = self._reduced("second_moments", columns_alone=columns_alone)
        return np.asarray(parts.sum(axis=0)[0])

    def spread(self, center: FloatArray, *, whitening: FloatArray | None = None) -> float:
        """Return the sum of the squared distances of all rows from a released centre.

        Each, at most 1, is cut to a whole number, for a release.
        """
        return float(self._reduced("spread", center, whitening)[0].sum())

    def centred(
        self,
        center: FloatArray,
        *,
        constant: float,
        clip: float,
        whitening: FloatArray | None = None,
    ) -> Self:
        """Return the risks of rows relative to a released centre, which are not copied.

        A row is ``u = (P (x - center), constant)``, P a released symmetric matrix of steps of
        `WHITENING_STEP`, or a factor a column, or nothing. Where the gradient of a record would be
        longer than `clip`, its loss goes on as a line (with several outputs it is shortened).
        """
        self.n_passes += 1
        derived = self._derived("centred", center, whitening, constant, clip)
        derived.intercept_scaling, derived.center = constant, center
        derived.whitening = whitening
        derived.normalisers, derived.loss_center, derived.n_passes = None, 0.0, 0
        return derived

    def as_oracle(self, rng: np.random.Generator) -> RecordOracle:
        """Return an oracle of records in memory; each group, or all places, are shuffled once."""
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
        """Return the risks of a copy of the records that a selection chooses.

        Its passes and the ranks of its groups count from 0; places stay those among all records.
        """
        engine = self.engine
        derived = self._derived("part", selection)
        sizes = np.array([*engine.collect(derived.handles, attrgetter("group_sizes"))])
        if len(sizes) > 1:
            in_front = np.cumsum(sizes, axis=0) - sizes
            arguments = [(tuple(ranks),) for ranks in in_front.tolist()]
            placed = engine.derive(derived.handles, RecordBlock.placed, arguments)
            derived.handles = _Derived.of(placed, engine)
        derived.group_sizes = tuple(sizes.sum(axis=0).tolist())
        derived.normalisers, derived.loss_center, derived.n_passes = None, 0.0, 0
        return derived

    def over(self, normalisers: Sequence[float], *, loss_center: float) -> Self:
        """Return risks of groups whose sizes are hidden, with a public number in place of each.

        A risk is the centre plus the sum of what losses are above it, over the normaliser. Hessians
        are over the normalisers too, sums for releases as they were.
        """
        other = copy(self)
        other.normalisers = np.asarray(normalisers, dtype=float)
        other.loss_center = loss_center
        return other

    def overlapping(self, cells: Cells) -> Self:
        """Return the risks of groups that are made of these cells, which the blocks' groups are.

        Sums over a group are those of its cells.
        """
        other = copy(self)
        other.cells, other.group_sizes = cells, cells.group_sizes
        return other

    def _record_weights(self, group_weights: FloatArray) -> FloatArray:
        """Return the weight of a record of each group of the blocks."""
        fractions = group_weights / self._divisors
        return fractions if self.cells is None else np.asarray(fractions @ self.cells.membership)

    def _of_groups(self, sums: FloatArray) -> FloatArray:
        """Return sums over the groups, of those over the groups of the blocks."""
        if self.cells is None:
            return sums
        flat = sums.reshape(len(sums), -1)
        return np.asarray(self.cells.membership @ flat).reshape(-1, *sums.shape[1:])

    def split_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of rows as blocks have them, and what the constant adds to scores."""
        matrix = weights.reshape(self.loss.n_outputs, -1)
        if self.intercept_scaling == 0:
            return matrix, np.zeros(len(matrix))
        constants = self.intercept_scaling * matrix[:, -1]
        if self.center is None:
            return matrix[:, :-1], constants
        of_rows = times(matrix[:, :-1], self.whitening)
        return of_rows, constants - (of_rows * self.center).sum(axis=1)

    def _derived(self, method: str, *arguments: Any) -> Self:
        """Return the risks of blocks that a method of these makes."""
        handles = self.engine.derive(self.handles, methodcaller(method, *arguments))
        other = copy(self)
        other.handles = _Derived.of(handles, self.engine)
        return other

    def _reduced(self, method: str, *arguments: Any, **options: Any) -> Sums:
        """Return sums that no order rounds, in one pass."""
        self.n_passes += 1
        return self.engine.reduce(self.handles, methodcaller(method, *arguments, **options))

    def _in_order(self, method: str, *arguments: Any) -> Sums:
        """Return sums that are not released, added in the order of the blocks, in one pass."""
        self.n_passes += 1
        return _added(self.engine.collect(self.handles, methodcaller(method, *arguments)))

    def _gradients(self, slope_sums: FloatArray) -> FloatArray:
        """Return the gradients of which blocks have the slopes times rows, and the slopes."""
        if self.cells is not None:
            slope_sums = self._of_groups(slope_sums)
        # for the constant column, which is the last, the sums are those of a column of ones
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
        """What sums over groups are divided by."""
        if self.normalisers is not None:
            return self.normalisers
        return np.asarray(self.group_sizes, dtype=float)

    def _means_of_losses(self, totals: FloatArray) -> FloatArray:
        """Return the risks of groups whose losses add up to these, or those of their cells."""
        totals = self._of_groups(totals)
        if self.normalisers is None:
            return totals / self._divisors
        off = totals - self.loss_center * np.asarray(self.group_sizes, dtype=float)
        return np.asarray(self.loss_center + off / self.normalisers)


class GroupRisks(Risks):
    """Risks of records in memory, which are one block."""

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


class _Derived(list[Any]):
    """Handles that are released with the last risks that know them."""

    @classmethod
    def of(cls, handles: Sequence[Any], engine: LocalEngine) -> Self:
        """Return them, to be released when they are collected."""
        derived = cls(handles)
        weakref.finalize(derived, engine.release, list(handles)).atexit = False
        return derived
