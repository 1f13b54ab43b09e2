"""What a block of records answers: sums, never means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy.sensitivity import SumGrid
from sklearn_dpwg.risks.engine import Sums
from sklearn_dpwg.risks.selection import Selection


class Block(Protocol):
    """Some of the records of every group, wherever they live; a group may have none here.

    All answers are functions of the records here and of what is asked alone. Sums that are rounded
    to a grid may be added in any order, the others are added in the order of the blocks.
    """

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Records of each group here."""

    @property
    def n_features(self) -> int:
        """Columns of a row."""

    def sums(
        self,
        weights: FloatArray,
        *,
        ceiling: float | None = None,
        grid: SumGrid | None = None,
        gradients: bool = True,
    ) -> Sums:
        """Return each group's sum of losses and that of their gradients.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        ceiling : float, optional
            Each record's loss counts for at most this much; gradients are not affected.
        grid : SumGrid, optional
            What each record adds is rounded to its steps; None to round nothing.
        gradients : bool, default=True
            Whether gradients are wanted.

        Returns
        -------
        losses : ndarray of shape (n_groups,)
            Sums of losses.
        slopes : ndarray of shape (n_groups, n_outputs, n_features + 1)
            Sums of slopes times rows, and of the slopes themselves in the last column; no columns
            if not wanted.
        """

    def sampled_sums(
        self, weights: FloatArray, selection: Selection, *, ceiling: float, grid: SumGrid
    ) -> Sums:
        """Return the sums over the records that a selection chooses, and how many those are.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        selection : Selection
            Who joins.
        ceiling : float
            Each record's loss counts for at most this much; gradients are not affected.
        grid : SumGrid
            What each record adds is rounded to its steps.

        Returns
        -------
        losses : ndarray of shape (n_groups,)
            As of `sums`.
        slopes : ndarray of shape (n_groups, n_outputs, n_features + 1)
            As of `sums`.
        counts : ndarray of shape (n_groups,)
            Records that were chosen.
        """

    def curvature(self, weights: FloatArray, record_weights: FloatArray) -> FloatArray:
        """Return the sum of the Hessians of the losses of all records, each times a weight.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        record_weights : ndarray of shape (n_groups,)
            What a record of each group counts for; groups of weight 0 are not read.

        Returns
        -------
        ndarray of shape (n_outputs, n_columns, n_outputs, n_columns)
            The sum, for rows that are not centred.
        """

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
        """Return the sums of `Risks.residual_moments` in units of the squared step, in two parts.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights that residuals are those of.
        clip : float
            As there, like all that follow.
        constant : float
            Entry for the intercept.
        length : float
            Largest entry for the residual.
        step : float
            What entries are rounded to.
        sum_step : float
            What one part of the sums is multiples of.
        block_size : int
            Most records whose sums are exact in one part.

        Returns
        -------
        multiples, left : ndarray of shape (n_groups, n_columns + 1, n_columns + 1)
            Whole numbers that are added up exactly in any order, and come to the sums together; the
            lower left is not filled.
        """

    def row_sum(self, *, grid: SumGrid) -> Sums:
        """Return the sum of the rows of all groups, without constants, as one array.

        Parameters
        ----------
        grid : SumGrid
            What each record adds is rounded to its steps.

        Returns
        -------
        tuple of ndarray
            One, of shape (n_features,).
        """

    def spread(self, center: FloatArray, *, step: float) -> Sums:
        """Return the sum of the squared distances of all rows from a centre, as one array.

        Parameters
        ----------
        center : ndarray of shape (n_features,)
            A released centre.
        step : float
            A power of two; each distance, at most 1, is rounded to multiples of it.

        Returns
        -------
        tuple of ndarray
            One, of shape (1,).
        """

    def with_loss(self, loss: Loss) -> Block:
        """Return the same records under another loss.

        Parameters
        ----------
        loss : Loss
            A loss of the same task, with as many outputs.

        Returns
        -------
        Block
            On the same memory.
        """

    def centred(self, center: FloatArray, *, constant: float, clip: float) -> Block:
        """Return the same rows relative to a centre, with limited slopes.

        Parameters
        ----------
        center : ndarray of shape (n_features,)
            A released centre.
        constant : float
            Entry for the intercept.
        clip : float
            Largest norm of a record's gradient.

        Returns
        -------
        Block
            On the same memory.
        """

    def part(self, selection: Selection) -> Block:
        """Return a copy of the records that a selection chooses.

        Parameters
        ----------
        selection : Selection
            By ranks here.

        Returns
        -------
        Block
            Ranks count from 0 until `placed` says what is in front.
        """

    def placed(self, first_ranks: Sequence[int]) -> Block:
        """Return the same records, told how many of each group are in blocks in front of this one.

        Parameters
        ----------
        first_ranks : sequence of int
            One a group.

        Returns
        -------
        Block
            On the same memory.
        """
