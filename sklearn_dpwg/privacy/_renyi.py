"""Selections among runs, which only Rényi divergences account for."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy._composition import Composition
from sklearn_dpwg.privacy._events import event_of_composition

if TYPE_CHECKING:
    from dp_accounting.rdp import RdpAccountant

# From barely above 1, for large ε, to those that matter for ε of a hundredth.
_ORDERS = (
    *(1.0 + i / 10.0 for i in range(1, 100)),
    *range(11, 64),
    *(int(64 * 1.1**i) for i in range(1, 80)),
)


@lru_cache(maxsize=32)
def renyi_accountant(composition: Composition) -> RdpAccountant:
    """Return dp_accounting's accountant, with everything composed; in units of Δ.

    In these units the worst pairs of Gaussian and Laplace noise are those of sensitivity 1, which
    the relation ADD_OR_REMOVE_ONE stands for.
    """
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    if composition.sampled:
        raise UnsupportedMechanismError(
            "A selection among runs and releases on sampled records have no accountant in common "
            "when one record is replaced."
        )
    accountant = RdpAccountant(_ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE)
    return accountant.compose(event_of_composition(composition))
