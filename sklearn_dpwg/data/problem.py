"""The public facts of a learning problem."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss, LossConstants

PUBLIC_FACTS = (
    "which group each record is in, and every column that decides it, row by row",
    "the number of records in each group, the group labels and the classes, of which a record that "
    "replaces another has one",
    "the number and names of the features",
    "data_norm, target_bounds, radius, prior and every other parameter of the estimator",
)

PUBLIC_FACTS_OF_HIDDEN_GROUPS = (
    "the number of records of all groups together, the group labels and the classes, of which a "
    "record that replaces another has one",
    *PUBLIC_FACTS[2:],
)

LABELS_THAT_OCCUR = "the set of group labels that occur, as none were stated"

PUBLIC_FACTS_OF_OVERLAP = (
    "which groups each record is in, and every column that decides it, row by row: they overlap, "
    "and a record that replaces another is in exactly the same ones",
    "the number of records in each group and in each set of groups that some are in, the group "
    "labels and the classes, of which a record that replaces another has one",
    *PUBLIC_FACTS[2:],
)

# Limits of the distance that steps are planned for, in classification and regression: a larger ball
# admits larger weights, but is no reason for longer steps.
MAX_REACH, MAX_OF_NUMBERS = 20.0, 4.0


def largest_reach(loss: Loss) -> float:
    """Return the largest distance of weights that steps are planned for, whatever the radius."""
    return MAX_OF_NUMBERS if loss.task == "regression" else MAX_REACH


# With more cells than these, noise on each of them takes longer than reading the records.
MAX_NOISY_CELLS = 2_000

# A noisy size below so many standard deviations of its noise may be of an empty group.
MIN_COUNT_STDS = 3.0


@dataclass(frozen=True)
class HiddenGroups:
    """Facts of a problem in which the group of a record is protected: sizes are noisy counts."""

    n_records: int  # number of records K of all groups together, which is public
    # standard deviation of the noise on each count; 0 where there is one group
    count_std: float = 0.0
    n_calls: int = 1  # calls with as many records each; one was counted, and stands for all
    # whether group labels were stated; else those that occur among the records are public
    labels_are_stated: bool = True

    @property
    def size_std(self) -> float:
        """Standard deviation of the noise on a size, which is `n_calls` times a count."""
        return self.n_calls * self.count_std

    @property
    def public_facts(self) -> tuple[str, ...]:
        """Sentences that a guarantee lists as public facts."""
        labels = () if self.labels_are_stated else (LABELS_THAT_OCCUR,)
        return (*labels, *PUBLIC_FACTS_OF_HIDDEN_GROUPS)

    @property
    def floor(self) -> int:
        """Least size of a group: with a noisy size below it, the group may be empty."""
        return self.n_calls * max(1, math.ceil(MIN_COUNT_STDS * self.count_std))


@dataclass(frozen=True)
class Cells:
    """Disjoint cells of records, and overlapping groups, each a union of cells."""

    sizes: tuple[int, ...]  # number of records n_a in each cell; all positive
    groups: tuple[tuple[int, ...], ...]  # the cells of each group

    __repr__ = short_repr

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached properties, as skops cannot store sparse arrays."""
        return {"sizes": self.sizes, "groups": self.groups}

    @cached_property
    def membership(self) -> csr_array:
        """Sparse matrix (n_groups, n_cells) with 1 where the cell is part of the group."""
        ends = np.cumsum([0, *map(len, self.groups)])
        cells = np.fromiter(chain.from_iterable(self.groups), np.intp, ends[-1])
        shape = (len(self.groups), len(self.sizes))
        return csr_array((np.ones(len(cells)), cells, ends), shape=shape)

    @cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of records in each group."""
        return tuple(sum(map(self.sizes.__getitem__, cells)) for cells in self.groups)

    @cached_property
    def groups_of_cells(self) -> NDArray[np.intp]:
        """Number of groups that each cell is in."""
        return np.bincount(self.membership.indices, minlength=len(self.sizes))

    @property
    def most_groups(self) -> int:
        """Largest number m of groups that a record is in."""
        return int(self.groups_of_cells.max())

    @cached_property
    def are_quieter(self) -> bool:
        """Whether group risks are less noisy if sums are released by cell and added up.

        A record changes one cell but up to m groups: noise on a group of c cells has deviation √c
        by cell and √m by group, and the mean variances of risks are compared. Noise on very many
        cells takes too long to draw.
        """
        if len(self.sizes) > MAX_NOISY_CELLS:
            return False
        squares = np.asarray(self.group_sizes, dtype=float) ** -2.0
        return bool(self.cells_of_groups @ squares < self.most_groups * squares.sum())

    @property
    def cells_of_groups(self) -> FloatArray:
        """Number of cells that each group is made of."""
        return np.array([float(len(cells)) for cells in self.groups])

    @property
    def rounded_up(self) -> float:
        """Factor above 1 that makes an upper bound of a rounded sum of m ratios, or of a root."""
        return 1.0 + (self.most_groups + 16.0) * 2.0**-52

    @cached_property
    def group_moves(self) -> float:
        """√m, rounded up: how far a record moves the sums of all groups, over one group's."""
        return 1.0 if self.most_groups == 1 else math.sqrt(self.most_groups) * self.rounded_up

    def influence(self, fractions: FloatArray) -> float:
        """Return the largest weight of a record: Σ `fractions` over the groups it is in."""
        return float((fractions @ self.membership).max() * self.rounded_up)

    @property
    def are_groups(self) -> bool:
        """Whether group i is exactly cell i, so that no groups overlap."""
        return self.groups == tuple((cell,) for cell in range(len(self.sizes)))


@dataclass(frozen=True)
class Problem:
    """Everything about a worst-group problem that is public, and nothing else.

    A plan is made from a `Problem` and a budget alone, so whatever this class cannot hold
    cannot influence the noise.

    Parameters
    ----------
    loss : Loss
        The loss of one record.
    group_sizes : tuple of int
        Number of records in each group; all positive, infinite for an oracle without end.
    n_features : int
        Columns of a row, without the intercept.
    radius : float
        Radius R of the ball of weights (Frobenius norm for several outputs).
    prior : tuple of float
        Public prior weights of the groups, all positive, summing to 1.
    intercept_scaling : float, default=1.0
        Value s of the constant column that carries the intercept; 0 for no intercept.
    hidden : HiddenGroups, optional
        Where given, neighbours differ in one record, its group included, and `group_sizes` are
        released numbers: all that sums over a group are ever divided by. By default they are the
        sizes, and a record's group is public.
    optimism_correction : float, default=1.0
        How many times risks count the optimism of records that a model has learned from; 0 is the
        game on the records themselves.
    cells : Cells, optional
        Where groups overlap, the disjoint cells that they are made of: neighbours differ in one
        record of one cell. By default groups are disjoint.
    fresh_calls : int, default=0
        In how many calls records come that are read once; 0 where all are there, to be read again.
        Problems that differ in this alone are equal.

    Raises
    ------
    ValueError
        If `cells` are those of other groups.

    Notes
    -----
    Rows have norm at most 1, so rows with the constant column have norm at most √(1 + s²) and
    scores have norm at most R √(1 + s²).
    """

    loss: Loss
    group_sizes: tuple[int, ...]
    n_features: int
    radius: float
    prior: tuple[float, ...]
    intercept_scaling: float = 1.0
    hidden: HiddenGroups | None = None
    optimism_correction: float = 1.0
    cells: Cells | None = None
    fresh_calls: int = field(default=0, compare=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Keep the loss as it is now: its parameters may be set in place later."""
        object.__setattr__(self, "loss", copy(self.loss))
        if self.cells is not None and (
            self.hidden is not None or self.cells.group_sizes != self.group_sizes
        ):
            raise InputError(
                f"cells must be those of public groups of sizes {self.group_sizes}, got "
                f"{self.cells!r}."
            )

    @cached_property
    def game(self) -> str:
        """Words for a correction of optimism other than the default; empty for the default."""
        if self.optimism_correction == 1.0:
            return ""
        return f"optimism of risks is corrected {self.optimism_correction:g} times"

    @cached_property
    def n_groups(self) -> int:
        """Number of groups p."""
        return len(self.group_sizes)

    @cached_property
    def n_records(self) -> int:
        """Number of records K in all groups together; where groups overlap, in all cells."""
        return sum(self.cell_sizes) if self.hidden is None else self.hidden.n_records

    @cached_property
    def cell_sizes(self) -> tuple[int, ...]:
        """Sizes of the disjoint cells that records are in: the groups, where none overlap."""
        return self.group_sizes if self.cells is None else self.cells.sizes

    @cached_property
    def group_moves(self) -> float:
        """How far a record moves sums of all groups in norm, over what it moves one.

        1 for disjoint groups; √m where a record is in up to m. (docs/theory/overlapping-groups.md,
        Lemma 2)
        """
        return 1.0 if self.cells is None else self.cells.group_moves

    @cached_property
    def loss_moves(self) -> float:
        """`group_moves` for the released sums of losses: 1 if they are released by cell."""
        return 1.0 if self.cells is None or self.cells.are_quieter else self.group_moves

    @cached_property
    def loss_noise(self) -> Any:
        """Factor on the noise of each group's sum of losses; 1 for disjoint groups."""
        if self.cells is None or not self.cells.are_quieter:
            return self.loss_moves
        return np.sqrt(self.cells.cells_of_groups)

    @cached_property
    def queue_sizes(self) -> tuple[int, ...]:
        """Number of records in each queue of an oracle: a group, or all places if hidden."""
        return self.group_sizes if self.hidden is None else (self.n_records,)

    @cached_property
    def most_in_a_group(self) -> int:
        """Largest number of records of a group or a cell, on any neighbouring data set."""
        if self.hidden is not None:
            return self.n_records
        return max(*self.group_sizes, *self.cell_sizes)

    @cached_property
    def is_active(self) -> NDArray[np.bool_]:
        """For each group, whether its size is clearly above 0; True where sizes are exact."""
        floor = 0 if self.hidden is None or self.n_groups == 1 else self.hidden.floor
        return np.asarray(self.group_sizes) > floor

    @cached_property
    def sizes_to_plan_for(self) -> FloatArray:
        """Sizes of the groups; an inactive one, which gets no weight, counts as all records."""
        sizes = np.asarray(self.group_sizes, dtype=float)
        return sizes if self.hidden is None else np.where(self.is_active, sizes, self.n_records)

    @cached_property
    def typical_size(self) -> float:
        """Σ √n / Σ 1/√n over group sizes n: the harmonic mean of n with weights √n."""
        roots = np.sqrt(self.sizes_to_plan_for)
        return float(roots.sum() / (1.0 / roots).sum())

    @cached_property
    def pair_diameter(self) -> float:
        """Distance by which replacing a record moves a weighted sum of gradients, over its weight.

        Between groups of weights ``a >= b`` that is ``‖a g - b g'‖ / a``, where ``‖a g - b g'‖`` is
        at most ``b Γ + (a - b) L``.
        """
        if self.hidden is None:
            return self.gradient_diameter
        return max(self.gradient_diameter, self.lipschitz)

    @cached_property
    def n_columns(self) -> int:
        """Number of columns of a row, the constant one included."""
        return self.n_features + (self.intercept_scaling > 0)

    @cached_property
    def n_weights(self) -> int:
        """Number of weights d, intercepts included."""
        return self.loss.n_outputs * self.n_columns

    @cached_property
    def diameter(self) -> float:
        """Diameter M = 2R of the ball of weights."""
        return 2.0 * self.radius

    @cached_property
    def reach(self) -> float:
        """Length that steps are planned for: the radius, at most `largest_reach`."""
        return min(self.radius, largest_reach(self.loss))

    @cached_property
    def row_norm(self) -> float:
        """Bound on the norm of a row with its constant column."""
        return float(np.hypot(1.0, self.intercept_scaling))

    @cached_property
    def constants(self) -> LossConstants:
        """Bounds of the loss for every score that the ball and the rows allow."""
        return self.loss.constants(self.radius * self.row_norm)

    @cached_property
    def lipschitz(self) -> float:
        """Lipschitz constant L of the loss in the weights."""
        return self.row_norm * self.constants.lipschitz

    @cached_property
    def gradient_diameter(self) -> float:
        """Largest distance Γ between two records' gradients, at most 2L."""
        return self.row_norm * self.constants.gradient_diameter

    @cached_property
    def norm_read(self) -> float:
        """Bound on the norm of a row with its constant, and at least 1; used for rounding."""
        return max(1.0, self.row_norm)

    @cached_property
    def slope_bound(self) -> float:
        """Largest norm of a record's derivatives in its scores."""
        return self.constants.lipschitz

    @cached_property
    def summed_norm(self) -> float:
        """Largest norm of the term of one record in the sums of gradients."""
        return self.lipschitz

    @cached_property
    def rounding_factor(self) -> float:
        """Factor by which a change of variables after summing may increase rounding errors."""
        return 1.0

    @cached_property
    def smoothness(self) -> float:
        """Smoothness H of the loss in the weights."""
        return self.row_norm**2 * self.constants.smoothness

    @cached_property
    def usual_smoothness(self) -> float:
        """Smoothness for rows of usual length, for which the first steps are planned."""
        return self.smoothness

    @cached_property
    def roundings_of_a_mean(self) -> int:
        """Number of roundings in a weighted mean of group gradients, up to a small constant."""
        return self.n_groups + self.n_cells

    @cached_property
    def n_cells(self) -> int:
        """Number of cells, 0 where groups do not overlap."""
        return 0 if self.cells is None else len(self.cells.sizes)

    @cached_property
    def loss_range(self) -> float:
        """Range B of the loss, supremum minus infimum."""
        return self.constants.loss_range


def with_equal_groups(problem: Problem) -> Problem:
    """Return the problem as assumed before hidden groups are counted: equal sizes and priors."""
    prior = (1.0 / problem.n_groups,) * problem.n_groups
    sizes = equal_sizes(problem.n_records, problem.n_groups)
    return replace(problem, group_sizes=sizes, prior=prior)


def equal_sizes(n_records: int, n_groups: int) -> tuple[int, ...]:
    """Return group sizes that differ by at most 1 and sum to `n_records`, but are at least 1."""
    size, remainder = divmod(n_records, n_groups)
    return tuple(max(1, size + (group < remainder)) for group in range(n_groups))
