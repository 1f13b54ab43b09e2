"""Norms of the noise on the sums that a learner sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy.prefix_sums import IndependentNoise, PrefixSums


@dataclass(frozen=True, eq=False)
class SumNoise:
    """Norms of the noise on the sums of the losses' linear parts."""

    # root of the mean squared L2 norm of the noise of every released sum; (n_steps,)
    sums: FloatArray
    increments: FloatArray  # the same for the differences of successive sums; (n_steps,)
    is_independent: bool  # whether the differences are independent of each other

    @classmethod
    def of(cls, mechanism: PrefixSums, noise_multiplier: float, sensitivity: float) -> SumNoise:
        """Return the noise of a mechanism, of which a record moves one vector by so much."""
        scale = noise_multiplier * sensitivity * mechanism.column_norm
        scale *= float(np.sqrt(mechanism.n_dimensions))
        return cls(
            scale * mechanism.row_norms(),
            scale * mechanism.increment_norms(),
            isinstance(mechanism, IndependentNoise),
        )
