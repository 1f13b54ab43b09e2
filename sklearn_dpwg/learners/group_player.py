"""Contract of players of groups, and their state."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners._log_weights import LogWeights


class GroupPlayer:
    """Plays a distribution over groups with exponential weights, in log space.

    Base of `EXP3` and `Hedge`, which differ in their feedback.

    Parameters
    ----------
    prior : array-like of shape (n_groups,)
        Weights before the first round, positive; they are made to add up to 1.
    rate : float
        Step size η, at least 0.

    Attributes
    ----------
    prior : ndarray of shape (n_groups,)
        As given, adding up to 1.
    rate : float
        As given.
    """

    def __init__(self, prior: ArrayLike, rate: float) -> None:
        self.prior = _normalised_prior(prior)
        self.rate = float(rate)
        if not 0.0 <= self.rate < np.inf:
            raise ValueError(f"rate must be at least 0 and finite, got {rate!r}.")
        self._log_weights = LogWeights(self.prior)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.prior)

    @property
    def group_weights(self) -> FloatArray:
        """Weights λ of the groups now, of shape (n_groups,), a new array."""
        return self._log_weights.weights()

    @property
    def log_group_weights(self) -> FloatArray:
        """Logarithms of the weights, finite where a weight is too small for a float."""
        return self._log_weights.logs()

    def sample(self, rng: np.random.Generator) -> int:
        """Return a group drawn from the weights.

        Parameters
        ----------
        rng : Generator
            Public randomness; one number is drawn from it.

        Returns
        -------
        int
            Index of a group of positive weight.
        """
        return self._log_weights.sample(rng.random())


def _normalised_prior(value: ArrayLike) -> FloatArray:
    prior = np.array(value, dtype=np.float64)
    if prior.ndim != 1 or prior.size == 0:
        raise ValueError(f"prior must have one entry a group, got shape {prior.shape}.")
    if not ((prior > 0.0) & (prior < np.inf)).all():
        raise ValueError(f"prior must be positive and finite everywhere, got {prior!r}.")
    return prior / prior.sum()
