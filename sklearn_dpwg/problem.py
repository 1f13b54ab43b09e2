"""The public facts of a learning problem."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg.losses import Loss, LossConstants

PUBLIC_FACTS = (
    "which group each record is in, and every column that decides it, row by row",
    "the number of records in each group, the group labels and the classes, of which a record that "
    "replaces another has one",
    "the number and names of the features",
    "data_norm, target_bounds, radius, prior and every other parameter of the estimator",
)


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

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Keep the loss as it is now: its parameters may be set in place later."""
        object.__setattr__(self, "loss", copy(self.loss))

    @property
    def n_groups(self) -> int:
        """Number of groups p."""
        return len(self.group_sizes)

    @cached_property
    def n_records(self) -> int:
        """Number of records K in all groups together."""
        return sum(self.group_sizes)

    @property
    def n_columns(self) -> int:
        """Columns of a row with the intercept's."""
        return self.n_features + (self.intercept_scaling > 0)

    @property
    def n_weights(self) -> int:
        """Number of weights d, intercepts included."""
        return self.loss.n_outputs * self.n_columns

    @property
    def diameter(self) -> float:
        """Diameter M = 2R of the ball of weights."""
        return 2.0 * self.radius

    @property
    def row_norm(self) -> float:
        """Bound on the norm of a row with its constant column."""
        return float(np.hypot(1.0, self.intercept_scaling))

    @cached_property
    def constants(self) -> LossConstants:
        """Bounds of the loss for every score that the ball and the rows allow."""
        return self.loss.constants(self.radius * self.row_norm)

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant L of the loss in the weights."""
        return self.row_norm * self.constants.lipschitz

    @property
    def gradient_diameter(self) -> float:
        """Largest distance Γ between two records' gradients, at most 2L."""
        return self.row_norm * self.constants.gradient_diameter

    @property
    def summed_norm(self) -> float:
        """Largest norm of what a record adds to the sums of gradients that are read."""
        return self.lipschitz

    @property
    def rounding_factor(self) -> float:
        """By how much a change of variables after summing may raise the rounding of sums."""
        return 1.0

    @property
    def smoothness(self) -> float:
        """Smoothness H of the loss in the weights."""
        return self.row_norm**2 * self.constants.smoothness

    @property
    def loss_range(self) -> float:
        """Range B of the loss, supremum minus infimum."""
        return self.constants.loss_range
