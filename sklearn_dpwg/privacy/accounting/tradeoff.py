"""Trade-off curves of the events of disjoint parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy.accounting.accountant import composition_deltas
from sklearn_dpwg.privacy.accounting.composition import (
    Composition,
    composition_of_event,
    dominating,
)
from sklearn_dpwg.privacy.accounting.events import event_of_composition, moved_event
from sklearn_dpwg.privacy.accounting.loss_distribution import guess_mu
from sklearn_dpwg.privacy.gaussian import gdp_type_two_error

if TYPE_CHECKING:
    from dp_accounting import DpEvent


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


def events_for_records(events: Sequence[DpEvent], n_records: int) -> tuple[DpEvent, ...]:
    """Return events that cover the replacement of k records at once, wherever they lie.

    The sensitivity to k replacements is at most kΔ, so multipliers shrink k-fold where all k
    records lie in one part, and discrete noise is shifted k times as far. Records spread over
    parts are no worse off as long as the parts are alike: Gaussian costs add as
    Σ (k_i μ)² ≤ (kμ)², and Laplace shifts of k_1 and k_2 are dominated by one of k_1 + k_2
    (docs/theory/noise.md). Where parts differ and are not all Gaussian, one event that is at
    least as bad as each part takes their place.
    """
    compositions = [composition_of_event(event) for event in events]
    if any(composition.sampled for composition in compositions):
        raise UnsupportedMechanismError(
            "The guarantee for several records of one person is unknown where records are sampled "
            "(PoissonSampledDpEvent): they may join the same draw or different ones."
        )
    if any(composition.selected for composition in compositions):
        raise UnsupportedMechanismError(
            "The guarantee for several records of one person is unknown where the best of several "
            "runs was selected: they may be in the parts that fitted and in those that scored."
        )
    is_alike = len(set(compositions)) == 1 or all(c.is_gaussian for c in compositions)
    covering = events if is_alike else [event_of_composition(dominating(compositions))]
    return tuple(moved_event(event, n_records) for event in covering)
