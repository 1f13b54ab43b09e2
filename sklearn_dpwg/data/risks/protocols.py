"""Group risks as solvers and optimisers see them, wherever the records are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.risks.engine import Sums
from sklearn_dpwg.data.risks.selection import Selection
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy.sensitivity import SumGrid


class RiskFunctions(Protocol):
    """Group risks as functions of the weights, which is all that an optimum needs."""

    @property
    def n_groups(self) -> int:
        """Number of groups."""

    @property
    def n_weights(self) -> int:
        """Number of weights, intercepts included."""

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the mean loss of each group.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights, one output after the other, the intercept last in each.
        ceiling : float, optional
            Each record's loss counts for at most this much.

        Returns
        -------
        ndarray of shape (n_groups,)
            Mean losses.
        """

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's mean loss and its gradient.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        ceiling : float, optional
            Each record's loss counts for at most this much; gradients are not affected.

        Returns
        -------
        risks : ndarray of shape (n_groups,)
            Mean losses.
        gradients : ndarray of shape (n_groups, n_weights)
            Gradients of the mean losses (not clipped).
        """

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of the weighted sum of the groups' mean losses.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        group_weights : ndarray of shape (n_groups,)
            Weight of each group; groups of weight 0 are not read.

        Returns
        -------
        ndarray of shape (n_weights, n_weights)
            The Hessian, symmetric.
        """


class Risks(RiskFunctions, Protocol):
    """Group risks of records under a loss: all that a solver sees of the data."""

    @property
    def loss(self) -> Loss:
        """Loss of one record."""

    @property
    def intercept_scaling(self) -> float:
        """Value of the constant column behind the features; 0 for none."""

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of records in each group."""

    @property
    def hides_groups(self) -> bool:
        """Whether sums are such that no record's group decides how others are rounded."""

    @property
    def n_columns(self) -> int:
        """Columns of a row with the intercept's."""

    @property
    def n_passes(self) -> int:
        """How many times the rows have been read in full."""

    def sums(
        self,
        weights: FloatArray,
        *,
        ceiling: float,
        grid: SumGrid,
        gradients: bool = True,
        center: float = 0.0,
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's sum of losses and that of their gradients, for a release.

        What each record adds is rounded to the grid, which makes the rest exact, in any order: one
        record moves the sums by what itself adds, wherever it is (``docs/theory/sums.md``).

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        ceiling : float
            Each record's loss counts for at most this much; gradients are not affected.
        grid : SumGrid
            Steps, from public facts.
        gradients : bool, default=True
            Whether gradients are wanted.
        center : float, default=0.0
            What is taken off each loss, a multiple of the step of losses.

        Returns
        -------
        losses : ndarray of shape (n_groups,)
            Sums of losses minus the centre, multiples of a step.
        gradients : ndarray of shape (n_groups, n_weights)
            Sums of gradients, multiples of the other step, for intercepts times their scaling; no
            columns if not wanted.
        """

    def sampled_sums(
        self,
        weights: FloatArray,
        selection: Selection,
        *,
        ceiling: float,
        center: float,
        grid: SumGrid,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sums over the records of a batch, for a release.

        A selection asked again chooses the same records: what is lost on the way is read again.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights.
        selection : Selection
            Who joins; a group may be left with nobody.
        ceiling : float
            Each record's loss counts for at most this much; gradients are not affected.
        center : float
            What is taken off each loss, a multiple of the step of losses.
        grid : SumGrid
            Steps, from public facts.

        Returns
        -------
        losses : ndarray of shape (n_groups,)
            Sums of losses minus the centre, 0 for a group that nobody joined.
        gradients : ndarray of shape (n_groups, n_weights)
            Sums of gradients, 0 for a group that nobody joined.
        """

    def row_sum(self, *, grid: SumGrid) -> FloatArray:
        """Return the sum of the rows of all groups, without constants, for a release.

        Parameters
        ----------
        grid : SumGrid
            Steps, from public facts.

        Returns
        -------
        ndarray of shape (n_features,)
            Multiples of the step of gradients.
        """

    def spread(self, center: FloatArray, *, step: float) -> float:
        """Return the sum of the squared distances of all rows from a centre, for a release.

        Parameters
        ----------
        center : ndarray of shape (n_features,)
            A released centre.
        step : float
            A power of two; each distance, at most 1, is rounded to multiples of it.

        Returns
        -------
        float
            The sum, exact.
        """

    def centred(self, center: FloatArray, *, constant: float, clip: float) -> Risks:
        """Return the risks of rows relative to a centre, with limited slopes.

        A row is ``u = (x - center, constant)``. Where the gradient of a record would be longer than
        `clip`, its loss goes on as a line (with several outputs, its gradient is shortened).

        Parameters
        ----------
        center : ndarray of shape (n_features,)
            A released centre, in the unit ball.
        constant : float
            Entry for the intercept; positive.
        clip : float
            Largest norm of a record's gradient; positive.

        Returns
        -------
        Risks
            Over the same rows, which are not copied.
        """

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
        """Return each group's sum of ``v v'``, v a row with a constant and its clipped residual.

        With r the target minus the score of a record, clipped to ``[-clip, clip]``, v is
        ``(x, constant, length r / clip)``, without the constant where there is no intercept.
        Entries of v are rounded to multiples of a step, coarse enough for the sums of a block to be
        floating-point numbers. Multiples of another step and what is left of those are added up
        exactly, so that only the whole sum is rounded, once.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Weights that residuals are those of; of a loss with one output.
        clip : float
            Bound on residuals; positive.
        constant : float
            Entry of v for the intercept.
        length : float
            Largest entry of v for the residual.
        step : float
            What entries of v are rounded to multiples of; a power of 2.
        sum_step : float
            A power of 2, at least ``step**2``, of which all sums are at most 2⁵² multiples.
        block_size : int
            Most records of a block, whose sums are exact in one part.

        Returns
        -------
        ndarray of shape (n_groups, n_columns + 1, n_columns + 1)
            Symmetric matrices.
        """

    def with_loss(self, loss: Loss) -> Risks:
        """Return the risks of the same records under another loss.

        Parameters
        ----------
        loss : Loss
            A loss of the same task, with as many outputs.

        Returns
        -------
        Risks
            Over the same rows, which are not copied.
        """

    def part(self, selection: Selection) -> Risks:
        """Return the risks of a copy of some records.

        Parameters
        ----------
        selection : Selection
            Which.

        Returns
        -------
        Risks
            Over these records; its passes and the ranks of its groups count from 0, while places
            stay those among all records.
        """

    def over(self, normalisers: Sequence[float], *, loss_center: float) -> Risks:
        """Return risks of groups whose sizes are hidden.

        A risk is the centre plus the sum of what losses are above it, over the normaliser.

        Parameters
        ----------
        normalisers : sequence of float
            A public number in place of each group's size.
        loss_center : float
            The centre.

        Returns
        -------
        Risks
            Over the same rows, which are not copied; means and Hessians are over the normalisers,
            sums for releases are as they were.
        """

    def as_oracle(self, rng: np.random.Generator) -> SampleOracle:
        """Return an oracle that hands out these records, in memory, each group shuffled once.

        Parameters
        ----------
        rng : Generator
            Where the order comes from.

        Returns
        -------
        SampleOracle
            Draws without replacement.
        """


# What a block of records answers: sums, never means.


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
