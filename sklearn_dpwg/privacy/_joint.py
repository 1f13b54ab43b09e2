"""What several guarantees cost together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sklearn_dpwg.privacy._composition import Composition, composition_of_event, joint

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST_COMBINATIONS = 256


def joint_compositions(results: Iterable[Sequence[DpEvent]]) -> tuple[Composition, ...]:
    """Return what a record can have paid for after several results, in the worst cases.

    Each result holds one event a disjoint part of the records. How the parts of two results
    overlap is not known, so a record may be in any part of each: the pointwise maximum of δ(ε)
    over all combinations counts. Those that cannot be the maximum are left out: of Gaussian
    parts alone, all but the one of the largest μ.
    """
    totals: tuple[Composition, ...] = (Composition(),)
    for events in results:
        parts = _undominated(composition_of_event(event) for event in events)
        totals = _undominated(joint([total, part]) for total in totals for part in parts)
        if len(totals) > _MOST_COMBINATIONS:
            # a record that paid for all of them paid for more than any record did
            totals = (joint(totals),)
    return totals


def _undominated(compositions: Iterable[Composition]) -> tuple[Composition, ...]:
    """Keep, of compositions that differ in μ alone, the one of the largest."""
    largest: dict[tuple[object, ...], Composition] = {}
    for composition in compositions:
        rest = (composition.laplace, composition.sampled, composition.selected)
        if rest not in largest or largest[rest].mu < composition.mu:
            largest[rest] = composition
    return tuple(largest.values())
