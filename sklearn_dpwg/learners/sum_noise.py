"""Norms of the noise on the sums that a learner sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy.prefix_sums import IndependentNoise, PrefixSums


@dataclass(frozen=True, eq=False)
class SumNoise:
    """Norms of the noise on the sums of the losses' linear parts.

    Parameters
    ----------
    sums : ndarray of shape (n_steps,)
        Root of the mean squared L2 norm of the noise of every released sum.
    increments : ndarray of shape (n_steps,)
        The same for the differences of successive sums.
    is_independent : bool
        Whether the differences are independent of each other.

    Examples
    --------
    >>> from sklearn_dpwg.learners import SumNoise
    >>> from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
    >>> mechanism = make_prefix_sums("toeplitz", n_steps=1024, n_dimensions=100)
    >>> noise = SumNoise.of(mechanism, noise_multiplier=2.0, sensitivity=0.5)
    >>> round(float(noise.sums.max()), 1)
    32.7
    """

    sums: FloatArray
    increments: FloatArray
    is_independent: bool

    @classmethod
    def of(cls, mechanism: PrefixSums, noise_multiplier: float, sensitivity: float) -> SumNoise:
        """Return the noise of a mechanism.

        Parameters
        ----------
        mechanism : PrefixSums
            The mechanism.
        noise_multiplier : float
            That of its release.
        sensitivity : float
            By how much one record can move one vector, the same at every step.

        Returns
        -------
        SumNoise
            Norms of the noise.
        """
        scale = noise_multiplier * sensitivity * mechanism.column_norm
        scale *= float(np.sqrt(mechanism.n_dimensions))
        return cls(
            scale * mechanism.row_norms(),
            scale * mechanism.increment_norms(),
            isinstance(mechanism, IndependentNoise),
        )
