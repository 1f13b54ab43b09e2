"""Convex-concave games as descent–ascent sees them: releases and projections, never records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from sklearn_dpwg._typing import FloatArray


class Released(NamedTuple):
    """Noisy gradients of a game at one point, which are all that a step learns of the records."""

    weights: FloatArray  # gradient in the weights, which descend; (n_weights,)
    dual: FloatArray  # gradient in the dual variables, which ascend; (n_dual,)
    noise_std: float  # standard deviation of the noise on a coordinate of the first


class Game(Protocol):
    """A convex-concave game of records, in which every look at them is paid for."""

    def release(self, weights: FloatArray, dual: FloatArray) -> Released:
        """Release both gradients at one point.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Point of the descending player.
        dual : ndarray of shape (n_dual,)
            Point of the ascending player.

        Returns
        -------
        Released
            With noise; without regularisers, which are public.
        """

    def project_weights(self, weights: FloatArray) -> FloatArray:
        """Return the nearest allowed weights.

        Parameters
        ----------
        weights : ndarray of shape (n_weights,)
            Any.

        Returns
        -------
        ndarray of shape (n_weights,)
            Allowed ones.
        """

    def project_dual(self, dual: FloatArray) -> FloatArray:
        """Return the nearest allowed dual variables.

        Parameters
        ----------
        dual : ndarray of shape (n_dual,)
            Any.

        Returns
        -------
        ndarray of shape (n_dual,)
            Allowed ones.
        """


@dataclass(frozen=True, eq=False)
class Regulariser:
    """The public part ``ρ_w/2 ‖w - w₁‖² - ρ_λ/2 ‖λ - π‖²`` of a game."""

    of_weights: float  # strengths ρ_w and ρ_λ, at least 0
    of_dual: float
    center: FloatArray  # weights w₁ that cost nothing; (n_weights,)
    prior: FloatArray  # dual variables π that cost nothing; (n_dual,)

    def slope(self, weights: FloatArray) -> FloatArray:
        """Return the gradient in the weights, which needs no noise, as it knows no record."""
        return self.of_weights * (weights - self.center)

    def rise(self, dual: FloatArray) -> FloatArray:
        """Return the gradient in the dual variables, which needs no noise either."""
        return self.of_dual * (self.prior - dual)


def project_to_simplex(point: FloatArray) -> FloatArray:
    """Return the nearest distribution in Euclidean distance.

    Parameters
    ----------
    point : ndarray of shape (n_dual,)
        Any finite numbers.

    Returns
    -------
    ndarray of shape (n_dual,)
        At least 0, with sum 1: ``max(x - θ, 0)`` for the one θ that makes it so.
    """
    # a constant changes nothing, and digits next to the largest matter
    shifted = point - point.max()
    falling = -np.sort(-shifted)
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(falling > levels)[-1])
    found = np.maximum(shifted - levels[last], 0.0)
    return np.asarray(found / found.sum())
