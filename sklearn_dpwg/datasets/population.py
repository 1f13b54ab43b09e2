"""A distribution for each group, known well enough to compute its risks exactly."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sklearn_dpwg._checks import FloatArray, count_within


class Population(ABC):
    """Group distributions with a known worst-group optimum, to draw from and to measure against.

    Parameters
    ----------
    coef : ndarray of shape (n_features,)
        The minimiser of the worst-group risk over the ball of radius `radius`.
    optimum : float
        Its worst-group risk.
    group_weights : ndarray of shape (n_groups,)
        The least favourable mixture of the groups: a saddle point together with `coef`.
    radius : float
        Radius of the ball.

    Attributes
    ----------
    group_labels : tuple of str
        Names of the groups, sorted.
    """

    def __init__(
        self, coef: FloatArray, optimum: float, group_weights: FloatArray, radius: float
    ) -> None:
        self.coef = coef
        self.optimum = optimum
        self.group_weights = group_weights
        self.radius = radius
        width = len(str(len(group_weights) - 1))
        self.group_labels = tuple(f"group {i:0{width}d}" for i in range(len(group_weights)))

    @abstractmethod
    def group_risks(self, coef: npt.ArrayLike) -> FloatArray:
        """Return the exact expected loss of each group.

        Parameters
        ----------
        coef : array-like of shape (n_features,) or (1, n_features)
            Weights of a linear model without intercept.

        Returns
        -------
        ndarray of shape (n_groups,)
            Expected losses.
        """

    @abstractmethod
    def group_gradients(self, coef: npt.ArrayLike) -> FloatArray:
        """Return the gradients of :meth:`group_risks`.

        Parameters
        ----------
        coef : array-like of shape (n_features,) or (1, n_features)
            Weights of a linear model without intercept.

        Returns
        -------
        ndarray of shape (n_groups, n_features)
            One gradient a group.
        """

    @abstractmethod
    def draw(
        self, group: int, n_rows: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Draw independent records of one group.

        Parameters
        ----------
        group : int
            Position in `group_labels`.
        n_rows : int
            How many.
        rng : Generator
            Where the randomness comes from.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            Rows of norm at most 1.
        y : ndarray of shape (n_rows,)
            Targets.
        """

    def worst_group_risk(self, coef: npt.ArrayLike) -> float:
        """Return the largest of the group risks.

        Parameters
        ----------
        coef : array-like of shape (n_features,) or (1, n_features)
            Weights of a linear model without intercept.

        Returns
        -------
        float
            Expected loss of the worst group.
        """
        return float(self.group_risks(coef).max())

    def excess_risk(self, coef: npt.ArrayLike) -> float:
        """Return the worst-group risk minus the optimum.

        Parameters
        ----------
        coef : array-like of shape (n_features,) or (1, n_features)
            Weights of a linear model without intercept.

        Returns
        -------
        float
            Not negative inside the ball; outside it a lower risk may be possible.
        """
        return self.worst_group_risk(coef) - self.optimum

    def sample(
        self,
        group_sizes: int | Sequence[int],
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.str_]]:
        """Draw a data set in random order.

        Parameters
        ----------
        group_sizes : int or sequence of int
            Records of each group; one number is meant for every group.
        random_state : int, Generator or None, default=None
            Seed.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            Rows of norm at most 1.
        y : ndarray of shape (n_rows,)
            Targets.
        groups : ndarray of shape (n_rows,)
            Group labels.

        Raises
        ------
        ValueError
            If a size is not positive or there is not one for each group.
        """
        sizes = sizes_of_groups(group_sizes, len(self.group_labels))
        rng = np.random.default_rng(random_state)
        pieces = [self.draw(group, size, rng) for group, size in enumerate(sizes)]
        order = rng.permutation(sum(sizes))
        X = np.concatenate([rows for rows, _ in pieces])[order]
        y = np.concatenate([targets for _, targets in pieces])[order]
        return X, y, np.repeat(np.array(self.group_labels), sizes)[order]

    def _flat(self, coef: npt.ArrayLike) -> FloatArray:
        """Return coefficients as one row of the right length."""
        flat = np.asarray(coef, dtype=np.float64).ravel()
        if flat.shape != self.coef.shape:
            raise ValueError(
                f"coef has {flat.size} entries, but the population has {self.coef.size} features."
            )
        return flat


def sizes_of_groups(group_sizes: int | Sequence[int], n_groups: int) -> list[int]:
    """Return one positive size for each group."""
    if isinstance(group_sizes, (int, numbers.Integral)):
        return [count_within(group_sizes, "group_sizes", 1)] * n_groups
    sizes = [count_within(size, "group_sizes", 1) for size in group_sizes]
    if len(sizes) != n_groups:
        raise ValueError(f"group_sizes has {len(sizes)} entries, but there are {n_groups} groups.")
    return sizes
