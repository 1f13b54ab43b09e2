"""Trade-off curves of the events of disjoint parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.privacy._composition import Composition
from sklearn_dpwg.privacy._privacy_loss import guess_mu
from sklearn_dpwg.privacy.accounting import composition_deltas
from sklearn_dpwg.privacy.gaussian import gdp_type_two_error

FloatArray = NDArray[np.float64]

_N_EPSILONS = 1000


def worst_deltas(compositions: Sequence[Composition], epsilons: FloatArray) -> FloatArray:
    """Return the largest δ of any part at every ε."""
    return np.max([composition_deltas(part, epsilons) for part in compositions], axis=0)


def type_two_errors(compositions: Sequence[Composition], alphas: FloatArray) -> FloatArray:
    """Return the least type-II error at each type-I error, exact for Gaussians.

    Otherwise by duality from the pointwise maximum of δ(ε): the error is at least
    1 - δ(ε) - e^ε α and e^-ε (1 - δ(ε) - α) for every ε (Dong, Roth & Su 2022, Proposition 6).
    A finite set of ε makes the curve lower, which is on the safe side.
    """
    if all(composition.is_gaussian for composition in compositions):
        return gdp_type_two_error(alphas, max(composition.mu for composition in compositions))
    spread = max(map(guess_mu, compositions))
    pure = max(composition.pure_epsilon for composition in compositions)
    epsilons = np.linspace(0.0, min(spread * (spread / 2.0 + 8.0), pure, 600.0), _N_EPSILONS)
    deltas = worst_deltas(compositions, epsilons)
    lines = np.concatenate(
        [
            1.0 - deltas - np.exp(epsilons) * alphas[..., None],
            np.exp(-epsilons) * (1.0 - deltas - alphas[..., None]),
        ],
        axis=-1,
    )
    errors: FloatArray = np.clip(lines.max(axis=-1), 0.0, 1.0)
    return errors
