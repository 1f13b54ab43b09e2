"""Group risks of blocks of records wherever they live: what was added up, divided by sizes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Any, Self

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.oracles.base import RecordOracle
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks.engine import Engine, LocalEngine, Sums
from sklearn_dpwg.data.risks.record_block import RecordBlock, centred_hessian, exact_sum
from sklearn_dpwg.data.risks.selection import Selection
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy.sensitivity import SumGrid

# docs/theory/sums.md proves what adding up so many off the grid costs.
MAX_BLOCKS = 2**20
_SIZES = attrgetter("group_sizes")


@dataclass(eq=False)
class BlockRisks:
    """`Risks` of blocks that an engine holds.

    Sums on a grid are reduced by the engine in any order. The others come back block by block and
    are added in the order of the blocks, with what rounding takes given back, so that no engine
    decides a bit of them either.

    Parameters
    ----------
    engine : Engine
        Holds the blocks.
    handles : sequence
        At least one, at most 2²⁰; in the order of the records.
    loss : Loss
        Loss of one record, as the blocks have it.
    intercept_scaling : float
        Value of the constant column behind the features; 0 for none; as the blocks have it.
    group_sizes : tuple of int
        Number of records in each group.
    n_features : int
        Columns of a row.
    hides_groups : bool, default=False
        Whether the blocks hold places, as the group of a record is hidden.
    center : ndarray of shape (n_features,), optional
        What rows are taken relative to; as the blocks have it.
    normalisers : ndarray of shape (n_groups,), optional
        What sums over groups are divided by where their sizes are hidden; by default the sizes.
    loss_center : float, default=0.0
        What losses are taken relative to before they are divided by normalisers.
    n_passes : int, default=0
        How many times the rows have been read in full; counted, not set.
    """

    engine: Engine
    handles: Sequence[Any]
    loss: Loss
    intercept_scaling: float
    group_sizes: tuple[int, ...]
    n_features: int
    hides_groups: bool = False
    center: FloatArray | None = None
    normalisers: FloatArray | None = None
    loss_center: float = 0.0
    n_passes: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.handles) <= MAX_BLOCKS:
            raise ValueError(
                f"handles must be those of 1 to {MAX_BLOCKS:,} blocks, got {len(self.handles):,}."
            )

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.group_sizes)

    @property
    def n_columns(self) -> int:
        """Columns of a row with the intercept's."""
        return self.n_features + (self.intercept_scaling > 0)

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""
        return self.loss.n_outputs * self.n_columns

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the mean loss of each group, in one pass."""
        totals, _ = self._added(methodcaller("sums", weights, ceiling=ceiling, gradients=False))
        return self._means_of_losses(totals)

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return risks and gradients in one pass; rows are sorted, so groups cost nothing extra."""
        totals, slopes = self._added(methodcaller("sums", weights, ceiling=ceiling))
        return self._means_of_losses(totals), self._gradients(slopes) / self._divisors[:, None]

    def sums(
        self,
        weights: FloatArray,
        *,
        ceiling: float,
        grid: SumGrid,
        gradients: bool = True,
        center: float = 0.0,
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums of losses and gradients, each record's on a grid, in one pass."""
        asked = methodcaller("sums", weights, ceiling=ceiling, grid=grid, gradients=gradients)
        losses, slopes = self._reduced(asked)
        if center:
            # exact: multiples of the step, and the centre is one
            losses = losses - center * np.asarray(self.group_sizes, dtype=float)
        return losses, self._gradients(slopes) if gradients else np.zeros((self.n_groups, 0))

    def sampled_sums(
        self,
        weights: FloatArray,
        selection: Selection,
        *,
        ceiling: float,
        center: float,
        grid: SumGrid,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sums over the records that joined."""
        asked = methodcaller("sampled_sums", weights, selection, ceiling=ceiling, grid=grid)
        losses, slopes, counts = self.engine.reduce(self.handles, asked)
        # exact: multiples of the step, and the centre is one
        return losses - center * counts, self._gradients(slopes)

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of the weighted sum of the risks, in one pass."""
        asked = methodcaller("curvature", weights, group_weights / self._divisors)
        (hessian,) = self._added(asked, is_one=True)
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
        """Return each group's sum of ``v v'``, which is rounded once."""
        facts = {"clip": clip, "constant": constant, "length": length, "step": step}
        asked = methodcaller(
            "moment_sums", weights, **facts, sum_step=sum_step, block_size=block_size
        )
        multiples, left = self._reduced(asked)
        sums = multiples + left
        n = self.n_features
        sums[:, n:, :n] = np.swapaxes(sums[:, :n, n:], 1, 2)
        return np.asarray(sums * step**2)

    def row_sum(self, *, grid: SumGrid) -> FloatArray:
        """Return the sum of all rows, each rounded to a grid, in one pass."""
        (total,) = self._reduced(methodcaller("row_sum", grid=grid))
        return total

    def spread(self, center: FloatArray, *, step: float) -> float:
        """Return the sum of squared distances of rows from a centre, each at most 1, on a grid."""
        (total,) = self._reduced(methodcaller("spread", center, step=step))
        return float(total[0])

    def centred(self, center: FloatArray, *, constant: float, clip: float) -> Self:
        """Return the risks of rows relative to a centre, no gradient of a record above a norm."""
        self.n_passes += 1
        derived = self._derived(methodcaller("centred", center, constant=constant, clip=clip))
        derived.intercept_scaling, derived.center = constant, center
        derived.normalisers, derived.loss_center, derived.n_passes = None, 0.0, 0
        return derived

    def as_oracle(self, rng: np.random.Generator) -> RecordOracle:
        """Return an oracle that draws these records without replacement."""
        block = self.handles[0]
        if len(self.handles) > 1 or not isinstance(block, RecordBlock):
            raise ValueError(
                f"records must be in memory, in one block, to be drawn one by one, got "
                f"{len(self.handles):,} block(s) of {type(self.engine).__name__}: choose a solver "
                "that makes passes."
            )
        return RecordOracle(block.records, rng)

    def with_loss(self, loss: Loss) -> Self:
        """Return the risks of the same rows under another loss."""
        derived = self._derived(methodcaller("with_loss", loss))
        derived.loss = loss
        return derived

    def part(self, selection: Selection) -> Self:
        """Return the risks of a copy of the records that a selection chooses."""
        engine = self.engine
        derived = self._derived(methodcaller("part", selection))
        sizes = np.array(engine.collect(derived.handles, _SIZES)).reshape(-1, self.n_groups)
        if len(sizes) > 1:
            in_front = np.cumsum(sizes, axis=0) - sizes
            arguments = [(tuple(ranks),) for ranks in in_front.tolist()]
            placed = engine.derive(derived.handles, _placed, arguments)
            derived.handles = _Derived.of(placed, engine)
        derived.group_sizes = tuple(sizes.sum(axis=0).tolist())
        derived.normalisers, derived.loss_center, derived.n_passes = None, 0.0, 0
        return derived

    def over(self, normalisers: Sequence[float], *, loss_center: float) -> Self:
        """Return risks that are sums over public numbers, which hidden sizes are in place of."""
        other = copy(self)
        other.normalisers = np.asarray(normalisers, dtype=float)
        other.loss_center = loss_center
        return other

    def _derived(self, function: Callable[[Any], Any]) -> Self:
        """Return the risks of blocks that are made from these."""
        other = copy(self)
        other.handles = _Derived.of(self.engine.derive(self.handles, function), self.engine)
        return other

    def _reduced(self, function: Callable[[Any], Sums]) -> Sums:
        """Return sums that no order rounds, in one pass."""
        self.n_passes += 1
        return self.engine.reduce(self.handles, function)

    def _added(self, function: Callable[[Any], Any], *, is_one: bool = False) -> Sums:
        """Return sums off a grid, in one pass: in the order of the blocks, rounded as if once."""
        self.n_passes += 1
        first, *others = self.engine.collect(self.handles, function)
        totals = [first] if is_one else list(first)
        lost = [np.zeros_like(total) for total in totals] if others else []
        for of_block in others:
            for index, added in enumerate([of_block] if is_one else of_block):
                totals[index], error = exact_sum(totals[index], added)
                lost[index] += error
        return tuple(a + b for a, b in zip(totals, lost, strict=True)) if others else tuple(totals)

    def _gradients(self, slope_sums: FloatArray) -> FloatArray:
        """Return the gradients of which blocks have the slopes times rows, and the slopes."""
        slope_sums = np.require(slope_sums, requirements="W")  # what came by wire may be read only
        # for the constant column, which is the last, the sums are those of a column of ones
        if self.center is not None:
            slope_sums[:, :, :-1] -= slope_sums[:, :, -1:] * self.center
        if self.intercept_scaling > 0:
            slope_sums[:, :, -1] *= self.intercept_scaling
        else:
            slope_sums = slope_sums[:, :, :-1]
        return slope_sums.reshape(self.n_groups, self.n_weights)

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


class GroupRisks(BlockRisks):
    """`Risks` of records in memory, which are one block."""

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
    def of(cls, handles: Sequence[Any], engine: Engine) -> Self:
        """Return them, to be released when they are collected."""
        derived = cls(handles)
        weakref.finalize(derived, engine.release, list(handles)).atexit = False
        return derived


def _placed(block: Any, first_ranks: tuple[int, ...]) -> Any:
    return block.placed(first_ranks)
