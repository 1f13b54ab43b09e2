"""What k records of one person pay for together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy._composition import Composition, composition_of_event
from sklearn_dpwg.privacy._events import scaled_event

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def events_for_records(events: Sequence[DpEvent], n_records: int) -> tuple[DpEvent, ...]:
    """Return events that cover the replacement of k records at once, wherever they lie.

    The sensitivity to k replacements is at most kΔ, so multipliers shrink k-fold where all k
    records lie in one part. Records spread over parts are no worse off as long as the parts are
    alike: Gaussian costs add as Σ (k_i μ)² ≤ (kμ)², and Laplace shifts of k_1 and k_2 are
    dominated by one of k_1 + k_2 (docs/theory/noise.md). Where parts differ and are not all
    Gaussian, one event that is at least as bad as each part takes their place.
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
    covering = events if is_alike else [_worst_event(compositions)]
    return tuple(scaled_event(event, 1.0 / n_records) for event in covering)


def _worst_event(compositions: Sequence[Composition]) -> DpEvent:
    """Return an event that dominates each composition.

    Laplace noises are compared rank by rank, the quietest of every part first.
    """
    from dp_accounting import dp_event

    sequences = [
        np.repeat([multiplier for multiplier, _ in c.laplace], [count for _, count in c.laplace])
        for c in compositions
    ]
    quietest = np.full(max(map(len, sequences)), np.inf)
    for sequence in sequences:
        quietest[: len(sequence)] = np.minimum(quietest[: len(sequence)], sequence)
    mu = max(c.mu for c in compositions)
    return dp_event.ComposedDpEvent(
        ([dp_event.GaussianDpEvent(1.0 / mu)] if mu > 0.0 else [])
        + [
            dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(float(multiplier)), int(count))
            for multiplier, count in zip(*np.unique(quietest, return_counts=True), strict=True)
        ]
    )
